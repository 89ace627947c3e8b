// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_rules.c - libdsm/share: the rules of the messages between peers, and of the rings and
 * requests between processes and their owner, field by field.
 */
#include "rule_walk.h"

#include <errno.h>
#include <string.h>

#include "../share_values.h"
#include "share/check.h"

#define KEY 0x6b6b6b6b6b6b6b6bull
#define POOL (1u << 20)
#define CONNS 64u
#define SHIFT 3u
#define BEHIND 16u
#define CHUNK 20u
#define TOTAL 100u
#define LEN 50u
#define EPOCH 5u
#define PIECES 4u /* fewer than RS_PIECES_MAX */

static struct rs_limits lim = { .key = KEY,
				.pool = POOL,
				.behind = BEHIND,
				.chunk = CHUNK,
				.total = TOTAL,
				.len = LEN,
				.conns = CONNS,
				.pieces = PIECES,
				.epoch = EPOCH };

static bool is(uint64_t v, uint64_t lo, uint64_t hi)
{
	return v >= lo && v <= hi;
}

/* The rules that allow a single value, a number. */
static const uint64_t only[RS_RULE_COUNT] = {
	[RS_RULE_VERSION] = 4,
	[RS_RULE_IS_DATA] = 1,
	[RS_RULE_IS_CREDIT] = 2,
	[RS_RULE_IS_OPEN] = 3,
	[RS_RULE_IS_OPENED] = 4,
	[RS_RULE_IS_REFUSED] = 5,
	[RS_RULE_IS_CLOSE] = 6,
	[RS_RULE_IS_CLOSED] = 7,
	[RS_RULE_IS_RESET] = 8,
	[RS_RULE_IS_FIRST] = 9,
	[RS_RULE_IS_WRITTEN] = 10,
	[RS_RULE_IS_ATOMIC] = 11,
	[RS_RULE_IS_RESULT] = 12,
	[RS_RULE_ATOMIC_TOTAL] = 32,
	[RS_RULE_ATOMIC_LEN] = 32,
	[RS_RULE_SENDS] = 1,
	[RS_RULE_WRITES] = 2,
	[RS_RULE_READS] = 3,
	[RS_RULE_ADDS] = 4,
	[RS_RULE_SWAPS] = 5,
	[RS_RULE_WORD] = 8,
	[RS_RULE_ACCEPT] = 100,
	[RS_RULE_HELLO_MAGIC] = 0x31525352,
	[RS_RULE_REPAIR_MAGIC] = 0x50525352,
	[RS_RULE_ASKS] = 1,
	[RS_RULE_TELLS] = 2,
	[RS_RULE_IS_ATTACH] = 1,
	[RS_RULE_IS_LISTEN] = 2,
	[RS_RULE_IS_CONNECT] = 3,
	[RS_RULE_IS_PRIORITY] = 4,
	[RS_RULE_IS_INFO] = 10,
	[RS_RULE_IS_GRANT] = 11,
	[RS_RULE_IS_REVOKE] = 12,
	[RS_RULE_CONTROL_VERSION] = 13,
};

/* All rules, expressed in another way. */
static bool means(unsigned int rule, uint64_t v)
{
	switch (rule) {
	case RS_RULE_ANY: return true;
	case RS_RULE_ZERO: return v == 0;
	case RS_RULE_BIT: return v < 2;
	case RS_RULE_STRING: return v && v < 64;
	case RS_RULE_ID: return v >> 16 && !(v >> 32);
	case RS_RULE_TOTAL: return is(v, BEHIND, 1 << 30);
	case RS_RULE_WHOLE: return v <= 1 << 30;
	case RS_RULE_PLACE: return v + BEHIND <= TOTAL;
	case RS_RULE_CHUNK: return v == BEHIND;
	case RS_RULE_PRIORITY: return v < 8;
	case RS_RULE_WEIGHT: return is(v, 1, 64);
	case RS_RULE_ERRNO: return is(v, 1, 4095);
	case RS_RULE_FLAGS: return v < 8;
	case RS_RULE_INLINE_FLAGS: return is(v, 8, 15);
	case RS_RULE_READ_FLAGS: return v < 4;
	case RS_RULE_LEN: return v <= POOL;
	case RS_RULE_PIECES: return is(v, 2, 4);
	case RS_RULE_PIECE: return is(v, 1, POOL);
	case RS_RULE_PIECES_MAX: return v <= 5;
	case RS_RULE_INLINE: return v <= 76;
	case RS_RULE_OFFSET: return v <= POOL - lim.len;
	case RS_RULE_EVENT: return is(v, 1, 5);
	case RS_RULE_INDEX: return v < CONNS;
	case RS_RULE_KEY: return v == KEY;
	case RS_RULE_CHUNK_SIZE: return is(v, 64, 1 << 20);
	case RS_RULE_FAILURE: return (int32_t)v < 0 && (int32_t)v > -4096;
	case RS_RULE_PORT: return v && v < 65536;
	case RS_RULE_QPN: return v > 1 && !(v >> 24);
	case RS_RULE_BITS_24: return !(v >> 24);
	case RS_RULE_LID: return v < 0xc000;
	case RS_RULE_MTU: return v < 6;
	case RS_RULE_GO: return v == 'g';
	case RS_RULE_EPOCH: return v == EPOCH;
	case RS_RULE_IS_ABOUT: return is(v, 5, 9);
	case RS_RULE_ACCESS: return is(v, 1, 7);
	case RS_RULE_CONNS: return is(v, 1, 65536);
	case RS_RULE_DEPTH: return is(v, 1, 12);
	case RS_RULE_PAGES: return is(v, 1, 1 << 28);
	case RS_RULE_LAYOUT_CONNS: return v == CONNS;
	case RS_RULE_LAYOUT_DEPTH: return v == 1 << SHIFT;
	case RS_RULE_LAYOUT_CONN: return v == lim.layout.conn_offset;
	case RS_RULE_LAYOUT_CONN_BYTES: return v == lim.layout.conn_bytes;
	case RS_RULE_LAYOUT_POOL: return v == lim.layout.pool_offset;
	case RS_RULE_LAYOUT_POOL_BYTES: return v == POOL;
	case RS_RULE_LAYOUT_BYTES: return v == lim.layout.bytes;
	}
	unit_require(rule < RS_RULE_COUNT && only[rule]);
	return v == only[rule];
}

static void good(unsigned int shape, void *at)
{
	rule_good(&share_table, &lim, shape, at, false);
}

/* ---- frames --------------------------------------------------------------------------------- */

static bool frame_taken(unsigned int shape, const void *at)
{
	const uint32_t behind = shape <= RS_SHAPE_ATOMIC ? lim.behind : 0;
	char buf[sizeof(struct rs_frame) + sizeof(struct rs_atomic)] = { 0 };
	struct rs_frame f, out = { .kind = 99 };
	int err;

	memcpy(&f, at, sizeof(f));
	if (shape <= RS_SHAPE_FIRST && f.total == BEHIND)
		f.total = TOTAL; /* limit of offset */
	memcpy(buf, &f, sizeof(f));
	err = rs_frame_parse(buf, (uint32_t)sizeof(f) + behind, CHUNK, &out);
	ck_assert(err ? err == -EBADMSG && out.kind == 99 : !memcmp(&out, &f, sizeof(f)));
	return !err;
}

static bool other_kind(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "kind") && v && v < RS_FRAME_KINDS;
}

/* A reset of no connection. */
static bool other_reset(const struct rule_field *f, uint64_t v)
{
	return other_kind(f, v) || (!strcmp(f->name, "from") && (!v || v >> 16));
}

/* ---- rings ---------------------------------------------------------------------------------- */

static bool op_taken(unsigned int shape, const void *at)
{
	struct rs_sqe e;

	(void)shape;
	memcpy(&e, at, sizeof(e));
	if (e.offset)
		e.len = lim.len; /* limit of offset */
	return rs_op_ok(&e, POOL, PIECES);
}

static bool other_op(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "op") && v && v <= RS_OP_COMPARE_SWAP;
}

static bool atomic_taken(unsigned int shape, const void *at)
{
	(void)shape;
	return rs_atomic_ok(at);
}

/* Or with data in the entry, or in pieces. */
static bool other_form(const struct rule_field *f, uint64_t v)
{
	return other_op(f, v) || (!strcmp(f->name, "flags") && v < 16) ||
		(!strcmp(f->name, "pieces") && is(v, 2, PIECES));
}

/* Or in pieces. */
static bool other_read(const struct rule_field *f, uint64_t v)
{
	return other_op(f, v) || (!strcmp(f->name, "pieces") && is(v, 2, PIECES));
}

/* Or in one piece. */
static bool other_whole(const struct rule_field *f, uint64_t v)
{
	return other_op(f, v) || (!strcmp(f->name, "pieces") && !v);
}

static bool piece_taken(unsigned int shape, const void *at)
{
	struct rs_sqe e = { .pieces = 1 };
	struct rs_piece p;

	(void)shape;
	memcpy(&p, at, sizeof(p));
	if (p.offset)
		p.len = LEN;
	e.len = (uint32_t)p.len;
	return rs_pieces_ok(&e, &p, POOL);
}

static bool receive_taken(unsigned int shape, const void *at)
{
	struct rs_rqe e;

	(void)shape;
	memcpy(&e, at, sizeof(e));
	if (e.offset)
		e.len = LEN;
	return rs_receive_ok(&e, POOL);
}

static bool event_taken(unsigned int shape, const void *at)
{
	(void)shape;
	return rs_event_ok(at, CONNS);
}

static bool other_event(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "type") && ((v && v <= RSHARE_WRITTEN) || v == RS_EVENT_ACCEPT);
}

/* ---- between owners ------------------------------------------------------------------------- */

static bool hello_taken(unsigned int shape, const void *at)
{
	const bool asks = shape == RS_SHAPE_HELLO || shape == RS_SHAPE_QPS;
	struct rs_hello h;
	int err;

	good(asks ? RS_SHAPE_HELLO : RS_SHAPE_REFUSAL, &h);
	good(asks ? RS_SHAPE_QPS : RS_SHAPE_NO_QPS, &h.address);
	if (shape == RS_SHAPE_HELLO || shape == RS_SHAPE_REFUSAL)
		memcpy(&h, at, offsetof(struct rs_hello, address));
	else
		memcpy(&h.address, at, sizeof(h.address));
	err = rs_hello_answers(&h, KEY);
	if (!asks)
		return h.status && err == h.status;
	ck_assert(rs_hello_asks(&h, KEY) == err || h.status < 0);
	return !rs_hello_asks(&h, KEY);
}

static bool repair_taken(unsigned int shape, const void *at)
{
	const bool asks = shape == RS_SHAPE_REPAIR_ASK;
	struct rs_repair r = { .state = asks ? RS_WHOLE : RS_CONNECTED,
			       .epoch = asks ? EPOCH - 1 : EPOCH };
	struct rs_repair_message m;

	good(asks ? RS_SHAPE_REPAIR_ASK : RS_SHAPE_REPAIR_READY, &m);
	good(asks ? RS_SHAPE_QPS : RS_SHAPE_NONE, &m.address);
	if (shape == RS_SHAPE_NONE)
		memcpy(&m.address, at, sizeof(m.address));
	else
		memcpy(&m, at, offsetof(struct rs_repair_message, address));
	return rs_repair_hear(&r, &m) > 0;
}

/* ---- a process and its owner ---------------------------------------------------------------- */

static bool request_taken(unsigned int shape, const void *at)
{
	return !rs_request_check(at, shape == RS_SHAPE_ASK_ATTACH ? 0 : CONNS);
}

static bool other_request(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "type") && v && v <= RS_REVOKE;
}

static bool answer_taken(unsigned int shape, const void *at)
{
	const bool attach = shape == RS_SHAPE_ATTACHED || shape == RS_SHAPE_LAYOUT;
	const struct rs_request q = { .type = attach                    ? RS_ATTACH
					      : shape == RS_SHAPE_INFO  ? RS_INFO
					      : shape == RS_SHAPE_STATS ? RS_STATS
									: RS_LISTEN,
				      .conns = CONNS,
				      .depth_shift = SHIFT,
				      .pages = POOL / RS_PAGE };
	struct rs_answer a = { .status = 0 };

	good(attach ? RS_SHAPE_ATTACHED : RS_SHAPE_DONE, &a);
	if (attach)
		good(RS_SHAPE_LAYOUT, &a.layout);
	if (shape == RS_SHAPE_LAYOUT)
		memcpy(&a.layout, at, sizeof(a.layout));
	else if (shape == RS_SHAPE_STATS)
		memcpy(&a.stats, at, sizeof(a.stats));
	else if (shape == RS_SHAPE_INFO)
		memcpy(&a.info, at, offsetof(struct rshare_info, address) + sizeof(a.info.address));
	else
		memcpy(&a, at, offsetof(struct rs_answer, layout));
	return shape == RS_SHAPE_FAILED ? a.status && rs_answer_check(&q, &a, CONNS) == a.status
					: !rs_answer_check(&q, &a, CONNS);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static const struct walk shapes[] = {
	{ RS_SHAPE_ADD, atomic_taken, other_op },
	{ RS_SHAPE_SWAP, atomic_taken, other_op },
	{ RS_SHAPE_SEND, op_taken, other_form },
	{ RS_SHAPE_WRITE, op_taken, other_form },
	{ RS_SHAPE_SEND_INLINE, op_taken, other_form },
	{ RS_SHAPE_WRITE_INLINE, op_taken, other_form },
	{ RS_SHAPE_READ, op_taken, other_read },
	{ RS_SHAPE_SEND_PIECES, op_taken, other_whole },
	{ RS_SHAPE_WRITE_PIECES, op_taken, other_whole },
	{ RS_SHAPE_READ_PIECES, op_taken, other_whole },
	{ RS_SHAPE_PIECE, piece_taken, NULL },
	{ RS_SHAPE_RECEIVE, receive_taken, NULL },
	{ RS_SHAPE_EVENT, event_taken, other_event },
	{ RS_SHAPE_ACCEPT, event_taken, other_event },
	{ RS_SHAPE_HELLO, hello_taken, NULL },
	{ RS_SHAPE_REFUSAL, hello_taken, NULL },
	{ RS_SHAPE_REPAIR_ASK, repair_taken, NULL },
	{ RS_SHAPE_REPAIR_READY, repair_taken, NULL },
	{ RS_SHAPE_QPS, hello_taken, NULL },
	{ RS_SHAPE_NO_QPS, hello_taken, NULL },
	{ RS_SHAPE_NONE, repair_taken, NULL },
};

UNIT_TEST(every_field_is_held_to_its_rule)
{
	struct rule_walk w = { .table = &share_table, .limits = &lim, .means = means };
	unsigned int s, v;

	lim.layout = rs_layout(CONNS, 1u << SHIFT, POOL);
	for (s = RS_SHAPE_DATA; s <= RS_SHAPE_UNKNOWN; s++) {
		lim.behind = s == RS_SHAPE_ATOMIC ? sizeof(struct rs_atomic) : BEHIND;
		walk_shape(&w, s, frame_taken, s < RS_SHAPE_RESET ? other_kind : other_reset);
	}
	lim.behind = BEHIND;
	walk_shapes(&w, shapes, sizeof(shapes) / sizeof(shapes[0]));
	lim.len = sizeof(uint64_t);
	walk_shape(&w, RS_SHAPE_FETCH_ADD, op_taken, other_op);
	walk_shape(&w, RS_SHAPE_COMPARE_SWAP, op_taken, other_op);
	lim.len = LEN;
	for (s = RS_SHAPE_ASK_ATTACH; s <= RS_SHAPE_ASK_INFO; s++)
		walk_shape(&w, s, request_taken, other_request);
	for (s = RS_SHAPE_ATTACHED; s <= RS_SHAPE_INFO; s++)
		walk_shape(&w, s, answer_taken, NULL);
	for (v = 0; v <= UINT8_MAX; v++) {
		ck_assert(rs_holds_GO(v, NULL) == means(RS_RULE_GO, v));
		w.refused[RS_RULE_GO] += !means(RS_RULE_GO, v);
	}
	walk_end(&w);
}

/* A reset of a connection has its id; one of no connection has none. */
UNIT_TEST(a_reset_is_of_a_connection_or_of_none)
{
	struct rs_frame f;

	good(RS_SHAPE_UNKNOWN, &f);
	f.credit = 1;
	ck_assert(!frame_taken(RS_SHAPE_UNKNOWN, &f));
	f.from = RS_CONNS_MAX;
	ck_assert(frame_taken(RS_SHAPE_UNKNOWN, &f));
	f.from--;
	ck_assert(!frame_taken(RS_SHAPE_UNKNOWN, &f));
}

UNIT_TEST(a_chunk_is_what_came)
{
	char buf[sizeof(struct rs_frame) + 2 * CHUNK];
	struct rs_frame f, out;
	uint32_t len, came;

	for (len = 0; len <= 2 * CHUNK; len++)
		for (came = 0; came <= 2 * CHUNK; came++) {
			good(len ? RS_SHAPE_DATA : RS_SHAPE_EMPTY, &f);
			f.len = f.total = len;
			memset(buf, 0, sizeof(buf));
			memcpy(buf, &f, sizeof(f));
			ck_assert_int_eq(
				rs_frame_parse(buf, (uint32_t)sizeof(f) + came, CHUNK, &out),
				len == came && len <= CHUNK ? 0 : -EBADMSG);
		}
}

/* No pool is so small, and no message so long, that a sum wraps. */
UNIT_TEST(a_buffer_lies_in_the_pool)
{
	static const uint64_t at[] = {
		0, 1, 4095, 4096, 4097, 1ull << 30, (1ull << 30) + 1, UINT32_MAX, UINT64_MAX - 3
	};
	const unsigned int n = sizeof(at) / sizeof(at[0]);
	unsigned int p, o, l;

	for (p = 0; p < n; p++)
		for (o = 0; o < n; o++)
			for (l = 0; l < n; l++) {
				const struct rs_rqe r = { .offset = at[o], .len = (uint32_t)at[l] };
				const struct rs_sqe s = { .op = RS_OP_SEND,
							  .offset = at[o],
							  .len = (uint32_t)at[l] };
				const bool in = r.len <= 1u << 30 && at[o] <= at[p] &&
					r.len <= at[p] - at[o];

				ck_assert(rs_receive_ok(&r, at[p]) == in &&
					  rs_op_ok(&s, at[p], PIECES) == in);
			}
}

/* The sum of the pieces does not wrap, and a piece of more than 32 bits is none. */
UNIT_TEST(pieces_have_the_length_of_their_operation)
{
	struct rs_piece v[RS_PIECES_MAX];
	struct rs_sqe e = { .pieces = 4 };
	unsigned int i;

	for (i = 0; i < RS_PIECES_MAX; i++)
		v[i] = (struct rs_piece){ .len = 1u << 30 };
	ck_assert(!rs_pieces_ok(&e, v, 1ull << 31)); /* 2^32 bytes, and len 0 */
	e.pieces = 5;
	e.len = 1u << 30;
	ck_assert(!rs_pieces_ok(&e, v, 1ull << 31));
	e.pieces = 1;
	ck_assert(rs_pieces_ok(&e, v, 1ull << 31));
	v[0].len |= 1ull << 32;
	ck_assert(!rs_pieces_ok(&e, v, UINT64_MAX));
}

UNIT_TEST(only_a_process_that_is_not_attached_attaches)
{
	struct rs_request q;
	unsigned int s;

	for (s = RS_SHAPE_ASK_ATTACH; s <= RS_SHAPE_ASK_INFO; s++) {
		good(s, &q);
		ck_assert_int_eq(rs_request_check(&q, 0), s == RS_SHAPE_ASK_ATTACH ? 0 : -EPROTO);
		ck_assert_int_eq(rs_request_check(&q, CONNS),
				 s == RS_SHAPE_ASK_ATTACH ? -EPROTO : 0);
	}
	good(RS_SHAPE_ASK_ATTACH, &q);
	q.version++;
	ck_assert_int_eq(rs_request_check(&q, 0), -EPROTO);
	q.version--;
	q.depth_shift = 13;
	ck_assert_int_eq(rs_request_check(&q, 0), -EINVAL);
}

UNIT_SUITE("share_rules")
