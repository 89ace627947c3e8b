// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * vectors.bpf.c - make soft-RoCE (rxe) honour completion vectors: vector V interrupts processor V.
 *
 * rxe ignores comp_vector. It handles a packet, and posts the completion, on the processor that
 * received the packet. Here probes on rxe record the vector of each CQ and the CQs of each queue
 * pair, whoever creates them: a process or a kernel module. An XDP program reads the destination
 * queue pair of each RoCEv2 packet, and redirects the packet to the processor of the vector before
 * rxe sees it. A probe counts completions by vector and processor, like /proc/interrupts, and by
 * program.
 *
 * Redirected packets wait in a queue of their processor. For each, the program of its CQ is charged
 * with the packets of other programs that the processor handled while it waited: head-of-line
 * blocking, counted without a clock.
 *
 * CQs and queue pairs that exist when the probes are attached are not known; their packets stay
 * where they are.
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
/* the maps forget the least recently used: destroyed objects leave by themselves */
#define OBJECTS 65536

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

struct task_struct {
	struct task_struct *group_leader;
	char comm[NAME];
} __attribute__((preserve_access_index));

struct sk_buff {
	unsigned char *head;
	__u16 transport_header;
} __attribute__((preserve_access_index));

struct bth {
	__u8 opcode, flags;
	__be16 pkey;
	__be32 qpn; /* in the lower 24 bits */
	__be32 psn;
};

struct cq {
	__u32 vector;
	char program[NAME]; /* that created it */
};

struct qp {
	struct ib_cq *send, *recv;
};

struct packet {
	__be32 psn;
	__u32 qpn; /* and the opcode: a request and an acknowledgement may have the same number */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OBJECTS);
	__type(key, struct ib_cq *);
	__type(value, struct cq);
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

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, PROGRAMS_MAX);
	__type(key, char[NAME]);
	__type(value, struct program_counts);
} programs SEC(".maps");

/* Redirected packets that a processor has handled. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} handled SEC(".maps");

/*
 * Redirected packets that wait, and how many of other programs their processor had handled when
 * they came.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, OBJECTS);
	__type(key, struct packet);
	__type(value, __u64);
} waiting SEC(".maps");

/* ---- probes on rxe -------------------------------------------------------------------------- */

SEC("kprobe/rxe_create_cq")
int BPF_KPROBE(create_cq, struct ib_cq *cq, const struct ib_cq_init_attr *attr)
{
	const struct task_struct *task = (const struct task_struct *)bpf_get_current_task();
	struct program_counts none = { 0 };
	struct cq value = { .vector = BPF_CORE_READ(attr, comp_vector) };

	BPF_CORE_READ_STR_INTO(&value.program, task, group_leader, comm);
	bpf_map_update_elem(&programs, value.program, &none, BPF_NOEXIST);
	bpf_map_update_elem(&cqs, &cq, &value, BPF_ANY);
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
	const struct cq *known = bpf_map_lookup_elem(&cqs, &cq);
	struct program_counts *program;
	__u64 *count;

	if (!known)
		return 0;
	count = bpf_map_lookup_elem(&completions, &known->vector);
	if (count)
		++*count;
	program = bpf_map_lookup_elem(&programs, known->program);
	if (program)
		program->completions++;
	return 0;
}

/* ---- packets -------------------------------------------------------------------------------- */

/*
 * Read responses and acknowledgements of reliable connections: they complete what this side has
 * sent.
 */
static int completes_send(__u8 opcode)
{
	return opcode >= 0x0d && opcode <= 0x12;
}

static const struct cq *cq_of(const struct bth *bth)
{
	__u32 number = bpf_ntohl(bth->qpn) & 0xffffff;
	const struct qp *qp = bpf_map_lookup_elem(&qps, &number);
	struct ib_cq *cq;

	if (!qp)
		return NULL;
	cq = completes_send(bth->opcode) ? qp->send : qp->recv;
	return bpf_map_lookup_elem(&cqs, &cq);
}

static struct packet packet_of(const struct bth *bth)
{
	struct packet packet = { .psn = bth->psn, .qpn = bpf_ntohl(bth->qpn) << 8 | bth->opcode };

	return packet;
}

/* Redirected packets of all programs but this one that a processor has handled. */
static __u64 handled_of_others(const struct cq *cq, __u32 cpu)
{
	const __u32 zero = 0;
	const __u64 *all = bpf_map_lookup_percpu_elem(&handled, &zero, cpu);
	const struct program_counts *own = bpf_map_lookup_percpu_elem(&programs, cq->program, cpu);

	return all && own ? *all - own->packets : 0;
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
		return (const void *)(ip6 + 1) <= end && ip6->nexthdr == IPPROTO_UDP
			? (const void *)(ip6 + 1)
			: NULL;
	return NULL;
}

SEC("xdp")
int steer(struct xdp_md *ctx)
{
	const void *data = (const void *)(long)ctx->data, *end = (const void *)(long)ctx->data_end;
	const struct udphdr *udp = udp_of(data, end);
	const struct bth *bth = (const void *)(udp + 1);
	const struct cq *cq;
	struct packet packet;
	__u64 others;

	if (!udp || (const void *)(bth + 1) > end || udp->dest != bpf_htons(ROCE_PORT))
		return XDP_PASS;
	cq = cq_of(bth);
	if (!cq)
		return XDP_PASS;
	packet = packet_of(bth);
	others = handled_of_others(cq, cq->vector);
	bpf_map_update_elem(&waiting, &packet, &others, BPF_ANY);
	return bpf_redirect_map(&cpus, cq->vector, XDP_PASS);
}

/* A packet arrives at rxe. Those that nobody redirected do not wait. */
SEC("kprobe/rxe_udp_encap_recv")
int BPF_KPROBE(receive, void *sk, struct sk_buff *skb)
{
	const __u32 zero = 0;
	struct program_counts *program;
	const struct cq *cq;
	struct packet packet;
	struct bth bth;
	__u64 *then, *all;

	if (bpf_probe_read_kernel(&bth, sizeof(bth),
				  BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, transport_header) +
					  sizeof(struct udphdr)))
		return 0;
	packet = packet_of(&bth);
	then = bpf_map_lookup_elem(&waiting, &packet);
	cq = then ? cq_of(&bth) : NULL;
	program = cq ? bpf_map_lookup_elem(&programs, cq->program) : NULL;
	all = bpf_map_lookup_elem(&handled, &zero);
	if (!program || !all)
		return 0;
	program->ahead += handled_of_others(cq, bpf_get_smp_processor_id()) - *then;
	program->packets++;
	++*all;
	bpf_map_delete_elem(&waiting, &packet);
	return 0;
}
