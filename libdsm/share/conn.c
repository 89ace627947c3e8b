// SPDX-License-Identifier: BSD-2-Clause
/*
 * conn.c - the life of a connection, and its operations: from its ring to the scheduler, and their
 * completions.
 */
#include "share/conn.h"

#include <errno.h>
#include <string.h>

#include "rshare.h"
#include "share/check.h"

#define LAYOUT(c) (&(c)->client->layout)

/* ---- frames that are owed ------------------------------------------------------------------- */

void conn_owe(struct rs_conn *c, enum rs_frame_kind kind)
{
	struct rs_peer *p = c->peer;

	if (!p)
		return;
	c->owes |= (uint16_t)(1u << kind);
	if (c->on_owing)
		return;
	c->on_owing = true;
	c->next_owing = NULL;
	*p->owing_end = c;
	p->owing_end = &c->next_owing;
}

void conn_owe_credit(struct rs_conn *c)
{
	struct rs_peer *p = c->peer;

	if (!p)
		return;
	c->owes |= 1u << RS_FRAME_CREDIT;
	if (c->on_granting)
		return;
	c->on_granting = true;
	c->next_granting = NULL;
	*p->granting_end = c;
	p->granting_end = &c->next_granting;
}

/* ---- completions ---------------------------------------------------------------------------- */

void conn_report(struct rs_conn *c, const struct rs_cqe *e)
{
	/* An honest client has no more operations outstanding than the ring holds. */
	if (c->released ||
	    !rs_ring_put(rs_seg_cq(LAYOUT(c), c->seg), &c->cq, RS_CQ_FACTOR * LAYOUT(c)->depth, e,
			 sizeof(*e)))
		return;
	if (c->fd >= 0 || c->joined)
		hub_conn_unnotified(c);
}

void conn_event(struct rs_conn *c, uint32_t type, int status, uint64_t cookie, uint32_t len)
{
	const struct rs_cqe e = { .type = type, .status = status, .cookie = cookie, .len = len };

	conn_report(c, &e);
}

static bool op_is_atomic(const struct rs_sqe *e)
{
	return e->op == RS_OP_FETCH_ADD || e->op == RS_OP_COMPARE_SWAP;
}

/* Does it bring something from the peer? */
static bool op_fetches(const struct rs_sqe *e)
{
	return e->op == RS_OP_READ || op_is_atomic(e);
}

static void op_count(struct rs_conn_stats *s, const struct rs_sqe *e)
{
	switch (e->op) {
	case RS_OP_SEND:
		s->messages_sent++;
		s->bytes_sent += e->len;
		break;
	case RS_OP_WRITE:
	case RS_OP_TELL:
		s->writes++;
		s->bytes_written += e->len;
		break;
	case RS_OP_READ:
		s->reads++;
		s->bytes_read += e->len;
		break;
	default: s->atomics++;
	}
}

uint32_t conn_pending(const struct rs_conn *c)
{
	uint32_t n = c->has_held, i;

	for (i = c->op_first; i != c->flow.end; i++)
		n += !(c->op[i % RS_FLOW_OPS].e.flags & RS_OP_SILENT);
	return n;
}

/* Complete the oldest operation. status: 0, or its error. */
static void conn_complete(struct rs_conn *c, int status)
{
	const struct rs_sqe *e = &c->op[c->op_first++ % RS_FLOW_OPS].e;

	c->reads -= op_fetches(e);
	if (e->flags & RS_OP_SILENT)
		return;
	if (!status)
		op_count(&c->stats, e);
	/* Pairs with the load in client_quiet_collect(). */
	if (!status && e->flags & RSHARE_UNSIGNALLED)
		__atomic_store_n(&c->seg->quiet, ++c->quiet, __ATOMIC_RELEASE);
	else
		conn_event(c, RSHARE_SENT, status, e->cookie, e->len);
}

void conn_retire(struct rs_conn *c)
{
	while (c->op_first != c->op_posted && c->op[c->op_first % RS_FLOW_OPS].answered)
		conn_complete(c, 0);
}

void conn_acknowledged(struct rs_conn *c)
{
	c->op_posted++;
	conn_retire(c);
}

struct rs_work *conn_atomic_answered(struct rs_conn *c, uint32_t seq)
{
	struct rs_work *w;
	uint32_t n;

	for (n = c->op_first; n != c->flow.first; n++) { /* those that were posted */
		w = &c->op[n % RS_FLOW_OPS];
		if (w->answered || w->seq != seq)
			continue;
		w->answered = true;
		return w;
	}
	return NULL;
}

/* ---- the ring ------------------------------------------------------------------------------- */

static void work_take_pieces(struct rs_conn *c, struct rs_work *w)
{
	struct rs_pieces v;
	unsigned int i;

	w->whole = rs_ring_take(rs_seg_sq(c->seg), &c->sq, LAYOUT(c)->depth, &v, sizeof(v));
	for (i = 0; w->whole && i < RS_PIECES_MAX; i++)
		w->piece[i] = (struct rs_piece){ .offset = v.offset[i], .len = v.len[i] };
}

/* Take an operation from the ring, with all its entries. */
static bool work_take(struct rs_conn *c, struct rs_work *w)
{
	void *ring = rs_seg_sq(c->seg);
	struct rs_rest rest;

	if (!rs_ring_take(ring, &c->sq, LAYOUT(c)->depth, &w->e, sizeof(w->e)))
		return false;
	w->whole = true;
	if (w->e.pieces) {
		work_take_pieces(c, w);
		return true;
	}
	if (!(w->e.flags & RSHARE_INLINE))
		return true;
	memcpy(w->data, w->e.data, sizeof(w->e.data));
	if (w->e.len <= RS_INLINE_FIRST)
		return true;
	w->whole = rs_ring_take(ring, &c->sq, LAYOUT(c)->depth, &rest, sizeof(rest));
	if (w->whole)
		memcpy(w->data + RS_INLINE_FIRST, rest.data, sizeof(rest.data));
	return true;
}

static bool work_ok(const struct rs_conn *c, const struct rs_work *w)
{
	const uint64_t pool = LAYOUT(c)->pool_bytes;

	return w->whole && rs_op_ok(&w->e, pool, c->client->hub->pieces) &&
		rs_pieces_ok(&w->e, w->piece, pool);
}

/* ---- the end -------------------------------------------------------------------------------- */

/*
 * Fail everything left in the rings, and report the end. Repeated for operations that a late client
 * adds.
 */
static void conn_flush(struct rs_conn *c)
{
	const struct rs_layout *l = LAYOUT(c);
	const int status = c->status ? c->status : -EPIPE;
	struct rs_work w;
	struct rs_rqe r;
	uint32_t n;

	while (c->op_first != c->flow.end)
		conn_complete(c, status);
	if (c->has_held)
		conn_event(c, RSHARE_SENT, status, c->held.e.cookie, c->held.e.len);
	c->has_held = false;
	for (n = 0; n < l->depth && work_take(c, &w); n++)
		conn_event(c, RSHARE_SENT, status, w.e.cookie, w.e.len);
	if (c->rx_open)
		conn_event(c, RSHARE_RECEIVED, -ECANCELED, c->rx.cookie, 0);
	c->rx_open = false;
	for (n = 0;
	     n < l->depth && rs_ring_take(rs_seg_rq(l, c->seg), &c->rq, l->depth, &r, sizeof(r));
	     n++)
		conn_event(c, RSHARE_RECEIVED, -ECANCELED, r.cookie, 0);
	if (!c->flushed)
		conn_event(c, RSHARE_CLOSED, c->status, 0, 0);
	c->flushed = true;
}

void conn_end(struct rs_conn *c, int status)
{
	if (c->state == RS_ENDED)
		return;
	c->state = RS_ENDED;
	c->status = status;
	conn_answered(c);
	if (c->peer)
		rs_sched_drop(&c->peer->sched, &c->flow);
	conn_forgive(c, RS_FRAME_CREDIT);
	conn_progress(c);
}

void conn_forged(struct rs_conn *c, const char *what)
{
	c->client->hub->stats.forged++;
	hub_conn_log(c, what);
	/* otherwise the answer is in flight, and will find that the connection has ended */
	if (c->remote)
		conn_owe(c, RS_FRAME_RESET);
	conn_end(c, -EBADMSG);
}

void conn_refused(struct rs_conn *c)
{
	if (c->state == RS_ENDED)
		return;
	hub_conn_log(c, "the peer refuses the key or the range of an operation; reset");
	conn_owe(c, RS_FRAME_RESET);
	conn_end(c, -EKEYREJECTED);
}

void conn_progress(struct rs_conn *c)
{
	if (c->flow.outstanding)
		return;
	if (c->state == RS_ENDED) {
		if (c->released && !c->on_owing && !c->on_granting)
			hub_conn_destroy(c);
		else if (!c->released)
			conn_flush(c);
		return;
	}
	if (c->state == RS_CLOSING && !c->closed_sent && c->op_first == c->flow.end &&
	    !c->has_held &&
	    !rs_ring_filled(rs_seg_sq(c->seg), c->sq, LAYOUT(c)->depth, sizeof(struct rs_sqe)) &&
	    c->remote) {
		c->closed_sent = true;
		conn_owe(c, RS_FRAME_CLOSE);
	}
}

/* ---- opening and closing -------------------------------------------------------------------- */

void conn_answered(struct rs_conn *c)
{
	if (c->unanswered)
		c->peer->unanswered--;
	c->unanswered = false;
}

int rs_conn_listen(struct rs_client *client, uint32_t service, struct rs_conn **out)
{
	struct rs_conn *c;
	int err;

	for (c = client->hub->listeners; c; c = c->next)
		if (c->service == service && c->state == RS_LISTENING)
			return -EADDRINUSE;
	err = hub_conn_create(client, NULL, &c);
	if (err)
		return err;
	c->state = RS_LISTENING;
	c->service = service;
	*out = c;
	return 0;
}

int rs_conn_connect(struct rs_client *client, struct rs_peer *p, uint32_t service, uint8_t priority,
		    uint8_t weight, struct rs_conn **out)
{
	struct rs_conn *c;
	int err = hub_conn_create(client, p, &c);

	if (err)
		return err;
	rs_flow_init(&c->flow, priority, weight);
	c->state = RS_OPENING;
	c->service = service;
	c->unanswered = true;
	p->unanswered++;
	conn_owe(c, RS_FRAME_OPEN);
	*out = c;
	return 0;
}

void rs_conn_priority(struct rs_conn *c, uint8_t priority, uint8_t weight)
{
	if (c->peer && c->state != RS_ENDED)
		rs_sched_set(&c->peer->sched, &c->flow, priority, weight);
}

void rs_conn_join(struct rs_conn *c)
{
	c->joined = true;
	hub_conn_unnotified(c);
}

void rs_conn_close(struct rs_conn *c)
{
	if (c->state == RS_LISTENING)
		conn_end(c, 0); /* connections that nobody has accepted are still in its ring */
	if (c->state != RS_OPENING && c->state != RS_OPEN)
		return;
	c->state = RS_CLOSING;
	rs_conn_kick(c);
}

void rs_conn_release(struct rs_conn *c)
{
	if (c->released)
		return;
	c->released = true;
	if (c->state == RS_LISTENING) {
		hub_conn_destroy(c);
		return;
	}
	if (c->state != RS_ENDED) {
		/*
		 * Before the peer has answered there is no id to reset; its answer will find no
		 * connection, and it is told so.
		 */
		if (c->owes & 1u << RS_FRAME_OPEN)
			c->owes = 0;
		else if (c->remote)
			conn_owe(c, RS_FRAME_RESET);
		conn_end(c, -ECONNRESET);
		return;
	}
	conn_progress(c);
}

/* ---- from the ring to the scheduler --------------------------------------------------------- */

/* The next operation, from the ring or deferred earlier. */
static bool next_op(struct rs_conn *c)
{
	if (c->has_held)
		return true;
	c->has_held = work_take(c, &c->held);
	return c->has_held;
}

static bool op_tells(const struct rs_sqe *e)
{
	return e->op == RS_OP_WRITE && e->flags & RSHARE_IMMEDIATE;
}

/* Does it take a receive of the peer? */
static bool op_takes(const struct rs_sqe *e)
{
	return e->op == RS_OP_SEND || op_tells(e);
}

/* Operations that the scheduler takes from the connection. */
static uint32_t conn_room(const struct rs_conn *c)
{
	return RS_FLOW_OPS - (c->flow.end - c->op_first);
}

/* Must the deferred operation wait? A completion or a credit calls conn_load() again. */
static bool held_waits(struct rs_conn *c)
{
	const struct rs_sqe *e = &c->held.e;

	if (e->flags & RSHARE_FENCE && c->reads) {
		c->stats.fences += !c->fenced;
		c->fenced = true;
		return true;
	}
	if (op_tells(e) && conn_room(c) < 2)
		return true;
	if (!op_takes(e) || c->tx_started != c->tx_granted)
		return false;
	c->stats.stalls += !c->stalled;
	c->stalled = true;
	return true;
}

/* len: bytes for the scheduler. */
static void op_push(struct rs_conn *c, const struct rs_work *w, uint32_t len)
{
	const bool framed = w->e.op != RS_OP_WRITE && w->e.op != RS_OP_READ;

	c->reads += op_fetches(&w->e);
	c->op[c->flow.end % RS_FLOW_OPS] = *w;
	/* An operation without a header may use its space, for the same number of packets. */
	rs_sched_push_longer(&c->peer->sched, &c->flow, len, framed ? 0 : sizeof(struct rs_frame));
}

static void atomic_push(struct rs_conn *c, struct rs_work *w)
{
	const struct rs_atomic a = { .address = w->e.remote,
				     .operand = w->e.operand,
				     .compare = w->e.compare,
				     .rkey = w->e.rkey,
				     .op = w->e.op };

	memcpy(w->data, &a, sizeof(a));
	op_push(c, w, sizeof(a));
}

static void held_start(struct rs_conn *c)
{
	struct rs_work *w = &c->held;

	c->has_held = false;
	c->tx_started += op_takes(&w->e);
	c->stalled = c->fenced = false;
	w->answered = !op_is_atomic(&w->e);
	if (!w->answered) {
		atomic_push(c, w);
		return;
	}
	if (!op_tells(&w->e)) {
		op_push(c, w, w->e.len);
		return;
	}
	/* The frame follows the write on its queue pair, which executes in order. */
	w->e.flags |= RS_OP_SILENT;
	op_push(c, w, w->e.len);
	w->e.flags &= (uint8_t)~RS_OP_SILENT;
	w->e.op = RS_OP_TELL;
	op_push(c, w, 0);
}

void conn_load(struct rs_conn *c)
{
	if ((c->state != RS_OPEN && c->state != RS_CLOSING) || !c->peer || !c->remote)
		return;
	while (conn_room(c) && next_op(c)) {
		if (!work_ok(c, &c->held)) {
			conn_forged(c, "a submission that rshare_post() does not make; reset");
			return;
		}
		if (held_waits(c))
			return;
		held_start(c);
	}
}

void conn_grant(struct rs_conn *c)
{
	if (c->rq_seen != c->rx_told && c->remote &&
	    (c->rx_told == c->rq || c->rq_seen - c->rx_told >= (LAYOUT(c)->depth + 1) / 2))
		conn_owe_credit(c);
}

static void see_receives(struct rs_conn *c)
{
	const struct rs_layout *l = LAYOUT(c);

	while (c->rq_seen - c->rq < l->depth &&
	       rs_ring_filled(rs_seg_rq(l, c->seg), c->rq_seen, l->depth, sizeof(struct rs_rqe)))
		c->rq_seen++;
	conn_grant(c);
}

void rs_conn_kick(struct rs_conn *c)
{
	if (c->state == RS_LISTENING || c->released)
		return;
	if (c->state != RS_ENDED) {
		see_receives(c);
		conn_load(c);
	}
	conn_progress(c);
}
