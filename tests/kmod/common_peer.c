// SPDX-License-Identifier: BSD-2-Clause
#include "tests/kmod/common_peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* The layout that kmod/net/conn.c writes. */
struct address {
	struct dsm_address head;
	struct dsm_address_qp qps[][CLASS_MAX];
};
_Static_assert(sizeof(struct address) == sizeof(struct dsm_address), "the queue pairs follow");

#define OUT 128u /* send buffers, one per place in the queue */
#define OUT_SIZE 4096u

struct peer_memory {
	struct msg in[CLASS_MAX][PEER_RECEIVES][PEER_PACK];
	char out[OUT][OUT_SIZE];
	char landing[2 << 20];
};

static struct ibv_context *device;
static struct ibv_pd *pd;

bool peer_fail(const char *what)
{
	printf("FAILED: %s (%s)\n", what, strerror(errno));
	return false;
}

static bool open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0])
		return peer_fail("there is no RDMA device");
	device = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	pd = device ? ibv_alloc_pd(device) : NULL;
	return pd ? true : peer_fail("the RDMA device cannot be opened");
}

bool peer_open(struct peer *p)
{
	if (!pd && !open_device())
		return false;
	p->memory = mmap(NULL, sizeof(*p->memory), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	p->mr = ibv_reg_mr(pd, p->memory, sizeof(*p->memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	p->landing = (uintptr_t)p->memory->landing;
	return p->mr ? true : peer_fail("memory cannot be registered");
}

static void post_receive(struct peer *p, unsigned int class, unsigned int i)
{
	struct ibv_sge sge = { (uintptr_t)p->memory->in[class][i], sizeof(p->memory->in[class][i]),
			       p->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = class << 16 | i, .sg_list = &sge, .num_sge = 1 }, *bad;

	ibv_post_recv(p->qp[class], &wr, &bad);
}

static bool make_qp(struct peer *p, unsigned int class)
{
	struct ibv_qp_init_attr init = { .send_cq = p->cq,
					 .recv_cq = p->cq,
					 .qp_type = IBV_QPT_RC,
					 .sq_sig_all = 1,
					 .cap = { .max_send_wr = OUT,
						  .max_recv_wr = PEER_RECEIVES,
						  .max_send_sge = 1,
						  .max_recv_sge = 1 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	unsigned int i;

	p->qp[class] = ibv_create_qp(pd, &init);
	if (!p->qp[class] ||
	    ibv_modify_qp(p->qp[class], &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return peer_fail("no queue pair");
	for (i = 0; i < PEER_RECEIVES; i++)
		post_receive(p, class, i);
	return true;
}

bool peer_begin(struct peer *p, uint16_t ranks, uint16_t me, uint16_t target)
{
	unsigned int c;

	p->liar = (struct liar){ .ranks = ranks, .me = me, .target = target };
	p->posted = 0;
	p->greedy = 0;
	p->broken = false;
	p->status = IBV_WC_SUCCESS;
	p->rkey = 0;
	p->cq = ibv_create_cq(device, CLASS_MAX * (PEER_RECEIVES + OUT), NULL, NULL, 0);
	if (!p->cq)
		return peer_fail("no completion queue");
	for (c = 0; c < CLASS_MAX; c++) {
		p->credit[c] = PEER_CREDITS;
		p->taken[c] = 0;
		if (!make_qp(p, c))
			return false;
	}
	return true;
}

void peer_end(struct peer *p)
{
	unsigned int c;

	for (c = 0; c < CLASS_MAX; c++) {
		if (p->qp[c])
			ibv_destroy_qp(p->qp[c]);
		p->qp[c] = NULL;
	}
	if (p->cq)
		ibv_destroy_cq(p->cq);
	p->cq = NULL;
}

/* The index of the GID that the target uses: both use the same device. */
static int gid_index(const uint8_t *gid)
{
	struct ibv_gid_entry e;
	int i;

	for (i = 0; i < 64; i++)
		if (!ibv_query_gid_ex(device, 1, (uint32_t)i, &e, 0) &&
		    e.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&e.gid, gid, sizeof(e.gid)))
			return i;
	return -1;
}

/* The secret of a class's connection; theirs: of the direction from the target. */
static uint64_t secret(const struct peer *p, const struct job *j, char what, unsigned int class,
		       bool theirs)
{
	const struct address *a = (const void *)j->address[p->liar.target];
	const uint32_t mine = p->qp[class]->qp_num, other = a->qps[p->liar.me][class].qpn;

	return lane_secret(&j->key, what, class,
			   (const unsigned int[]){ theirs ? p->liar.target : p->liar.me,
						   theirs ? p->liar.me : p->liar.target },
			   (const uint32_t[]){ theirs ? other : mine, theirs ? mine : other });
}

uint64_t peer_proof(const struct peer *p, const struct job *j, unsigned int class, bool theirs)
{
	return secret(p, j, 'H', class, theirs);
}

static uint32_t first_psn(const struct peer *p, const struct job *j, unsigned int class)
{
	const uint32_t right = (uint32_t)secret(p, j, 'P', class, false);

	switch (p->psn) {
	case PSN_RIGHT: return right & 0xffffff;
	case PSN_ZERO: return 0;
	case PSN_AHEAD: return (right + 1000) & 0xffffff;
	case PSN_BEHIND: return (right - 1000) & 0xffffff;
	}
	return right;
}

static bool connect_qp(struct peer *p, const struct job *j, unsigned int c, int index)
{
	const struct address *a = (const void *)j->address[p->liar.target];
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS,
				   .timeout = 18,
				   .retry_cnt = 6, /* rxe takes 7 for "without limit" */
				   .rnr_retry = 7,
				   .max_rd_atomic = 1,
				   .sq_psn = first_psn(p, j, c) };
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR,
				   .path_mtu = a->head.mtu,
				   .dest_qp_num = a->qps[p->liar.me][c].qpn,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 1,
				   .rq_psn = (uint32_t)secret(p, j, 'P', c, true) & 0xffffff,
				   .ah_attr = { .is_global = 1,
						.port_num = 1,
						.grh = { .hop_limit = 64,
							 .sgid_index = (uint8_t)index } } };

	memcpy(&rtr.ah_attr.grh.dgid, a->head.gid, sizeof(a->head.gid));
	return !ibv_modify_qp(p->qp[c], &rtr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER) &&
		!ibv_modify_qp(p->qp[c], &rts,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

bool peer_connect(struct peer *p, const struct job *j)
{
	const struct address *a = (const void *)j->address[p->liar.target];
	const int index = gid_index(a->head.gid);
	unsigned int c;

	for (c = 0; c < CLASS_MAX; c++)
		if (index < 0 || !connect_qp(p, j, c, index))
			return peer_fail("the queue pairs do not connect");
	return true;
}

void peer_address(const struct peer *p, unsigned int n, struct job *j)
{
	const uint16_t me = p->liar.me;
	struct address *a = (void *)j->address[me];
	unsigned int c;

	*a = *(const struct address *)(const void *)j->address[p->liar.target];
	a->head.rank = me;
	memset(a->qps, 0, j->ranks * sizeof(a->qps[0]));
	j->address_size[me] = j->address_size[p->liar.target];
	for (; n--; p++)
		for (c = 0; c < CLASS_MAX; c++)
			a->qps[p->liar.target][c].qpn = p->qp[c]->qp_num;
}

/* The limits as in kmod/node/rank.c. */
void peer_greet(struct peer *p, const struct job *j, uint64_t wrong)
{
	unsigned int c;

	for (c = 0; c < CLASS_MAX; c++) {
		struct msg m = { .version = WIRE_VERSION,
				 .type = MSG_HELLO,
				 .src = p->liar.me,
				 .dst = p->liar.target,
				 .value = peer_proof(p, j, c, false) ^ wrong };

		peer_post(p, c, &m, sizeof(m), NULL);
	}
}

void peer_post(struct peer *p, unsigned int class, const void *data, uint32_t size,
	       const struct ibv_send_wr *like)
{
	char *at = p->memory->out[p->sends++ % OUT];
	struct ibv_sge sge = { (uintptr_t)at, size, p->mr->lkey };
	struct ibv_send_wr wr = like ? *like : (struct ibv_send_wr){ .opcode = IBV_WR_SEND }, *bad;

	if (data)
		memcpy(at, data, size);
	wr.wr_id = 1ull << 32;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (p->credit[class])
		p->credit[class]--;
	if (ibv_post_send(p->qp[class], &wr, &bad))
		p->broken = true;
	else
		p->posted++;
}

bool peer_may_send(const struct peer *p)
{
	unsigned int c;

	for (c = 0; c < CLASS_MAX; c++)
		if (p->credit[c] < 4)
			return false;
	return p->posted <= 48;
}

/* As in kmod/net/lane.c: return one credit per buffer whose message was taken. */
void peer_return_credits(struct peer *p, unsigned int class)
{
	const struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM,
					.imm_data = __builtin_bswap32(p->taken[class]) };

	if (p->greedy >> class & 1 || p->taken[class] < PEER_CREDITS / 2 || !p->credit[class] ||
	    p->broken)
		return;
	p->taken[class] = 0;
	peer_post(p, class, NULL, 0, &wr);
}

static void came(struct peer *p, const struct ibv_wc *wc,
		 void (*heard)(struct peer *p, const struct msg *m))
{
	const unsigned int class = (unsigned int)wc->wr_id >> 16, i = wc->wr_id & 0xffff;
	unsigned int n = wc->byte_len / sizeof(struct msg), k;
	struct msg m[PEER_PACK];

	memcpy(m, p->memory->in[class][i], sizeof(m));
	post_receive(p, class, i);
	p->taken[class]++;
	if (wc->opcode == IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		p->credit[class] += __builtin_bswap32(wc->imm_data);
	peer_return_credits(p, class);
	if (wc->opcode == IBV_WC_RECV && wc->wc_flags & IBV_WC_WITH_IMM)
		return;
	if (wc->wc_flags & IBV_WC_WITH_IMM) {
		const struct word_KERNEL_BLOCK w =
			word_get_KERNEL_BLOCK(__builtin_bswap32(wc->imm_data));
		const uint16_t slot = (uint16_t)(w.slot_high * 256 + w.slot_low);

		m[0] = (struct msg){ .version = WIRE_VERSION,
				     .type = MSG_GRANT,
				     .object = p->wanted[slot],
				     .req_node = p->liar.me,
				     .req_slot = slot,
				     .home = (uint16_t)w.home };
		n = 1;
		p->landed++;
	}
	for (k = 0; k < n && k < PEER_PACK; k++) {
		liar_hear(&p->liar, &m[k]);
		heard(p, &m[k]);
	}
}

void peer_give_key(struct peer *p, const struct msg *wanted)
{
	const struct msg key = { .version = WIRE_VERSION,
				 .type = MSG_KEY,
				 .src = p->liar.me,
				 .dst = p->liar.target,
				 .object = wanted->object,
				 .aux = p->mr->rkey,
				 .value = p->landing };

	peer_post(p, wire_class(key.type), &key, sizeof(key), NULL);
}

void peer_poll(struct peer *p, void (*heard)(struct peer *p, const struct msg *m))
{
	struct ibv_wc wc;

	while (ibv_poll_cq(p->cq, 1, &wc) == 1) {
		if (wc.status != IBV_WC_SUCCESS) {
			p->status = p->broken ? p->status : wc.status;
			p->broken = true;
		} else if (wc.wr_id >> 32) {
			p->posted--;
		} else {
			came(p, &wc, heard);
		}
	}
}
