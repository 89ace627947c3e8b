// SPDX-License-Identifier: BSD-2-Clause
/*
 * send.c - outgoing frames: filled without a lock, posted by the sending thread, and kept in the
 * lane's ring until the peer has them: a completion says so, or after a repair the peer itself.
 */
#include "net/verbs/send.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "core/bundle.h"
#include "core/word.h"
#include "net/verbs/conn.h"
#include "net/verbs/dev.h"
#include "net/verbs/mem.h"
#include "net/verbs/wait.h"
#include "util/hook.h"
#include "util/log.h"

#define PIECE 4096u /* of a payload that the peer reads in pieces */

static struct frame *frame_of(struct out *o)
{
	return (struct frame *)o->data;
}

/* ---- posting; under the lane's lock ---------------------------------------------------------- */

void verbs_lane_broken(struct lane *l)
{
	if (l->state != LANE_READY && l->state != LANE_ANSWERED)
		return;
	l->state = LANE_BROKEN;
	if (!atomic_load(&l->peer->left))
		conn_want(l);
}

struct chain {
	struct ibv_send_wr wr[2 * VERBS_CHAIN_MAX];
	struct ibv_sge sge[2 * VERBS_CHAIN_MAX];
	unsigned int n;
};

static struct ibv_send_wr *chain_add(struct chain *c, const struct out *o, size_t off, size_t bytes)
{
	struct ibv_send_wr *wr = &c->wr[c->n];

	c->sge[c->n] = (struct ibv_sge){ .addr = (uintptr_t)o->data + off,
					 .length = (uint32_t)bytes,
					 .lkey = o->lkey };
	*wr = (struct ibv_send_wr){ .sg_list = &c->sge[c->n], .num_sge = 1, .opcode = IBV_WR_SEND };
	if (c->n)
		c->wr[c->n - 1].next = wr;
	c->n++;
	return wr;
}

/*
 * Completions are requested only from time to time: they come in order, so one covers all before
 * it.
 */
static bool wants_signal(struct lane *l, const struct frame *f)
{
	const uint32_t half = l->depth / 2,
		       every = l->peer->net->set.signal < half ? l->peer->net->set.signal : half;

	if (f->seq - l->signalled < every && f->kind != FRAME_QUIT)
		return false;
	l->signalled = f->seq;
	return true;
}

/*
 * Must it wake the receiver's thread? Not if another thread polls for it: idle queues are armed
 * only for solicited completions.
 */
static bool verbs_wakes(const struct net *n, const struct frame *f, const struct msg *m)
{
	const bool has = f->kind != FRAME_FREE && f->kind != FRAME_QUIT;

	return !has || !n->set.solicit || !n->cfg.waited || !n->cfg.waited(m);
}

static void chain_frame(struct lane *l, struct chain *c, struct out *o)
{
	const struct frame *f = frame_of(o);
	const struct net *n = l->peer->net;
	const struct msg *m = (const struct msg *)(f + 1); /* if it has one */
	const uint16_t slot = f->kind == FRAME_LAND || f->kind == FRAME_BARE ? m->req_slot : 0;
	struct ibv_send_wr *wr;

	if (f->kind == FRAME_BARE) {
		wr = chain_add(c, o, HEAD, f->size);
		wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr->imm_data = htonl(bare_word(m, f->seq));
		wr->wr.rdma.remote_addr = l->landing + slot * n->landing_stride + HEAD;
		wr->wr.rdma.rkey = l->landing_rkey;
	} else if (f->kind == FRAME_LAND) {
		if (n->set.coalesce) {
			wr = chain_add(c, o, 0, o->bytes);
			wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
			wr->imm_data = htonl(slot);
			wr->wr.rdma.remote_addr = l->landing + slot * n->landing_stride;
		} else {
			wr = chain_add(c, o, HEAD, f->size);
			wr->opcode = IBV_WR_RDMA_WRITE;
			wr->wr.rdma.remote_addr = l->landing + slot * n->landing_stride + HEAD;
		}
		wr->wr.rdma.rkey = l->landing_rkey;
		if (!n->set.coalesce)
			wr = chain_add(c, o, 0, HEAD);
	} else {
		wr = chain_add(c, o, 0, o->bytes);
	}
	wr->wr_id = wr_make(WR_SEND, f->seq);
	if (wr->sg_list->length <= l->inlined)
		wr->send_flags |= IBV_SEND_INLINE;
	if (wants_signal(l, f))
		wr->send_flags |= IBV_SEND_SIGNALED;
	if (verbs_wakes(n, f, m))
		wr->send_flags |= IBV_SEND_SOLICITED;
}

static void count_requests(struct net_work *w, const struct chain *c)
{
	unsigned int i;

	verbs_did(&w->requests, c->n);
	verbs_did(&w->doorbells, 1);
	for (i = 0; i < c->n; i++) {
		const struct ibv_send_wr *wr = &c->wr[i];
		const bool imm = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

		verbs_did(&w->writes, imm || wr->opcode == IBV_WR_RDMA_WRITE);
		verbs_did(&w->immediates, imm);
		verbs_did(&w->bare, imm && word_get_PROCESS_BLOCK(ntohl(wr->imm_data)).bare);
		verbs_did(&w->inlined, !!(wr->send_flags & IBV_SEND_INLINE));
		verbs_did(&w->signalled, !!(wr->send_flags & IBV_SEND_SIGNALED));
		verbs_did(&w->solicited, !!(wr->send_flags & IBV_SEND_SOLICITED));
	}
}

static void break_it(struct lane *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	ibv_modify_qp(l->qp, &attr, IBV_QP_STATE);
	atomic_fetch_add(&l->peer->net->breaks, 1);
}

/* Hand frames first..l->sent, which are in the ring, to the device. */
static void post_from(struct lane *l, uint32_t first)
{
	struct net *n = l->peer->net;
	struct ibv_send_wr *bad;
	bool broke = false;
	struct chain c;
	unsigned int k;

	while ((int32_t)(l->sent - first) >= 0 && l->state == LANE_READY) {
		c.n = 0;
		for (k = 0; k < n->set.chain && (int32_t)(l->sent - first) >= 0; k++, first++) {
			if (n->set.breaks &&
			    atomic_fetch_add(&n->posts, 1) % n->set.breaks == n->set.breaks - 1) {
				break_it(l);
				broke = true;
			}
			chain_frame(l, &c, l->ring[first % l->depth]);
		}
		count_requests(&l->work, &c);
		if (ibv_post_send(l->qp, c.wr, &bad))
			verbs_lane_broken(l);
		if (broke)
			/* rxe does not treat flushed completions as solicited, as it should */
			conn_kick(n);
	}
}

static bool ring_full(const struct lane *l)
{
	return l->sent - l->done >= l->depth;
}

static void ring_add(struct lane *l, struct out *o)
{
	frame_of(o)->seq = ++l->sent;
	l->ring[l->sent % l->depth] = o;
}

/* Completed sends and reads are no solicited completions: kick if something waits for one. */
void lane_due(struct lane *l)
{
	const bool due = l->state == LANE_READY && (l->head || l->reads);

	if (due == l->due)
		return;
	l->due = due;
	wait_due(l, due ? 1 : -1);
}

void lane_flush(struct lane *l)
{
	uint32_t first = l->sent + 1;
	struct out *o;

	if (l->state != LANE_READY)
		return;
	while ((o = l->head) && !ring_full(l)) {
		l->head = o->next;
		if (!l->head)
			l->tail = &l->head;
		ring_add(l, o);
	}
	post_from(l, first);
	lane_due(l);
}

static void verbs_lane_hand_over(struct lane *l)
{
	struct net *n = l->peer->net;

	pthread_mutex_lock(&n->leaf);
	if (!l->queued) {
		l->queued = true;
		l->next_queued = NULL;
		*n->send_tail = l;
		n->send_tail = &l->next_queued;
		pthread_cond_signal(&n->send_more);
	}
	pthread_mutex_unlock(&n->leaf);
}

void lane_put(struct lane *l, struct out *o)
{
	struct net *n = l->peer->net;

	if (l->state == LANE_DEAD) {
		mem_frame_put(l->dev, o);
		return;
	}
	if (l->state == LANE_READY && !l->head && !ring_full(l) && !n->has_sender) {
		ring_add(l, o);
		post_from(l, l->sent);
		return;
	}
	o->next = NULL;
	*l->tail = o;
	l->tail = &o->next;
	if (l->state == LANE_IDLE) {
		l->state = LANE_BROKEN;
		conn_want(l);
	} else if (n->has_sender && l->state == LANE_READY) {
		verbs_did(&l->work.handed_over, 1);
		verbs_lane_hand_over(l);
	}
	lane_due(l);
}

void lane_retire(struct lane *l, uint32_t seq)
{
	struct out *o;

	if ((int32_t)(seq - l->done) <= 0 || (int32_t)(seq - l->sent) > 0)
		return;
	l->fruitless = 0;
	while (l->done != seq) {
		o = l->ring[++l->done % l->depth];
		mem_frame_put(l->dev, o);
	}
}

void lane_fetch(struct lane *l)
{
	const bool whole = l->peer->net->set.large;
	struct ibv_send_wr wr = { .num_sge = 1,
				  .opcode = IBV_WR_RDMA_READ,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_sge sge;
	struct fetch *f;

	for (f = l->fetches; f && l->reads < READS && l->state == LANE_READY; f = f->next)
		while (l->reads < READS && f->asked < (whole ? 1 : (f->size + PIECE - 1) / PIECE)) {
			const uint32_t off = f->asked * PIECE, rest = f->size - off;

			sge = (struct ibv_sge){ .addr = (uintptr_t)f->buf->at + off,
						.length = whole || rest < PIECE ? rest : PIECE,
						.lkey = f->buf->mr->lkey };
			wr.sg_list = &sge;
			wr.wr_id = wr_make(WR_READ, (uintptr_t)f);
			wr.wr.rdma.remote_addr = f->from.addr + off;
			wr.wr.rdma.rkey = f->from.rkey;
			if (ibv_post_send(l->qp, &wr, &bad)) {
				verbs_lane_broken(l);
				return;
			}
			verbs_did(&l->work.requests, 1);
			verbs_did(&l->work.doorbells, 1);
			verbs_did(&l->work.reads, 1);
			f->asked++;
			l->reads++;
		}
	lane_due(l);
}

int lane_ready(struct lane *l, uint32_t peer_rx)
{
	struct fetch *f;

	if ((int32_t)(peer_rx - l->done) < 0 || (int32_t)(peer_rx - l->sent) > 0)
		return -EBADMSG;
	lane_retire(l, peer_rx);
	l->state = LANE_READY;
	l->signalled = l->done;
	post_from(l, l->done + 1);
	for (f = l->fetches; f; f = f->next)
		f->asked = f->got = 0; /* what the last queue pair has read is read again */
	lane_fetch(l);
	lane_flush(l);
	return 0;
}

/* ---- the send thread (direct=0): for comparison, as others do it ----------------------------- */

static void *send_thread(void *arg)
{
	struct net *n = arg;
	struct lane *l;

	prctl(PR_SET_NAME, "dsm-send");
	if (n->cfg.thread)
		n->cfg.thread(n->cfg.arg);
	pthread_mutex_lock(&n->leaf);
	while (!n->send_stop) {
		l = n->send_head;
		if (!l) {
			pthread_cond_wait(&n->send_more, &n->leaf);
			continue;
		}
		n->send_head = l->next_queued;
		if (!n->send_head)
			n->send_tail = &n->send_head;
		l->queued = false;
		pthread_mutex_unlock(&n->leaf);
		pthread_mutex_lock(&l->lock);
		lane_flush(l);
		pthread_mutex_unlock(&l->lock);
		if (atomic_load(&n->again))
			conn_serve(n, false);
		pthread_mutex_lock(&n->leaf);
	}
	pthread_mutex_unlock(&n->leaf);
	return NULL;
}

int send_thread_start(struct net *n)
{
	int err = -pthread_create(&n->sender, NULL, send_thread, n);

	n->has_sender = !err;
	return err;
}

void send_thread_stop(struct net *n)
{
	if (!n->has_sender)
		return;
	pthread_mutex_lock(&n->leaf);
	n->send_stop = true;
	pthread_cond_signal(&n->send_more);
	pthread_mutex_unlock(&n->leaf);
	pthread_join(n->sender, NULL);
	n->has_sender = false;
}

/* ---- sending --------------------------------------------------------------------------------- */

static int verbs_send_self(struct net *n, const struct msg *m, const void *payload, size_t size)
{
	struct self *s = own_alloc(sizeof(*s) + size, 0);

	if (!s)
		return -ENOMEM;
	s->next = NULL;
	s->m = *m;
	s->size = size;
	if (size)
		memcpy(s->data, payload, size);
	pthread_mutex_lock(&n->leaf);
	*n->self_tail = s;
	n->self_tail = &s->next;
	pthread_mutex_unlock(&n->leaf);
	atomic_fetch_add(&n->pending, 1);
	conn_kick(n);
	return 0;
}

/*
 * Does the payload go straight to its request? Each of the receiver's slots has at most one block
 * in flight.
 */
static bool verbs_can_land(const struct peer *p, const struct msg *m, size_t size)
{
	return m->type == MSG_DATA && size && size <= p->at->landing &&
		size <= p->net->landing_bytes &&
		m->req_node == net_node_of(&p->net->cfg, p->rank) && m->req_slot < p->at->nslots;
}

/* Does the peer read the payload? */
static bool will_fetch(const struct lane *l, const struct msg *m, size_t size)
{
	return !verbs_can_land(l->peer, m, size) && HEAD + size > dev_recv_bytes(l->class);
}

/* A frame of a message of `size` bytes, with n bytes of payload. */
static struct out *frame_make(struct lane *l, uint8_t kind, const struct msg *m,
			      const void *payload, size_t n, size_t size)
{
	struct out *o = mem_frame_get(l->dev, HEAD + n);
	struct frame *f;

	if (!o)
		return NULL;
	f = frame_of(o);
	*f = (struct frame){ .kind = kind,
			     .class = l->class,
			     .src = l->peer->net->cfg.rank,
			     .size = (uint32_t)size };
	memcpy(f + 1, m, sizeof(*m));
	if (n)
		memcpy((char *)(f + 1) + sizeof(*m), payload, n);
	return o;
}

static int send_whole(struct lane *l, const struct msg *m, const void *payload, size_t size)
{
	const bool land = verbs_can_land(l->peer, m, size);
	const bool bare = land && l->peer->at->bare && l->peer->net->set.imm &&
		bare_fits(m, net_me(&l->peer->net->cfg));
	struct out *o = frame_make(l,
				   bare           ? FRAME_BARE
					   : land ? FRAME_LAND
						  : FRAME_MSG,
				   m, payload, size, size);
	int err;

	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	err = l->state == LANE_DEAD ? -EPIPE : 0;
	lane_put(l, o);
	pthread_mutex_unlock(&l->lock);
	return err;
}

/* ---- payloads that the peer reads ------------------------------------------------------------ */

/* A frame with the address of the payload, for whose size there is room. */
static int lend(struct lane *l, const struct msg *m, const void *payload, size_t size)
{
	struct buf *b = buf_get(l->dev, size);
	struct out *o = NULL;
	int err = 0;

	if (b) {
		const struct remote from = { .addr = (uintptr_t)b->at, .rkey = b->mr->rkey };

		memcpy(b->at, payload, size);
		b->size = (uint32_t)size;
		o = frame_make(l, FRAME_FETCH, m, &from, sizeof(from), size);
	}
	pthread_mutex_lock(&l->lock);
	if (!o || l->state == LANE_DEAD) {
		err = o ? -EPIPE : -ENOMEM;
		l->lending -= l->state == LANE_DEAD ? 0 : size;
		if (b)
			buf_put(l->dev, b);
	} else {
		b->id = frame_of(o)->id = ++l->next_id;
		*l->lent_tail = b;
		l->lent_tail = &b->next;
	}
	if (o)
		lane_put(l, o);
	pthread_mutex_unlock(&l->lock);
	return err;
}

static bool lends(const struct lane *l, size_t size)
{
	return !l->lending || l->lending + size <= PAYLOADS_MAX;
}

static int send_lent(struct lane *l, const struct msg *m, const void *payload, size_t size)
{
	struct later *later = NULL;
	bool now;

	pthread_mutex_lock(&l->lock);
	now = l->state == LANE_DEAD || (!l->later && lends(l, size));
	if (now && l->state != LANE_DEAD)
		l->lending += size;
	pthread_mutex_unlock(&l->lock);
	if (now)
		return lend(l, m, payload, size);
	later = own_alloc(sizeof(*later) + size, 0);
	if (!later)
		return -ENOMEM;
	later->next = NULL;
	later->m = *m;
	later->size = size;
	memcpy(later->payload, payload, size);
	pthread_mutex_lock(&l->lock);
	if (l->state != LANE_DEAD) {
		*l->later_tail = later;
		l->later_tail = &later->next;
		later = NULL;
	}
	pthread_mutex_unlock(&l->lock);
	own_free(later);
	/* what it waits for may have been read meanwhile */
	return later ? -EPIPE : lane_lend_more(l);
}

int lane_lend_more(struct lane *l)
{
	struct later *later;
	int err = 0;

	while (!err) {
		pthread_mutex_lock(&l->lock);
		later = l->later && lends(l, l->later->size) ? l->later : NULL;
		if (later) {
			l->later = later->next;
			if (!l->later)
				l->later_tail = &l->later;
			l->lending += later->size;
		}
		pthread_mutex_unlock(&l->lock);
		if (!later)
			break;
		err = lend(l, &later->m, later->payload, later->size);
		own_free(later);
	}
	return err;
}

int verbs_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size)
{
	struct lane *l;
	struct peer *p;
	int err;

	HOOK(send);
	err = net_check_send(&n->cfg, rank, m, size);
	if (err)
		return err;
	p = &n->peers[rank];
	if (rank != n->cfg.rank) {
		if (atomic_load(&p->state) == PEER_NONE)
			return -ENOTCONN;
		if (!verbs_peer_well(p))
			return -EPIPE;
		if (atomic_load(&p->left))
			return 0; /* the peer has closed: no loss, and it would not receive this */
		l = &p->lanes[wire_class(m->type)];
		err = will_fetch(l, m, size) ? send_lent(l, m, payload, size)
					     : send_whole(l, m, payload, size);
		if (err == -ENOMEM)
			return err;
		verbs_count(&n->sent[l->class].messages, 1);
		verbs_count(&n->sent[l->class].bytes, size);
		if (atomic_load(&n->again))
			conn_serve(n, false);
	} else {
		err = verbs_send_self(n, m, payload, size);
	}
	if (err)
		return err;
	verbs_count(&n->count.sent, 1);
	verbs_count(&n->count.bytes_sent, size);
	verbs_count(&n->count.by_class[bundle_class(m)], 1);
	return 0;
}
