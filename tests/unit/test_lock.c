// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_lock.c - core/lock: every state of a hold record with every event, the home, and UNLOCK
 * crossing NEXT.
 */
#include "core.h"

#include "core/lock.h"

#define HOME 0
#define RECORD 0x12345678

static struct msg from_home(uint8_t type, uint64_t value)
{
	struct msg m = unit_msg(type, HOME, 1, 3, 2);

	m.aux = RECORD;
	m.value = value;
	return m;
}

UNIT_TEST(every_pair_is_bounded_and_illegal_ones_change_nothing)
{
	unsigned int state, ev;

	for (state = 0; state <= HOLD_STATES; state++)
		for (ev = 0; ev <= HE_EVENTS; ev++) {
			struct hold h = { .state = (uint8_t)state,
					  .home = HOME,
					  .slot = 4,
					  .next_node = 3 },
				    before = h;
			struct actions out = { .n = 99 };
			struct msg m = from_home(MSG_NEXT, 0);
			struct queue_entry nodes[8] = { 0 };

			if (ev == HE_COME) {
				h.turn = TURN_WOKEN;
				h.slot = m.req_slot;
				before = h;
			}
			const struct hold_ctx ctx = { .me = 1,
						      .passes = 1,
						      .queue = { nodes, 4, NULL } };
			int err = hold_step(&ctx, RECORD, &h, (enum hold_event)ev, &m, &out);

			ck_assert(!err || err == -EBADMSG);
			ck_assert_uint_lt(out.n, ACTIONS_MAX);
			if (state == HOLD_STATES || ev == HE_EVENTS ||
			    hold_rule_name(state, ev)[0] == '-')
				ck_assert_int_eq(err, -EBADMSG);
			else
				ck_assert_int_eq(err, 0);
			if (err)
				ck_assert_mem_eq(&h, &before, sizeof(h));
		}
}

UNIT_TEST(everything_has_a_name)
{
	unsigned int s, e;

	for (s = 0; s < HOLD_STATES; s++)
		for (e = 0; e < HE_EVENTS; e++) {
			ck_assert_ptr_nonnull(hold_rule_name(s, e));
			ck_assert_str_ne(hold_rule_name(s, e), "?");
			ck_assert_str_ne(hold_state_name(s), "?");
			ck_assert_str_ne(hold_event_name(e), "?");
		}
	ck_assert_str_eq(hold_state_name(HOLD_STATES), "?");
	ck_assert_str_eq(hold_event_name(HE_EVENTS), "?");
	ck_assert_str_eq(hold_rule_name(HOLD_STATES, 0), "?");
	ck_assert_str_eq(hold_rule_name(HOLD_FREE, HE_EVENTS), "?");
}

static struct msg ask(uint8_t type, uint16_t rank, uint32_t record)
{
	struct msg m = unit_msg(type, rank, HOME, rank, 1);

	m.aux = record;
	return m;
}

/* The hold record that a message of the home, or of the last holder, names. */
static uint32_t record_of(const struct msg *m)
{
	return m->aux;
}

static int home_step(struct sync *s, const struct msg *m, struct actions *out)
{
	bool destroy;

	return lock_home_step(HOME, s, m, &destroy, out);
}

UNIT_TEST(the_home_tells_the_last_in_line_who_comes_next)
{
	struct sync s = { .kind = SYNC_MUTEX };
	struct msg a = ask(MSG_LOCK, 0, 0), b = ask(MSG_LOCK, 5, 9), c = ask(MSG_TRYLOCK, 6, 2);
	struct actions out;

	/* rank 0, record 0: must differ from a free lock */
	ck_assert_int_eq(home_step(&s, &a, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 0);
	ck_assert(!sync_idle(&s));
	ck_assert_int_eq(home_step(&s, &b, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->dst, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->aux, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->req_node, 5);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->value, 9);
	ck_assert_int_eq(home_step(&s, &c, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_RECALL)->aux, 9);
	b.type = MSG_RECALLED;
	b.count = -EBUSY;
	ck_assert_int_eq(home_step(&s, &b, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_FREED)->count, -EBUSY);
	a.type = MSG_UNLOCK;
	ck_assert_int_eq(home_step(&s, &a, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->value, 1);
	ck_assert(!sync_idle(&s));
	b.type = MSG_UNLOCK;
	ck_assert_int_eq(home_step(&s, &b, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->value, 0);
	ck_assert(sync_idle(&s));
	a.type = MSG_SYNC;
	ck_assert_int_eq(home_step(&s, &a, &out), -EBADMSG);
}

UNIT_TEST(what_a_request_says_goes_to_the_last_in_line)
{
	struct sync s = { .kind = SYNC_MUTEX };
	struct msg a = ask(MSG_LOCK, 0, 0), b = ask(MSG_LOCK, 5, 9);
	struct actions out;

	b.flags = MSGF_TIMED;
	b.op = 7;
	ck_assert_int_eq(home_step(&s, &a, &out), 0);
	ck_assert_int_eq(home_step(&s, &b, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->flags, MSGF_TIMED);
	ck_assert_uint_eq(unit_sent(&out, MSG_NEXT)->op, 7);
}

/* UNLOCK and NEXT cross. Whichever of NEXT and FREED comes first, the lock is passed on once. */
UNIT_TEST(a_crossed_unlock_frees_the_record_after_both_answers)
{
	struct msg next = from_home(MSG_NEXT, 8), crossed = from_home(MSG_FREED, 1);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct hold h = { .state = HOLD_LEAVING, .home = HOME };
		struct actions out;

		ck_assert_int_eq(hold_step(&(struct hold_ctx){ .me = 1 }, RECORD, &h,
					   i ? HE_FREED : HE_NEXT, i ? &crossed : &next, &out),
				 0);
		ck_assert_uint_ne(h.state, HOLD_FREE);
		ck_assert_ptr_eq(i ? unit_sent(&out, MSG_LOCKED) : NULL, NULL);
		if (!i)
			ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->aux, 8);
		ck_assert_int_eq(hold_step(&(struct hold_ctx){ .me = 1 }, RECORD, &h,
					   i ? HE_NEXT : HE_FREED, i ? &next : &crossed, &out),
				 0);
		ck_assert_uint_eq(h.state, HOLD_FREE);
		if (i)
			ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
	}
}

#define NODE 20 /* rank of the queued threads; their queue entries need more than 16 bits */
#define NSLOTS 0x1003
#define PASSES 2
#define THREADS 5

static struct queue_entry nodes[(NODE + 1) * NSLOTS];
static const struct hold_ctx cohort = { .me = NODE,
					.passes = PASSES,
					.queue = { nodes, NSLOTS, NULL } };

static int join(struct hold *h, uint16_t slot)
{
	struct msg m = unit_msg(MSG_LOCK, NODE, NODE, NODE, slot);
	struct actions out;
	int err = hold_step(&cohort, RECORD, h, HE_JOIN, &m, &out);

	ck_assert_uint_eq(out.n, 0);
	return err;
}

UNIT_TEST(without_queues_nobody_stands_in_line)
{
	struct hold h = { .state = HOLD_HELD, .home = HOME };
	struct msg m = unit_msg(MSG_LOCK, NODE, NODE, NODE, 1);
	struct actions out;

	ck_assert_int_eq(hold_step(&(struct hold_ctx){ .me = NODE }, RECORD, &h, HE_JOIN, &m, &out),
			 -EBADMSG);
}

/* Each part of the lock's name matters. */
UNIT_TEST(a_record_is_of_the_lock_that_it_was_taken_for)
{
	const struct msg ask = { .type = MSG_LOCK,
				 .src = NODE,
				 .dst = HOME,
				 .object = 7,
				 .req_node = 9,
				 .req_slot = 3 };
	const struct msg other[] = { { .dst = HOME + 1, .object = 7, .req_node = 9 },
				     { .dst = HOME, .object = 8, .req_node = 9 },
				     { .dst = HOME, .object = 7, .req_node = 10 } };
	struct hold h = { .line = 5, .passed = 3, .turn = TURN_DUE, .next_hold = 8 }, kept;
	struct actions out;
	unsigned int i;

	hold_begin(&h, &ask);
	ck_assert_uint_eq(h.state, HOLD_WAITING);
	ck_assert(h.home == HOME && h.object == 7 && h.gen == 9 && h.slot == 3);
	ck_assert(!h.line && !h.passed && !h.turn && !h.word);
	ck_assert(!hold_freed(HOLD_WAITING, &h) && !hold_freed(HOLD_FREE, &h));
	h.state = HOLD_CACHED;
	for (i = 0, kept = h; i < 3; i++) {
		ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_TAKE, &other[i], &out),
				 -EBADMSG);
		ck_assert(!out.n && !memcmp(&h, &kept, sizeof(h)));
	}
	ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_TAKE, &ask, &out), 0);
	ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_GIVE, NULL, &out), 0);
	ck_assert_int_eq(unit_action(&out, ACT_SEND, 0)->msg.dst, HOME);
	ck_assert_int_eq(
		hold_step(&cohort, RECORD, &h, HE_FREED, &(struct msg){ .src = HOME }, &out), 0);
	ck_assert(hold_freed(HOLD_LEAVING, &h) && !hold_freed(HOLD_FREE, &h));
}

UNIT_TEST(a_thread_leaves_the_line)
{
	struct hold h = { .state = HOLD_HELD, .home = HOME, .slot = 0 };
	struct actions out;

	ck_assert_int_eq(join(&h, 1), 0);
	ck_assert_int_eq(join(&h, 2), 0);
	ck_assert_int_eq(join(&h, 0x234), 0);
	ck_assert(!hold_leave(&cohort, &h, 0) && !hold_leave(&cohort, &h, 3));
	ck_assert(hold_leave(&cohort, &h, 2) && !hold_leave(&cohort, &h, 2));
	ck_assert_int_eq(join(&h, 2), 0); /* it may queue again, at the end */
	ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 1);
	ck_assert(!hold_leave(&cohort, &h, 1));
	ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 0x234);
	ck_assert(hold_leave(&cohort, &h, 2));
	ck_assert_int_eq(hold_thread(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert(!out.n && h.state == HOLD_CACHED);
}

/* The lock goes in order of arrival, no thread queues twice, and the last one keeps the lock. */
UNIT_TEST(threads_of_a_node_pass_the_lock_on_without_a_message)
{
	/* left by an earlier use */
	struct hold h = { .state = HOLD_HELD, .home = HOME, .slot = 0, .passed = 31 };
	struct actions out;
	uint16_t s;

	ck_assert_int_eq(join(&h, 0x234), 0);
	ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 0x234);
	for (s = 1; s <= THREADS; s++)
		ck_assert_int_eq(join(&h, s), 0);
	ck_assert_int_eq(join(&h, 2), -EBADMSG);
	for (s = 1; s <= THREADS; s++) {
		ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
		ck_assert_uint_eq(out.n, 1);
		ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, s);
		ck_assert_int_eq(unit_action(&out, ACT_WAKE, 0)->status, 0);
		ck_assert_uint_eq(h.state, HOLD_HELD);
	}
	ck_assert_int_eq(join(&h, 1), 0); /* the former holder may queue again */
	ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(h.state, HOLD_CACHED);
	ck_assert_int_eq(join(&h, 1), -EBADMSG); /* the lock is kept: a thread must take it */
}

/*
 * The lock is passed on so many times. Then it goes to the other node, and the remaining threads
 * request it again.
 */
UNIT_TEST(another_node_waits_for_so_many_threads_only)
{
	static const uint8_t before[] = { HOLD_WAITING, HOLD_HELD };
	struct msg next = from_home(MSG_NEXT, 8), locked = from_home(MSG_LOCKED, 0);
	unsigned int i;
	uint16_t s;

	for (i = 0; i < 2; i++) {
		struct hold h = { .state = before[i],
				  .home = HOME,
				  .slot = 0,
				  .object = 0x87654321,
				  .gen = 0x4567,
				  .passed = 31 };
		const struct msg *m;
		struct actions out;

		memset(nodes, 0, sizeof(nodes));
		for (s = 1; s <= THREADS; s++)
			ck_assert_int_eq(join(&h, s), 0);
		ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_NEXT, &next, &out), 0);
		if (!i)
			ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_LOCKED, &locked, &out),
					 0);
		for (s = 1; s <= PASSES; s++) {
			ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
			ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, s);
			ck_assert_uint_eq(out.n, 1);
			ck_assert_uint_eq(h.state, HOLD_HELD_NEXT);
		}
		ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
		ck_assert_ptr_null(unit_action(&out, ACT_WAKE, 0));
		m = unit_sent(&out, MSG_LOCKED);
		ck_assert(m && m->dst == 3 && m->aux == 8 && m->req_slot == 2);
		m = unit_sent(&out, MSG_LOCK);
		ck_assert(m && m->src == NODE && m->dst == HOME && m->object == 0x87654321 &&
			  m->req_node == 0x4567);
		ck_assert(m->req_slot == s && m->aux == RECORD);
		ck_assert_uint_eq(h.state, HOLD_WAITING);
		ck_assert_uint_eq(h.slot, s);
		ck_assert_uint_eq(queue_length(&cohort.queue, h.line), THREADS - s);
	}
}

UNIT_TEST(passes_are_counted_to_the_largest_bound)
{
	const struct hold_ctx most = { .me = NODE, .passes = 31, .queue = { nodes, NSLOTS, NULL } };
	struct hold h = { .state = HOLD_HELD, .home = HOME };
	struct msg next = from_home(MSG_NEXT, 8);
	struct actions out;
	unsigned int n;

	memset(nodes, 0, sizeof(nodes));
	ck_assert_int_eq(join(&h, 1), 0);
	ck_assert_int_eq(hold_step(&most, RECORD, &h, HE_NEXT, &next, &out), 0);
	for (n = 0; n < 100; n++) {
		ck_assert_int_eq(hold_step(&most, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
		if (unit_sent(&out, MSG_LOCKED))
			break;
		ck_assert_int_eq(join(&h, n % 2 ? 1 : 2), 0);
	}
	ck_assert_uint_eq(n, 31);
}

/* The request for those behind carries the node's claim. */
UNIT_TEST(threads_in_line_claim_as_others_do)
{
	const struct hold_ctx claims = {
		.me = NODE, .passes = 1, .claim = 9, .queue = { nodes, NSLOTS, NULL }
	};
	struct hold h = { .state = HOLD_HELD_NEXT, .passed = 1, .home = HOME };
	struct actions out;

	memset(nodes, 0, sizeof(nodes));
	ck_assert_int_eq(join(&h, 1), 0);
	ck_assert_int_eq(hold_step(&claims, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCK)->op, 9);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->op, 0);
}

/* While the host keeps NEXT, each release is a step. */
UNIT_TEST(a_wanted_record_is_not_fast)
{
	const struct hold_ctx ctx = {
		.me = 1, .passes = 1, .fast = true, .queue = { nodes, NSLOTS, NULL }
	};
	const struct msg next = from_home(MSG_NEXT, 8);
	struct msg other = next;
	unsigned int held, state;

	for (held = 0; held < 2; held++) {
		struct hold h = { .state = HOLD_HELD, .home = HOME, .object = next.object };
		const uint64_t name = hold_name(h.home, h.object, h.gen);
		struct actions out;

		ck_assert_int_eq(hold_step(&ctx, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
		ck_assert(hold_fast_take(&h.word, name));
		if (!held)
			ck_assert(hold_fast_release(&h.word, name));
		other.object++;
		ck_assert(!hold_want(&h, &other));
		other = next;
		other.src = HOME + 1;
		ck_assert(!hold_want(&h, &other));
		ck_assert(hold_want(&h, &next));
		ck_assert_uint_eq(hold_state(&h), held ? HOLD_HELD : HOLD_CACHED);
		if (!held)
			ck_assert_int_eq(hold_step(&ctx, RECORD, &h, HE_TAKE, NULL, &out), 0);
		ck_assert_uint_eq(h.word, 0);
		ck_assert_int_eq(hold_step(&ctx, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
		ck_assert_uint_eq(h.word, 0);
		ck_assert_uint_eq(h.state, HOLD_CACHED);
		ck_assert_int_eq(hold_step(&ctx, RECORD, &h, HE_NEXT, &next, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
		ck_assert_uint_eq(h.wanted, 0);
	}
	for (state = 0; state < HOLD_STATES; state++) {
		struct hold h = { .state = (uint8_t)state, .home = HOME, .object = next.object };

		ck_assert_int_eq(hold_want(&h, &next), state == HOLD_HELD || state == HOLD_CACHED);
	}
}

/* The lock is destroyed. Each thread is told so separately, by its own request. */
UNIT_TEST(a_refusal_is_not_for_those_behind)
{
	struct hold h = { .state = HOLD_WAITING, .home = HOME, .slot = 0 };
	struct msg m = from_home(MSG_FREED, 0);
	struct actions out;

	memset(nodes, 0, sizeof(nodes));
	ck_assert_int_eq(join(&h, 3), 0);
	ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_REFUSED, &m, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCK)->req_slot, 3);
	ck_assert_uint_eq(h.state, HOLD_WAITING);
	ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_REFUSED, &m, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 3);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_uint_eq(h.state, HOLD_FREE);
}

UNIT_TEST(a_successor_known_before_the_grant_is_not_forgotten)
{
	struct hold h = { .state = HOLD_WAITING, .home = HOME, .slot = 4 };
	struct msg next = from_home(MSG_NEXT, 8), locked = from_home(MSG_LOCKED, 0);
	struct actions out;

	ck_assert_int_eq(hold_step(&(struct hold_ctx){ .me = 1 }, RECORD, &h, HE_NEXT, &next, &out),
			 0);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 1 }, RECORD, &h, HE_LOCKED, &locked, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 4);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 1 }, RECORD, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->req_slot, 2);
	ck_assert_uint_eq(h.state, HOLD_FREE);
}

/* Holder and successor are named by rank, slot and record, each as wide as its field. */
UNIT_TEST(large_numbers_come_through)
{
	struct sync s = { .kind = SYNC_MUTEX };
	struct msg a = ask(MSG_LOCK, 1023, 0x71234), b = ask(MSG_LOCK, 771, 0xfedcba), next, locked;
	struct hold h = { .state = HOLD_HELD, .home = HOME, .object = 0x87654321 };
	struct actions out;

	a.object = b.object = 0x87654321;
	b.req_slot = 0x1ff;
	ck_assert_int_eq(home_step(&s, &a, &out), 0);
	locked = *unit_sent(&out, MSG_LOCKED);
	ck_assert_uint_eq(locked.dst, 1023);
	ck_assert_uint_eq(record_of(&locked), 0x71234);
	ck_assert_int_eq(home_step(&s, &b, &out), 0);
	next = *unit_sent(&out, MSG_NEXT);
	ck_assert_uint_eq(next.dst, 1023);
	ck_assert_uint_eq(next.object, 0x87654321);
	ck_assert_uint_eq(record_of(&next), 0x71234);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 1023 }, 0x71234, &h, HE_NEXT, &next, &out), 0);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 1023 }, 0x71234, &h, HE_UNLOCK, NULL, &out), 0);
	locked = *unit_sent(&out, MSG_LOCKED);
	ck_assert_uint_eq(locked.dst, 771);
	ck_assert_uint_eq(locked.object, 0x87654321);
	ck_assert_uint_eq(locked.req_node, 771);
	ck_assert_uint_eq(locked.req_slot, 0x1ff);
	ck_assert_uint_eq(record_of(&locked), 0xfedcba);
	/* A lock that is kept, taken again and given back keeps its name. */
	h = (struct hold){ .state = HOLD_HELD, .home = HOME, .object = 0x87654321, .slot = 0x1ff };
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 771 }, 0xfedcba, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 771 }, 0xfedcba, &h, HE_TAKE, NULL, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(h.state, HOLD_HELD);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 771 }, 0xfedcba, &h, HE_UNLOCK, NULL, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(
		hold_step(&(struct hold_ctx){ .me = 771 }, 0xfedcba, &h, HE_GIVE, NULL, &out), 0);
	ck_assert_uint_eq(record_of(unit_sent(&out, MSG_UNLOCK)), 0xfedcba);
	b = *unit_sent(&out, MSG_UNLOCK);
	/* as core/dispatch.c does: on the wire, req_node is part of the object's name */
	b.req_node = b.src;
	ck_assert_int_eq(home_step(&s, &b, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->value, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->req_slot, 0x1ff);
	ck_assert(sync_idle(&s));
}

/*
 * ---- records that are
 * fast--------------------------------------------------------------------------
 */

#define OBJECT 0x87654321u /* index and lower bits of the generation */
#define GEN 0x4567u        /* upper bits of the generation */
#define LOCK_HOME 0xabc

static const struct hold_ctx fast_ctx = {
	.me = NODE, .passes = PASSES, .fast = true, .queue = { nodes, NSLOTS, NULL }
};
static const uint64_t name =
	(uint64_t)GEN << 48 | 0x87ull << 40 | (uint64_t)LOCK_HOME << 24 | 0x654321;

static struct hold lock_of(uint8_t state)
{
	memset(nodes, 0, sizeof(nodes));
	return (struct hold){ .state = state, .home = LOCK_HOME, .object = OBJECT, .gen = GEN };
}

static void step(struct hold *h, enum hold_event ev, uint16_t slot, int err, struct actions *out)
{
	struct msg m = unit_msg(MSG_NEXT, LOCK_HOME, NODE, 3, slot);

	m.object = OBJECT;
	ck_assert_int_eq(hold_step(&fast_ctx, RECORD, h, ev, &m, out), err);
}

/* One thread was woken: it has the lock (status 0), or must come for it. */
static void woken(const struct actions *out, uint16_t slot, int status)
{
	const struct action *a = unit_action(out, ACT_WAKE, 0);

	ck_assert_uint_eq(out->n, 1);
	ck_assert(a && a->slot == slot && a->status == status);
}

UNIT_TEST(a_word_is_taken_and_released_by_its_name)
{
	const uint64_t others[] = { name ^ 1,          name ^ 1ull << 24, name ^ 1ull << 35,
				    name ^ 1ull << 40, name ^ 1ull << 63, 0 };
	uint64_t word = 0;
	size_t i;

	ck_assert(hold_name(LOCK_HOME, OBJECT, GEN) == name);
	ck_assert(!(name & (HOLD_FAST | HOLD_TAKEN)));
	ck_assert(!hold_fast_take(&word, name) && !hold_fast_release(&word, name) &&
		  !hold_fast_taken(&word, name) && !word);
	word = name | HOLD_FAST;
	for (i = 0; i < 6; i++)
		ck_assert(!hold_fast_take(&word, others[i]) && !hold_fast_taken(&word, others[i]));
	ck_assert(!hold_fast_release(&word, name) && !hold_fast_taken(&word, name));
	ck_assert(hold_fast_take(&word, name));
	ck_assert(hold_fast_taken(&word, name) && !hold_fast_take(&word, name));
	for (i = 0; i < 6; i++)
		ck_assert(!hold_fast_release(&word, others[i]) &&
			  !hold_fast_taken(&word, others[i]));
	ck_assert(hold_fast_release(&word, name));
	ck_assert_uint_eq(word, name | HOLD_FAST);
}

UNIT_TEST(a_record_that_is_not_fast_has_its_own_state)
{
	unsigned int state;

	for (state = 0; state < HOLD_STATES; state++) {
		struct hold h = lock_of((uint8_t)state);

		ck_assert_uint_eq(hold_state(&h), state);
	}
}

/* No thread waits: steps make the record fast, and continue from what threads have made of it. */
UNIT_TEST(a_step_goes_on_from_the_word)
{
	struct hold h = lock_of(HOLD_WAITING);
	struct actions out;

	h.slot = 4;
	step(&h, HE_LOCKED, 4, 0, &out);
	woken(&out, 4, 0);
	ck_assert_uint_eq(h.word, name | HOLD_FAST | HOLD_TAKEN);
	ck_assert_uint_eq(hold_state(&h), HOLD_HELD);
	ck_assert(hold_fast_release(&h.word, name));
	ck_assert_uint_eq(hold_state(&h), HOLD_CACHED);
	step(&h, HE_TAKE, 0, 0, &out);
	ck_assert_uint_eq(hold_state(&h), HOLD_HELD);
	step(&h, HE_UNLOCK, 0, 0, &out);
	ck_assert(hold_fast_take(&h.word, name));
	step(&h, HE_GIVE, 0, -EBADMSG, &out); /* refused; the record stays fast */
	ck_assert_uint_eq(h.word, name | HOLD_FAST | HOLD_TAKEN);
	ck_assert(hold_fast_release(&h.word, name));
	step(&h, HE_GIVE, 0, 0, &out);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_UNLOCK));
	ck_assert(!h.word && h.state == HOLD_LEAVING);
}

/* Another node or a thread waits: then releases take a step. */
UNIT_TEST(a_lock_that_somebody_waits_for_is_not_fast)
{
	struct hold h = lock_of(HOLD_CACHED);
	struct actions out;

	step(&h, HE_TAKE, 0, 0, &out);
	step(&h, HE_NEXT, 2, 0, &out);
	ck_assert(!h.word && h.state == HOLD_HELD_NEXT);
	h = lock_of(HOLD_CACHED);
	step(&h, HE_TAKE, 0, 0, &out);
	step(&h, HE_JOIN, 1, 0, &out);
	ck_assert(!h.word && h.state == HOLD_HELD);
	ck_assert_int_eq(hold_step(&cohort, RECORD, &h, HE_RECALL,
				   &(struct msg){ .type = MSG_RECALL }, &out),
			 0);
	ck_assert(!h.word); /* not fast if the node has no fast records */
}

/*
 * A release wakes the first thread in line. Until that one comes, any thread may take the lock; the
 * next release passes it on.
 */
UNIT_TEST(who_was_woken_is_overtaken_until_it_comes)
{
	struct hold h = lock_of(HOLD_CACHED);
	struct actions out;
	unsigned int i;

	step(&h, HE_TAKE, 0, 0, &out);
	step(&h, HE_JOIN, 1, 0, &out);
	step(&h, HE_JOIN, 2, 0, &out);
	step(&h, HE_UNLOCK, 0, 0, &out);
	woken(&out, 1, -EAGAIN);
	for (i = 0; i < 10; i++)
		ck_assert(hold_fast_take(&h.word, name) && hold_fast_release(&h.word, name));
	ck_assert(hold_fast_take(&h.word, name));
	step(&h, HE_JOIN, 3, 0, &out);
	ck_assert_uint_eq(h.word, name | HOLD_FAST | HOLD_TAKEN); /* one is on its way already */
	step(&h, HE_COME, 2, -EBADMSG, &out);
	step(&h, HE_COME, 1, 0, &out);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(h.word, 0);
	step(&h, HE_COME, 1, -EBADMSG, &out);
	step(&h, HE_UNLOCK, 0, 0, &out);
	woken(&out, 1, 0);
	step(&h, HE_UNLOCK, 0, 0, &out);
	woken(&out, 2, -EAGAIN);
	step(&h, HE_COME, 2, 0, &out); /* no thread has overtaken it */
	woken(&out, 2, 0);
	step(&h, HE_UNLOCK, 0, 0, &out);
	woken(&out, 3, -EAGAIN);
	step(&h, HE_COME, 3, 0, &out);
	step(&h, HE_UNLOCK, 0, 0, &out);
	ck_assert_uint_eq(h.word, name | HOLD_FAST);
	step(&h, HE_COME, 3, -EBADMSG, &out);
}

/*
 * If another node is known to wait, the lock goes to a thread here directly, so that passes are
 * counted.
 */
UNIT_TEST(nobody_is_woken_without_the_lock_while_another_node_waits)
{
	struct hold h = lock_of(HOLD_HELD);
	struct actions out;

	step(&h, HE_JOIN, 1, 0, &out);
	step(&h, HE_NEXT, 2, 0, &out);
	step(&h, HE_UNLOCK, 0, 0, &out);
	woken(&out, 1, 0);
	ck_assert(h.state == HOLD_HELD_NEXT && h.turn == TURN_NONE && h.passed == 1);
	step(&h, HE_UNLOCK, 0, 0, &out);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
}

/*
 * Another node requests the lock while the woken thread is on its way: the lock waits for that
 * thread; the other threads must request it again.
 */
UNIT_TEST(who_was_woken_comes_before_another_node)
{
	struct hold h = lock_of(HOLD_CACHED);
	struct actions out;
	unsigned int held;

	for (held = 0; held < 2; held++) {
		h = lock_of(HOLD_CACHED);
		step(&h, HE_TAKE, 0, 0, &out);
		step(&h, HE_JOIN, 1, 0, &out);
		step(&h, HE_UNLOCK, 0, 0, &out);
		step(&h, HE_GIVE, 0, -EBADMSG, &out);
		ck_assert(!held || hold_fast_take(&h.word, name));
		step(&h, HE_NEXT, 2, 0, &out);
		ck_assert_uint_eq(out.n, 0);
		ck_assert(h.state == HOLD_HELD_NEXT && !h.word);
		if (held)
			step(&h, HE_UNLOCK, 0, 0, &out);
		/* the holder does not know yet that it has the lock */
		step(&h, HE_UNLOCK, 0, -EBADMSG, &out);
		step(&h, HE_COME, 1, 0, &out);
		woken(&out, 1, 0);
		step(&h, HE_UNLOCK, 0, 0, &out);
		ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, 3);
		ck_assert_uint_eq(h.state, HOLD_FREE);
	}
}

/* A trylock of another node, or destruction, fails: a thread is in line. */
UNIT_TEST(a_lock_with_one_on_its_way_is_not_idle)
{
	struct hold h = lock_of(HOLD_CACHED);
	struct msg m = {
		.type = MSG_RECALL, .src = LOCK_HOME, .dst = NODE, .object = OBJECT, .req_node = GEN
	};
	struct actions out;

	step(&h, HE_TAKE, 0, 0, &out);
	step(&h, HE_JOIN, 1, 0, &out);
	step(&h, HE_UNLOCK, 0, 0, &out);
	ck_assert_int_eq(hold_step(&fast_ctx, RECORD, &h, HE_RECALL, &m, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_RECALLED)->count, -EBUSY);
	step(&h, HE_COME, 1, 0, &out);
	step(&h, HE_UNLOCK, 0, 0, &out);
	ck_assert_int_eq(hold_step(&fast_ctx, RECORD, &h, HE_RECALL, &m, &out), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_RECALLED)->count, 0);
}

UNIT_SUITE("lock")
