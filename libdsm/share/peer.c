// SPDX-License-Identifier: BSD-2-Clause
/*
 * peer.c - a peer node: due frames and chunks are posted, completed and repaired. The owner's
 * thread only.
 */
#include "share/peer.h"

#include <errno.h>

#include "rshare.h"
#include "share/conn.h"
#include "share/mem.h"

#define LAYOUT(c) (&(c)->client->layout)
#define LOOSE 64 /* answers that fit even when there is no memory */

/* ---- its life ------------------------------------------------------------------------------- */

int rs_peer_init(struct rs_peer *p, struct rs_hub *h, uint32_t chunk,
		 const uint32_t window[RS_LANES], uint32_t slots)
{
	const uint32_t slots_of[RS_LANES] = { slots, slots };
	unsigned int i;

	p->hub = h;
	p->owing_end = &p->owing;
	p->granting_end = &p->granting;
	p->loose = rs_zalloc(LOOSE, sizeof(*p->loose));
	if (!p->loose)
		return -ENOMEM;
	p->loose_size = LOOSE;
	rs_sched_init(&p->sched, chunk, window, slots_of);
	for (i = 0; i < RS_LANES; i++) {
		/* RS_CTL_SLOTS in addition to the scheduler's */
		if (rs_fifo_init(&p->lane[i], 2 * slots))
			goto undo;
	}
	return 0;
undo:
	while (i--)
		rs_fifo_exit(&p->lane[i]);
	rs_free(p->loose);
	return -ENOMEM;
}

void rs_peer_ready(struct rs_peer *p, uint32_t chunk)
{
	struct rs_conn *c;

	p->chunk = p->sched.chunk = chunk;
	p->ready = true;
	for (c = p->conns; c; c = c->next)
		conn_load(c);
}

/* Take the wire's entries back; none of them will complete. */
static void forget_sent(struct rs_peer *p, enum rs_lane lane)
{
	unsigned int all = UINT32_MAX;
	const struct rs_sent *s;

	while ((s = rs_fifo_pop(&p->lane[lane], &all))) {
		if (!s->conn)
			continue;
		s->conn->client->outstanding--;
		rs_sched_done(&p->sched, &s->conn->flow, lane, s->post.len);
	}
}

void rs_peer_lost(struct rs_peer *p, int status)
{
	struct rs_conn *c, *next;
	unsigned int i;

	p->ready = false;
	for (i = 0; i < RS_LANES; i++)
		forget_sent(p, (enum rs_lane)i);
	/* Due frames have no receiver any more. */
	while ((c = p->owing)) {
		p->owing = c->next_owing;
		c->on_owing = false;
		c->owes = 0;
	}
	p->owing_end = &p->owing;
	while ((c = p->granting)) {
		p->granting = c->next_granting;
		c->on_granting = false;
	}
	p->granting_end = &p->granting;
	for (c = p->conns; c; c = next) {
		next = c->next;
		c->owes = 0;
		conn_end(c, status);
		hub_conn_unlink(c); /* the record outlives the peer, until its client releases it */
		c->peer = NULL;
		conn_progress(c);
	}
	for (i = 0; i < RS_LANES; i++)
		rs_fifo_exit(&p->lane[i]);
	rs_free(p->loose);
	*p = (struct rs_peer){ .hub = p->hub, .link = p->link };
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

/* ---- frames of no connection ---------------------------------------------------------------- */

int rs_peer_loose(struct rs_peer *p, enum rs_frame_kind kind, uint32_t to, uint32_t total)
{
	const struct rs_frame f = { .kind = (uint8_t)kind, .to = to, .total = total };

	return rs_peer_reply(p, &f);
}

int rs_peer_reply(struct rs_peer *p, const struct rs_frame *f)
{
	if (p->nloose == p->loose_size) {
		const uint32_t n = 2 * p->loose_size;
		struct rs_frame *v = n <= RS_CONNS_MAX ? rs_zalloc(n, sizeof(*v)) : NULL;
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
	p->loose[(p->loose_at + p->nloose++) % p->loose_size] = *f;
	return 0;
}

/* ---- to the wire ---------------------------------------------------------------------------- */

struct batch {
	struct rs_post post[RS_LANES][RS_BATCH];
	unsigned int n[RS_LANES];
	bool longs; /* of the weighted lane some are long */
};

static void batch_begin(struct batch *b)
{
	b->n[RS_STRICT] = b->n[RS_WEIGHTED] = 0;
	b->longs = false;
}

static void batch_post(struct rs_peer *p, const struct batch *b)
{
	const struct rs_wire *wire = p->hub->wire;
	unsigned int i;

	for (i = 0; i < RS_LANES; i++) {
		if (!b->n[i])
			continue;
		p->hub->stats.chains++;
		p->hub->stats.posts += b->n[i];
		if (i == RS_WEIGHTED && b->longs && wire->post_long)
			wire->post_long(p, b->post[i], b->n[i]);
		else
			wire->post(p, (enum rs_lane)i, b->post[i], b->n[i]);
	}
}

static void batch_add(struct rs_peer *p, struct batch *b, enum rs_lane lane,
		      const struct rs_post *post, struct rs_conn *c, bool last)
{
	struct rs_sent *s = rs_fifo_add(&p->lane[lane], post);

	s->conn = c;
	s->last = last;
	b->post[lane][b->n[lane]++] = s->post;
}

static void add_frame(struct rs_peer *p, struct batch *b, const struct rs_frame *f)
{
	batch_add(p, b, RS_STRICT, &(struct rs_post){ .op = RS_OP_SEND, .frame = *f }, NULL, true);
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

/* In this order: a connection is opened first, and reset last. */
static const uint8_t order[] = { RS_FRAME_OPEN, RS_FRAME_OPENED, RS_FRAME_CLOSE, RS_FRAME_CLOSED,
				 RS_FRAME_RESET };

static bool ctl_room(const struct rs_peer *p, const struct batch *b)
{
	return p->ctl < RS_CTL_SLOTS && b->n[RS_STRICT] < RS_BATCH;
}

static void add_owed(struct rs_peer *p, struct batch *b, struct rs_conn *c, enum rs_frame_kind kind)
{
	struct rs_frame f;

	fill_owed(c, kind, &f);
	conn_forgive(c, kind);
	add_frame(p, b, &f);
}

static void pump_owed(struct rs_peer *p, struct batch *b)
{
	struct rs_frame f;
	unsigned int i;

	for (; p->nloose && ctl_room(p, b); p->nloose--) {
		f = p->loose[p->loose_at++ % p->loose_size];
		p->loose_at %= p->loose_size;
		f.version = RS_FRAME_VERSION;
		add_frame(p, b, &f);
	}
	while (p->owing && ctl_room(p, b)) {
		struct rs_conn *c = p->owing;

		for (i = 0; i < sizeof(order) && ctl_room(p, b); i++)
			if (c->owes & 1u << order[i])
				add_owed(p, b, c, (enum rs_frame_kind)order[i]);
		if (c->owes & ~(1u << RS_FRAME_CREDIT))
			break;
		p->owing = c->next_owing;
		if (!p->owing)
			p->owing_end = &p->owing;
		c->on_owing = false;
		conn_progress(c);
	}
}

static void pump_credits(struct rs_peer *p, struct batch *b)
{
	while (p->granting && ctl_room(p, b)) {
		struct rs_conn *c = p->granting;

		if (c->owes & 1u << RS_FRAME_CREDIT)
			add_owed(p, b, c, RS_FRAME_CREDIT);
		p->granting = c->next_granting;
		if (!p->granting)
			p->granting_end = &p->granting;
		c->on_granting = false;
		conn_progress(c);
	}
}

static enum rs_frame_kind frame_kind_of(const struct rs_sqe *e, bool first)
{
	switch (e->op) {
	case RS_OP_SEND: return first ? RS_FRAME_FIRST : RS_FRAME_DATA;
	case RS_OP_TELL: return RS_FRAME_WRITTEN;
	default: return RS_FRAME_ATOMIC;
	}
}

/* The header of a chunk, or of the frame that follows a write with immediate data. */
static void fill_data(struct rs_conn *c, const struct rs_sqe *e, const struct rs_chunk *k,
		      struct rs_frame *f)
{
	const bool first = !k->offset && e->flags & RSHARE_IMMEDIATE;

	fill_owed(c, frame_kind_of(e, first), f);
	conn_forgive(c, RS_FRAME_CREDIT);
	f->seq = c->tx_seq++;
	f->total = f->kind == RS_FRAME_ATOMIC ? k->len : e->len;
	f->offset = first ? e->immediate : k->offset;
	f->len = k->len;
}

/* The memory of a chunk. */
static void post_spans(const struct rs_work *w, const char *pool, const struct rs_chunk *k,
		       struct rs_post *post)
{
	const struct rs_piece whole = { .offset = w->e.offset, .len = w->e.len };
	const struct rs_piece *v = w->e.pieces ? w->piece : &whole;
	uint64_t skip = k->offset;
	uint32_t left = k->len, len;

	if (post->copied && left) {
		post->span[post->spans++] = (struct rs_span){ w->data + skip, left };
		return;
	}
	for (; left; v++) { /* together they have the operation's length: rs_pieces_ok() */
		if (skip >= v->len) {
			skip -= v->len;
			continue;
		}
		len = v->len - skip < left ? (uint32_t)(v->len - skip) : left;
		post->span[post->spans++] = (struct rs_span){ pool + v->offset + skip, len };
		left -= len;
		skip = 0;
	}
}

static void add_chunk(struct rs_peer *p, struct batch *b, const struct rs_chunk *k)
{
	struct rs_conn *c = (struct rs_conn *)k->flow;
	struct rs_work *w = &c->op[k->op % RS_FLOW_OPS];
	const struct rs_sqe *e = &w->e;
	const bool copied = e->flags & RSHARE_INLINE || e->op >= RS_OP_FETCH_ADD;
	struct rs_post post = { .op = e->op,
				.copied = copied,
				.len = k->len,
				.lkey = c->client->lkey,
				.rkey = e->rkey,
				.remote = e->remote + k->offset };

	post_spans(w, c->client->base + LAYOUT(c)->pool_offset, k, &post);
	c->client->outstanding++;
	c->stats.chunks_sent++;
	if (e->op != RS_OP_WRITE && e->op != RS_OP_READ) {
		fill_data(c, e, k, &post.frame);
		w->seq = post.frame.seq;
		post.op = RS_OP_SEND;
	}
	batch_add(p, b, (enum rs_lane)k->lane, &post, c, k->last);
	b->longs |= k->lane == RS_WEIGHTED && k->len > p->chunk / 2;
}

unsigned int rs_peer_pump(struct rs_peer *p)
{
	struct rs_chunk chunk[RS_BATCH];
	unsigned int i, n, room, all = 0;
	const bool late = p->late;
	struct batch b;

	if (!p->ready)
		return 0;
	do {
		batch_begin(&b);
		pump_owed(p, &b);
		room = RS_BATCH - b.n[RS_STRICT];
		if (room && late && p->granting)
			room--; /* data that never ends must not keep the credits */
		n = rs_sched_pick(&p->sched, chunk, room);
		for (i = 0; i < n; i++)
			add_chunk(p, &b, &chunk[i]);
		if (late)
			pump_credits(p, &b);
		/* Before the posts: during a long one, connections may end. */
		for (i = 0; i < n; i++)
			conn_load((struct rs_conn *)chunk[i].flow);
		batch_post(p, &b);
		n = b.n[RS_STRICT] + b.n[RS_WEIGHTED];
		all += n;
	} while (n && !p->sched.alert);
	p->late = p->granting;
	return all;
}

unsigned int rs_peer_pump_strict(struct rs_peer *p)
{
	struct rs_chunk chunk;
	struct rs_flow *f;
	struct batch b;

	batch_begin(&b);
	while (p->ready && b.n[RS_STRICT] < RS_BATCH && (f = rs_sched_next(&p->sched)) &&
	       rs_flow_lane(f) == RS_STRICT) {
		rs_sched_take(&p->sched, f, &chunk);
		add_chunk(p, &b, &chunk);
		conn_load((struct rs_conn *)f);
	}
	batch_post(p, &b);
	return b.n[RS_STRICT];
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
			conn_acknowledged(c);
		conn_load(c);
		conn_progress(c);
	}
}

bool rs_peer_refused(struct rs_peer *p, enum rs_lane lane, unsigned int before)
{
	const struct rs_sent *s;
	struct rs_conn *c;
	uint32_t at;

	rs_peer_sent(p, lane, before);
	at = p->lane[lane].head;
	s = rs_fifo_next(&p->lane[lane], &at);
	if (!s || s->post.op == RS_OP_SEND)
		return false;
	c = s->conn;
	rs_fifo_forsake(&p->lane[lane], c);
	conn_refused(c);
	rs_peer_sent(p, lane, 0);
	return true;
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
