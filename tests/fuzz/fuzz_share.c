// SPDX-License-Identifier: BSD-2-Clause
/*
 * fuzz_share.c - the scheduler of shared queue pairs, the headers that a peer sends, and the
 * messages of a repair: libFuzzer target.
 *
 * The first byte selects the kind of input. For the scheduler, each pair of bytes is a call with
 * arguments: all lengths, windows and orders of completion are tried, and the chunks are compared
 * with the operations. For repairs, the bytes are posts, completions, arriving numbers, claims and
 * messages, in any order. For structs, the input is a valid struct in which some fields have values
 * at the edges of their rules: it must be accepted if and only if all its fields obey them.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"

#include "../share_values.h"
#include "share/check.h"
#include "share/fifo.h"
#include "share/frame.h"
#include "share/repair.h"
#include "share/schedule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FLOWS 5
#define OUT 512

struct world {
	struct rs_sched sched;
	struct rs_flow flow[FLOWS];
	uint64_t given[FLOWS], taken[FLOWS]; /* bytes */
	uint32_t op[FLOWS], at[FLOWS];
	uint8_t extra[FLOWS][RS_FLOW_OPS];
	struct rs_chunk out[OUT];
	unsigned int nout;
};

static void check_chunk(struct world *w, const struct rs_chunk *c)
{
	const size_t i = (size_t)(c->flow - w->flow);

	must(i < FLOWS && c->op == w->op[i] && c->offset == w->at[i]);
	must(c->len <= w->sched.chunk + w->extra[i][c->op % RS_FLOW_OPS]);
	must(c->lane == rs_flow_lane(c->flow));
	w->at[i] = c->last ? 0 : c->offset + c->len;
	w->op[i] += c->last;
	w->taken[i] += c->len;
	w->out[w->nout++] = *c;
}

static void pick(struct world *w, unsigned int max)
{
	struct rs_chunk c[8];
	const bool alert = w->sched.alert;
	const unsigned int n = OUT - w->nout >= 8 ? rs_sched_pick(&w->sched, c, max) : 0;

	must(n <= max);
	for (unsigned int i = 0; i < n; i++) {
		must(!alert || n == 1 || c[i].len <= w->sched.chunk / 2);
		check_chunk(w, &c[i]);
	}
	for (unsigned int l = 0; l < RS_LANES; l++) {
		const struct rs_window *win = &w->sched.lane[l];

		must(win->chunks <= win->max_chunks);
		must(win->bytes <= win->max_bytes || win->chunks == 1);
	}
}

static void done(struct world *w, unsigned int which)
{
	struct rs_chunk c;

	if (!w->nout)
		return;
	which %= w->nout;
	c = w->out[which];
	memmove(&w->out[which], &w->out[which + 1], (--w->nout - which) * sizeof(c));
	rs_sched_done(&w->sched, c.flow, c.lane, c.len);
}

static void call(struct world *w, uint8_t what, uint8_t arg)
{
	struct rs_flow *f = &w->flow[arg % FLOWS];
	const size_t i = arg % FLOWS;

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		if (!rs_sched_push_longer(&w->sched, f, what * 8u, what % 8))
			break;
		w->given[i] += what * 8u;
		w->extra[i][(f->end - 1) % RS_FLOW_OPS] = what % 8;
		break;
	case 3:
	case 4: pick(w, 1 + arg % 8); break;
	case 5: done(w, arg); break;
	case 6:
		rs_sched_set(&w->sched, f, what / 8 % RS_PRIORITIES,
			     (uint8_t)(1 + arg % RS_WEIGHT_MAX));
		break;
	case 7:
		if (arg < 128)
			break;
		rs_sched_drop(&w->sched, f);
		w->op[i] = f->end;
		w->at[i] = 0;
		w->given[i] = w->taken[i];
		break;
	}
}

static void schedule(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	unsigned int i;

	must(w);
	rs_sched_init(&w->sched, 8 + data[0] * 2u,
		      (const uint32_t[]){ data[1] * 16u, data[2] * 16u },
		      (const uint32_t[]){ 1 + data[3] % 32, 1 + data[3] / 8 });
	for (i = 0; i < FLOWS; i++)
		rs_flow_init(&w->flow[i], (uint8_t)(i * 2 % RS_PRIORITIES), (uint8_t)(1 + i));
	for (data += 4, size -= 4; size >= 2; data += 2, size -= 2)
		call(w, data[0], data[1]);
	/* In the end all that was given is handed out. */
	while (w->nout || rs_sched_backlog(&w->sched)) {
		const unsigned int before = w->nout;

		pick(w, 8);
		must(w->nout || before);
		while (w->nout)
			done(w, 0);
	}
	for (i = 0; i < FLOWS; i++)
		must(w->taken[i] == w->given[i] && !w->flow[i].outstanding && !w->flow[i].moving);
	free(w);
}

static void parse(const uint8_t *data, size_t size)
{
	const uint32_t chunk = 64; /* the least */
	struct rs_frame f;
	void *exact = malloc(size ? size : 1);

	must(exact);
	memcpy(exact, data, size);
	if (!rs_frame_parse(exact, (uint32_t)size, chunk, &f)) {
		must(f.kind && f.kind < RS_FRAME_KINDS && f.len == size - sizeof(f) &&
		     f.len <= chunk);
		must(f.kind != RS_FRAME_DATA ||
		     ((uint64_t)f.offset + f.len <= f.total && f.total <= RS_MESSAGE_MAX));
		must(f.kind != RS_FRAME_FIRST || (f.len <= f.total && f.total <= RS_MESSAGE_MAX));
		must(f.kind == RS_FRAME_DATA || f.kind == RS_FRAME_FIRST ||
		     f.kind == RS_FRAME_ATOMIC || !f.len);
		must(f.kind == RS_FRAME_OPEN ? !f.to && f.from : f.to);
	}
	free(exact);
}

/* ---- repairs --------------------------------------------------------------------------------- */

#define POSTS 16

struct lane {
	struct rs_fifo fifo;
	struct rs_sent slot[POSTS];
	uint32_t next, posted; /* the post to complete, and the one to add */
	struct rs_repair repair;
};

static void post(struct lane *l, uint8_t op)
{
	const struct rs_post p = { .op = (uint8_t)(RS_OP_SEND + op % 3), .len = l->posted };

	if (l->fifo.tail - l->fifo.head == POSTS)
		return;
	must(rs_fifo_add(&l->fifo, &p)->post.len == l->posted++);
}

static void complete(struct lane *l, unsigned int n)
{
	const struct rs_sent *s;

	while ((s = rs_fifo_pop(&l->fifo, &n)))
		must(s->post.len == l->next++);
}

/*
 * Whatever is claimed: sends go again in their order, the last of them last, and as many as the
 * claim leaves.
 */
static void claim(struct lane *l, uint32_t received)
{
	const uint32_t missing = l->fifo.numbered - received;
	uint32_t sends = 0, at = l->fifo.head;
	const struct rs_sent *s;

	if (rs_fifo_arrived(&l->fifo, received))
		return;
	must(missing <= POSTS);
	for (; (s = rs_fifo_next(&l->fifo, &at)); at++)
		if (s->post.op == RS_OP_SEND)
			must(s->post.frame.number == (uint16_t)(received + ++sends));
	must(sends == missing);
}

static void take(struct lane *l, uint16_t number)
{
	const uint32_t before = l->fifo.received;
	const int err = rs_fifo_take(&l->fifo, number);

	must(err ? l->fifo.received == before
		 : l->fifo.received == before + 1 && (uint16_t)(before + 1) == number);
}

static void hear(struct lane *l, uint8_t kind, uint8_t epoch)
{
	const struct rs_repair before = l->repair;
	const struct rs_repair_message m =
		share_repair_message(kind % 4, l->repair.epoch + epoch % 4 - 1);
	const int actions = rs_repair_hear(&l->repair, &m);

	must(actions >= 0 || (l->repair.state == before.state && l->repair.epoch == before.epoch));
	must(l->repair.state < RS_REPAIR_STATES);
	must(actions < 0 || !(actions & RS_DO_RESUME) || before.state == RS_CONNECTED);
	if (l->repair.state == RS_AGREED || l->repair.state == RS_AWAITED)
		must(kind & 64 || rs_repair_step(&l->repair, RS_CONNECTS) > 0);
}

static void repair(const uint8_t *data, size_t size)
{
	struct lane *l = calloc(1, sizeof(*l));

	must(l);
	l->fifo = (struct rs_fifo){ .sent = l->slot,
				    .size = POSTS,
				    .numbered = UINT32_MAX - data[0] % 8u };
	l->fifo.received = l->fifo.numbered;
	for (data++, size--; size >= 2; data += 2, size -= 2)
		switch (data[0] % 6) {
		case 0:
		case 1: post(l, data[1]); break;
		case 2: complete(l, data[1] % 4); break;
		case 3: claim(l, l->fifo.numbered + 2 - data[1] % 32u); break;
		case 4: take(l, (uint16_t)(l->fifo.received + data[1] % 4u)); break;
		case 5: hear(l, data[0] / 4, data[1]); break;
		}
	complete(l, POSTS);
	must(l->next == l->posted);
	free(l);
}

static void message(const uint8_t *data, size_t size)
{
	struct rs_repair r = { .state = data[0] % RS_REPAIR_STATES };
	struct rs_repair_message m;

	if (size < sizeof(m))
		return;
	memcpy(&m, data, sizeof(m));
	if (rs_repair_hear(&r, &m) >= 0)
		must(m.magic == RS_REPAIR_MAGIC && m.epoch <= 1);
}

/* ---- values ---------------------------------------------------------------------------------- */

#define CHUNK 16u
#define CONNS 64u

/* All that a struct is held against; what it says itself of total and len. */
static struct rs_limits limits(uint32_t total, uint32_t len, uint32_t behind)
{
	return (struct rs_limits){ .key = 7,
				   .pool = 1 << 20,
				   .layout = rs_layout(CONNS, 8, 1 << 20),
				   .behind = behind,
				   .chunk = CHUNK,
				   .total = total,
				   .len = len,
				   .conns = CONNS,
				   .pieces = RS_PIECES_MAX - 1,
				   .epoch = 1 };
}

static bool holds(const struct rs_limits *x, enum rs_shape shape, const void *at)
{
	return rule_all_hold(&share_table, x, shape, at);
}

static void frame_of_values(const void *at, uint32_t behind)
{
	char *exact = malloc(sizeof(struct rs_frame) + behind);
	struct rs_frame f, out;
	struct rs_limits x;
	bool any = false;
	unsigned int s;

	must(exact);
	memcpy(&f, at, sizeof(f));
	memcpy(exact, &f, sizeof(f));
	memset(exact + sizeof(f), 0, behind);
	x = limits(f.total, 0, behind);
	for (s = behind ? RS_SHAPE_DATA : RS_SHAPE_EMPTY;
	     s <= (behind ? RS_SHAPE_ATOMIC : RS_SHAPE_UNKNOWN); s++)
		any |= holds(&x, (enum rs_shape)s, &f);
	must(any == !rs_frame_parse(exact, (uint32_t)sizeof(f) + behind, CHUNK, &out));
	free(exact);
}

static void entry_of_values(enum rs_shape shape, const void *at)
{
	const struct rs_sqe *s = at;
	const struct rs_rqe *r = at;
	const struct rs_piece *p = at;
	const struct rs_limits x = limits(0,
					  shape == RS_SHAPE_RECEIVE         ? r->len
						  : shape == RS_SHAPE_PIECE ? (uint32_t)p->len
									    : s->len,
					  0);
	const struct rs_sqe both = { .len = x.len, .pieces = 1 };

	if (shape == RS_SHAPE_RECEIVE)
		must(rs_receive_ok(r, x.pool) == holds(&x, shape, r));
	else if (shape <= RS_SHAPE_COMPARE_SWAP)
		must(rs_op_ok(s, x.pool, x.pieces) ==
		     (holds(&x, RS_SHAPE_SEND, s) || holds(&x, RS_SHAPE_WRITE, s) ||
		      holds(&x, RS_SHAPE_READ, s) || holds(&x, RS_SHAPE_SEND_INLINE, s) ||
		      holds(&x, RS_SHAPE_WRITE_INLINE, s) || holds(&x, RS_SHAPE_SEND_PIECES, s) ||
		      holds(&x, RS_SHAPE_WRITE_PIECES, s) || holds(&x, RS_SHAPE_READ_PIECES, s) ||
		      holds(&x, RS_SHAPE_FETCH_ADD, s) || holds(&x, RS_SHAPE_COMPARE_SWAP, s)));
	else if (shape == RS_SHAPE_PIECE)
		must(rs_pieces_ok(&both, p, x.pool) == holds(&x, shape, p));
	else
		must(rs_event_ok(at, CONNS) ==
		     (holds(&x, RS_SHAPE_EVENT, at) || holds(&x, RS_SHAPE_ACCEPT, at)));
}

static void owner_of_values(enum rs_shape shape, const void *at, const struct rs_address *a)
{
	const struct rs_limits x = limits(0, 0, 0);
	struct rs_repair r = { .state = shape == RS_SHAPE_REPAIR_READY ? RS_CONNECTED : RS_WHOLE };
	struct rs_repair_message m;
	struct rs_hello h;
	int err;

	if (shape == RS_SHAPE_REPAIR_ASK || shape == RS_SHAPE_REPAIR_READY) {
		memcpy(&m, at, offsetof(struct rs_repair_message, address));
		m.address = *a;
		r.epoch = shape == RS_SHAPE_REPAIR_READY;
		must((rs_repair_hear(&r, &m) >= 0) ==
		     (holds(&x, shape, &m) &&
		      holds(&x, shape == RS_SHAPE_REPAIR_ASK ? RS_SHAPE_QPS : RS_SHAPE_NONE, a)));
		return;
	}
	memcpy(&h, at, offsetof(struct rs_hello, address));
	h.address = *a;
	must(!rs_hello_asks(&h, x.key) ==
	     (holds(&x, RS_SHAPE_HELLO, &h) && holds(&x, RS_SHAPE_QPS, a)));
	err = rs_hello_answers(&h, x.key);
	must(!err == !rs_hello_asks(&h, x.key));
	must(err == h.status || err == -EPROTO || err == -EACCES);
}

static void process_of_values(enum rs_shape shape, const void *at)
{
	const struct rs_limits x = limits(0, 0, 0);
	const struct rs_request list = { .type = RS_LISTEN };
	struct rs_request q = { .type = 0 };
	struct rs_answer a = { .status = 0 };
	bool any = false;
	unsigned int s;
	int err;

	if (shape <= RS_SHAPE_ASK_INFO) {
		memcpy(&q, at, offsetof(struct rs_request, node));
		for (s = RS_SHAPE_ASK_LISTEN; s <= RS_SHAPE_ASK_INFO; s++)
			any |= holds(&x, (enum rs_shape)s, &q);
		must(!rs_request_check(&q, 0) == holds(&x, RS_SHAPE_ASK_ATTACH, &q));
		must(!rs_request_check(&q, CONNS) == any);
		return;
	}
	memcpy(&a, at, offsetof(struct rs_answer, layout));
	err = rs_answer_check(&list, &a, CONNS);
	must(!err == holds(&x, RS_SHAPE_DONE, &a));
	must(!err || err == -EPROTO || (err == a.status && holds(&x, RS_SHAPE_FAILED, &a)));
}

static void values(const uint8_t *data, size_t size)
{
	const unsigned int shape = data[0] % RS_SHAPE_COUNT;
	const uint32_t behind = shape == RS_SHAPE_ATOMIC ? 31u + data[1] % 3
		: shape < RS_SHAPE_ATOMIC                ? 1 + data[1] % (CHUNK + 4)
							 : 0;
	const struct rs_limits x = limits(100, 50, behind);
	union {
		uint64_t align;
		char bytes[512];
	} at;
	struct rs_address a;
	size_t used;

	data += 2;
	size -= 2;
	memset(&at, 0, sizeof(at));
	used = rule_choose(&share_table, &x, shape, &at, data, size);
	rule_choose(&share_table, &x, RS_SHAPE_QPS + used % 3, &a, data + used, size - used);
	if (shape <= RS_SHAPE_UNKNOWN)
		frame_of_values(&at, behind);
	else if (shape <= RS_SHAPE_SWAP)
		must(rs_atomic_ok((void *)&at) ==
		     (holds(&x, RS_SHAPE_ADD, &at) || holds(&x, RS_SHAPE_SWAP, &at)));
	else if (shape <= RS_SHAPE_ACCEPT)
		entry_of_values((enum rs_shape)shape, &at);
	else if (shape <= RS_SHAPE_REPAIR_READY)
		owner_of_values((enum rs_shape)shape, &at, &a);
	else if (shape >= RS_SHAPE_ASK_ATTACH && shape <= RS_SHAPE_FAILED &&
		 shape != RS_SHAPE_ATTACHED)
		process_of_values((enum rs_shape)shape, &at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const what[])(const uint8_t *, size_t) = { parse, schedule, repair, message,
								 values };

	if (size >= 5)
		what[data[0] % 5](data + 1, size - 1);
	return 0;
}
