// SPDX-License-Identifier: BSD-2-Clause
/*
 * common_link.c - see common_link.h.
 *
 * Sends complete silently, but for one in SIGNAL_EACH. One thread at a time.
 */
#include "common_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 4096
#define NOTES 128 /* receives posted */
#define SENDS 128 /* length of the send queue */
#define SIGNAL_EACH 32
#define QP_TIMEOUT 18 /* 4.1 us * 2^18: guests without acceleration are slow */

/* The small message; as large as libdsm's. */
struct note {
	uint32_t ask, sleep, round, unused;
	uint64_t pad[2];
};
_Static_assert(sizeof(struct note) == 32, "as struct msg");

struct link {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *sent, *came;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct link_address here, there;
	int gid_index;
	unsigned int posted, unreaped; /* sends, and those of them that may still be in the queue */
	bool armed, sleep;             /* sleep: how the responder waits for the next */
	struct memory {
		char blocks[LINK_DEPTH_MAX][BLOCK];
		struct note notes[NOTES];
	} * memory;
};

static void die(const char *what)
{
	fprintf(stderr, "link: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(bool fine, const char *what)
{
	if (!fine)
		die(what);
}

/* ---- device and queue pair ------------------------------------------------------------------- */

static void open_device(struct link *s, const char *device_name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i]; i++)
		if (!device_name || !strcmp(ibv_get_device_name(list[i]), device_name))
			break;
	if (!list || !list[i]) {
		fprintf(stderr, "link: there is no RDMA device%s%s\n", device_name ? " " : "",
			device_name ? device_name : "");
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

int link_best_gid(struct ibv_context *device, uint8_t gid[16])
{
	struct ibv_gid_entry table[64];
	ssize_t n = ibv_query_gid_table(device, table, 64, 0), i;
	int best = 0, index = -1;

	for (i = 0; i < n; i++)
		if (worth(&table[i]) > best) {
			best = worth(&table[i]);
			index = (int)table[i].gid_index;
			memcpy(gid, table[i].gid.raw, 16);
		}
	return index;
}

static void choose_gid(struct link *s)
{
	if (s->gid_index >= 0) {
		must(!ibv_query_gid(s->device, 1, s->gid_index, (union ibv_gid *)s->here.gid),
		     "the GID");
		return;
	}
	s->gid_index = link_best_gid(s->device, s->here.gid);
	errno = ENOENT;
	must(s->gid_index >= 0, "a GID of port 1");
}

static void make_qp(struct link *s)
{
	struct ibv_qp_init_attr make = { .qp_type = IBV_QPT_RC,
					 .cap = { .max_send_wr = SENDS,
						  .max_recv_wr = NOTES,
						  .max_send_sge = 1,
						  .max_recv_sge = 1,
						  .max_inline_data = sizeof(struct note) } };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags =
					    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
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
	s->mr = ibv_reg_mr(s->pd, s->memory, sizeof(*s->memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(s->mr, "registering memory");
	must(!ibv_modify_qp(s->qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "INIT");
	must(!ibv_query_port(s->device, 1, &port), "port 1");
	s->here.qpn = s->qp->qp_num;
	s->here.rkey = s->mr->rkey;
	s->here.block = (uint64_t)(uintptr_t)s->memory->blocks;
	s->here.lid = port.lid;
	s->here.mtu = port.active_mtu;
}

static void post_receive(struct link *s, uint64_t id)
{
	struct ibv_sge sge = { (uint64_t)(uintptr_t)&s->memory->notes[id], sizeof(struct note),
			       s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	must(!ibv_post_recv(s->qp, &wr, &bad), "posting a receive");
}

static void connect_qp(struct link *s)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.dest_qp_num = s->there.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.path_mtu = s->here.mtu < s->there.mtu ? s->here.mtu : s->there.mtu,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .dlid = (uint16_t)s->there.lid,
			     .grh = { .sgid_index = (uint8_t)s->gid_index, .hop_limit = 64 } }
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = QP_TIMEOUT,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .max_rd_atomic = 1 };
	uint64_t i;

	memcpy(rtr.ah_attr.grh.dgid.raw, s->there.gid, sizeof(s->there.gid));
	must(!ibv_modify_qp(s->qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	must(!ibv_modify_qp(s->qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
	for (i = 0; i < NOTES; i++)
		post_receive(s, i);
}

/* ---- the rounds ------------------------------------------------------------------------------ */

static void wc_check(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "link: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
}

static void post(struct link *s, struct ibv_send_wr *wr)
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

static void send_note(struct link *s, const struct note *note)
{
	struct ibv_sge sge = { (uint64_t)(uintptr_t)note, sizeof(*note), 0 };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE
	};

	post(s, &wr);
}

static void send_block(struct link *s, uint32_t round)
{
	uint32_t at = round % LINK_DEPTH_MAX;
	struct ibv_sge sge = { (uint64_t)(uintptr_t)s->memory->blocks[at], BLOCK, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .imm_data = htonl(round),
				  .wr.rdma = { s->there.block + at * (uint64_t)BLOCK,
					       s->there.rkey } };

	post(s, &wr);
}

/* The next that comes; polling, or asleep between looks. */
static void await(struct link *s, bool sleeping, struct ibv_wc *wc)
{
	struct ibv_cq *cq;
	void *context;
	int n;

	while (!(n = ibv_poll_cq(s->came, 1, wc))) {
		if (!sleeping)
			continue;
		if (!s->armed) {
			must(!ibv_req_notify_cq(s->came, 0), "arming");
			/* and look once more: what came in between gives no event */
			s->armed = true;
			continue;
		}
		must(!ibv_get_cq_event(s->channel, &cq, &context), "waiting for an event");
		ibv_ack_cq_events(cq, 1);
		s->armed = false;
	}
	must(n > 0, "polling");
	wc_check(wc);
}

/* ---- for users ------------------------------------------------------------------------------- */

struct link *link_open(const char *device, int gid_index, struct link_address *here)
{
	struct link *s = calloc(1, sizeof(*s));

	must(s, "memory");
	s->gid_index = gid_index;
	s->sleep = true;
	open_device(s, device);
	choose_gid(s);
	make_qp(s);
	*here = s->here;
	return s;
}

void link_connect(struct link *s, const struct link_address *there)
{
	s->there = *there;
	connect_qp(s);
}

void link_ask(struct link *s, enum link_ask what, bool responder_sleeps, uint32_t round)
{
	struct note note = { .ask = (uint32_t)what, .sleep = responder_sleeps, .round = round };

	send_note(s, &note);
}

void link_answered(struct link *s, enum link_ask what, bool sleeping, uint32_t round)
{
	struct ibv_wc wc;
	uint32_t got;

	await(s, sleeping, &wc);
	got = what == LINK_FAULT ? ntohl(wc.imm_data) : s->memory->notes[wc.wr_id].round;
	errno = EPROTO;
	must(got == round, "the answer");
	post_receive(s, wc.wr_id);
}

void link_respond(struct link *s)
{
	struct note n;
	struct ibv_wc wc;

	do {
		await(s, s->sleep, &wc);
		n = s->memory->notes[wc.wr_id];
		s->sleep = n.sleep;
		if (n.ask == LINK_FAULT)
			send_block(s, n.round);
		else if (n.ask == LINK_MESSAGE)
			send_note(s, &n);
		post_receive(s, wc.wr_id);
	} while (n.ask != LINK_END);
}
