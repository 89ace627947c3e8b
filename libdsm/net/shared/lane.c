// SPDX-License-Identifier: BSD-2-Clause
/*
 * lane.c - outgoing messages. A message gets memory of the pool and is submitted to its lane's
 * connection. It is kept until its completion or, if the peer reads the payload, until the peer has
 * confirmed that. Under the lane's lock.
 */
#include "net/shared/lane.h"

#include <errno.h>
#include <string.h>

#include "net/shared/conns.h"
#include "net/shared/receive.h"
#include "util/hook.h"
#include "util/log.h"

/* ---- what is kept --------------------------------------------------------------------------- */

static void shared_out_put(struct net *n, struct out *o)
{
	if (--o->users)
		return;
	rshare_put(n->r, o->pool);
	own_free(o);
}

static void drop_backlog(struct lane *l)
{
	struct out *o;

	while ((o = l->head)) {
		l->head = o->next;
		rshare_put(l->peer->net->r, o->pool);
		own_free(o);
	}
	l->tail = &l->head;
	atomic_store(&l->backlog, 0);
}

static void shared_lane_end(struct lane *l)
{
	atomic_store(&l->state, LANE_DEAD);
	drop_backlog(l);
}

/* ---- submitting ----------------------------------------------------------------------------- */

/* The frame, and behind it the payload. */
static bool give_memory(struct lane *l, struct out *o)
{
	struct net *n = l->peer->net;

	if (o->pool)
		return true;
	o->pool = rshare_get(n->r, sizeof(o->f) + o->f.size);
	if (!o->pool)
		return false;
	memcpy(o->pool + sizeof(o->f), o->data, o->f.size);
	return true;
}

static int shared_lane_lend(struct lane *l, struct out *o)
{
	int err = rshare_export(l->peer->net->r, o->pool + sizeof(o->f), o->f.size, &o->f.from);

	o->f.id = l->id + 1;
	return err;
}

/* -EAGAIN: not now. */
static int shared_lane_submit(struct lane *l, struct out *o)
{
	const struct rshare_remote *to = &l->peer->landing;
	const uint32_t entries = o->f.kind == SHARED_LAND ? 2 : 1;
	size_t bytes = sizeof(o->f);
	int err = 0;

	if (l->end - l->first + entries > DEPTH ||
	    (o->f.kind == SHARED_FETCH && l->nlent == LENT_MAX))
		return -EAGAIN;
	if (!give_memory(l, o)) {
		atomic_store(&l->peer->net->starved, true);
		return -EAGAIN;
	}
	if (o->f.kind == SHARED_FETCH)
		err = shared_lane_lend(l, o);
	else if (o->f.kind == SHARED_MSG)
		bytes += o->f.size;
	memcpy(o->pool, &o->f, sizeof(o->f));
	if (!err && o->f.kind == SHARED_LAND) {
		err = rshare_write(l->conn, o->pool + sizeof(o->f), o->f.size, to,
				   (uint64_t)o->f.m.req_slot * SHARED_LANDING, 0);
		if (!err)
			l->ring[l->end++ % DEPTH] = NULL;
	}
	if (!err)
		err = rshare_send(l->conn, o->pool, bytes, 0);
	if (err)
		return err;
	l->ring[l->end++ % DEPTH] = o;
	if (o->f.kind == SHARED_FETCH) {
		l->id++;
		l->nlent++;
		o->users++;
		o->next = NULL;
		*l->lent_tail = o;
		l->lent_tail = &o->next;
	}
	return 0;
}

static void shared_lane_flush(struct lane *l)
{
	struct out *o;
	int err;

	while ((o = l->head) && l->state == LANE_OPEN) {
		struct out *const rest = o->next;

		err = shared_lane_submit(l, o);
		if (err == -EAGAIN)
			break;
		if (err) {
			/* of the owner; the loss of a connection is an event */
			if (err == -ECONNRESET)
				atomic_store(&l->peer->net->dead, true);
			else
				peer_gone(l->peer, -EPIPE);
			shared_lane_end(l);
			return;
		}
		l->head = rest;
		if (!rest)
			l->tail = &l->head;
		atomic_fetch_sub(&l->backlog, 1);
	}
	if (l->state == LANE_OPEN && !l->watched && (l->head || l->lent))
		conns_want(l);
}

/* ---- completions ---------------------------------------------------------------------------- */

static void released(struct lane *l, uint64_t id)
{
	struct out *o;

	while ((o = l->lent) && o->f.id <= id) {
		l->lent = o->next;
		if (!l->lent)
			l->lent_tail = &l->lent;
		l->nlent--;
		shared_out_put(l->peer->net, o);
	}
}

static void on_release(struct lane *l, const struct rshare_event *e)
{
	const struct shared_place p = { .cfg = &l->peer->net->cfg,
					.peer = l->peer->rank,
					.lane = l->kind,
					.lent = l->lent ? l->lent->f.id : l->id + 1,
					.fetches = l->id,
					.bytes = e->status ? 0 : e->size };
	struct shared_frame f;
	char *at;

	if (e->cookie >= RELEASES || e->status == -ECANCELED)
		return;
	at = l->releases + e->cookie * sizeof(f);
	memcpy(&f, at, sizeof(f));
	if (shared_release_ok(&p, &f)) {
		released(l, f.id);
	} else {
		shared_count(&l->peer->net->count.malformed, 1);
		if (shared_peer_well(l->peer))
			log_line("rank %d gives back what was not lent", l->peer->rank);
		peer_gone(l->peer, -EBADMSG);
	}
	if (rshare_recv(l->conn, at, sizeof(f), e->cookie))
		return; /* the peer is closing */
}

static void shared_lane_on_event(struct lane *l, const struct rshare_event *e)
{
	struct out *o;

	switch (e->type) {
	case RSHARE_SENT:
		o = l->first != l->end ? l->ring[l->first++ % DEPTH] : NULL;
		if (o)
			shared_out_put(l->peer->net, o);
		break;
	case RSHARE_RECEIVED: on_release(l, e); break;
	case RSHARE_CLOSED:
		shared_lane_end(l);
		if (!e->status)
			atomic_store(&l->peer->left, true);
		else if (!atomic_load(&l->peer->left))
			peer_gone(l->peer, -EPIPE);
		break;
	default: break;
	}
}

static void shared_lane_serve(struct lane *l, bool arm)
{
	struct rshare_event e[16];
	int i, k;

	if (!l->conn)
		return;
	do {
		k = arm ? rshare_poll(l->conn, e, 16) : rshare_poll_again(l->conn, e, 16);
		for (i = 0; i < k; i++)
			shared_lane_on_event(l, &e[i]);
	} while (k > 0);
	if (k < 0)
		atomic_store(&l->peer->net->dead, true);
	shared_lane_flush(l);
}

void lane_serve(struct lane *l, bool arm)
{
	pthread_mutex_lock(&l->lock);
	shared_lane_serve(l, arm);
	pthread_mutex_unlock(&l->lock);
}

/* ---- its life ------------------------------------------------------------------------------- */

void lane_opened(struct lane *l, struct rshare_conn *conn)
{
	pthread_mutex_lock(&l->lock);
	l->conn = conn;
	atomic_store(&l->state, LANE_OPEN);
	shared_count(&l->peer->net->sent[l->kind].connections, 1);
	shared_lane_flush(l);
	pthread_mutex_unlock(&l->lock);
}

void lane_fail(struct lane *l, int err)
{
	pthread_mutex_lock(&l->lock);
	shared_lane_end(l);
	pthread_mutex_unlock(&l->lock);
	peer_gone(l->peer, err);
}

bool lane_idle(struct lane *l)
{
	bool idle;

	pthread_mutex_lock(&l->lock);
	shared_lane_serve(l, false);
	idle = l->state == LANE_DEAD || (!l->head && !l->lent);
	pthread_mutex_unlock(&l->lock);
	return idle;
}

/* The connection is gone, and with it the reader of everything submitted. */
void lane_free(struct lane *l)
{
	struct out *o;

	for (; l->first != l->end; l->first++)
		if ((o = l->ring[l->first % DEPTH]))
			shared_out_put(l->peer->net, o);
	released(l, UINT64_MAX);
	shared_lane_end(l);
	pthread_mutex_destroy(&l->lock);
}

/* ---- sending -------------------------------------------------------------------------------- */

static int shared_send_self(struct net *n, const struct msg *m, const void *payload, size_t size)
{
	struct item *it = own_alloc(sizeof(*it) + size, 0);

	if (!it)
		return -ENOMEM;
	*it = (struct item){
		.m = *m, .payload = it + 1, .size = size, .rank = n->cfg.rank, .self = true
	};
	if (size)
		memcpy(it + 1, payload, size);
	inbox_put(n, it);
	return 0;
}

/*
 * Does the payload go straight to its request? Each of the receiver's slots has at most one block
 * in flight.
 */
static bool shared_can_land(const struct peer *p, const struct msg *m, size_t size)
{
	return m->type == MSG_DATA && size && size <= SHARED_LANDING &&
		m->req_node == net_node_of(&p->net->cfg, p->rank) && m->req_slot < p->nslots;
}

static struct out *shared_out_make(struct lane *l, const struct msg *m, const void *payload,
				   size_t size)
{
	struct net *n = l->peer->net;
	const bool land = shared_can_land(l->peer, m, size);
	const uint8_t kind = land                  ? SHARED_LAND
		: size <= lane_kinds[l->kind].room ? SHARED_MSG
						   : SHARED_FETCH;
	/* Copy straight to where the device takes it, if it is likely to be submitted at once. */
	const bool now = atomic_load(&l->state) == LANE_OPEN && !atomic_load(&l->backlog) &&
		kind != SHARED_FETCH;
	char *pool = now ? rshare_get(n->r, sizeof(struct shared_frame) + size) : NULL;
	struct out *o = own_alloc(sizeof(*o) + (pool ? 0 : size), 0);

	if (!o) {
		rshare_put(n->r, pool);
		return NULL;
	}
	*o = (struct out){ .pool = pool, .users = 1 };
	o->f = (struct shared_frame){
		.kind = kind, .lane = l->kind, .src = n->cfg.rank, .size = (uint32_t)size, .m = *m
	};
	if (size)
		memcpy(pool ? pool + sizeof(o->f) : o->data, payload, size);
	return o;
}

/* Messages need no order (net.h), so those about one block may take different lanes. */
static enum lane_kind shared_lane_kind(const struct net_config *c, const struct msg *m)
{
	switch (wire_class(m->type)) {
	case CLASS_COHERENCE: return KIND_COHERENCE;
	case CLASS_SYNC: return KIND_SYNC;
	case CLASS_DATA:
		return (enum lane_kind)(KIND_DATA +
					(c->priority ? c->priority(c->arg, m) : NET_NORMAL));
	default: return KIND_BULK;
	}
}

static int send_peer(struct peer *p, const struct msg *m, const void *payload, size_t size)
{
	const enum lane_kind kind = shared_lane_kind(&p->net->cfg, m);
	struct lane *l = &p->lanes[kind];
	struct out *o;

	if (atomic_load(&p->state) == PEER_NONE)
		return -ENOTCONN;
	if (!shared_peer_well(p))
		return -EPIPE;
	/*
	 * The peer has closed: that is no loss, and it would not receive this. If the owner is
	 * lost, a rank of this host is.
	 */
	if (atomic_load(&p->left) || atomic_load(&p->net->dead))
		return 0;
	o = shared_out_make(l, m, payload, size);
	if (!o)
		return -ENOMEM;
	pthread_mutex_lock(&l->lock);
	*l->tail = o;
	l->tail = &o->next;
	atomic_fetch_add(&l->backlog, 1);
	if (l->state == LANE_IDLE) {
		atomic_store(&l->state, LANE_WANTED);
		conns_want(l);
	} else if (l->state == LANE_DEAD) {
		drop_backlog(l);
	} else if (l->head == o && l->end - l->first < DEPTH - 1) {
		shared_lane_flush(l);
	} else {
		shared_lane_serve(l, false);
	}
	pthread_mutex_unlock(&l->lock);
	shared_count(&p->net->sent[kind].messages, 1);
	shared_count(&p->net->sent[kind].bytes, size);
	return 0;
}

int shared_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size)
{
	int err;

	HOOK(send);
	err = net_check_send(&n->cfg, rank, m, size);
	if (!err)
		err = rank == n->cfg.rank ? shared_send_self(n, m, payload, size)
					  : send_peer(&n->peers[rank], m, payload, size);
	if (err)
		return err;
	shared_count(&n->count.sent, 1);
	shared_count(&n->count.bytes_sent, size);
	shared_count(&n->count.by_class[wire_class(m->type)], 1);
	return 0;
}
