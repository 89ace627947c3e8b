// SPDX-License-Identifier: BSD-2-Clause
/* common_ops.c - tests of a node: the operations and flags of rshare_post(). */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "tests.h"

static struct rshare_conn *c;
static struct rshare_remote at; /* the server's memory */
static char *buf;

static bool posts(const struct rshare_op *op)
{
	return !rshare_post(c, op);
}

/* With room, or as soon as there is some. */
static void posts_soon(const struct rshare_op *op)
{
	int err;

	while ((err = rshare_post(c, op)) == -EAGAIN)
		rshare_wait(c, 1);
	must(err, "rshare_post");
}

/* The answer of the server has this data. */
static bool answered(uint32_t immediate, size_t size)
{
	const struct rshare_event e = next_of(c, RSHARE_RECEIVED);

	return e.type == RSHARE_RECEIVED && !e.status && e.size == size &&
		e.flags == RSHARE_IMMEDIATE && e.immediate == immediate;
}

/* Data from the stack, sent and written, with immediate data. */
static void ops_inline(void)
{
	char data[RSHARE_INLINE_MAX];
	struct rshare_op op = { .type = RSHARE_OP_SEND,
				.flags = RSHARE_INLINE | RSHARE_IMMEDIATE,
				.buffer = data,
				.immediate = 0xfedcba98 };
	unsigned int good = 0, size;

	for (size = 0; size <= RSHARE_INLINE_MAX; size += 19) {
		memset(data, (int)size + 1, sizeof(data));
		op.size = size;
		op.immediate++;
		good += !rshare_recv(c, buf, SLOT, 1) && posts(&op);
		memset(data, 0, sizeof(data));
		good += answered(op.immediate, size) &&
			(!size || (buf[0] == (char)(size + 1) && buf[size - 1] == buf[0]));
	}
	check("inline sends with immediate data", good == 10);
	op.type = RSHARE_OP_WRITE;
	op.flags |= RSHARE_UNSIGNALLED;
	op.remote = &at;
	op.offset = 100;
	op.size = sizeof(data);
	memset(data, 99, sizeof(data));
	check("an inline write with immediate data",
	      !rshare_recv(c, buf, SLOT, 1) && posts(&op) && answered(op.immediate, 0));
	op = (struct rshare_op){ .type = RSHARE_OP_READ,
				 .cookie = 7,
				 .buffer = buf,
				 .size = sizeof(data),
				 .remote = &at,
				 .offset = 100 };
	do
		check("a read of it", posts(&op));
	while (next_of(c, RSHARE_SENT).cookie != 7);
	check("is what was written", !memcmp(buf, data, sizeof(data)));
}

/* Many writes without an event; the read after them has one. What it reads is sent back. */
static void ops_unsignalled(void)
{
	struct rshare_op op = {
		.type = RSHARE_OP_WRITE, .flags = RSHARE_UNSIGNALLED, .size = 1000, .remote = &at
	};
	unsigned int i, sent = 0;
	struct rshare_event e;
	size_t size = 0;

	for (i = 0; i < 100 * 1000; i++)
		buf[i] = (char)(i * 7 + i / 999);
	for (i = 0; i < 100; i++) {
		op.buffer = buf + 1000 * i;
		op.offset = 1000 * i;
		posts_soon(&op);
	}
	op = (struct rshare_op){ .type = RSHARE_OP_READ,
				 .flags = RSHARE_UNSIGNALLED,
				 .buffer = buf + 100000,
				 .size = 100000,
				 .remote = &at };
	posts_soon(&op);
	check("a receive", !rshare_recv(c, buf + 200000, 100000, 5));
	op = (struct rshare_op){ .type = RSHARE_OP_SEND,
				 .flags = RSHARE_FENCE,
				 .cookie = 9,
				 .buffer = buf + 100000,
				 .size = 100000 };
	posts_soon(&op);
	while (!sent || !size) { /* in any order */
		e = next(c);
		check("an event that is due",
		      !e.status && (e.type == RSHARE_RECEIVED || e.cookie == 9));
		sent += e.type == RSHARE_SENT;
		size += e.type == RSHARE_RECEIVED ? e.size : 0;
		if (e.status)
			return;
	}
	check("what was written is read, and comes back",
	      size == 100000 && !memcmp(buf, buf + 100000, 100000) &&
		      !memcmp(buf, buf + 200000, 100000));
}

/* Pieces of all sizes, in another order than in memory. */
static size_t pieces_at(struct rshare_piece *v, char *memory)
{
	static const size_t size[RSHARE_PIECES_MAX] = { 40000, 1, 16384, 0, 3001 };
	size_t sum = 0;

	for (unsigned int i = 0; i < RSHARE_PIECES_MAX; sum += size[i++])
		v[i] = (struct rshare_piece){ memory + (size_t)(RSHARE_PIECES_MAX - i) * 50001,
					      size[i] };
	return sum;
}

static void gather(char *to, const struct rshare_piece *v)
{
	for (unsigned int i = 0; i < RSHARE_PIECES_MAX; to += v[i++].size)
		memcpy(to, v[i].buffer, v[i].size);
}

/* What is gathered comes back as one message; what is written in pieces is read into others. */
static void ops_pieces(void)
{
	static char want[100000], got[100000];
	struct rshare_piece v[RSHARE_PIECES_MAX];
	const size_t size = pieces_at(v, buf);
	struct rshare_op op = { .type = RSHARE_OP_SEND,
				.flags = RSHARE_IMMEDIATE | RSHARE_UNSIGNALLED,
				.immediate = 5,
				.pieces = v,
				.npieces = RSHARE_PIECES_MAX };
	unsigned int i;

	for (i = 0; i < 6 * 50001; i++)
		buf[i] = (char)(i * 11 + i / 997);
	gather(want, v);
	check("a gathered send",
	      !rshare_recv(c, buf + 400000, 100000, 1) && posts(&op) && answered(5, size) &&
		      !memcmp(buf + 400000, want, size));
	op.type = RSHARE_OP_WRITE;
	op.flags = RSHARE_UNSIGNALLED;
	op.remote = &at;
	op.offset = 200000;
	check("a gathered write", posts(&op));
	op.type = RSHARE_OP_READ;
	op.flags = 0;
	op.pieces = NULL;
	op.npieces = 0;
	op.buffer = buf + 400000;
	op.size = size;
	memset(op.buffer, 0, size);
	check("a read of it", posts(&op) && !next_of(c, RSHARE_SENT).status);
	check("is what was gathered", !memcmp(op.buffer, want, size));
	memset(buf, 0, 6 * 50001);
	op.pieces = v;
	op.npieces = RSHARE_PIECES_MAX;
	op.buffer = NULL;
	op.size = 0;
	check("a scattered read", posts(&op) && !next_of(c, RSHARE_SENT).status);
	gather(got, v);
	for (i = 0; i < 6 * 50001; i++)
		op.size += buf[i] != 0;
	check("has its bytes in the pieces, and none beside them",
	      !memcmp(got, want, size) && op.size <= size && op.size > size / 2);
}

static void ops_atomic(void)
{
	struct rshare_op op = { .type = RSHARE_OP_FETCH_ADD,
				.flags = RSHARE_FENCE,
				.buffer = buf,
				.size = 8,
				.remote = &at,
				.offset = 500000,
				.operand = 3 };
	uint64_t old, first = 0;
	unsigned int i, good = 0;

	for (i = 0; i < 20; i++) {
		good += posts(&op) && !next_of(c, RSHARE_SENT).status;
		memcpy(&old, buf, sizeof(old));
		first = i ? first : old;
		good += old == first + 3 * i;
	}
	check("additions", good == 40);
	op.type = RSHARE_OP_COMPARE_SWAP;
	op.compare = first + 60;
	op.operand = first + 1000;
	for (i = 0; i < 2; i++) {
		good = posts(&op) && !next_of(c, RSHARE_SENT).status;
		memcpy(&old, buf, sizeof(old));
		check("a comparison", good && old == first + (i ? 1000 : 60));
	}
}

void test_ops(void)
{
	for (unsigned int priority = 0; priority < 8; priority += 7) {
		c = dial(MEMORY, priority);
		buf = rshare_get(r, BIG);
		check("the address",
		      !rshare_recv(c, buf, BIG, 1) &&
			      next_of(c, RSHARE_RECEIVED).size == sizeof(at));
		memcpy(&at, buf, sizeof(at));
		ops_inline();
		ops_unsignalled();
		ops_pieces();
		ops_atomic();
		check("disconnect", !rshare_disconnect(c, EVENT_MS));
		rshare_put(r, buf);
	}
}
