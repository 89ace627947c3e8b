// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * vectors.bpf.c - make soft-RoCE (rxe) honour completion vectors: vector V interrupts processor V.
 *
 * rxe ignores comp_vector. It handles a packet, and posts the completion, on the processor that received the packet. Here
 * probes on rxe record the vector of each CQ and the CQs of each queue pair, whoever creates them: a process or a kernel
 * module. An XDP program reads the destination queue pair of each RoCEv2 packet, and redirects the packet to the processor
 * of the vector before rxe sees it. A probe counts completions by vector and processor, like /proc/interrupts.
 *
 * CQs and queue pairs that exist when the probes are attached are not known; their packets stay where they are.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/ptrace.h>
#include <linux/udp.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "vectors.h"

#define ROCE_PORT 4791
#define OBJECTS 65536 /* the maps forget the least recently used: destroyed objects leave by themselves */

char _license[] SEC("license") = "Dual BSD/GPL";

/* The kernel's structs; libbpf finds the offsets in the BTF of its modules. */
struct ib_cq_init_attr {
	__u32 comp_vector;
} __attribute__((preserve_access_index));

struct ib_cq;

struct ib_qp {
	struct ib_cq *send_cq, *recv_cq;
	__u32 qp_num;
} __attribute__((preserve_access_index));

struct bth {
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qpn; /* in the lower 24 bits */
	__be32 psn;
};

struct qp {
	struct ib_cq *send, *recv;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OBJECTS);
	__type(key, struct ib_cq *);
	__type(value, __u32); /* vector */
} cqs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OBJECTS);
	__type(key, __u32); /* number */
	__type(value, struct qp);
} qps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CPUMAP);
	__uint(max_entries, CPUS_MAX);
	__type(key, __u32);
	__type(value, struct bpf_cpumap_val);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CPUS_MAX);
	__type(key, __u32); /* vector */
	__type(value, __u64);
} completions SEC(".maps");

/* ---- probes on rxe -------------------------------------------------------------------------- */

SEC("kprobe/rxe_create_cq")
int BPF_KPROBE(create_cq, struct ib_cq *cq, const struct ib_cq_init_attr *attr)
{
	__u32 vector = BPF_CORE_READ(attr, comp_vector);

	bpf_map_update_elem(&cqs, &cq, &vector, BPF_ANY);
	return 0;
}

/* A queue pair receives nothing before it has been modified. */
SEC("kprobe/rxe_modify_qp")
int BPF_KPROBE(modify_qp, struct ib_qp *qp)
{
	struct qp value = { BPF_CORE_READ(qp, send_cq), BPF_CORE_READ(qp, recv_cq) };
	__u32 number = BPF_CORE_READ(qp, qp_num);

	bpf_map_update_elem(&qps, &number, &value, BPF_ANY);
	return 0;
}

/* Its argument, struct rxe_cq, begins with the struct ib_cq. */
SEC("kprobe/rxe_cq_post")
int BPF_KPROBE(cq_post, struct ib_cq *cq)
{
	const __u32 *vector = bpf_map_lookup_elem(&cqs, &cq);
	__u64 *count = vector ? bpf_map_lookup_elem(&completions, vector) : NULL;

	if (count)
		++*count;
	return 0;
}

/* ---- packets -------------------------------------------------------------------------------- */

/* Read responses and acknowledgements of reliable connections: they complete what this side has sent. */
static int completes_send(__u8 opcode)
{
	return opcode >= 0x0d && opcode <= 0x12;
}

static const struct udphdr *udp_of(const void *data, const void *end)
{
	const struct ethhdr *eth = data;
	const struct iphdr *ip = (const void *)(eth + 1);
	const struct ipv6hdr *ip6 = (const void *)(eth + 1);

	if ((const void *)(eth + 1) > end)
		return NULL;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return (const void *)(ip + 1) <= end && ip->ihl == 5 && ip->protocol == IPPROTO_UDP
			? (const void *)(ip + 1)
			: NULL;
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return (const void *)(ip6 + 1) <= end && ip6->nexthdr == IPPROTO_UDP ? (const void *)(ip6 + 1) : NULL;
	return NULL;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;
	const struct udphdr *udp = udp_of(data, end);
	const struct bth *bth = (const void *)(udp + 1);
	const struct qp *qp;
	const __u32 *vector;
	struct ib_cq *cq;
	__u32 number;

	if (!udp || (const void *)(bth + 1) > end || udp->dest != bpf_htons(ROCE_PORT))
		return XDP_PASS;
	number = bpf_ntohl(bth->qpn) & 0xffffff;
	qp = bpf_map_lookup_elem(&qps, &number);
	if (!qp)
		return XDP_PASS;
	cq = completes_send(bth->opcode) ? qp->send : qp->recv;
	vector = bpf_map_lookup_elem(&cqs, &cq);
	return vector ? bpf_redirect_map(&cpus, *vector, XDP_PASS) : XDP_PASS;
}
