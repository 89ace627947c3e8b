// SPDX-License-Identifier: BSD-2-Clause
/*
 * lock.c - the word of a hold record (core/lock.h): threads that lock by a swap of the word, and
 * steps that take the word back. At most one thread, of this node or another, is inside at a time;
 * what one has written there, the next one sees; every thread that waits is woken.
 */
#include "../order.h"
#include "core/lock.c"

#define HOME 3
#define OBJECT 0x05000007u
#define GEN 9
#define STRIPE 0 /* cell: the lock of the record; cells from 1 on: the slots of threads */

static struct {
	struct hold h;
	struct queue_entry entries[ORDER_THREADS];
	int16_t status[ORDER_THREADS];
	uint32_t inside, gone;
	uint32_t count; /* written inside */
} m;

static unsigned int entered[ORDER_THREADS], left_to_other;

void scene_memory(void)
{
	share(m);
	loose(m.h.state); /* hold_state() */
}

static struct hold_ctx context(void)
{
	return (struct hold_ctx){ .me = 0,
				  .passes = 2,
				  .fast = true,
				  .queue = { .entries = m.entries, .nslots = ORDER_THREADS } };
}

static uint64_t name(void)
{
	return hold_name(HOME, OBJECT, GEN);
}

static struct msg ask(unsigned int me)
{
	return (struct msg){ .type = MSG_LOCK,
			     .dst = HOME,
			     .object = OBJECT,
			     .req_node = GEN,
			     .req_slot = (uint16_t)me };
}

static void critical(void)
{
	require(!__atomic_exchange_n(&m.inside, 1, __ATOMIC_RELAXED), "two threads are inside");
	m.count++;
	__atomic_exchange_n(&m.inside, 0, __ATOMIC_RELAXED);
}

static void carry_out(const struct actions *acts)
{
	unsigned int i;

	for (i = 0; i < acts->n; i++) {
		const struct action *a = &acts->v[i];

		if (a->type == ACT_WAKE) {
			m.status[a->slot] = a->status;
			cell_post(1u + a->slot);
		} else if (a->msg.type == MSG_LOCKED ||
			   (a->msg.type == MSG_RECALLED && !a->msg.count)) {
			left_to_other = 1;
			critical(); /* of the other node, which keeps it */
		}
	}
}

/* A step as run_held() makes it. */
static int step(enum hold_event ev, const struct msg *about)
{
	const struct hold_ctx ctx = context();
	struct actions acts;
	int err;

	cell_lock(STRIPE);
	err = hold_thread(&ctx, 0, &m.h, ev, about, &acts);
	cell_unlock(STRIPE);
	if (!err)
		carry_out(&acts);
	return err;
}

/* A message of the home or of another node. */
static void message(enum hold_event ev, struct msg a)
{
	const struct hold_ctx ctx = context();
	struct actions acts;

	cell_lock(STRIPE);
	require(!hold_step(&ctx, 0, &m.h, ev, &a, &acts), "a message is refused");
	cell_unlock(STRIPE);
	carry_out(&acts);
}

/* Behind the threads that hold and await the lock here. False: it has left this node. */
static bool enter_slow(unsigned int me)
{
	struct msg about = ask(me);

	if (!step(HE_TAKE, &about))
		return true;
	if (step(HE_JOIN, &about))
		return false;
	for (;;) {
		cell_wait(1 + me);
		if (m.status[me] != -EAGAIN)
			return m.status[me] == 0;
		require(!step(HE_COME, &about), "a woken thread is refused");
	}
}

static void leave_slow(void)
{
	require(!step(HE_UNLOCK, NULL), "the holder's release is refused");
}

static void visit(unsigned int me, bool fast)
{
	if (!(fast && hold_fast_take(&m.h.word, name())) && !enter_slow(me))
		return;
	entered[me]++;
	critical();
	if (!hold_fast_release(&m.h.word, name()))
		leave_slow();
}

static void begin(void)
{
	const struct hold_ctx ctx = context();
	struct msg a = ask(0);
	struct actions acts;
	unsigned int t;

	for (t = 0; t < ORDER_THREADS; t++)
		entered[t] = 0;
	left_to_other = 0;
	hold_begin(&m.h, &a);
	hold_step(&ctx, 0, &m.h, HE_LOCKED, &a, &acts);
	hold_step(&ctx, 0, &m.h, HE_UNLOCK, &a, &acts);
	require(m.h.word == (name() | HOLD_FAST), "the record is not fast");
}

static void end(void)
{
	unsigned int t, n = left_to_other;

	for (t = 0; t < ORDER_THREADS; t++)
		n += entered[t];
	require(m.count == n, "%u visits, but %u were counted", n, m.count);
	require(left_to_other ? !m.h.word : hold_state(&m.h) == HOLD_CACHED,
		"the record ends in another state");
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static void fast_and_slow(unsigned int me)
{
	visit(me, me == 0);
	if (me == 0)
		visit(me, true);
}

static void all_fast(unsigned int me)
{
	visit(me, true);
}

static void all_fast_twice(unsigned int me)
{
	visit(me, true);
	visit(me, true);
}

static const struct msg next = {
	.type = MSG_NEXT, .src = HOME, .object = OBJECT, .req_node = 5, .req_slot = 6, .value = 7
};

static void next_comes(unsigned int me)
{
	if (me == 2)
		message(HE_NEXT, next);
	else
		visit(me, true);
}

/* As in keep_next(), and then in run_kept(). */
static void next_is_kept(unsigned int me)
{
	if (me == 2) {
		cell_lock(STRIPE);
		require(hold_want(&m.h, &next), "the lock is not here");
		cell_unlock(STRIPE);
	}
	next_comes(me);
}

static void recall_comes(unsigned int me)
{
	struct msg a = { .type = MSG_RECALL, .src = HOME, .object = OBJECT, .req_node = GEN };

	if (me == 1)
		message(HE_RECALL, a);
	else
		visit(me, true);
}

/* After a recall the record is not free before the home has answered. */
static void recall_end(void)
{
	if (left_to_other)
		require(m.h.state == HOLD_LEAVING && m.count == 1 + entered[0] + entered[2],
			"the recall is lost");
	else
		end();
}

/* Readers of a record without its lock see HELD or CACHED, never what it was before it was fast. */
static void state_is_read(unsigned int me)
{
	struct msg about = ask(me);

	if (me == 0) {
		visit(0, true);
	} else if (me == 1) {
		if (!step(HE_TAKE, &about)) {
			entered[1]++;
			critical();
			leave_slow();
		}
	} else {
		uint8_t state = hold_state(&m.h);

		require(state == HOLD_HELD || state == HOLD_CACHED, "state %u", state);
		require(!hold_fast_taken(&m.h.word, name() + 1), "it has another name");
	}
}

/*
 * A record is taken from the pool for another lock, while a thread still has a hint that leads to
 * it.
 */
static void renewed(unsigned int me)
{
	struct msg other = {
		.type = MSG_LOCK, .dst = HOME, .object = OBJECT + 1, .req_node = GEN, .req_slot = 1
	};

	if (me == 1) {
		cell_lock(STRIPE);
		hold_begin(&m.h, &other);
		cell_unlock(STRIPE);
	} else {
		require(!hold_fast_take(&m.h.word, name()) && !hold_fast_taken(&m.h.word, name()),
			"a lock that is not here is taken");
	}
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "fast-step", .what = "a thread that swaps the word, and one that steps the record",
	  .threads = 2, .begin = begin, .thread = fast_and_slow, .end = end },
	{ .name = "fast-twice", .what = "two threads, each twice",
	  .threads = 2, .begin = begin, .thread = all_fast_twice, .end = end },
	{ .name = "fast-queue", .what = "three threads: the second waits to be woken",
	  .threads = 3, .begin = begin, .thread = all_fast, .end = end },
	{ .name = "fast-next", .what = "two threads, while another node asks for the lock",
	  .threads = 3, .begin = begin, .thread = next_comes, .end = end },
	{ .name = "fast-kept", .what = "two threads, while another node's request is kept",
	  .threads = 3, .begin = begin, .thread = next_is_kept, .end = end },
	{ .name = "fast-recall", .what = "two threads, while the home asks whether it is idle",
	  .threads = 3, .begin = begin, .thread = recall_comes, .end = recall_end },
	{ .name = "fast-state", .what = "the state is read without the record's lock",
	  .threads = 3, .begin = begin, .thread = state_is_read, .end = end },
	{ .name = "fast-renewed", .what = "a record gets another lock", .threads = 2, .thread = renewed },
	{ .name = NULL },
};
/* clang-format on */
