// SPDX-License-Identifier: BSD-2-Clause
/*
 * verbs_floor.c - what a round trip between two machines costs at the least: bare verbs, no library of ours.
 *
 * One reliable connection between two processes. The requester sends one small message (32 bytes, inline); the responder
 * answers with
 *
 *   message   another small message (inline): the least that a lock or an atomic operation costs
 *   fault     4 KiB by one RDMA write with immediate: the least that a miss costs
 *
 * Each side polls its completion queue, or sleeps on the completion channel. Sends complete silently, but for one in
 * SIGNAL_EACH. Where the responder is to sleep, the requester lets it: it pauses before each round.
 * The sides find each other by TCP: `verbs_floor --serve PORT` here, `verbs_floor HOST:PORT` there, in any order.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

#define BLOCK 4096
#define NOTES 128       /* receives posted */
#define SENDS 128       /* length of the send queue */
#define SIGNAL_EACH 32
#define DEPTH_MAX 32    /* requests under way at a time */
#define FAIL_SECONDS 300
#define CONNECT_SECONDS 60
#define QP_TIMEOUT 18   /* 4.1 us * 2^18: guests without acceleration are slow */

enum { ASK_MESSAGE = 1, ASK_FAULT, ASK_END };

static const struct {
	const char *name;
	int ask;
	bool requester_sleeps, responder_sleeps;
	unsigned int depth;
} rows[] = {
	{ "message", ASK_MESSAGE, false, false, 1 },
	{ "message", ASK_MESSAGE, false, true, 1 },
	{ "message", ASK_MESSAGE, true, true, 1 },
	{ "fault", ASK_FAULT, false, false, 1 },
	{ "fault", ASK_FAULT, false, true, 1 },
	{ "fault", ASK_FAULT, true, true, 1 },
	{ "message", ASK_MESSAGE, false, false, 16 },
	{ "fault", ASK_FAULT, false, false, 16 },
	{ "message", ASK_MESSAGE, true, true, 16 },
	{ "fault", ASK_FAULT, true, true, 16 },
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

/* The small message; as large as libdsm's. */
struct note {
	uint32_t ask, sleep, round, unused;
	uint64_t pad[2];
};
_Static_assert(sizeof(struct note) == 32, "as struct msg");

struct address {
	union ibv_gid gid;
	uint64_t block;
	uint32_t qpn, rkey, lid, mtu;
};

struct side {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sent, *came;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct address here, there;
	unsigned int posted, unreaped; /* sends, and those of them that may still be in the queue */
	bool armed;
	struct memory {
		char blocks[DEPTH_MAX][BLOCK];
		struct note notes[NOTES];
	} *memory;
};

static const char *device_name;
static int gid_index = -1;
static unsigned int rounds = 2000, gap_us = 100;
static double *samples;

static void die(const char *what)
{
	fprintf(stderr, "verbs_floor: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool fine, const char *what)
{
	if (!fine)
		die(what);
}

/* ---- device and queue pair ---------------------------------------------------------------------- */

static void open_device(struct side *s)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!device_name || !strcmp(ibv_get_device_name(list[i]), device_name))
			break;
	if (!list || !list[i]) {
		fprintf(stderr, "verbs_floor: there is no RDMA device%s%s\n", device_name ? " " : "", device_name ? device_name : "");
		exit(1);
	}
	s->device = ibv_open_device(list[i]);
	must(s->device, "opening the device");
	ibv_free_device_list(list);
}

/* How well a GID serves: RoCE v2 over IPv4 best, link-local last. */
static int worth(const struct ibv_gid_entry *e)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (e->port_num != 1)
		return 0;
	if (e->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 1;
	if (!memcmp(e->gid.raw, mapped, sizeof(mapped)))
		return 4;
	return e->gid.raw[0] == 0xfe && (e->gid.raw[1] & 0xc0) == 0x80 ? 2 : 3;
}

static void choose_gid(struct side *s)
{
	struct ibv_gid_entry table[64];
	ssize_t n = ibv_query_gid_table(s->device, table, 64, 0), i;
	int best = 0;

	if (gid_index >= 0) {
		must(!ibv_query_gid(s->device, 1, gid_index, &s->here.gid), "the GID");
		return;
	}
	for (i = 0; i < n; i++)
		if (worth(&table[i]) > best) {
			best = worth(&table[i]);
			gid_index = (int)table[i].gid_index;
			s->here.gid = table[i].gid;
		}
	errno = ENOENT;
	must(best, "a GID of port 1");
}

static void make_qp(struct side *s)
{
	struct ibv_qp_init_attr make = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = SENDS, .max_recv_wr = NOTES, .max_send_sge = 1, .max_recv_sge = 1,
						  .max_inline_data = sizeof(struct note) } };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct ibv_port_attr port;

	s->pd = ibv_alloc_pd(s->device);
	s->channel = ibv_create_comp_channel(s->device);
	must(s->pd && s->channel, "protection domain and channel");
	s->sent = ibv_create_cq(s->device, SENDS, NULL, NULL, 0);
	s->came = ibv_create_cq(s->device, NOTES, NULL, s->channel, 0);
	must(s->sent && s->came, "completion queues");
	make.send_cq = s->sent;
	make.recv_cq = s->came;
	s->qp = ibv_create_qp(s->pd, &make);
	must(s->qp, "queue pair");
	must(!posix_memalign((void **)&s->memory, BLOCK, sizeof(*s->memory)), "memory");
	memset(s->memory, 1, sizeof(*s->memory));
	s->mr = ibv_reg_mr(s->pd, s->memory, sizeof(*s->memory), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(s->mr, "registering memory");
	must(!ibv_modify_qp(s->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	must(!ibv_query_port(s->device, 1, &port), "port 1");
	s->here.qpn = s->qp->qp_num;
	s->here.rkey = s->mr->rkey;
	s->here.block = (uint64_t)(uintptr_t)s->memory->blocks;
	s->here.lid = port.lid;
	s->here.mtu = port.active_mtu;
}

static void post_receive(struct side *s, uint64_t id)
{
	struct ibv_sge sge = { (uint64_t)(uintptr_t)&s->memory->notes[id], sizeof(struct note), s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(!ibv_post_recv(s->qp, &wr, &bad), "posting a receive");
}

static void connect_qp(struct side *s)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = s->there.qpn, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
				   .path_mtu = s->here.mtu < s->there.mtu ? s->here.mtu : s->there.mtu,
				   .ah_attr = { .is_global = 1, .port_num = 1, .dlid = (uint16_t)s->there.lid,
						.grh = { .dgid = s->there.gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64 } } };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = QP_TIMEOUT, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	uint64_t i;

	must(!ibv_modify_qp(s->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
	must(!ibv_modify_qp(s->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
	for (i = 0; i < NOTES; i++)
		post_receive(s, i);
}

/* ---- finding each other ------------------------------------------------------------------------- */

static int listen_for(const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	must(!bind(l, (struct sockaddr *)&at, sizeof(at)) && !listen(l, 1), "listening");
	fd = accept(l, NULL, NULL);
	must(fd >= 0, "accept");
	close(l);
	return fd;
}

static int connect_to(char *where)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *info;
	char *port = strrchr(where, ':');
	int fd, tries;

	errno = EINVAL;
	must(port, where);
	*port++ = 0;
	must(!getaddrinfo(where, port, &hints, &info), where);
	for (tries = 0; tries < CONNECT_SECONDS * 10; tries++) {
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect(fd, info->ai_addr, info->ai_addrlen)) {
			freeaddrinfo(info);
			return fd;
		}
		close(fd);
		usleep(100000);
	}
	die(where);
	return -1;
}

static void swap_addresses(struct side *s, int fd)
{
	char ready = 1;

	must(write(fd, &s->here, sizeof(s->here)) == (ssize_t)sizeof(s->here), "sending the address");
	must(recv(fd, &s->there, sizeof(s->there), MSG_WAITALL) == (ssize_t)sizeof(s->there), "the other side's address");
	connect_qp(s);
	must(write(fd, &ready, 1) == 1 && recv(fd, &ready, 1, MSG_WAITALL) == 1, "the other side");
}

/* ---- the rounds --------------------------------------------------------------------------------- */

static void wc_check(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "verbs_floor: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
}

static void post(struct side *s, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	struct ibv_wc wc;
	int n;

	while (s->unreaped >= SENDS - SIGNAL_EACH) {
		n = ibv_poll_cq(s->sent, 1, &wc);
		must(n >= 0, "polling");
		if (n)
			wc_check(&wc);
		s->unreaped -= n ? SIGNAL_EACH : 0;
	}
	if (++s->posted % SIGNAL_EACH == 0)
		wr->send_flags |= IBV_SEND_SIGNALED;
	s->unreaped++;
	must(!ibv_post_send(s->qp, wr, &bad), "posting a send");
}

static void send_note(struct side *s, const struct note *note)
{
	struct ibv_sge sge = { (uint64_t)(uintptr_t)note, sizeof(*note), 0 };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE };

	post(s, &wr);
}

static void send_block(struct side *s, uint32_t round)
{
	uint32_t at = round % DEPTH_MAX;
	struct ibv_sge sge = { (uint64_t)(uintptr_t)s->memory->blocks[at], BLOCK, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(round),
				  .wr.rdma = { s->there.block + at * (uint64_t)BLOCK, s->there.rkey } };

	post(s, &wr);
}

/* The next that comes; polling, or asleep between looks. */
static void await(struct side *s, bool sleeping, struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *context;
	int n;

	while (!(n = ibv_poll_cq(s->came, 1, wc))) {
		if (!sleeping)
			continue;
		if (!s->armed) {
			must(!ibv_req_notify_cq(s->came, 0), "arming");
			s->armed = true; /* and look once more: what came in between gives no event */
			continue;
		}
		must(!ibv_get_cq_event(s->channel, &cq, &context), "waiting for an event");
		ibv_ack_cq_events(cq, 1);
		s->armed = false;
	}
	must(n > 0, "polling");
	wc_check(wc);
}

static void respond(struct side *s)
{
	struct note n = { .sleep = 1 };
	struct ibv_wc wc;

	for (;;) {
		await(s, n.sleep, &wc);
		n = s->memory->notes[wc.wr_id];
		if (n.ask == ASK_END)
			return;
		if (n.ask == ASK_FAULT)
			send_block(s, n.round);
		else
			send_note(s, &n);
		post_receive(s, wc.wr_id);
	}
}

static void ask(struct side *s, size_t row, unsigned int round)
{
	struct note note = { .ask = (uint32_t)rows[row].ask, .sleep = rows[row].responder_sleeps, .round = round };

	send_note(s, &note);
}

static void answered(struct side *s, size_t row, unsigned int round)
{
	struct ibv_wc wc;
	uint32_t got;

	await(s, rows[row].requester_sleeps, &wc);
	got = rows[row].ask == ASK_FAULT ? ntohl(wc.imm_data) : s->memory->notes[wc.wr_id].round;
	errno = EPROTO;
	must(got == round, "the answer");
	post_receive(s, wc.wr_id);
}

/* One at a time: each round's time. */
static void run_singly(struct side *s, size_t row, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		double start = bench_now_us();

		while (rows[row].responder_sleeps && bench_now_us() - start < gap_us)
			;
		start = bench_now_us();
		ask(s, row, i);
		answered(s, row, i);
		samples[i] = bench_now_us() - start;
	}
	qsort(samples, n, sizeof(*samples), bench_by_value);
}

/* Several under way: the mean time of a round is all there is. */
static void run_deep(struct side *s, size_t row, unsigned int n)
{
	unsigned int asked = 0, i;
	double start = bench_now_us();

	for (i = 0; i < n; i++) {
		while (asked < n && asked < i + rows[row].depth)
			ask(s, row, asked++);
		answered(s, row, i);
	}
	samples[0] = (bench_now_us() - start) / n;
}

static void measure(struct side *s, size_t row)
{
	unsigned int deep = rows[row].depth > 1, n = rounds;
	struct bench_cost before, after;
	double total;

	(deep ? run_deep : run_singly)(s, row, n / 10 + 32);
	bench_cost_read(&before);
	(deep ? run_deep : run_singly)(s, row, n);
	bench_cost_read(&after);
	total = after.us - before.us;
	printf("{\"row\": \"%s\", \"requester\": \"%s\", \"responder\": \"%s\", \"depth\": %u, \"rounds\": %u, \"median_us\": %.3f, "
	       "\"p99_us\": %.3f, \"min_us\": %.3f, \"calls\": %.2f, \"busy_percent\": %.0f}\n",
	       rows[row].name, rows[row].requester_sleeps ? "event" : "poll", rows[row].responder_sleeps ? "event" : "poll",
	       rows[row].depth, n, samples[deep ? 0 : n / 2], samples[deep ? 0 : n * 99ull / 100], samples[0],
	       (double)(after.calls - before.calls) / n, (after.cpu_us - before.cpu_us) / total * 100);
	fflush(stdout);
}

/* ---- options ------------------------------------------------------------------------------------ */

static void usage(FILE *to)
{
	fprintf(to, "usage: verbs_floor [OPTION...] --serve PORT | HOST:PORT\n"
		    "The least that a round trip over an RDMA device costs: a 32-byte message there, and back a message\n"
		    "or a block of 4 KiB; polling or sleeping. The side that connects prints JSON lines.\n"
		    "  --rounds N     round trips of a row (2000)\n"
		    "  --gap US       pause before each, where the responder is to sleep (100)\n"
		    "  --device NAME  RDMA device (the first)\n"
		    "  --gid INDEX    of its GID table (the best RoCE v2 one)\n");
}

static unsigned int number(const char *text, unsigned int least, unsigned int most)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*end || end == text || v < least || v > most) {
		fprintf(stderr, "verbs_floor: %s: a number from %u to %u is wanted\n", text, least, most);
		exit(2);
	}
	return (unsigned int)v;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "serve", required_argument, NULL, 's' },  { "rounds", required_argument, NULL, 'n' },
		{ "gap", required_argument, NULL, 'g' },    { "device", required_argument, NULL, 'd' },
		{ "gid", required_argument, NULL, 'x' },    { "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	const struct note end = { .ask = ASK_END };
	const char *serve = NULL;
	struct side s = { 0 };
	int opt, fd;
	size_t row;

	while ((opt = getopt_long(argc, argv, "h", options, NULL)) != -1)
		switch (opt) {
		case 's': serve = optarg; break;
		case 'n': rounds = number(optarg, 1, 1000000); break;
		case 'g': gap_us = number(optarg, 0, 1000000); break;
		case 'd': device_name = optarg; break;
		case 'x': gid_index = (int)number(optarg, 0, 255); break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	if (optind + !serve != argc) {
		usage(stderr);
		return 2;
	}
	samples = calloc(rounds + rounds / 10 + 32, sizeof(*samples));
	must(samples, "memory");
	alarm(FAIL_SECONDS);
	bench_cost_open();
	open_device(&s);
	choose_gid(&s);
	make_qp(&s);
	fd = serve ? listen_for(serve) : connect_to(argv[optind]);
	swap_addresses(&s, fd);
	if (serve) {
		respond(&s);
	} else {
		for (row = 0; row < ROWS; row++)
			measure(&s, row);
		send_note(&s, &end);
	}
	/* Neither leaves before the other has what it sent. */
	must(write(fd, "", 1) == 1 && recv(fd, &(char){ 0 }, 1, MSG_WAITALL) == 1, "the end");
	return 0;
}
