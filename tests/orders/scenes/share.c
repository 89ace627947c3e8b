// SPDX-License-Identifier: BSD-2-Clause
/*
 * share.c - the rings of a connection (share/ring.h): any number of threads on the client's side,
 * one on the owner's. Each entry arrives once, whole, and a slot is not written again before it was
 * copied.
 */
#include "../order.h"
#include "share/ring.h"

#define SIZE 2 /* slots */

static struct {
	struct rs_rqe ring[SIZE];
	uint32_t position; /* of the client's threads */
} m;

static uint32_t owner; /* position of the owner's thread */
static unsigned int put[ORDER_THREADS], taken;

void scene_memory(void)
{
	share(m);
}

static void begin(void)
{
	unsigned int t;

	owner = taken = 0;
	for (t = 0; t < ORDER_THREADS; t++)
		put[t] = 0;
}

static struct rs_rqe entry(unsigned int n)
{
	return (struct rs_rqe){ .len = n, .offset = n * 16, .cookie = n * 256 };
}

static void check(const struct rs_rqe *e)
{
	require(e->len && e->offset == e->len * 16 && e->cookie == e->len * 256,
		"an entry is not whole");
	require(!(taken >> e->len & 1), "entry %u comes twice", e->len);
	taken |= 1u << e->len;
}

static void client_put(unsigned int me, unsigned int n)
{
	struct rs_rqe e = entry(n);

	if (rs_ring_put_shared(m.ring, &m.position, SIZE, &e, sizeof(e)))
		put[me] |= 1u << n;
}

static void owner_take(void)
{
	struct rs_rqe e;

	if (rs_ring_take(m.ring, &owner, SIZE, &e, sizeof(e)))
		check(&e);
}

static void owner_put(unsigned int n)
{
	struct rs_rqe e = entry(n);

	if (rs_ring_put(m.ring, &owner, SIZE, &e, sizeof(e)))
		put[0] |= 1u << n;
}

static void client_take(void)
{
	struct rs_rqe e;

	if (rs_ring_take_shared(m.ring, &m.position, SIZE, &e, sizeof(e)))
		check(&e);
}

/* The owner takes what the client puts; the ring wraps. */
static void one(unsigned int me)
{
	if (me) {
		owner_take();
		owner_take();
		owner_take();
	} else {
		client_put(0, 1);
		client_put(0, 2);
		client_put(0, 3);
	}
}

static void put_end(void)
{
	unsigned int i;

	for (i = 0; i <= SIZE; i++)
		owner_take();
	require(taken == (put[0] | put[1] | put[2]), "put %x, taken %x", put[0] | put[1] | put[2],
		taken);
}

static void two_put(unsigned int me)
{
	if (me == 2) {
		owner_take();
		owner_take();
	} else {
		client_put(me, 1 + me);
	}
}

/* Threads of the client find the ring full, while the owner frees a slot of it. */
static void full_begin(void)
{
	begin();
	client_put(0, 5);
	client_put(0, 6);
}

static void two_take(unsigned int me)
{
	if (me == 2) {
		owner_put(1);
		owner_put(2);
		owner_put(3);
	} else {
		client_take();
	}
}

static void take_end(void)
{
	unsigned int i;

	for (i = 0; i <= SIZE; i++)
		client_take();
	require(taken == put[0], "put %x, taken %x", put[0], taken);
}

/* A pair beside an entry: where its first is filled, so is its second. */
static void client_put_pair(unsigned int me)
{
	struct rs_rqe first = entry(1), second = entry(2);

	if (rs_ring_put_pair(m.ring, &m.position, SIZE, &first, &second, sizeof(first)))
		put[me] |= 1u << 1 | 1u << 2;
}

static void owner_take_whole(void)
{
	struct rs_rqe e;

	if (!rs_ring_take(m.ring, &owner, SIZE, &e, sizeof(e)))
		return;
	check(&e);
	if (e.len != 1)
		return;
	require(rs_ring_take(m.ring, &owner, SIZE, &e, sizeof(e)), "the second entry is missing");
	require(e.len == 2, "another entry is within a pair");
	check(&e);
}

static void pair(unsigned int me)
{
	if (me == 2) {
		owner_take_whole();
		owner_take_whole();
	} else if (me) {
		client_put(1, 3);
	} else {
		client_put_pair(0);
	}
}

static void pair_begin(void)
{
	begin();
	client_put(0, 5);
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "one", .what = "one thread puts, one takes; the ring wraps",
	  .threads = 2, .begin = begin, .thread = one, .end = put_end },
	{ .name = "two-put", .what = "two threads put", .threads = 3, .begin = begin, .thread = two_put, .end = put_end },
	{ .name = "full", .what = "two threads put into a full ring",
	  .threads = 3, .begin = full_begin, .thread = two_put, .end = put_end },
	{ .name = "pair", .what = "a thread puts a pair, one an entry", .threads = 3, .begin = begin, .thread = pair, .end = put_end },
	{ .name = "pair-wraps", .what = "the same in a ring with an entry", .threads = 3, .begin = pair_begin, .thread = pair, .end = put_end },
	{ .name = "two-take", .what = "two threads take", .threads = 3, .begin = begin, .thread = two_take, .end = take_end },
	{ .name = NULL },
};
/* clang-format on */
