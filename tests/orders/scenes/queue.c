// SPDX-License-Identifier: BSD-2-Clause
/*
 * queue.c - the core's parts that threads use without a lock, or with different locks: marks of
 * queue entries and pieces of their memory (core/queue.h), the list of free objects
 * (core/objects.h), answers that are due (core/ask.c).
 */
#include <stddef.h>

#include "../order.h"
#include "core/ask.c"
#include "core/objects.h"
#include "core/queue.h"

#define PLACES 4

static struct {
	struct queue_entry entries[ORDER_THREADS];
	struct queue_entry *pieces[1];
	struct object_list list;
	struct sync objects[PLACES];
	struct sync *chunks[1];
	uint32_t owner[PLACES]; /* plain: the thread that has the place */
	uint64_t ask;
	uint32_t sent, answered, ended;
} m;

static unsigned int marked[ORDER_THREADS];

void scene_memory(void)
{
	share(m);
}

/* ---- marks: one entry is in the reach of the locks of different blocks ----------------------- */

static struct qpool pool(void)
{
	return (struct qpool){ .entries = m.entries, .nslots = ORDER_THREADS };
}

static void forget(void)
{
	unsigned int t;

	for (t = 0; t < ORDER_THREADS; t++)
		marked[t] = 0;
}

static void mark_once(unsigned int me)
{
	const struct qpool q = pool();

	marked[me] = queue_mark(&q, 1, 10 + me);
}

static void mark_end(void)
{
	require(marked[0] + marked[1] == 1, "%u threads have set the mark of one entry",
		marked[0] + marked[1]);
	require(m.entries[0].mark == 11 + marked[1], "the mark is %u", m.entries[0].mark);
}

/* The confirmation of a block that was marked before, and the request for another. */
static void mark_begin(void)
{
	const struct qpool q = pool();

	forget();
	queue_mark(&q, 1, 10);
}

static void unmark(unsigned int me)
{
	const struct qpool q = pool();

	if (me == 0)
		require(queue_unmark(&q, 1, 10), "the mark is lost");
	else if (me == 1)
		marked[1] = queue_mark(&q, 1, 20);
	else
		require(!queue_unmark(&q, 1, 30), "a mark that was never set is cleared");
}

static void unmark_end(void)
{
	require(m.entries[0].mark == (marked[1] ? 21u : 0), "the mark is %u", m.entries[0].mark);
}

/* Two confirmations of one mark, of which one is false. */
static void unmark_twice(unsigned int me)
{
	const struct qpool q = pool();

	marked[me] = queue_unmark(&q, 1, 10);
}

static void unmark_twice_end(void)
{
	require(marked[0] + marked[1] == 1, "%u confirmations of one mark", marked[0] + marked[1]);
}

/* A piece of the queue's memory appears; the host publishes it with release (kmod/node/host.c). */
static void piece(unsigned int me)
{
	const struct qpool q = { .nslots = ORDER_THREADS, .chunks = m.pieces };

	if (me == 1) {
		m.entries[2].aux = 7;
		__atomic_store_n(&m.pieces[0], m.entries, __ATOMIC_RELEASE);
	} else if (queue_ready(&q, 3)) {
		require(queue_at(&q, 3)->aux == 7, "a piece is seen before its contents");
	}
}

static void piece_found(unsigned int me)
{
	const struct qpool q = { .nslots = ORDER_THREADS, .chunks = m.pieces };

	if (me == 1) {
		m.entries[2].aux = 7;
		__atomic_store_n(&m.pieces[0], m.entries, __ATOMIC_RELEASE);
	} else if (__atomic_load_n(&m.pieces[0], __ATOMIC_RELAXED)) {
		require(queue_at(&q, 3)->aux == 7, "a piece is used before its contents");
	}
}

/* ---- the list of free objects ---------------------------------------------------------------- */

static struct objects objects(void)
{
	return (struct objects){ .list = &m.list, .flat = m.objects, .limit = PLACES };
}

static uint32_t place_take(unsigned int me)
{
	struct objects o = objects();
	uint32_t missing, at = objects_take(&o, &missing);

	require(!missing, "memory is missing");
	if (at) {
		require(at < PLACES && !m.owner[at], "place %u is taken twice", at);
		m.owner[at] = me + 1;
	}
	return at;
}

static void place_give(uint32_t at)
{
	struct objects o = objects();

	if (at) {
		m.owner[at] = 0;
		m.objects[at].gen++;
		objects_give(&o, at);
	}
}

/* Two places are free: 1, and below it 2. */
static void places_begin(void)
{
	uint32_t a = place_take(0), b = place_take(0);

	place_give(b);
	place_give(a);
}

/* The thread that is slow sees the head it knows, and another entry below it. */
static void places(unsigned int me)
{
	uint32_t a, b;

	if (me) {
		place_give(place_take(me));
		return;
	}
	a = place_take(me);
	b = place_take(me);
	place_give(a);
	place_give(b);
}

static void places_three(unsigned int me)
{
	place_give(place_take(me));
}

static void places_fresh(unsigned int me)
{
	place_take(me);
}

static void places_fresh_end(void)
{
	require(m.list.fresh == 2, "%u places were taken", m.list.fresh);
}

static void places_end(void)
{
	struct objects o = objects();
	uint32_t missing, n = 0;

	while (n < PLACES && objects_take(&o, &missing))
		n++;
	require(n == PLACES - 1, "%u places are left", n);
}

/* ---- answers that are due -------------------------------------------------------------------- */

static struct msg request(uint8_t type, uint8_t op)
{
	return (struct msg){ .type = type, .op = op, .src = 0, .dst = 2, .object = 0x77 };
}

static struct msg answer(int16_t status)
{
	return (struct msg){
		.type = MSG_REPLY, .src = 2, .dst = 0, .object = 0x77, .count = status
	};
}

static void take_answer(int16_t status)
{
	struct msg a = answer(status);
	bool last = false;

	if (!ask_answer(&m.ask, &a, &last))
		return;
	__atomic_fetch_add(&m.answered, 1, __ATOMIC_RELAXED);
	if (last)
		__atomic_fetch_add(&m.ended, 1, __ATOMIC_RELAXED);
}

static void asked(void)
{
	struct msg q = request(MSG_SYNC, SOP_ENQUEUE);

	ask_note(&m.ask, &q); /* two answers */
}

static void answers(unsigned int me)
{
	(void)me;
	take_answer(0);
}

static void answers_end(void)
{
	require(m.answered == 2 && m.ended == 1 && !m.ask, "%u answers, %u of them the last",
		m.answered, m.ended);
}

/* A request is cancelled while its second answer comes. */
static void cancelled(unsigned int me)
{
	struct msg q = request(MSG_SYNC, SOP_CANCEL);

	if (me == 0) {
		ask_note(&m.ask, &q);
		cell_post(0);
	} else if (me == 1) {
		take_answer(0);
		take_answer(0);
	} else {
		cell_wait(0);
		take_answer(-EALREADY);
	}
}

static void cancelled_end(void)
{
	require(m.answered == 3 && !m.ask, "%u of 3 answers were taken, %llx is left", m.answered,
		(unsigned long long)m.ask);
}

/* What the sender wrote before the note is seen by the thread that gets the answer. */
static void noted(unsigned int me)
{
	struct msg q = request(MSG_SYNC, SOP_ENQUEUE), a = answer(0);
	bool last;

	if (me == 0) {
		m.sent = 1;
		ask_note(&m.ask, &q);
	} else if (ask_answer(&m.ask, &a, &last)) {
		require(m.sent, "an answer before the question");
	}
}

/* clang-format off */
const struct scene scenes[] = {
	{ .name = "mark", .what = "two blocks mark one entry",
	  .threads = 2, .begin = forget, .thread = mark_once, .end = mark_end },
	{ .name = "mark-unmark", .what = "a confirmation and the next request",
	  .threads = 3, .begin = mark_begin, .thread = unmark, .end = unmark_end },
	{ .name = "unmark-twice", .what = "two confirmations of one mark",
	  .threads = 2, .begin = mark_begin, .thread = unmark_twice, .end = unmark_twice_end },
	{ .name = "piece", .what = "memory of a queue appears", .threads = 2, .thread = piece },
	{ .name = "piece-found", .what = "memory of a queue, known from elsewhere", .threads = 2, .thread = piece_found },
	{ .name = "places", .what = "a place is given back under a slow thread",
	  .threads = 2, .begin = places_begin, .thread = places, .end = places_end },
	{ .name = "places-three", .what = "three threads take and give places",
	  .threads = 3, .begin = places_begin, .thread = places_three, .end = places_end },
	{ .name = "places-fresh", .what = "two threads take places for the first time",
	  .threads = 2, .thread = places_fresh, .end = places_fresh_end },
	{ .name = "answers", .what = "two answers at once",
	  .threads = 2, .begin = asked, .thread = answers, .end = answers_end },
	{ .name = "cancelled", .what = "an answer, a cancellation and its answer",
	  .threads = 3, .begin = asked, .thread = cancelled, .end = cancelled_end },
	{ .name = "noted", .what = "a question and its answer", .threads = 2, .thread = noted },
	{ .name = NULL },
};
/* clang-format on */
