// SPDX-License-Identifier: BSD-2-Clause
/*
 * recv.c - completions: taken a batch at a time under one acquisition of the queue's lock and
 * sorted there, which is where frames are counted, into the queue's inbox; taken from there and
 * delivered one by one, with no lock. Several threads may be delivering at once.
 */
#include "net/verbs/recv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/bundle.h"
#include "net/verbs/conn.h"
#include "net/verbs/dev.h"
#include "net/verbs/mem.h"
#include "net/verbs/send.h"
#include "util/hook.h"
#include "util/log.h"

#define CONN_EVERY 64 /* polls between two checks for connection requests */
#define FREEZE_US 200 /* for a device that is still receiving a message */

/* ---- sorting; under the queue's lock --------------------------------------------------------- */

static bool read_frame(const struct queue *q, const struct ibv_wc *wc, struct arrival *a)
{
	const struct net *n = q->net;
	const struct frame_place place = {
		.cfg = &n->cfg,
		.peer = a->lane->peer->rank,
		.class = a->class,
		.immediate = wc->wc_flags & IBV_WC_WITH_IMM,
		.word = ntohl(wc->imm_data),
		.have = a->lane->rx_seq,
		.buf = q->dev->recv[a->class] + (size_t)a->recv * dev_recv_bytes(a->class),
		.room = dev_recv_bytes(a->class),
		.bytes = wc->byte_len,
		.landing = n->landing,
		.landing_bytes = n->landing_bytes,
		.landing_stride = n->landing_stride,
	};

	return frame_read(&place, &a->f, &a->m, &a->payload);
}

static uint8_t sort_received(struct queue *q, const struct ibv_wc *wc, struct arrival *a)
{
	struct lane *l = a->lane;

	if (!l || l->rx_qpn != wc->qp_num)
		return ARRIVAL_NONE; /* of an old queue pair: it will be sent again */
	if (wc->status != IBV_WC_SUCCESS) {
		a->status = (uint8_t)wc->status;
		return wc->status == IBV_WC_LOC_LEN_ERR ? ARRIVAL_BAD : ARRIVAL_BROKEN;
	}
	if (!read_frame(q, wc, a))
		return ARRIVAL_BAD;
	switch (frame_turn(a->f.seq, l->rx_seq)) {
	case FRAME_NEXT: break;
	case FRAME_AGAIN: return ARRIVAL_NONE;
	case FRAME_AHEAD: return ARRIVAL_BAD;
	}
	l->rx_seq++;
	return ARRIVAL_FRAME;
}

static void verbs_queue_sort(struct queue *q, const struct ibv_wc *wc, struct arrival *a)
{
	memset(a, 0, sizeof(*a));
	a->lane = dev_lane(q->dev, wc->qp_num);
	a->qpn = wc->qp_num;
	a->recv = -1;
	switch ((enum wr_kind)(wc->wr_id >> 56)) {
	case WR_RECV:
		a->recv = (int32_t)(wc->wr_id & 0xffffffff);
		a->class = (uint8_t)(wc->wr_id >> 32);
		a->kind = sort_received(q, wc, a);
		break;
	case WR_SEND:
	case WR_READ:
		if (!a->lane)
			break;
		a->status = (uint8_t)wc->status;
		a->f.seq = (uint32_t)wc->wr_id;
		a->fetch = (struct fetch *)(uintptr_t)(wc->wr_id & 0xffffffffffffffull);
		a->kind = wc->status                 ? ARRIVAL_BROKEN
			: wc->wr_id >> 56 == WR_READ ? ARRIVAL_READ
						     : ARRIVAL_SENT;
		break;
	}
}

/* Does its buffer contain something still to be handled? */
static bool needs_buffer(const struct arrival *a)
{
	return a->kind == ARRIVAL_FRAME &&
		(a->f.kind == FRAME_FETCH || (a->f.kind == FRAME_MSG && a->f.size));
}

static void post_back(struct queue *q, unsigned int class, const uint32_t *index,
		      unsigned int count)
{
	if (count && dev_post_recvs(q->dev, class, index, count))
		log_line("RDMA: %s: cannot repost receive buffers", q->dev->name);
}

/* Give back, for each class at once, the buffers of n arrivals that consisted of their heads. */
static void verbs_queue_repost(struct queue *q, struct arrival *a, unsigned int n)
{
	uint32_t index[VERBS_BATCH_MAX];
	unsigned int i, class, count;

	for (class = 0; class < CLASS_MAX; class ++) {
		count = 0;
		for (i = 0; i < n; i++)
			if (a[i].recv >= 0 && a[i].class == class && !needs_buffer(&a[i])) {
				index[count++] = (uint32_t)a[i].recv;
				a[i].recv = -1;
			}
		post_back(q, class, index, count);
	}
}

/* Take up to max completions from the device into q->batch. Returns their number. */
static unsigned int take_batch(struct queue *q, unsigned int max)
{
	struct ibv_wc wc[VERBS_BATCH_MAX];
	int i, k = ibv_poll_cq(q->cq, (int)max, wc);

	if (k <= 0)
		return 0;
	for (i = 0; i < k; i++)
		verbs_queue_sort(q, &wc[i], &q->batch[i]);
	verbs_queue_repost(q, q->batch, (unsigned int)k);
	atomic_fetch_add_explicit(&q->completions, (unsigned int)k, memory_order_relaxed);
	cqgroup_count(q->group, (unsigned int)q->vector, 0, (unsigned int)k);
	return (unsigned int)k;
}

/*
 * Take a batch of up to max. *a is the first; the others go to the inbox, which is empty. False:
 * there is none.
 */
static bool receive(struct queue *q, struct arrival *a, unsigned int max)
{
	const unsigned int k = take_batch(q, 1 + arrivals_space(&q->inbox, max - 1));

	if (!k)
		return false;
	*a = q->batch[0];
	arrivals_put(&q->inbox, &q->batch[1], k - 1);
	return true;
}

static void count_lock(struct queue *q, bool found)
{
	atomic_fetch_add_explicit(&q->locks, 1, memory_order_relaxed);
	if (!found)
		atomic_fetch_add_explicit(&q->idle_locks, 1, memory_order_relaxed);
}

/* The next arrival. Only a thread that finds the inbox empty takes the lock, for a batch. */
static bool next_arrival(struct queue *q, struct arrival *a, unsigned int budget, bool wait)
{
	const unsigned int batch = q->net->set.batch;
	bool any;

	if (arrivals_take(&q->inbox, a))
		return true;
	if (wait)
		pthread_mutex_lock(&q->lock);
	else if (pthread_mutex_trylock(&q->lock))
		return false;
	any = arrivals_take(&q->inbox, a) || arrivals_unspill(&q->inbox, a) ||
		receive(q, a, budget < batch ? budget : batch);
	count_lock(q, any);
	pthread_mutex_unlock(&q->lock);
	return any;
}

/*
 * Take everything from the device, also completions without a place: the thread that would make
 * room may wait for this one.
 */
static bool drain(struct queue *q)
{
	int left = q->cq->cqe, k = 1;

	for (; left > 0 && k > 0; left -= k) {
		if (arrivals_reserve(&q->inbox, VERBS_BATCH_MAX))
			return false;
		k = (int)take_batch(q, VERBS_BATCH_MAX);
		arrivals_spill(&q->inbox, q->batch, (unsigned int)k);
	}
	return true;
}

/*
 * In the error state a queue pair receives nothing more, but its device may still be receiving a
 * message that it will acknowledge. (Ending the queue pair first would not help: some drivers then
 * drop its completions.)
 */
void queue_freeze(struct lane *l)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct queue *q = l->queue;
	bool whole;

	ibv_modify_qp(l->qp, &attr, IBV_QP_STATE);
	pthread_mutex_lock(&q->lock);
	whole = drain(q);
	pthread_mutex_unlock(&q->lock);
	usleep(FREEZE_US);
	pthread_mutex_lock(&q->lock);
	if (!drain(q) || !whole)
		conn_peer_lose(l->peer, -ENOMEM);
	l->rx_qpn = 0;
	pthread_mutex_unlock(&q->lock);
}

/* ---- delivering; under no lock --------------------------------------------------------------- */

static void verbs_deliver(struct net *n, const struct msg *m, const void *payload, size_t size)
{
	HOOK(deliver);
	verbs_count(&n->count.received, 1);
	verbs_count(&n->count.bytes_received, size);
	n->cfg.handler(n->cfg.arg, m, size ? payload : NULL, size);
}

static void deliver_from(struct peer *p, const struct msg *m, const void *payload, size_t size)
{
	if (verbs_peer_well(p) && !p->net->closing)
		verbs_deliver(p->net, m, payload, size);
}

static void bad(struct lane *l, const struct arrival *a)
{
	struct net *n = l->peer->net;

	verbs_count(&n->count.malformed, 1);
	if (verbs_peer_well(l->peer))
		log_line(
			"malformed frame of rank %d: kind %d, type %d, %u bytes behind it, number %u (status %d)",
			l->peer->rank, a->f.kind, a->m.type, a->f.size, a->f.seq, a->status);
	conn_peer_lose(l->peer, -EBADMSG);
}

static void send_free(struct lane *l, uint32_t id)
{
	struct out *o = mem_frame_get(l->dev, sizeof(struct frame));

	if (!o) {
		conn_peer_lose(l->peer, -ENOMEM);
		return;
	}
	*(struct frame *)o->data = (struct frame){
		.kind = FRAME_FREE, .class = l->class, .src = l->peer->net->cfg.rank, .id = id
	};
	pthread_mutex_lock(&l->lock);
	lane_put(l, o);
	pthread_mutex_unlock(&l->lock);
}

static void begin_fetch(struct lane *l, const struct arrival *a)
{
	struct fetch *f = own_zalloc(sizeof(*f));

	if (f)
		f->buf = buf_get(l->dev, a->f.size);
	if (!f || !f->buf) {
		own_free(f);
		conn_peer_lose(l->peer, -ENOMEM);
		return;
	}
	f->m = a->m;
	f->size = a->f.size;
	f->id = a->f.id;
	memcpy(&f->from, a->payload, sizeof(f->from));
	pthread_mutex_lock(&l->lock);
	if (l->state == LANE_DEAD) {
		buf_put(l->dev, f->buf);
		own_free(f);
	} else {
		*l->fetches_tail = f;
		l->fetches_tail = &f->next;
		lane_fetch(l);
	}
	pthread_mutex_unlock(&l->lock);
}

/* A read has completed. True: its payload is complete and was delivered. */
static bool end_fetch(struct lane *l, const struct arrival *a)
{
	struct fetch **at, *f = NULL;

	pthread_mutex_lock(&l->lock);
	if (l->qp && l->qp->qp_num == a->qpn) {
		l->reads--;
		for (at = &l->fetches; *at != a->fetch; at = &(*at)->next)
			;
		f = *at;
		if (++f->got < (l->peer->net->set.large ? 1 : (f->size + 4095) / 4096)) {
			f = NULL;
		} else {
			*at = f->next;
			if (!f->next)
				l->fetches_tail = at;
		}
		lane_fetch(l);
	}
	pthread_mutex_unlock(&l->lock);
	if (!f)
		return false;
	deliver_from(l->peer, &f->m, f->buf->at, f->size);
	buf_put(l->dev, f->buf);
	send_free(l, f->id);
	own_free(f);
	return true;
}

static void verbs_lane_take_back(struct lane *l, const struct arrival *a)
{
	struct buf **at, *b = NULL;

	pthread_mutex_lock(&l->lock);
	for (at = &l->lent; *at && (*at)->id != a->f.id; at = &(*at)->next)
		;
	b = *at;
	if (b) {
		*at = b->next;
		if (!b->next)
			l->lent_tail = at;
		l->lending -= b->size;
	}
	pthread_mutex_unlock(&l->lock);
	if (!b) {
		if (verbs_peer_well(l->peer))
			bad(l, a);
		return;
	}
	buf_put(l->dev, b);
	if (lane_lend_more(l) == -ENOMEM)
		conn_peer_lose(l->peer, -ENOMEM);
}

/* Returns how many messages were delivered. */
static unsigned int frame_in(struct lane *l, const struct arrival *a)
{
	struct net *n = l->peer->net;

	if (l->state == LANE_ANSWERED) { /* the first frame implies the RTU */
		pthread_mutex_lock(&l->lock);
		if (l->state == LANE_ANSWERED && l->qp && l->qp->qp_num == a->qpn)
			lane_ready(l, l->done);
		pthread_mutex_unlock(&l->lock);
	}
	if (a->f.kind == FRAME_FREE) {
		verbs_lane_take_back(l, a);
		return 0;
	}
	if (a->f.kind == FRAME_QUIT) {
		atomic_store(&l->peer->left, 1);
		return 0;
	}
	if (net_check(&n->cfg, &a->m, a->f.size) ||
	    a->m.src != net_node_of(&n->cfg, l->peer->rank) || wire_class(a->m.type) != l->class) {
		bad(l, a);
		return 0;
	}
	if (a->f.kind == FRAME_FETCH) {
		if (verbs_peer_well(l->peer) && !n->closing)
			begin_fetch(l, a);
		return 0;
	}
	deliver_from(l->peer, &a->m, a->payload, a->f.size);
	return bundle_count(&a->m);
}

/* The same. */
static unsigned int process(const struct arrival *a)
{
	struct lane *l = a->lane;

	switch ((enum arrival_kind)a->kind) {
	case ARRIVAL_FRAME: return frame_in(l, a);
	case ARRIVAL_READ: return end_fetch(l, a);
	case ARRIVAL_SENT:
		pthread_mutex_lock(&l->lock);
		if (l->qp && l->qp->qp_num == a->qpn) {
			lane_retire(l, a->f.seq);
			if (l->head)
				lane_flush(l);
		}
		pthread_mutex_unlock(&l->lock);
		return 0;
	case ARRIVAL_BROKEN:
		pthread_mutex_lock(&l->lock);
		if (l->qp && l->qp->qp_num == a->qpn)
			verbs_lane_broken(l);
		pthread_mutex_unlock(&l->lock);
		return 0;
	case ARRIVAL_BAD: bad(l, a); return 0;
	case ARRIVAL_NONE: break;
	}
	return 0;
}

int queue_serve(struct queue *q, unsigned int budget, bool wait, unsigned int *delivered)
{
	unsigned int n = 0, messages = 0;
	struct arrival a;

	for (; n < budget && messages < budget && next_arrival(q, &a, budget - n, wait); n++) {
		messages += process(&a);
		if (a.recv >= 0)
			post_back(q, a.class, &(uint32_t){ (uint32_t)a.recv }, 1);
	}
	*delivered += messages;
	if (atomic_load(&q->net->again))
		conn_serve(q->net, false);
	return (int)n;
}

/* ---- polling --------------------------------------------------------------------------------- */

static unsigned int deliver_pending(struct net *n)
{
	unsigned int done = 0;
	struct self *s;
	struct peer *p;

	for (;;) {
		pthread_mutex_lock(&n->leaf);
		p = n->lost;
		if (p)
			n->lost = p->next_lost;
		s = p ? NULL : n->self;
		if (s) {
			n->self = s->next;
			if (!n->self)
				n->self_tail = &n->self;
		}
		pthread_mutex_unlock(&n->leaf);
		if (!p && !s)
			return done;
		atomic_fetch_sub(&n->pending, 1);
		done++;
		if (s) {
			verbs_deliver(n, &s->m, s->data, s->size);
			own_free(s);
			continue;
		}
		if (n->cfg.lost && !n->closing && atomic_load(&p->state) == PEER_LOST)
			n->cfg.lost(n->cfg.arg, p->rank, p->err);
		pthread_mutex_lock(&n->leaf);
		p->next_lost = n->to_bury;
		n->to_bury = p;
		pthread_mutex_unlock(&n->leaf);
		atomic_store(&n->again, 1);
	}
}

int verbs_poll(struct net *n, unsigned int budget)
{
	unsigned int done = 0, d, i, want;

	for (d = 0; d < n->ndevs; d++)
		for (i = 0; i < n->devs[d].nqueues && done < budget; i++)
			do
				want = budget - done;
			while (queue_serve(&n->devs[d].queues[i], want, false, &done) ==
				       (int)want &&
			       done < budget);
	if (atomic_load(&n->pending))
		done += deliver_pending(n);
	if (atomic_load(&n->busy) || atomic_load(&n->again) ||
	    atomic_fetch_add(&n->polled, 1) % CONN_EVERY == 0)
		conn_serve(n, false);
	verbs_count(&n->count.polls, 1);
	if (!done)
		verbs_count(&n->count.empty_polls, 1);
	return (int)done;
}
