// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ask.c - core/ask: the word of a slot's request, and answers that arrive on several threads
 * at once.
 */
#include "core.h"

#include <pthread.h>
#include <sched.h>

#include "core/ask.h"

#include "cross.h"

#define ME 2
#define PEER 0x301
#define SLOT 9
#define OBJECT 0x87654321u
#define ROUNDS 2000

static uint64_t only, *at = &only; /* the slot's word */

static struct msg question(uint8_t type, uint8_t op, uint8_t flags)
{
	struct msg m = unit_msg(type, ME, PEER, ME, SLOT);

	m.object = OBJECT;
	m.op = op;
	m.flags = flags;
	return m;
}

static void note(uint8_t type, uint8_t op, uint8_t flags)
{
	struct msg m = question(type, op, flags);

	ask_note(at, &m);
}

static bool answered(uint8_t type, int16_t count, bool *last)
{
	struct msg m = unit_msg(type == MSG_CALL ? MSG_RETURN : MSG_REPLY, PEER, ME, ME, SLOT);

	m.object = OBJECT;
	m.count = count;
	return ask_answer(at, &m, last);
}

static void setup(void)
{
	*at = 0;
}

UNIT_TEST(a_word_has_four_parts)
{
	note(MSG_SYNC, SOP_ADD, 0);
	ck_assert_uint_eq(*at, (uint64_t)OBJECT << 32 | (uint64_t)PEER << 16 | 1u << 8 | MSG_SYNC);
	note(MSG_SYNC, SOP_ENQUEUE, 0);
	ck_assert_uint_eq(*at, (uint64_t)OBJECT << 32 | (uint64_t)PEER << 16 | 2u << 8 | MSG_SYNC);
}

/*
 * ENQUEUE has two answers, and so has each request that may queue, with TIMED; no other operation,
 * flag or type.
 */
UNIT_TEST(few_questions_have_two_answers)
{
	unsigned int op, flag;

	for (op = 0; op < SYNC_OPS; op++)
		for (flag = 1; flag < 256; flag *= 2) {
			bool waits = op == SOP_WAIT || op == SOP_RDLOCK || op == SOP_WRLOCK ||
				op == SOP_MEET;
			bool twice = op == SOP_ENQUEUE || (waits && flag == MSGF_TIMED);

			*at = 0;
			note(MSG_SYNC, (uint8_t)op, (uint8_t)flag);
			ck_assert_uint_eq(*at >> 8 & 0xff, 1u + twice);
			*at = 0;
			note(MSG_CALL, (uint8_t)op, (uint8_t)flag);
			ck_assert_uint_eq(*at >> 8 & 0xff, 1);
		}
}

/* A new question replaces the old one's word. Only a cancellation adds to it. */
UNIT_TEST(only_a_cancellation_adds_an_answer)
{
	unsigned int op;

	for (op = 0; op < SYNC_OPS; op++) {
		bool twice = op == SOP_ENQUEUE;

		*at = 0;
		note(MSG_SYNC, SOP_ADD, 0);
		note(MSG_SYNC, (uint8_t)op, 0);
		ck_assert_uint_eq(*at >> 8 & 0xff, op == SOP_CANCEL ? 2 : 1u + twice);
		*at = 0;
		note(MSG_CALL, SOP_ADD, 0);
		note(MSG_CALL, (uint8_t)op, 0);
		ck_assert_uint_eq(*at >> 8 & 0xff, 1);
	}
	*at = (uint64_t)(OBJECT + 1) << 32 | (uint64_t)PEER << 16 | 7u << 8 | MSG_SYNC;
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert_uint_eq(*at, (uint64_t)OBJECT << 32 | (uint64_t)PEER << 16 | 1u << 8 | MSG_SYNC);
}

UNIT_TEST(a_question_has_its_type_until_its_last_answer)
{
	static const uint8_t types[] = { MSG_SYNC,    MSG_PLACE, MSG_SETTLE, MSG_CLAIM,
					 MSG_RELEASE, MSG_CALL,  MSG_ECHO };
	unsigned int i;
	bool last;

	for (i = 0; i < sizeof(types); i++) {
		*at = 0;
		note(types[i], 0, 0);
		ck_assert_uint_eq(ask_due(*at), types[i]);
	}
	*at = 0;
	note(MSG_SYNC, SOP_WAIT, MSGF_TIMED);
	note(MSG_SYNC, SOP_CANCEL, 0);
	for (i = 3; i--;) {
		ck_assert_uint_eq(ask_due(*at), MSG_SYNC);
		ck_assert(answered(MSG_SYNC, 0, &last));
		ck_assert_int_eq(last, !i);
	}
	ck_assert_uint_eq(ask_due(*at), 0);
}

/*
 * The object may be destroyed while answers are in flight; then the home refuses later messages. A
 * request and its cancellation have one answer each, in either order, with any status; only
 * -ETIMEDOUT means that the request itself has no answer.
 */
UNIT_TEST(a_refused_cancellation_does_not_end_the_request)
{
	static const int16_t pairs[][2] = {
		{ 0, -EINVAL }, { -EINVAL, 0 }, { -EINVAL, -EINVAL }, { -EINVAL, -EALREADY }
	};
	unsigned int i, line;
	bool last;

	for (i = 0; i < 4; i++)
		for (line = 0; line < 2; line++) {
			note(MSG_SYNC, SOP_WAIT, line ? MSGF_TIMED : 0);
			if (line)
				ck_assert(answered(MSG_SYNC, 0, &last) && !last);
			note(MSG_SYNC, SOP_CANCEL, 0);
			ck_assert(answered(MSG_SYNC, pairs[i][0], &last) && !last);
			ck_assert(answered(MSG_SYNC, pairs[i][1], &last) && last);
			ck_assert(!answered(MSG_SYNC, -EINVAL, &last));
		}
}

/*
 * SOP_CANCEL has overtaken the request, and is repeated: the word still belongs to a cancelled
 * request.
 */
UNIT_TEST(a_repeated_cancellation_is_one_more_answer)
{
	bool last;

	note(MSG_SYNC, SOP_WAIT, 0);
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert(answered(MSG_SYNC, -EALREADY, &last) && !last);
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert(answered(MSG_SYNC, -EINVAL, &last) && !last);
	ck_assert(answered(MSG_SYNC, -EINVAL, &last) && last);
	note(MSG_SYNC, SOP_WAIT, 0);
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert(answered(MSG_SYNC, -EALREADY, &last) && !last);
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert(answered(MSG_SYNC, -ETIMEDOUT, &last) && last);
	ck_assert(!answered(MSG_SYNC, 0, &last));
	note(MSG_SYNC, SOP_WAIT, MSGF_TIMED); /* the next request is not cancelled */
	ck_assert(answered(MSG_SYNC, -EINVAL, &last) && last);
}

/* ---- one thread in the middle of another ----------------------------------------------------- */

#ifndef __SANITIZE_THREAD__
static void answer_first(void)
{
	bool last;

	ck_assert(answered(MSG_SYNC, 0, &last) && last);
}

static void answer_one_of_two(void)
{
	bool last;

	ck_assert(answered(MSG_SYNC, 0, &last) && !last);
}

static void cancel_too(void)
{
	note(MSG_SYNC, SOP_CANCEL, 0);
}

UNIT_TEST(what_crosses_an_answer_or_a_cancellation_is_counted)
{
	bool last;

	at = cross_memory();
	note(MSG_SYNC, SOP_ADD, 0);
	cross_arm(answer_first);
	ck_assert(!answered(MSG_SYNC, 0, &last));
	ck_assert(cross_done());
	note(MSG_SYNC, SOP_ENQUEUE, 0);
	cross_arm(answer_one_of_two);
	ck_assert(answered(MSG_SYNC, 0, &last) && last);
	ck_assert(cross_done());
	note(MSG_SYNC, SOP_ADD, 0);
	cross_arm(cancel_too);
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert(cross_done());
	ck_assert_uint_eq(*at >> 8 & 0xff, 3);
	note(MSG_SYNC, SOP_ADD, 0);
	cross_arm(answer_first);
	/* a cancellation of an answered request: only its own answer is due */
	note(MSG_SYNC, SOP_CANCEL, 0);
	ck_assert(cross_done());
	ck_assert_uint_eq(*at >> 8 & 0xff, 1);
	at = &only;
}
#endif

/* ---- two threads ---------------------------------------------------------------------------- */

static unsigned int ready;
static bool taken[2];

/* Both threads leave at about the same time. */
static void meet(unsigned int round)
{
	unsigned int spins;

	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	for (spins = 0; __atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 2 * round; spins++)
		if (spins > 1000)
			sched_yield();
}

static void *take(void *arg)
{
	bool *mine = arg, last;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		if (mine == taken)
			note(MSG_SYNC, SOP_ADD, 0);
		meet(3 * i + 1);
		*mine = answered(MSG_SYNC, 0, &last);
		meet(3 * i + 2);
		unit_require(taken[0] + taken[1] == 1);
		meet(3 * i + 3);
	}
	return NULL;
}

static void *cancel(void *arg)
{
	unsigned int i, k;

	for (i = 0; i < ROUNDS / 10; i++) {
		if (!arg) {
			*at = 0;
			note(MSG_SYNC, SOP_ADD, 0);
		}
		meet(3 * i + 1);
		for (k = 0; k < 100; k++)
			note(MSG_SYNC, SOP_CANCEL, 0);
		meet(3 * i + 2);
		unit_require((*at >> 8 & 0xff) == 201);
		meet(3 * i + 3);
	}
	return NULL;
}

static void both(void *(*run)(void *), void *first, void *second)
{
	pthread_t other;

	ready = 0;
	ck_assert_int_eq(pthread_create(&other, NULL, run, second), 0);
	run(first);
	ck_assert_int_eq(pthread_join(other, NULL), 0);
}

UNIT_TEST(one_of_two_takes_an_answer)
{
	both(take, &taken[0], &taken[1]);
}

UNIT_TEST(no_cancellation_is_lost)
{
	both(cancel, NULL, at);
}

UNIT_SUITE("ask", .seconds = 60, .setup = setup)
