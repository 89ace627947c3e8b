// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_requests.c - libdsm/share/hub: what rshare_post() can ask for beyond messages, writes
 * and reads, between two nodes in one process. test_share_ops.c has the same over the library.
 */
#include "share_linked.h"

static void submit(struct rs_sqe e)
{
	ck_assert(world_submit(CLIENT0, c0, &e));
}

/* Posts of node 0 that have not arrived. */
static unsigned int on_the_wire(void)
{
	rs_client_kick(&CLIENT0->rs);
	while (rs_peer_pump(&n[0].peer))
		;
	return n[0].lane[RS_WEIGHTED].tail - n[0].lane[RS_WEIGHTED].head;
}

/* ---- without events ------------------------------------------------------------------------- */

UNIT_TEST(an_unsignalled_success_is_only_counted)
{
	for (uint32_t i = 0; i < 4; i++)
		submit((struct rs_sqe){ .op = i % 2 ? RS_OP_READ : RS_OP_WRITE,
					.flags = RSHARE_UNSIGNALLED,
					.len = i * WORLD_CHUNK,
					.cookie = i });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 9 });
	ck_assert_uint_eq(world_seg(CLIENT0, c0)->quiet, 0);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 9);
	expect_none(CLIENT0, c0);
	ck_assert_uint_eq(world_seg(CLIENT0, c0)->quiet, 4);
}

UNIT_TEST(an_unsignalled_failure_has_an_event)
{
	submit((struct rs_sqe){ .op = RS_OP_SEND, .flags = RSHARE_UNSIGNALLED, .cookie = 1 });
	submit((struct rs_sqe){ .op = RS_OP_SEND, .cookie = 2 });
	world_settle(n); /* the peer has no receive */
	rs_conn_release(CONN1);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 1);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 2);
	expect(CLIENT0, c0, RSHARE_CLOSED, -ECONNRESET, 0);
	ck_assert_uint_eq(world_seg(CLIENT0, c0)->quiet, 0);
}

/* ---- fences --------------------------------------------------------------------------------- */

/* _i: with a fence */
UNIT_LOOP_TEST(a_fence_waits_for_earlier_reads, 0, 2)
{
	uint32_t b0, b1;

	world_connect(n, 0, 0, 0, &b0, &b1);
	submit((struct rs_sqe){ .op = RS_OP_READ, .len = 2 * WORLD_CHUNK, .cookie = 1 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 2 });
	submit((struct rs_sqe){
		.op = RS_OP_WRITE, .flags = _i ? RSHARE_FENCE : 0, .len = 1, .cookie = 3 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 4 });
	ck_assert_uint_eq(on_the_wire(), _i ? 3 : 5);
	ck_assert_uint_eq(CONN0->stats.fences, _i ? 1 : 0);
	ck_assert(world_submit(CLIENT0, b0, &(struct rs_sqe){ .op = RS_OP_WRITE, .len = 1 }));
	ck_assert_uint_eq(on_the_wire(), _i ? 4 : 6); /* another connection does not wait */
	world_deliver(&n[0], RS_WEIGHTED);
	ck_assert_uint_eq(on_the_wire(), _i ? 3 : 5); /* half of the read is complete */
	world_deliver(&n[0], RS_WEIGHTED);
	ck_assert_uint_eq(on_the_wire(), 4);
	world_settle(n);
	for (uint64_t i = 1; i <= 4; i++)
		expect(CLIENT0, c0, RSHARE_SENT, 0, i);
}

UNIT_TEST(a_fence_without_reads_waits_for_nothing)
{
	submit((struct rs_sqe){ .op = RS_OP_READ, .len = 1 });
	world_settle(n);
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1 });
	submit((struct rs_sqe){ .op = RS_OP_READ, .flags = RSHARE_FENCE, .len = 1 });
	ck_assert_uint_eq(on_the_wire(), 2);
}

UNIT_TEST(what_waits_for_a_fence_ends_with_its_connection)
{
	submit((struct rs_sqe){ .op = RS_OP_READ, .len = 1, .cookie = 1 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .flags = RSHARE_FENCE, .len = 1, .cookie = 2 });
	ck_assert_uint_eq(on_the_wire(), 1);
	rs_conn_release(CONN1);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 1);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 2);
	expect(CLIENT0, c0, RSHARE_CLOSED, -ECONNRESET, 0);
	ck_assert_uint_eq(CLIENT0->rs.outstanding, 0);
}

/* ---- immediate data ------------------------------------------------------------------------- */

static void expect_tagged(uint32_t type, uint64_t cookie, uint32_t len, uint32_t immediate)
{
	struct rs_cqe e;

	ck_assert_msg(world_poll(CLIENT1, c1, &e), "no event");
	ck_assert(e.type == type && !e.status && e.cookie == cookie && e.len == len);
	ck_assert(e.tagged == 1 && e.immediate == immediate);
}

UNIT_TEST(immediate_data_arrives_with_its_message)
{
	static const uint32_t len[] = { 0, 1, WORLD_CHUNK, 3 * WORLD_CHUNK + 1 };
	struct rs_cqe e;
	unsigned int i;

	for (i = 0; i < 4; i++) {
		ck_assert(world_recv(CLIENT1, c1, 0, 2000, 10 + i));
		memset(world_pool(CLIENT0, i * 2000), (int)i + 1, 2000);
		submit((struct rs_sqe){ .op = RS_OP_SEND,
					.flags = RSHARE_IMMEDIATE,
					.offset = i * 2000,
					.len = len[i],
					.immediate = ~i });
	}
	ck_assert(world_recv(CLIENT1, c1, 0, 2000, 20) && world_send(CLIENT0, c0, 0, 5, 1));
	world_settle(n);
	for (i = 0; i < 4; i++)
		expect_tagged(RSHARE_RECEIVED, 10 + i, len[i], ~i);
	ck_assert(world_poll(CLIENT1, c1, &e) && !e.tagged && !e.immediate);
	ck_assert_int_eq(world_pool(CLIENT1, 0)[5], 4); /* the last long one was there */
}

/* The event of a write comes after its bytes, takes a receive, and has a credit of its own. */
UNIT_TEST(a_write_with_immediate_data_takes_a_receive)
{
	const struct rs_sqe write = { .op = RS_OP_WRITE,
				      .flags = RSHARE_IMMEDIATE,
				      .len = 3 * WORLD_CHUNK,
				      .cookie = 1,
				      .immediate = 77 };

	submit(write);
	ck_assert_uint_eq(on_the_wire(), 0); /* the peer has no receive */
	ck_assert(world_recv(CLIENT1, c1, 100, 10, 5));
	world_pool(CLIENT1, 100)[0] = 9;
	world_settle(n);
	expect_tagged(RSHARE_WRITTEN, 5, 3 * WORLD_CHUNK, 77);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 1);
	expect_none(CLIENT0, c0);
	ck_assert_int_eq(world_pool(CLIENT1, 100)[0], 9);
	ck_assert_uint_eq(CONN0->stats.stalls, 1);
	/* write, write, frame */
	ck_assert(world_recv(CLIENT1, c1, 0, 10, 6));
	world_settle(n);
	submit(write);
	ck_assert_uint_eq(on_the_wire(), 4);
	ck_assert_uint_eq(conn_pending(CONN0), 1);
	for (unsigned int i = 0; i < 3; i++)
		world_deliver(&n[0], RS_WEIGHTED);
	expect_none(CLIENT1, c1);
	expect_none(CLIENT0, c0);
	world_deliver(&n[0], RS_WEIGHTED);
	expect_tagged(RSHARE_WRITTEN, 6, 3 * WORLD_CHUNK, 77);
}

/* Each takes two places of the scheduler's. */
UNIT_TEST(many_writes_with_immediate_data_keep_their_order)
{
	unsigned int sent = 0, seen = 0, posted = 0;
	struct rs_cqe e;

	while (seen < 200) {
		const struct rs_sqe op = { .op = sent % 3 ? RS_OP_WRITE : RS_OP_SEND,
					   .flags = RSHARE_IMMEDIATE,
					   .len = sent % 2 ? 1 : WORLD_CHUNK + 40,
					   .immediate = sent };

		sent += sent < 200 && world_submit(CLIENT0, c0, &op);
		posted += posted < 200 && posted - seen < WORLD_DEPTH &&
			world_recv(CLIENT1, c1, 0, 2000, posted);
		world_turn(n, 0x1111 * (1 + seen % 3));
		while (world_poll(CLIENT0, c0, &e))
			unit_require(e.type == RSHARE_SENT && !e.status);
		while (world_poll(CLIENT1, c1, &e)) {
			unit_require(e.immediate == seen && e.cookie == seen && e.tagged);
			unit_require(e.type == (seen % 3 ? RSHARE_WRITTEN : RSHARE_RECEIVED));
			seen++;
		}
	}
	ck_assert_int_eq(n[1].error, 0);
}

/* A connection's operations have room for one, and a write with immediate data needs two. */
UNIT_TEST(a_write_with_immediate_data_waits_for_room)
{
	struct rs_cqe e;
	uint64_t i;

	ck_assert(world_recv(CLIENT1, c1, 0, 10, 1));
	world_settle(n);
	for (i = 0; i < RS_FLOW_OPS; i++) {
		submit((struct rs_sqe){ .op = RS_OP_WRITE,
					.flags = i == RS_FLOW_OPS - 1 ? RSHARE_IMMEDIATE : 0,
					.len = 1,
					.cookie = i });
		ck_assert_uint_eq(on_the_wire(), i < RS_FLOW_OPS - 1 ? i + 1 : i);
	}
	world_settle(n);
	for (i = 0; i < RS_FLOW_OPS; i++)
		expect(CLIENT0, c0, RSHARE_SENT, 0, i);
	ck_assert(world_poll(CLIENT1, c1, &e) && e.type == RSHARE_WRITTEN);
}

/* A frame of a write while a message is incomplete, without credit, or out of its turn. */
UNIT_LOOP_TEST(frames_of_writes_that_break_the_rules_are_bad, 0, 4)
{
	struct rs_frame f = { .version = RS_FRAME_VERSION,
			      .kind = RS_FRAME_WRITTEN,
			      .number = 1,
			      .to = CONN1->id,
			      .from = CONN0->id };
	char buf[sizeof(f) + 10] = { 0 };

	if (_i)
		ck_assert(world_recv(CLIENT1, c1, 0, 2000, 1) &&
			  world_recv(CLIENT1, c1, 0, 2000, 1));
	world_settle(n);
	f.number = (uint16_t)(n[1].peer.lane[RS_STRICT].received + 1);
	if (_i == 1)
		f.seq = 1;
	if (_i >= 2) { /* a message begins */
		f.kind = RS_FRAME_FIRST;
		f.total = 100;
		f.len = 10;
		memcpy(buf, &f, sizeof(f));
		ck_assert_int_eq(rs_peer_receive(&n[1].peer, RS_STRICT, buf, sizeof(f) + 10), 0);
		f.number++;
		f.seq++;
		f.offset = 10;
	}
	if (_i == 2) {
		f.kind = RS_FRAME_WRITTEN;
		f.len = 0;
	}
	memcpy(buf, &f, sizeof(f));
	ck_assert_int_eq(rs_peer_receive(&n[1].peer, RS_STRICT, buf, (uint32_t)sizeof(f) + f.len),
			 -EBADMSG);
}

/* ---- data in the ring ------------------------------------------------------------------------ */

static bool submit_pair(const struct rs_sqe *e, const void *second)
{
	return world_submit_pair(CLIENT0, c0, e, second);
}

static struct rs_sqe inline_send(uint32_t len)
{
	struct rs_sqe e = { .op = RS_OP_SEND, .flags = RSHARE_INLINE, .len = len, .cookie = len };

	memset(e.data, 1, sizeof(e.data));
	return e;
}

UNIT_TEST(data_in_the_ring_arrives)
{
	static const uint32_t len[] = { 0, 1, 16, 17, RSHARE_INLINE_MAX };
	struct rs_rest rest;
	struct rs_sqe e;
	unsigned int i, k;

	memset(&rest, 2, sizeof(rest));
	for (i = 0; i < 5; i++) {
		e = inline_send(len[i]);
		ck_assert(world_recv(CLIENT1, c1, 0, 100, i));
		memset(world_pool(CLIENT1, 0), 0, 100);
		ck_assert(len[i] > RS_INLINE_FIRST ? submit_pair(&e, &rest)
						   : world_submit(CLIENT0, c0, &e));
		world_settle(n);
		expect(CLIENT0, c0, RSHARE_SENT, 0, len[i]);
		expect(CLIENT1, c1, RSHARE_RECEIVED, 0, i);
		for (k = 0; k < 100; k++)
			unit_require(world_pool(CLIENT1, 0)[k] ==
				     (k >= len[i]                   ? 0
					      : k < RS_INLINE_FIRST ? 1
								    : 2));
	}
}

/* The process submits one entry where there should be two; or too much data. */
UNIT_LOOP_TEST(a_forged_operation_with_data_ends_its_connection, 0, 2)
{
	const struct rs_sqe e = inline_send(_i ? RSHARE_INLINE_MAX + 1 : 17);
	const struct rs_rest rest = { .turn = 0 };

	ck_assert(_i ? submit_pair(&e, &rest) : world_submit(CLIENT0, c0, &e));
	world_settle(n);
	ck_assert_uint_eq(n[0].hub.stats.forged, 1);
	expect(CLIENT0, c0, RSHARE_SENT, -EBADMSG, e.cookie);
	expect(CLIENT0, c0, RSHARE_CLOSED, -EBADMSG, 0);
	expect(CLIENT1, c1, RSHARE_CLOSED, -ECONNRESET, 0);
}

/* An operation of two entries that the owner has not taken fails once. */
UNIT_TEST(what_has_two_entries_fails_once)
{
	struct rs_sqe e = inline_send(30);
	const struct rs_rest rest = { .turn = 0 };

	ck_assert(submit_pair(&e, &rest));
	world_settle(n); /* held: the peer has no receive */
	e.cookie = 31;
	ck_assert(submit_pair(&e, &rest));
	world_settle(n);
	rs_conn_release(CONN1);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 30);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 31);
	expect(CLIENT0, c0, RSHARE_CLOSED, -ECONNRESET, 0);
	expect_none(CLIENT0, c0);
}

/* ---- atomic operations ----------------------------------------------------------------------- */

#define WORD 64 /* in the pool of the peer, which exports it */
#define KEY 5

static uint64_t *word(void)
{
	CLIENT1->rs.remote = true;
	CLIENT1->rs.rkey = KEY;
	return (uint64_t *)(void *)world_pool(CLIENT1, WORD);
}

static struct rs_sqe atomic_op(uint8_t op, uint64_t operand, uint64_t compare)
{
	return (struct rs_sqe){ .op = op,
				.len = sizeof(uint64_t),
				.rkey = KEY,
				.remote = (uintptr_t)word(),
				.offset = 800,
				.operand = operand,
				.compare = compare };
}

static uint64_t old_value(void)
{
	uint64_t old;

	memcpy(&old, world_pool(CLIENT0, 800), sizeof(old));
	return old;
}

UNIT_TEST(atomic_operations_return_the_old_value)
{
	static const struct {
		uint8_t op;
		uint64_t operand, compare, old, now;
	} step[] = { { RS_OP_FETCH_ADD, 5, 0, 0, 5 },
		     { RS_OP_FETCH_ADD, UINT64_MAX, 0, 5, 4 },
		     { RS_OP_COMPARE_SWAP, 9, 5, 4, 4 },
		     { RS_OP_COMPARE_SWAP, 1ull << 63 | 7, 4, 4, 1ull << 63 | 7 },
		     { RS_OP_FETCH_ADD, 1ull << 63, 0, 1ull << 63 | 7, 7 } };

	*word() = 0;
	for (unsigned int i = 0; i < 5; i++) {
		submit(atomic_op(step[i].op, step[i].operand, step[i].compare));
		world_settle(n);
		expect(CLIENT0, c0, RSHARE_SENT, 0, 0);
		ck_assert_uint_eq(old_value(), step[i].old);
		ck_assert_uint_eq(*word(), step[i].now);
	}
	expect_none(CLIENT1, c1); /* it takes no receive */
}

/* Operations complete in order, though an answer comes later than an acknowledgement. */
UNIT_TEST(what_follows_an_atomic_operation_completes_after_it)
{
	struct rs_sqe op = atomic_op(RS_OP_FETCH_ADD, 1, 0);

	*word() = 0;
	op.cookie = 1;
	submit(op);
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 2 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .flags = RSHARE_FENCE, .len = 1, .cookie = 3 });
	ck_assert_uint_eq(on_the_wire(), 2);
	world_deliver(&n[0], RS_WEIGHTED);
	world_deliver(&n[0], RS_WEIGHTED);
	ck_assert_uint_eq(*word(), 1);
	expect_none(CLIENT0, c0);
	ck_assert_uint_eq(on_the_wire(), 0); /* the fence waits for the answer */
	rs_peer_pump(&n[1].peer);
	world_deliver(&n[1], RS_STRICT);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 1);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 2);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 3);
}

/* A key that does not fit, an address outside or not aligned, a pool that is not for peers. */
UNIT_LOOP_TEST(a_refused_atomic_operation_ends_its_connection, 0, 5)
{
	static const int by[] = { 0, 4, (int)WORLD_POOL - WORD, -WORD - 8, 0 };
	struct rs_sqe op = atomic_op(_i % 2 ? RS_OP_FETCH_ADD : RS_OP_COMPARE_SWAP, 1, 0);
	uint32_t b0, b1;
	struct rs_cqe e;

	world_connect(n, 0, 0, 0, &b0, &b1);
	*word() = 0;
	op.rkey += _i == 0;
	op.remote += (uint64_t)by[_i];
	CLIENT1->rs.remote = _i != 4;
	submit(op);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, -EKEYREJECTED, 0);
	expect(CLIENT0, c0, RSHARE_CLOSED, -EKEYREJECTED, 0);
	expect(CLIENT1, c1, RSHARE_CLOSED, -ECONNRESET, 0);
	CLIENT1->rs.remote = true;
	ck_assert_uint_eq(*word(), 0);
	ck_assert_int_eq(n[0].error | n[1].error, 0);
	ck_assert(world_recv(CLIENT1, b1, 0, 10, 3) && world_send(CLIENT0, b0, 0, 10, 4));
	world_settle(n);
	ck_assert(world_poll(CLIENT1, b1, &e) && e.type == RSHARE_RECEIVED && !e.status);
}

/* Queue pairs break anywhere; each operation happens once. */
UNIT_LOOP_TEST(an_atomic_operation_happens_once, 0, 20)
{
	struct rs_sqe op = atomic_op(RS_OP_FETCH_ADD, 1, 0);
	uint64_t random = 77 + (uint64_t)_i, done = 0, sent = 0;
	unsigned int arrive[2][RS_LANES], i, k;
	struct rs_cqe e;

	*word() = 0;
	while (done < 300) {
		const uint64_t r = unit_random(&random);

		op.cookie = sent;
		op.offset = 8 * (sent % 16);
		sent += sent < 300 && sent - done < WORLD_DEPTH && world_submit(CLIENT0, c0, &op);
		world_turn(n, r);
		if (r >> 40 & 1)
			for (i = 0; i < 2; i++)
				for (k = 0; k < RS_LANES; k++)
					arrive[i][k] = (unsigned int)(r >> (8 * i + 4 * k)) %
						(n[i].lane[k].tail - n[i].lane[k].head + 1);
		if (r >> 40 & 1)
			world_break(n, arrive);
		while (world_poll(CLIENT0, c0, &e)) {
			uint64_t old;

			unit_require(e.type == RSHARE_SENT && !e.status && e.cookie == done);
			memcpy(&old, world_pool(CLIENT0, 8 * (done % 16)), sizeof(old));
			unit_require(old == done);
			done++;
		}
	}
	ck_assert_uint_eq(*word(), 300);
	ck_assert_int_eq(n[0].error | n[1].error, 0);
}

/* A side that has told of its end performs nothing: at the peer, the operation fails. */
UNIT_TEST(what_comes_after_a_close_is_not_performed)
{
	*word() = 0;
	submit(atomic_op(RS_OP_FETCH_ADD, 1, 0));
	ck_assert_uint_eq(on_the_wire(), 1);
	rs_conn_close(CONN1);
	world_deliver(&n[0], RS_WEIGHTED);
	ck_assert_uint_eq(*word(), 0);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, -EPIPE, 0);
	expect(CLIENT0, c0, RSHARE_CLOSED, 0, 0);
}

static int answers(uint32_t seq, uint32_t old)
{
	const struct rs_frame f = { .version = RS_FRAME_VERSION,
				    .kind = RS_FRAME_RESULT,
				    .number = (uint16_t)(n[0].peer.lane[RS_STRICT].received + 1),
				    .to = CONN0->id,
				    .from = CONN1->id,
				    .seq = seq,
				    .total = old };

	return rs_peer_receive(&n[0].peer, RS_STRICT, &f, sizeof(f));
}

/* _i: 0: nothing was asked for. 1: it has not been sent. 2: another one was. 3: that one. */
UNIT_LOOP_TEST(only_what_was_asked_for_is_an_answer, 0, 4)
{
	if (_i)
		submit(atomic_op(RS_OP_FETCH_ADD, 1, 0));
	if (_i == 1)
		rs_client_kick(&CLIENT0->rs);
	if (_i > 1)
		ck_assert_uint_eq(on_the_wire(), 1);
	ck_assert_int_eq(answers(_i == 2, 3), _i == 3 ? 0 : -EBADMSG);
	if (_i == 3) {
		expect_none(CLIENT0, c0); /* before it is acknowledged */
		ck_assert_int_eq(answers(0, 3), -EBADMSG);
		world_deliver(&n[0], RS_WEIGHTED);
		expect(CLIENT0, c0, RSHARE_SENT, 0, 0);
		ck_assert_uint_eq(old_value(), 3);
	}
	CLIENT1->rs.remote = false;
}

/* What a frame ATOMIC has behind it is checked, too. */
UNIT_LOOP_TEST(a_strange_atomic_operation_is_bad, 0, 3)
{
	struct rs_atomic a = { .op = _i ? RS_OP_FETCH_ADD : RS_OP_WRITE, .compare = _i == 1 };
	struct rs_frame f = { .version = RS_FRAME_VERSION,
			      .kind = RS_FRAME_ATOMIC,
			      .number = (uint16_t)(n[1].peer.lane[RS_STRICT].received + 1),
			      .to = CONN1->id,
			      .from = CONN0->id,
			      .seq = _i == 2,
			      .total = sizeof(a),
			      .len = sizeof(a) };
	char buf[sizeof(f) + sizeof(a)];

	memcpy(buf, &f, sizeof(f));
	memcpy(buf + sizeof(f), &a, sizeof(a));
	ck_assert_int_eq(rs_peer_receive(&n[1].peer, RS_STRICT, buf, sizeof(buf)), -EBADMSG);
}

/* ---- buffers in pieces ---------------------------------------------------------------------- */

static const struct rs_pieces five = { .len = { 1, WORLD_CHUNK - 1, WORLD_CHUNK + 32, 3, 1000 },
				       .offset = { 5000, 0, 3000, 5001, WORLD_POOL - 1000 } };

static uint32_t sum_of(const struct rs_pieces *v, uint32_t pieces)
{
	uint32_t sum = 0, i;

	for (i = 0; i < pieces; i++)
		sum += v->len[i];
	return sum;
}

static struct rs_sqe in_pieces(uint8_t op, uint32_t pieces)
{
	return (struct rs_sqe){
		.op = op, .len = sum_of(&five, pieces), .pieces = pieces, .cookie = 3
	};
}

/* Chunks begin and end within the pieces, and at their borders. */
UNIT_LOOP_TEST(a_message_is_gathered_from_pieces, 2, 6)
{
	const uint32_t pieces = (uint32_t)_i;
	const struct rs_sqe e = in_pieces(RS_OP_SEND, pieces);
	char want[2 * WORLD_CHUNK + 2000];
	uint32_t i, at = 0;

	for (i = 0; i < WORLD_POOL; i++)
		world_pool(CLIENT0, 0)[i] = (char)(i * 7 + i / 251);
	for (i = 0; i < pieces; at += five.len[i++])
		memcpy(want + at, world_pool(CLIENT0, five.offset[i]), five.len[i]);
	ck_assert(world_recv(CLIENT1, c1, 0, sizeof(want), 9));
	ck_assert(submit_pair(&e, &five));
	world_settle(n);
	ck_assert_uint_eq(expect(CLIENT0, c0, RSHARE_SENT, 0, 3).len, e.len);
	ck_assert_uint_eq(expect(CLIENT1, c1, RSHARE_RECEIVED, 0, 9).len, e.len);
	ck_assert(!memcmp(world_pool(CLIENT1, 0), want, e.len) && !world_pool(CLIENT1, 0)[e.len]);
	ck_assert_uint_eq(CONN0->stats.bytes_sent, e.len);
}

/* Each post names the memory of its bytes, in order. _i: writes, reads */
UNIT_LOOP_TEST(writes_and_reads_are_posted_in_pieces, 0, 2)
{
	const struct rs_sqe e = in_pieces(_i ? RS_OP_READ : RS_OP_WRITE, 4);
	const struct rs_fifo *f = &n[0].peer.lane[RS_WEIGHTED];
	uint32_t piece = 0, in = 0, len = 0;

	ck_assert(submit_pair(&e, &five));
	ck_assert_uint_eq(on_the_wire(), 2);
	for (uint32_t at = f->head; at != f->tail; at++) {
		const struct rs_post *post = &f->sent[at % f->size].post;

		ck_assert(post->op == e.op && post->remote == len);
		len += post->len;
		for (unsigned int i = 0; i < post->spans; i++) {
			ck_assert_ptr_eq(post->span[i].data,
					 world_pool(CLIENT0, five.offset[piece] + in));
			in += post->span[i].len;
			ck_assert_uint_le(in, five.len[piece]);
			if (in == five.len[piece]) {
				piece++;
				in = 0;
			}
		}
	}
	ck_assert(piece == 4 && len == e.len);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 3);
}

/* A write in pieces with immediate data has one frame, behind its bytes. */
UNIT_TEST(a_write_in_pieces_can_be_announced)
{
	struct rs_sqe e = in_pieces(RS_OP_WRITE, 5);

	e.flags = RSHARE_IMMEDIATE;
	e.immediate = 6;
	ck_assert(world_recv(CLIENT1, c1, 0, 0, 9) && submit_pair(&e, &five));
	world_settle(n);
	expect_tagged(RSHARE_WRITTEN, 9, e.len, 6);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 3);
}

enum forgery {
	NO_SECOND_ENTRY,
	ONE_PIECE,
	SIX_PIECES,
	ALL_PIECES,
	OF_THE_DEVICE, /* more than it takes */
	BEYOND_POOL,
	FAR_BEYOND,
	EMPTY_PIECE,
	TOO_SHORT,
	TOO_LONG,
	WITH_OFFSET,
	WITH_DATA,
	ATOMIC,
	FORGERIES
};

static void forge(enum forgery which, struct rs_sqe *e, struct rs_pieces *v)
{
	switch (which) {
	case ONE_PIECE: e->pieces = 1; break;
	case SIX_PIECES: e->pieces = 6; break;
	case ALL_PIECES: e->pieces = UINT32_MAX; break;
	case OF_THE_DEVICE: n[0].hub.pieces = 3; break;
	case BEYOND_POOL: v->offset[3] = WORLD_POOL - 2; break;
	case FAR_BEYOND: v->offset[3] = UINT64_MAX; break;
	case EMPTY_PIECE:
		e->len -= v->len[3];
		v->len[3] = 0;
		break;
	case TOO_SHORT: e->len++; break;
	case TOO_LONG: e->len--; break;
	case WITH_OFFSET: e->offset = 1; break;
	case WITH_DATA: e->flags = RSHARE_INLINE; break;
	case ATOMIC:
		e->op = RS_OP_FETCH_ADD;
		e->len = 8;
		break;
	case NO_SECOND_ENTRY:
	default: break;
	}
}

/* It does not reach the wire, whatever the operation. Without the forgery, it does. */
UNIT_LOOP_TEST(forged_pieces_end_their_connection, 0, FORGERIES + 1)
{
	for (uint8_t op = RS_OP_SEND; op <= RS_OP_READ; op++) {
		struct rs_sqe e = in_pieces(op, 4);
		struct rs_pieces v = five;
		uint32_t b0, b1;

		world_connect(n, 0, 0, 0, &b0, &b1);
		ck_assert(world_recv(CLIENT1, b1, 0, 2000, 9));
		world_settle(n);
		n[0].hub.pieces = RS_PIECES_MAX;
		forge((enum forgery)_i, &e, &v);
		ck_assert(_i == NO_SECOND_ENTRY ? world_submit(CLIENT0, b0, &e)
						: world_submit_pair(CLIENT0, b0, &e, &v));
		ck_assert_uint_eq(on_the_wire() != 0, _i == FORGERIES);
		world_settle(n);
		expect(CLIENT0, b0, RSHARE_SENT, _i == FORGERIES ? 0 : -EBADMSG, 3);
		if (_i < FORGERIES)
			expect(CLIENT0, b0, RSHARE_CLOSED, -EBADMSG, 0);
	}
	ck_assert_uint_eq(n[0].hub.stats.forged, _i < FORGERIES ? 3 : 0);
	ck_assert_int_eq(n[1].error, 0);
}

UNIT_SUITE("share_requests", .setup = begin, .teardown = end)
