// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_ops.c - librshare: the operations and flags of rshare_post(), by a program, between
 * two owners in one process. Queue pairs also break.
 */
#include "suite.h"

#include "share_pair.h"

#define ROOM 100000u

static struct rshare_conn *c, *d; /* of a and b */
static char *out, *in;
static struct rshare_remote at; /* in */

static void ops_begin(void)
{
	begin();
	pair(&c, &d, 0);
	out = rshare_get(a, ROOM);
	in = rshare_get(b, ROOM);
	ck_assert_int_eq(rshare_export(b, in, ROOM, &at), 0);
	for (unsigned int i = 0; i < ROOM; i++)
		out[i] = (char)(i * 31 + i / 256);
}

static void ops_end(void)
{
	set_fake(0, 0);
	rshare_disconnect(c, 5000);
	rshare_disconnect(d, 5000);
	end();
}

/* Post as soon as there is room. */
static int post_soon(struct rshare_conn *on, const struct rshare_op *op)
{
	int err;

	while ((err = rshare_post(on, op)) == -EAGAIN)
		usleep(100);
	return err;
}

static void post(const struct rshare_op *op)
{
	ck_assert_int_eq(post_soon(c, op), 0);
}

static void expect(struct rshare_conn *of, enum rshare_event_type type, int status, uint64_t cookie)
{
	const struct rshare_event e = next(of);

	ck_assert_int_eq(e.type, type);
	ck_assert_int_eq(e.status, status);
	ck_assert_uint_eq(e.cookie, cookie);
}

UNIT_TEST(what_is_no_operation_is_refused)
{
	const struct rshare_op send = { .type = RSHARE_OP_SEND, .buffer = out, .size = 1 };
	struct rshare_op op = { .type = RSHARE_OP_WRITE, .buffer = out, .size = 1 };

	ck_assert_int_eq(rshare_post(c, &op), -EINVAL); /* no remote */
	op.remote = &at;
	op.offset = ROOM;
	ck_assert_int_eq(rshare_post(c, &op), -ERANGE);
	op = send;
	op.type = (enum rshare_op_type)0;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.type = (enum rshare_op_type)99;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op = send;
	op.flags = 0x100;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op = send;
	op.buffer = in;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
}

/* Many more than depth, without an event of theirs. Only the last one tells. */
UNIT_LOOP_TEST(unsignalled_writes_need_no_polling, 0, 2)
{
	struct rshare_op op = {
		.type = RSHARE_OP_WRITE, .flags = RSHARE_UNSIGNALLED, .size = 100, .remote = &at
	};
	struct rshare_event e;

	set_fake(_i ? 20 : 0, 0); /* more than a chain, so that some have arrived each time */
	for (unsigned int i = 0; i < 200; i++) {
		op.buffer = out + 100 * i;
		op.offset = 100 * i;
		op.cookie = i;
		op.flags = i < 199 ? RSHARE_UNSIGNALLED : 0;
		post(&op);
	}
	expect(c, RSHARE_SENT, 0, 199);
	ck_assert(!memcmp(in, out, 200 * 100));
	ck_assert_int_eq(rshare_poll(c, &e, 1), 0);
	ck_assert(!_i || info_of(a).repairs > 3);
}

UNIT_TEST(an_unsignalled_failure_is_told)
{
	const struct rshare_remote wrong = { at.address, at.rkey + 1, at.size };
	const struct rshare_op op = { .type = RSHARE_OP_WRITE,
				      .flags = RSHARE_UNSIGNALLED,
				      .cookie = 5,
				      .buffer = out,
				      .size = 100,
				      .remote = &wrong };

	post(&op);
	expect(c, RSHARE_SENT, -EKEYREJECTED, 5);
	expect(c, RSHARE_CLOSED, -EKEYREJECTED, 0);
}

/* A buffer that a read fills is sent back: with a fence, the send carries what was read. */
UNIT_LOOP_TEST(a_fenced_send_carries_what_was_read, 0, 2)
{
	char *buf = rshare_get(a, 20000);
	const struct rshare_op read = { .type = RSHARE_OP_READ,
					.flags = RSHARE_UNSIGNALLED,
					.buffer = buf,
					.size = 20000,
					.remote = &at };
	const struct rshare_op send = { .type = RSHARE_OP_SEND,
					.flags = RSHARE_FENCE,
					.cookie = 7,
					.buffer = buf,
					.size = 20000 };

	set_fake(_i ? 5 : 0, 0);
	for (unsigned int k = 0; k < 20; k++) {
		memset(in, (int)k + 1, 20000);
		memset(buf, 0, 20000);
		ck_assert_int_eq(rshare_recv(d, in + 50000, 20000, 3), 0);
		fake_hold(1, UINT_MAX);
		post(&read);
		post(&send);
		usleep(1000);
		fake_hold(0, UINT_MAX);
		expect(d, RSHARE_RECEIVED, 0, 3);
		expect(c, RSHARE_SENT, 0, 7);
		unit_require(!memcmp(in, in + 50000, 20000));
	}
}

static struct rshare_event expect_data(enum rshare_event_type type, uint64_t cookie, size_t size,
				       uint32_t immediate)
{
	const struct rshare_event e = next(d);

	ck_assert(e.type == type && !e.status && e.cookie == cookie && e.size == size);
	ck_assert(e.flags == RSHARE_IMMEDIATE && e.immediate == immediate);
	return e;
}

/* _i: queue pairs break. */
UNIT_LOOP_TEST(immediate_data_comes_with_messages_and_writes, 0, 2)
{
	struct rshare_op op = { .flags = RSHARE_IMMEDIATE, .buffer = out, .remote = &at };
	struct rshare_event e;
	unsigned int i;

	set_fake(_i ? 7 : 0, 0);
	for (i = 0; i < 40; i++) {
		const bool write = i % 2;

		op.type = write ? RSHARE_OP_WRITE : RSHARE_OP_SEND;
		op.size = i * 1000;
		op.immediate = 0x80000000u + i;
		op.cookie = i;
		memset(in, 0, ROOM);
		memset(out, (int)i + 1, op.size);
		ck_assert_int_eq(rshare_recv(d, in, ROOM, 100 + i), 0);
		post(&op);
		e = expect_data(write ? RSHARE_WRITTEN : RSHARE_RECEIVED, 100 + i, op.size,
				op.immediate);
		unit_require(!memcmp(in, out, op.size) && !in[op.size]);
		expect(c, RSHARE_SENT, 0, i);
	}
	ck_assert(!_i || info_of(a).repairs > 3);
	ck_assert_int_eq(rshare_recv(d, in, ROOM, 1), 0);
	ck_assert_int_eq(rshare_send(c, out, 1, 1), 0);
	e = next(d);
	ck_assert(e.type == RSHARE_RECEIVED && !e.flags && !e.immediate);
	op.type = RSHARE_OP_READ;
	op.size = 1;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
}

/* The peer is not told of a write that its device refuses. */
UNIT_TEST(a_refused_write_is_not_announced)
{
	const struct rshare_remote wrong = { at.address, at.rkey + 1, at.size };
	const struct rshare_op op = { .type = RSHARE_OP_WRITE,
				      .flags = RSHARE_IMMEDIATE,
				      .buffer = out,
				      .size = 100,
				      .cookie = 3,
				      .remote = &wrong };

	ck_assert_int_eq(rshare_recv(d, in, ROOM, 5), 0);
	post(&op);
	expect(c, RSHARE_SENT, -EKEYREJECTED, 3);
	expect(c, RSHARE_CLOSED, -EKEYREJECTED, 0);
	expect(d, RSHARE_RECEIVED, -ECANCELED, 5);
	expect(d, RSHARE_CLOSED, -ECONNRESET, 0);
}

/* From the stack, which is overwritten before the device reads it. _i: queue pairs break. */
UNIT_LOOP_TEST(inline_data_is_the_callers_again_at_once, 0, 2)
{
	struct rshare_op op = { .remote = &at };
	char buf[RSHARE_INLINE_MAX + 1];
	unsigned int i;

	set_fake(_i ? 7 : 0, 0);
	memset(in, 0, ROOM);
	for (i = 0; i <= RSHARE_INLINE_MAX; i++) {
		const bool write = i % 3;

		op.type = write ? RSHARE_OP_WRITE : RSHARE_OP_SEND;
		op.flags = RSHARE_INLINE | (write ? RSHARE_IMMEDIATE : 0);
		op.immediate = i;
		op.size = i;
		op.offset = 1000 + i * 100;
		op.buffer = buf;
		memset(buf, (int)i + 1, i);
		ck_assert_int_eq(rshare_recv(d, in, 100, i), 0);
		fake_hold(1, UINT_MAX);
		post(&op);
		memset(buf, 0xee, sizeof(buf));
		usleep(200);
		fake_hold(0, UINT_MAX);
		expect(d, write ? RSHARE_WRITTEN : RSHARE_RECEIVED, 0, i);
		expect(c, RSHARE_SENT, 0, 0);
		memset(buf, (int)i + 1, i);
		unit_require(!memcmp(write ? in + op.offset : in, buf, i));
		unit_require(!write || !in[op.offset + i]);
	}
	op.size = RSHARE_INLINE_MAX + 1;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.size = 1;
	op.type = RSHARE_OP_READ;
	op.flags = RSHARE_INLINE;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
}

/* ---- buffers in pieces ---------------------------------------------------------------------- */

static void pieces_of(struct rshare_piece *v, unsigned int round)
{
	static const size_t size[] = { 3, 0, 16352, 16384, 5000, 1, 40000 };
	char *p = out;

	for (unsigned int i = 0; i < RSHARE_PIECES_MAX; i++) {
		v[i] = (struct rshare_piece){ p + 7 * i, size[(round + i * 3) % 7] };
		p += v[i].size + 7 * i;
	}
}

static size_t gather(char *to, const struct rshare_piece *v)
{
	size_t n = 0;

	for (unsigned int i = 0; i < RSHARE_PIECES_MAX; n += v[i++].size)
		memcpy(to + n, v[i].buffer, v[i].size);
	return n;
}

/* A send and a write gather, a read scatters. _i: queue pairs break. */
UNIT_LOOP_TEST(operations_in_pieces_move_their_bytes, 0, 2)
{
	struct rshare_piece v[RSHARE_PIECES_MAX];
	struct rshare_op op = { .remote = &at, .pieces = v, .npieces = RSHARE_PIECES_MAX };
	char *want = malloc(ROOM), *got = malloc(ROOM);
	size_t size;

	set_fake(_i ? 20 : 0, 0); /* more than a chain: a read is repeated until it is complete */
	for (unsigned int k = 0; k < 30; k++) {
		pieces_of(v, k / 3);
		op.type = (enum rshare_op_type)(RSHARE_OP_SEND + k % 3);
		op.cookie = k;
		memset(in, (int)k + 1, ROOM);
		memset(want, (int)k + 1, ROOM);
		if (op.type == RSHARE_OP_READ)
			for (unsigned int i = 0; i < ROOM; i++)
				in[i] = want[i] = (char)(i * 13 + k);
		size = gather(op.type == RSHARE_OP_READ ? got : want, v);
		ck_assert(op.type != RSHARE_OP_SEND || !rshare_recv(d, in, ROOM, k));
		post(&op);
		if (op.type == RSHARE_OP_SEND)
			ck_assert_uint_eq(next_of(d, RSHARE_RECEIVED).size, size);
		expect(c, RSHARE_SENT, 0, k);
		unit_require(gather(got, v) == size);
		unit_require(!memcmp(got, want, size) && !memcmp(in, want, ROOM));
	}
	ck_assert(!_i || info_of(a).repairs > 3);
	free(want);
	free(got);
}

/* From any memory, which is the caller's again at once. */
UNIT_TEST(inline_data_is_gathered_from_pieces)
{
	char buf[RSHARE_INLINE_MAX];
	struct rshare_piece v[] = { { buf + 50, 26 }, { NULL, 0 }, { buf, 30 }, { buf + 30, 20 } };
	const struct rshare_op op = {
		.type = RSHARE_OP_SEND, .flags = RSHARE_INLINE, .pieces = v, .npieces = 4
	};

	for (unsigned int i = 0; i < sizeof(buf); i++)
		buf[i] = (char)(i + 1);
	ck_assert_int_eq(rshare_recv(d, in, 100, 1), 0);
	fake_hold(1, UINT_MAX);
	post(&op);
	memset(buf, 0, sizeof(buf));
	fake_hold(0, UINT_MAX);
	ck_assert_uint_eq(next_of(d, RSHARE_RECEIVED).size, sizeof(buf));
	for (unsigned int i = 0; i < sizeof(buf); i++)
		ck_assert_int_eq(in[i], (int)((i < 26 ? i + 50 : i - 26) + 1));
	v[1].size = 1;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL); /* 77 bytes */
}

UNIT_TEST(what_are_no_pieces_is_refused)
{
	struct rshare_piece v[RSHARE_PIECES_MAX + 1];
	struct rshare_op good = { .type = RSHARE_OP_SEND, .pieces = v, .npieces = 2 }, op;
	unsigned int i;

	for (i = 0; i < RSHARE_PIECES_MAX + 1; i++)
		v[i] = (struct rshare_piece){ out + i, 1 };
	op = good;
	op.buffer = out;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op = good;
	op.size = 1;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op = good;
	op.pieces = NULL;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op = good;
	op.npieces = RSHARE_PIECES_MAX + 1;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op = good;
	op.type = RSHARE_OP_FETCH_ADD;
	op.remote = &at;
	v[0].size = v[1].size = 4;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.type = RSHARE_OP_WRITE;
	op.offset = ROOM - 7;
	ck_assert_int_eq(rshare_post(c, &op), -ERANGE);
	v[1].buffer = in;
	ck_assert_int_eq(rshare_post(c, &good), -EINVAL);
	v[1].buffer = out;
	v[0].size = v[1].size = RSHARE_MESSAGE_MAX / 2 + 1;
	ck_assert_int_eq(rshare_post(c, &good), -EINVAL);
	v[0].size = SIZE_MAX;
	v[1].size = 2;
	ck_assert_int_eq(rshare_post(c, &good), -EINVAL);
	op = good;
	op.flags = RSHARE_INLINE; /* of a sum that wraps */
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
}

/* Pieces without a byte; no piece at all. */
UNIT_TEST(an_operation_of_empty_pieces_is_empty)
{
	const struct rshare_piece v[] = { { NULL, 0 }, { out, 0 } };
	struct rshare_op op = { .type = RSHARE_OP_SEND, .pieces = v };

	for (op.npieces = 0; op.npieces < 3; op.npieces++) {
		ck_assert_int_eq(rshare_recv(d, in, 100, 1), 0);
		post(&op);
		ck_assert_uint_eq(next_of(d, RSHARE_RECEIVED).size, 0);
		expect(c, RSHARE_SENT, 0, 0);
	}
}

/* Entries of a work request, and of a read: pieces of an operation. */
static const struct {
	int sges, sges_rd;
	unsigned int pieces;
} devices[] = {
	{ 1, 0, 1 }, { 2, 0, 1 }, { 3, 0, 2 }, { 5, 8, 4 }, { 6, 0, 5 }, { 8, 8, 5 }, { 8, 2, 2 },
};

/* A device that takes few pieces is used with so many, and more are refused. */
UNIT_LOOP_TEST(a_device_takes_as_many_pieces_as_it_can, 0, sizeof(devices) / sizeof(devices[0]))
{
	struct rshare_piece v[RSHARE_PIECES_MAX];
	struct rshare_op op = {
		.type = RSHARE_OP_WRITE, .flags = RSHARE_UNSIGNALLED, .remote = &at, .pieces = v
	};
	struct rshare_config x = config(name_c, 3);
	struct rshare *r;
	struct rshare_conn *e;
	unsigned int i;
	char *memory;

	__atomic_store_n(&fake_sges, devices[_i].sges, __ATOMIC_RELAXED);
	__atomic_store_n(&fake_sges_rd, devices[_i].sges_rd, __ATOMIC_RELAXED);
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_uint_eq(info_of(r).pieces, devices[_i].pieces);
	memory = rshare_get(r, 100);
	ck_assert_int_eq(rshare_connect(r, node_b, 7, 0, 1, &e), 0);
	for (i = 0; i < RSHARE_PIECES_MAX; i++)
		v[i] = (struct rshare_piece){ memory + i, 1 };
	for (i = 1; i <= RSHARE_PIECES_MAX; i++) {
		op.npieces = i;
		ck_assert_int_eq(post_soon(e, &op), i > devices[_i].pieces ? -EINVAL : 0);
	}
	v[1].size = 0; /* does not count */
	op.npieces = devices[_i].pieces + 1;
	if (op.npieces <= RSHARE_PIECES_MAX)
		ck_assert_int_eq(post_soon(e, &op), 0);
	ck_assert_int_eq(rshare_disconnect(e, 5000), 0);
	rshare_close(r);
}

/* Operations of two entries fill the ring before `depth` of them are outstanding. */
UNIT_TEST(a_full_ring_says_so)
{
	char buf[RSHARE_INLINE_MAX] = { 0 };
	const struct rshare_op op = { .type = RSHARE_OP_SEND,
				      .flags = RSHARE_INLINE | RSHARE_UNSIGNALLED,
				      .buffer = buf,
				      .size = sizeof(buf) };
	const int64_t until = now_ms() + EVENT_MS;
	unsigned int i, sent = 0;
	int err;

	/* The owner takes one at some time, and no more: the peer has no receives. */
	while (sent < 5 && now_ms() < until)
		if ((err = rshare_post(c, &op))) {
			unit_require(err == -EAGAIN && sent >= 4);
			usleep(1000);
		} else {
			sent++;
		}
	ck_assert_uint_eq(sent, 5);
	ck_assert_int_eq(rshare_post(c, &op), -EAGAIN);
	for (i = 0; i < sent; i++)
		ck_assert_int_eq(rshare_recv(d, in + i * 100, 100, i), 0);
	for (i = 0; i < sent; i++)
		expect(d, RSHARE_RECEIVED, 0, i);
}

static void *adder(void *arg)
{
	for (unsigned int i = 0; i < 20000; i++)
		__atomic_fetch_add((uint64_t *)arg, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* With the processor of the peer, too. _i: queue pairs break. */
UNIT_LOOP_TEST(atomic_operations_are_atomic_and_happen_once, 0, 2)
{
	uint64_t *old = (uint64_t *)(void *)out, *word = (uint64_t *)(void *)in, last = 0;
	struct rshare_op op = { .type = RSHARE_OP_FETCH_ADD,
				.buffer = old,
				.size = sizeof(*old),
				.remote = &at,
				.operand = 1000000 };
	pthread_t thread;

	set_fake(_i ? 5 : 0, 0);
	*word = 0;
	ck_assert(!pthread_create(&thread, NULL, adder, word));
	for (unsigned int i = 0; i < 100; i++) {
		post(&op);
		expect(c, RSHARE_SENT, 0, 0);
		unit_require(*old >= last && *old / 1000000 == i);
		last = *old;
	}
	pthread_join(thread, NULL);
	ck_assert_uint_eq(*word, 100 * 1000000 + 20000);
	ck_assert(!_i || info_of(a).repairs > 3);
	op.type = RSHARE_OP_COMPARE_SWAP;
	op.compare = *word;
	op.operand = 4;
	for (unsigned int i = 0; i < 2; i++) {
		post(&op);
		expect(c, RSHARE_SENT, 0, 0);
		ck_assert_uint_eq(*old, i ? 4 : op.compare);
		ck_assert_uint_eq(*word, 4);
	}
}

UNIT_TEST(atomic_operations_are_on_aligned_words)
{
	const struct rshare_remote odd = { at.address + 4, at.rkey, at.size - 4 };
	struct rshare_op op = {
		.type = RSHARE_OP_FETCH_ADD, .buffer = out, .size = 8, .remote = &at, .offset = 4
	};

	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.remote = &odd;
	op.offset = 0;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.offset = 4;
	op.size = 4;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.size = 8;
	op.flags = RSHARE_INLINE;
	ck_assert_int_eq(rshare_post(c, &op), -EINVAL);
	op.flags = 0;
	op.offset = ROOM - 8;
	ck_assert_int_eq(rshare_post(c, &op), -ERANGE);
	op.offset = ROOM - 12;
	ck_assert_int_eq(rshare_post(c, &op), 0);
	expect(c, RSHARE_SENT, 0, 0);
}

/* Each kind of operation is counted where it belongs. */
UNIT_TEST(operations_are_counted_by_connection)
{
	static const uint32_t flags[] = { 0, RSHARE_IMMEDIATE, RSHARE_UNSIGNALLED };
	struct rshare_op op = { .type = RSHARE_OP_WRITE, .buffer = out, .remote = &at };
	struct rshare_conn *other, *peer;
	struct rshare_stats s;

	pair(&other, &peer, 0);
	ck_assert_int_eq(rshare_recv(d, in, 100, 1), 0);
	for (unsigned int i = 0; i < 3; i++) {
		op.flags = flags[i];
		op.size = 20000 + i;
		post(&op);
	}
	op.type = RSHARE_OP_READ;
	op.flags = 0;
	op.size = 30000;
	post(&op);
	op.type = RSHARE_OP_FETCH_ADD;
	op.flags = RSHARE_FENCE;
	op.size = 8;
	op.cookie = 5;
	post(&op);
	while (next_of(c, RSHARE_SENT).cookie != 5)
		;
	ck_assert_int_eq(rshare_send(c, out, 9, 6), 0); /* waits for a receive */
	for (unsigned int i = 0; i < 1000; i++) {
		ck_assert_int_eq(rshare_get_stats(c, &s), 0);
		if (s.stalls && s.outstanding)
			break;
		usleep(1000);
	}
	ck_assert_uint_eq(s.writes, 3);
	ck_assert_uint_eq(s.bytes_written, 60003);
	ck_assert(s.reads == 1 && s.bytes_read == 30000 && s.atomics == 1);
	ck_assert(!s.messages_sent && !s.bytes_sent && s.stalls && s.outstanding == 1);
	ck_assert_uint_le(s.fences, 1);
	ck_assert_int_eq(rshare_get_stats(d, &s), 0);
	ck_assert(s.written == 1 && !s.writes && !s.messages_received && !s.outstanding);
	ck_assert_int_eq(rshare_get_stats(other, &s), 0);
	ck_assert(!s.writes && !s.reads && !s.atomics && !s.chunks_sent);
	rshare_disconnect(other, 0);
	rshare_disconnect(peer, 0);
	ck_assert_int_eq(rshare_recv(d, in, 100, 1), 0);
	expect(c, RSHARE_SENT, 0, 6);
	ck_assert_int_eq(rshare_get_stats(c, &s), 0);
	ck_assert(s.messages_sent == 1 && s.bytes_sent == 9 && !s.outstanding);
}

/* ---- keys of single buffers ----------------------------------------------------------------- */

static int status_of(const struct rshare_op *op)
{
	struct rshare_conn *x, *y;
	struct rshare_event e;

	pair(&x, &y, 0);
	ck_assert_int_eq(rshare_post(x, op), 0);
	e = next_of(x, RSHARE_SENT);
	rshare_disconnect(x, 0);
	rshare_disconnect(y, 0);
	return e.status;
}

/* A key opens its bytes, for its access; not those beside, and not after it was taken back. */
UNIT_LOOP_TEST(a_granted_key_opens_one_buffer, 0, 3)
{
	static const unsigned int access[] = { RSHARE_ACCESS_READ, RSHARE_ACCESS_WRITE,
					       RSHARE_ACCESS_ATOMIC };
	static const enum rshare_op_type type[] = { RSHARE_OP_READ, RSHARE_OP_WRITE,
						    RSHARE_OP_FETCH_ADD };
	const uint64_t registered = info_of(b).registered;
	struct rshare_remote key, beside;
	struct rshare_op op = { .buffer = out, .size = 8, .remote = &key };
	unsigned int i;

	ck_assert_int_eq(rshare_grant(b, in + 256, 64, access[_i], &key), 0);
	ck_assert(key.size == 64 && key.rkey != at.rkey);
	ck_assert_uint_eq(info_of(b).registered, registered + 64);
	for (i = 0; i < 3; i++) {
		op.type = type[i];
		ck_assert_int_eq(status_of(&op), i == (unsigned int)_i ? 0 : -EKEYREJECTED);
	}
	op.type = type[_i];
	op.offset = 56;
	ck_assert_int_eq(status_of(&op), 0);
	op.remote = &beside;
	for (i = 0; i < 2; i++) { /* the bytes before it and behind it */
		beside = key;
		beside.address += i ? 64 : (uint64_t)-64;
		ck_assert_int_eq(status_of(&op), -EKEYREJECTED);
	}
	op.remote = &key;
	ck_assert_int_eq(rshare_revoke(a, &key), -ENOENT); /* of another process */
	ck_assert_int_eq(rshare_revoke(b, &key), 0);
	ck_assert_int_eq(rshare_revoke(b, &key), -ENOENT);
	ck_assert_int_eq(status_of(&op), -EKEYREJECTED);
	ck_assert_uint_eq(info_of(b).registered, registered);
}

UNIT_TEST(what_cannot_be_granted_is_refused)
{
	struct rshare_remote key;
	char outside[8];

	ck_assert_int_eq(rshare_grant(b, in, 64, 0, &key), -EINVAL);
	ck_assert_int_eq(rshare_grant(b, in, 64, 8, &key), -EINVAL);
	ck_assert_int_eq(rshare_grant(b, in, 64, 256 + RSHARE_ACCESS_READ, &key), -EINVAL);
	ck_assert_int_eq(rshare_grant(b, in, 0, RSHARE_ACCESS_READ, &key), -EINVAL);
	ck_assert_int_eq(rshare_grant(b, in, 5u << 20, RSHARE_ACCESS_READ, &key), -EINVAL);
	ck_assert_int_eq(rshare_grant(b, outside, 8, RSHARE_ACCESS_READ, &key), -EINVAL);
	fake_refuse(FAKE_MR, ENOMEM, 0, 1);
	ck_assert_int_eq(rshare_grant(b, in, 64, RSHARE_ACCESS_READ, &key), -ENOMEM);
	__atomic_store_n(&take_after, 0, __ATOMIC_RELAXED);
	ck_assert_int_eq(rshare_grant(b, in, 64, RSHARE_ACCESS_READ, &key), -ENOMEM);
	__atomic_store_n(&take_after, -1, __ATOMIC_RELAXED);
	ck_assert_int_eq(rshare_grant(b, in, 64, RSHARE_ACCESS_READ, &key), 0);
	/* What is not taken back goes with the attachment. */
}

/* Up to the limit of the owner, for each process. What is taken back makes room, and what failed
 * takes none. */
UNIT_TEST(a_process_has_a_limited_number_of_keys)
{
	struct rshare_config x = config(name_b, 1);
	struct rshare_remote key, first;
	const uint64_t registered = info_of(b).registered;
	struct rshare *other;
	unsigned int i, k;

	x.grants = 65537;
	ck_assert_int_eq(rshare_open(NULL, &x, &other, why), -EINVAL);
	x.role = RSHARE_CLIENT;
	x.grants = 1000; /* the setting of a client has no effect */
	ck_assert_msg(!rshare_open(NULL, &x, &other, why), "%s", why);
	fake_refuse(FAKE_MR, ENOMEM, 0, 1);
	ck_assert_int_eq(rshare_grant(b, in, 64, RSHARE_ACCESS_READ, &key), -ENOMEM);
	for (k = 0; k < 3; k++) {
		for (i = k ? 19 : 0; i < 20; i++)
			ck_assert_int_eq(rshare_grant(b, in, 64, RSHARE_ACCESS_READ, &key), 0);
		first = key;
		ck_assert_int_eq(rshare_grant(b, in, 64, RSHARE_ACCESS_READ, &key), -ENOSPC);
		ck_assert(key.rkey == first.rkey);
		ck_assert_int_eq(rshare_revoke(b, &first), 0);
	}
	ck_assert_uint_eq(info_of(b).registered, registered + x.pool + 19 * 64);
	for (i = 0; i < 20; i++)
		ck_assert_int_eq(
			rshare_grant(other, rshare_get(other, 64), 64, RSHARE_ACCESS_READ, &key),
			0);
	ck_assert_int_eq(rshare_grant(other, rshare_get(other, 64), 64, RSHARE_ACCESS_READ, &key),
			 -ENOSPC);
	rshare_close(other);
}

UNIT_TEST(a_process_has_1024_keys_by_default)
{
	struct rshare_config x = config(name_c, 3);
	struct rshare_remote key;
	struct rshare *r;
	void *memory;

	x.grants = 0;
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	memory = rshare_get(r, 64);
	for (unsigned int i = 0; i < 1024; i++)
		unit_require(!rshare_grant(r, memory, 64, RSHARE_ACCESS_WRITE, &key));
	ck_assert_int_eq(rshare_grant(r, memory, 64, RSHARE_ACCESS_WRITE, &key), -ENOSPC);
	rshare_close(r);
}

/* A process whose pool is not for peers lets them into one buffer. */
UNIT_TEST(a_closed_pool_has_granted_buffers)
{
	struct rshare_config x = config(name_c, 3);
	struct rshare_listener *l;
	struct rshare_remote key, all;
	struct rshare_conn *e, *f = NULL;
	struct rshare *r;
	char node[32], *memory;
	int i;

	x.remote = 0;
	snprintf(node, sizeof(node), "127.0.0.1:%u", port + 3);
	ck_assert_msg(!rshare_open(NULL, &x, &r, why), "%s", why);
	ck_assert_int_eq(rshare_listen(r, 1, &l), 0);
	memory = rshare_get(r, 1000);
	ck_assert_int_eq(rshare_export(r, memory, 1000, &all), -EACCES);
	ck_assert_int_eq(rshare_grant(r, memory, 1000, RSHARE_ACCESS_WRITE, &key), 0);
	ck_assert_int_eq(rshare_connect(a, node, 1, 0, 1, &e), 0);
	ck_assert_int_eq(rshare_write(e, out, 1000, &key, 0, 1), 0);
	ck_assert_int_eq(next_of(e, RSHARE_SENT).status, 0);
	ck_assert(!memcmp(memory, out, 1000));
	for (i = 0; i < 200 && rshare_accept(l, &f); i++)
		usleep(10000);
	rshare_disconnect(e, 0);
	rshare_close(r);
}

UNIT_SUITE("share_ops", .seconds = 60, .setup = ops_begin, .teardown = ops_end)
