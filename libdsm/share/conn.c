// SPDX-License-Identifier: BSD-2-Clause
/* conn.c - the life of a connection, and its way out: from its ring to the scheduler, to the wire, to its completion. */
#include "share/conn.h"

#include <errno.h>
#include <string.h>

#include "rshare.h"
#include "share/check.h"
#include "share/mem.h"

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

static void forgive(struct rs_conn *c, enum rs_frame_kind kind)
{
	c->owes &= (uint16_t) ~(1u << kind);
}

int peer_loose(struct rs_peer *p, enum rs_frame_kind kind, uint32_t to, uint32_t total)
{
	if (p->nloose == p->loose_size) {
		const uint32_t n = 2 * p->loose_size;
		struct rs_loose *v = n <= RS_CONNS_MAX ? rs_zalloc(n, sizeof(*v)) : NULL;
		uint32_t i;

		if (!v)
			return n <= RS_CONNS_MAX ? -ENOMEM : -ENOBUFS;
		for (i = 0; i < p->nloose; i++)
			v[i] = p->loose[(p->loose_at + i) % p->loose_size];
		rs_free(p->loose);
		p->loose = v;
		p->loose_at = 0;
		p->loose_size = n;
	}
	p->loose[(p->loose_at + p->nloose++) % p->loose_size] = (struct rs_loose){ (uint8_t)kind, to, total };
	return 0;
}

/* ---- completions ---------------------------------------------------------------------------- */

void conn_event(struct rs_conn *c, uint32_t type, int status, uint64_t cookie, uint32_t len)
{
	const struct rs_cqe e = { .type = type, .status = status, .cookie = cookie, .len = len };

	/* An honest client has no more outstanding than the ring holds. */
	if (c->released ||
	    !rs_ring_put(rs_seg_cq(LAYOUT(c), c->seg), &c->cq, RS_CQ_FACTOR * LAYOUT(c)->depth, &e, sizeof(e)))
		return;
	if (c->fd >= 0 || c->joined)
		conn_untold(c);
}

static void complete_first(struct rs_conn *c, int status)
{
	const struct rs_sqe *e = &c->op[c->op_first++ % RS_FLOW_OPS];

	if (!status && e->op == RS_OP_SEND) {
		c->stats.messages_sent++;
		c->stats.bytes_sent += e->len;
	}
	conn_event(c, RSHARE_SENT, status, e->cookie, e->len);
}

/* ---- the end -------------------------------------------------------------------------------- */

/* Everything that is left in the rings, and the last event. Once more for what a late client adds. */
static void flush(struct rs_conn *c)
{
	const struct rs_layout *l = LAYOUT(c);
	const int status = c->status ? c->status : -EPIPE;
	struct rs_sqe s;
	struct rs_rqe r;
	uint32_t n;

	while (c->op_first != c->flow.end)
		complete_first(c, status);
	if (c->has_held)
		conn_event(c, RSHARE_SENT, status, c->held.cookie, c->held.len);
	c->has_held = false;
	for (n = 0; n < l->depth && rs_ring_take(rs_seg_sq(c->seg), &c->sq, l->depth, &s, sizeof(s)); n++)
		conn_event(c, RSHARE_SENT, status, s.cookie, s.len);
	if (c->rx_open)
		conn_event(c, RSHARE_RECEIVED, -ECANCELED, c->rx.cookie, 0);
	c->rx_open = false;
	for (n = 0; n < l->depth && rs_ring_take(rs_seg_rq(l, c->seg), &c->rq, l->depth, &r, sizeof(r)); n++)
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
	forgive(c, RS_FRAME_CREDIT);
	conn_progress(c);
}

void conn_forged(struct rs_conn *c, const char *what)
{
	c->client->hub->stats.forged++;
	conn_log(c, what);
	if (c->remote) /* else its answer is under way, and will find that the connection has ended */
		conn_owe(c, RS_FRAME_RESET);
	conn_end(c, -EBADMSG);
}

void conn_progress(struct rs_conn *c)
{
	if (c->flow.outstanding)
		return;
	if (c->state == RS_ENDED) {
		if (c->released && !c->on_owing)
			conn_destroy(c);
		else if (!c->released)
			flush(c);
		return;
	}
	if (c->state == RS_CLOSING && !c->closed_sent && c->op_first == c->flow.end && !c->has_held &&
	    !rs_ring_filled(rs_seg_sq(c->seg), c->sq, LAYOUT(c)->depth, sizeof(struct rs_sqe)) && c->remote) {
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

uint32_t rs_peer_tick(struct rs_peer *p, uint32_t seconds)
{
	struct rs_conn *c, *next;
	uint32_t n = 0;

	for (c = p->conns; c && p->ready; c = next) {
		next = c->next;
		if (!c->unanswered || c->owes & 1u << RS_FRAME_OPEN || ++c->waited < seconds)
			continue;
		conn_end(c, -ETIMEDOUT);
		n++;
	}
	return n;
}

int rs_conn_listen(struct rs_client *client, uint32_t service, struct rs_conn **out)
{
	struct rs_conn *c;
	int err;

	for (c = client->hub->listeners; c; c = c->next)
		if (c->service == service && c->state == RS_LISTENING)
			return -EADDRINUSE;
	err = conn_create(client, NULL, &c);
	if (err)
		return err;
	c->state = RS_LISTENING;
	c->service = service;
	*out = c;
	return 0;
}

int rs_conn_connect(struct rs_client *client, struct rs_peer *p, uint32_t service, uint8_t priority, uint8_t weight,
		    struct rs_conn **out)
{
	struct rs_conn *c;
	int err = conn_create(client, p, &c);

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

void rs_conn_close(struct rs_conn *c)
{
	if (c->state == RS_LISTENING)
		conn_end(c, 0); /* what nobody has accepted is still in its ring */
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
		conn_destroy(c);
		return;
	}
	if (c->state != RS_ENDED) {
		/* Before the peer has answered there is no id to reset; the answer will find nobody, and be told so. */
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

/* The next operation, from the ring or held back earlier. */
static bool next_op(struct rs_conn *c)
{
	if (c->has_held)
		return true;
	if (!rs_ring_take(rs_seg_sq(c->seg), &c->sq, LAYOUT(c)->depth, &c->held, sizeof(c->held)))
		return false;
	c->has_held = true;
	return true;
}

void conn_load(struct rs_conn *c)
{
	if ((c->state != RS_OPEN && c->state != RS_CLOSING) || !c->peer || !c->remote)
		return;
	while (c->flow.end - c->op_first < RS_FLOW_OPS && next_op(c)) {
		const struct rs_sqe *e = &c->held;

		if (!rs_op_ok(e, LAYOUT(c)->pool_bytes)) {
			conn_forged(c, "a submission that rshare_send() and its like do not make; reset");
			return;
		}
		if (e->op == RS_OP_SEND && c->tx_started == c->tx_granted) {
			c->stats.stalls += !c->stalled;
			c->stalled = true;
			return;
		}
		c->tx_started += e->op == RS_OP_SEND;
		c->stalled = false;
		c->op[c->flow.end % RS_FLOW_OPS] = *e;
		c->has_held = false;
		/* What has no header may use its place: as many packets. */
		rs_sched_push_longer(&c->peer->sched, &c->flow, e->len,
				     e->op == RS_OP_SEND ? 0 : sizeof(struct rs_frame));
	}
}

void conn_grant(struct rs_conn *c)
{
	if (c->rq_seen != c->rx_told && c->remote &&
	    (c->rx_told == c->rq || c->rq_seen - c->rx_told >= (LAYOUT(c)->depth + 1) / 2))
		conn_owe(c, RS_FRAME_CREDIT);
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

/* ---- to the wire ---------------------------------------------------------------------------- */

struct batch {
	struct rs_post post[RS_LANES][RS_BATCH];
	unsigned int n[RS_LANES];
};

static void add(struct rs_peer *p, struct batch *b, enum rs_lane lane, const struct rs_post *post, struct rs_conn *c,
		bool last)
{
	struct rs_sent *s = rs_fifo_add(&p->lane[lane], post);

	s->conn = c;
	s->last = last;
	b->post[lane][b->n[lane]++] = s->post;
}

static void add_frame(struct rs_peer *p, struct batch *b, const struct rs_frame *f)
{
	add(p, b, RS_STRICT, &(struct rs_post){ .op = RS_OP_SEND, .frame = *f }, NULL, true);
	p->ctl++;
}

static void fill_owed(struct rs_conn *c, enum rs_frame_kind kind, struct rs_frame *f)
{
	*f = (struct rs_frame){ .version = RS_FRAME_VERSION, .kind = (uint8_t)kind };
	f->to = c->remote;
	f->from = c->id;
	f->credit = c->rx_told = c->rq_seen;
	if (kind == RS_FRAME_OPEN) {
		f->seq = c->service;
		f->total = c->flow.priority | (uint32_t)c->flow.weight << 8;
	}
	if (kind == RS_FRAME_CLOSE)
		f->seq = c->tx_seq;
}

/* In this order: a connection opens before it grants, and is reset last. */
static const uint8_t order[] = { RS_FRAME_OPEN,  RS_FRAME_OPENED, RS_FRAME_CREDIT,
				 RS_FRAME_CLOSE, RS_FRAME_CLOSED, RS_FRAME_RESET };

static bool ctl_room(const struct rs_peer *p, const struct batch *b)
{
	return p->ctl < RS_CTL_SLOTS && b->n[RS_STRICT] < RS_BATCH;
}

static void pump_owed(struct rs_peer *p, struct batch *b)
{
	struct rs_frame f;
	unsigned int i;

	for (; p->nloose && ctl_room(p, b); p->nloose--) {
		const struct rs_loose *l = &p->loose[p->loose_at++ % p->loose_size];

		p->loose_at %= p->loose_size;
		f = (struct rs_frame){ .version = RS_FRAME_VERSION, .kind = l->kind, .to = l->to, .total = l->total };
		add_frame(p, b, &f);
	}
	while (p->owing && ctl_room(p, b)) {
		struct rs_conn *c = p->owing;

		for (i = 0; i < sizeof(order) && ctl_room(p, b); i++)
			if (c->owes & 1u << order[i]) {
				fill_owed(c, (enum rs_frame_kind)order[i], &f);
				forgive(c, (enum rs_frame_kind)order[i]);
				add_frame(p, b, &f);
			}
		if (c->owes)
			break;
		p->owing = c->next_owing;
		if (!p->owing)
			p->owing_end = &p->owing;
		c->on_owing = false;
		conn_progress(c);
	}
}

static void add_chunk(struct rs_peer *p, struct batch *b, const struct rs_chunk *k)
{
	struct rs_conn *c = (struct rs_conn *)k->flow;
	const struct rs_sqe *e = &c->op[k->op % RS_FLOW_OPS];
	struct rs_post post = { .op = e->op,
				.data = c->client->base + LAYOUT(c)->pool_offset + e->offset + k->offset,
				.len = k->len,
				.lkey = c->client->lkey,
				.rkey = e->rkey,
				.remote = e->remote + k->offset };

	c->client->outstanding++;
	c->stats.chunks_sent++;
	if (e->op == RS_OP_SEND) {
		fill_owed(c, RS_FRAME_DATA, &post.frame);
		forgive(c, RS_FRAME_CREDIT);
		post.frame.seq = c->tx_seq++;
		post.frame.total = e->len;
		post.frame.offset = k->offset;
		post.frame.len = k->len;
	}
	add(p, b, (enum rs_lane)k->lane, &post, c, k->last);
}

unsigned int rs_peer_pump(struct rs_peer *p)
{
	struct rs_chunk chunk[RS_BATCH];
	unsigned int i, n, room, all = 0;
	struct batch b;

	if (!p->ready)
		return 0;
	do {
		b.n[RS_STRICT] = b.n[RS_WEIGHTED] = 0;
		pump_owed(p, &b);
		room = RS_BATCH - b.n[RS_STRICT];
		n = rs_sched_pick(&p->sched, chunk, room);
		for (i = 0; i < n; i++)
			add_chunk(p, &b, &chunk[i]);
		for (i = 0; i < RS_LANES; i++)
			if (b.n[i]) {
				p->hub->wire->post(p, (enum rs_lane)i, b.post[i], b.n[i]);
				p->hub->stats.chains++;
			}
		for (i = 0; i < n; i++)
			conn_load((struct rs_conn *)chunk[i].flow);
		n = b.n[RS_STRICT] + b.n[RS_WEIGHTED];
		all += n;
	} while (n);
	p->hub->stats.posts += all;
	return all;
}

bool rs_peer_busy(const struct rs_peer *p)
{
	unsigned int i;

	for (i = 0; i < RS_LANES; i++)
		if (p->lane[i].head != p->lane[i].tail)
			return true;
	return false;
}

void rs_peer_sent(struct rs_peer *p, enum rs_lane lane, unsigned int n)
{
	const struct rs_sent *s;

	while ((s = rs_fifo_pop(&p->lane[lane], &n))) {
		struct rs_conn *c = s->conn;

		if (!c) {
			p->ctl--;
			continue;
		}
		c->client->outstanding--;
		rs_sched_done(&p->sched, &c->flow, lane, s->post.len);
		if (s->last)
			complete_first(c, 0);
		conn_load(c);
		conn_progress(c);
	}
}

/* ---- after a repair ------------------------------------------------------------------------- */

void rs_peer_stop(struct rs_peer *p)
{
	p->ready = false;
}

int rs_peer_arrived(struct rs_peer *p, const uint32_t received[RS_LANES])
{
	unsigned int i, n = 0;

	for (i = 0; i < RS_LANES; i++) {
		n -= p->lane[i].head;
		if (rs_fifo_arrived(&p->lane[i], received[i]))
			return -EBADMSG;
		rs_peer_sent(p, (enum rs_lane)i, 0);
		n += p->lane[i].head;
	}
	return (int)n;
}

static void post_again(struct rs_peer *p, enum rs_lane lane)
{
	struct rs_post post[RS_BATCH];
	const struct rs_sent *s;
	uint32_t at = p->lane[lane].head;
	unsigned int n;

	do {
		for (n = 0; n < RS_BATCH && (s = rs_fifo_next(&p->lane[lane], &at)); n++, at++)
			post[n] = s->post;
		if (n)
			p->hub->wire->post(p, lane, post, n);
		p->hub->stats.resent += n;
	} while (n);
}

void rs_peer_resume(struct rs_peer *p)
{
	unsigned int i;

	p->ready = true;
	for (i = 0; i < RS_LANES; i++)
		post_again(p, (enum rs_lane)i);
}
