// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_barrier_rules.c - core/barrier: an episode in every order, field by field, with numbers of
 * their full width.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "core.h"

#include "barrier_arrive.h"
#include "core/barrier.h"
#include "core/set.h"

#define WIDE_ME 1000
#define WIDE_PARENT 900
#define WIDE_OBJECT 0x87654321u
#define WIDE_OP 7

/* The result shows the order of the values, and the operation. */
static uint64_t chain(uint8_t op, uint64_t a, uint64_t b)
{
	return a * 31 + b + (op == WIDE_OP ? 0 : 1ull << 63);
}

static struct msg wide_arrive(uint16_t src, uint64_t value)
{
	struct msg m = arrive(src, 2, value);

	m.dst = WIDE_ME;
	m.object = WIDE_OBJECT;
	m.op = WIDE_OP;
	return m;
}

static void check_names(const struct msg *m, uint16_t dst)
{
	ck_assert_uint_eq(m->version, WIRE_VERSION);
	ck_assert_uint_eq(m->src, WIDE_ME);
	ck_assert_uint_eq(m->req_node, WIDE_ME);
	ck_assert_uint_eq(m->req_slot, 0);
	ck_assert_uint_eq(m->dst, dst);
	ck_assert_uint_eq(m->object, WIDE_OBJECT);
}

/*
 * Two own threads (0, 1) and two children (2, 3) in any order; one of the four may bring an error
 * or differ.
 */
static void episode(struct bar *b, const unsigned int *order, unsigned int wrong, bool differs)
{
	static const struct bar_tree t = { .parent = WIDE_PARENT,
					   .nchildren = 2,
					   .child = { 1001, 1002 } };
	int16_t status = wrong > 3 ? 0 : differs ? -EINVAL : -EIO;
	uint32_t gen = b->gen;
	uint64_t acc = 0;
	struct actions out;
	struct msg m, again;
	unsigned int i;
	bool known = false;

	for (i = 0; i < 4; i++) {
		m = wide_arrive(order[i] < 2 ? WIDE_ME : (uint16_t)(999 + order[i]),
				0x100000000ull + order[i]);
		known = known || order[i] < 2;
		if (order[i] == wrong && differs)
			m.aux = 3;
		else if (order[i] == wrong)
			m.count = -EIO;
		acc = i ? acc * 31 + m.value : m.value;
		ck_assert_int_eq(bar_step(WIDE_ME, known ? &t : NULL, chain, b, NULL, &m, &out), 0);
		ck_assert_str_eq(unit_text(&out), i < 3 ? "" : "ARRIVE");
	}
	ck_assert_uint_eq(b->any, 1);
	ck_assert_uint_eq(b->up, 1);
	check_names(&out.v[0].msg, WIDE_PARENT);
	ck_assert_uint_eq(out.v[0].msg.op, WIDE_OP);
	ck_assert_uint_eq(out.v[0].msg.aux, 2);
	ck_assert_int_eq(out.v[0].msg.count, status);
	ck_assert_uint_eq(out.v[0].msg.value, acc);
	again = wide_arrive(1001, 1);
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, b, NULL, &again, &out), -EBADMSG);
	ck_assert_uint_eq(b->gen, gen);
	m = departure(WIDE_PARENT, WIDE_ME);
	m.object = WIDE_OBJECT;
	m.count = status;
	m.value = 0x123456789abcdefull;
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, b, NULL, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART DEPART wake-all");
	for (i = 0; i < 2; i++) {
		check_names(&out.v[i].msg, (uint16_t)(1001 + i));
		ck_assert_int_eq(out.v[i].msg.count, status);
		ck_assert_uint_eq(out.v[i].msg.value, m.value);
	}
	ck_assert_uint_eq(b->gen, gen + 1);
	ck_assert_int_eq(b->ended, status);
	ck_assert_uint_eq(b->result, m.value);
	/* the episode is over */
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, b, NULL, &m, &out), -EBADMSG);
}

/* The node passes on the smaller number, in any order of arrival. */
UNIT_TEST(a_node_that_contradicts_itself_says_the_smaller_number)
{
	static const unsigned int threads[][3] = { { 1, 2, 2 }, { 2, 2, 1 } };
	struct bar_tree t = { .parent = 7 };
	unsigned int k, i;

	for (k = 0; k < 2; k++) {
		struct bar_part parts[3] = { 0 };
		struct bar b = { .locals = 2 };
		struct actions out;

		for (i = 0; i < 3; i++) {
			struct msg m = arrive(1, threads[k][i], 1);

			ck_assert_int_eq(
				bar_step(1, &t, larger, &b, &parts[threads[k][i]], &m, &out), 0);
		}
		ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->aux, 1);
		ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, -EINVAL);
	}
}

UNIT_TEST(threads_are_counted_in_32_bits)
{
	struct bar_tree t = { .parent = 7 };
	struct bar_part part = { 0 };
	struct bar b = { .locals = 1 };
	struct msg m = arrive(1, 0x10001, 1);
	struct actions out;
	unsigned int i;

	for (i = 0; i < 0x10001; i++) {
		unit_require(!b.up);
		unit_require(!bar_step(1, &t, larger, &b, &part, &m, &out));
	}
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->aux, 0x10001);
	ck_assert_int_eq(unit_sent(&out, MSG_ARRIVE)->count, 0);
}

UNIT_TEST(a_smaller_number_and_a_late_episode_have_32_bits)
{
	struct bar_tree t = { .parent = 7 };
	struct bar_part part = { 0 };
	struct bar b = { .locals = 1, .gen = 0x10000 };
	struct msg m = arrive(1, 0x20000, 1);
	struct actions out;

	ck_assert_int_eq(bar_step(1, &t, larger, &b, &part, &m, &out), 0);
	m.aux = 0x10001;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &part, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	m.aux = 2;
	ck_assert_int_eq(bar_step(1, &t, larger, &b, &part, &m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->aux, 2);
	ck_assert_uint_eq(part.gen, 0x10000);
}

UNIT_TEST(an_episode_in_every_order_in_full)
{
	struct bar b = { .gen = UINT32_MAX - 20 }; /* generations wrap */
	unsigned int o[4], wrong, differs;

	for (o[0] = 0; o[0] < 4; o[0]++)
		for (o[1] = 0; o[1] < 4; o[1]++)
			for (o[2] = 0; o[2] < 4; o[2]++) {
				o[3] = 6 - o[0] - o[1] - o[2];
				if (o[0] == o[1] || o[0] == o[2] || o[1] == o[2])
					continue;
				for (wrong = 2; wrong <= 4; wrong++)
					for (differs = 0; differs < 2; differs++)
						episode(&b, o, wrong, differs);
			}
}

/* A thread's rank is not in the group that it names: the arrival is only stored. */
UNIT_TEST(an_arrival_without_a_tree_is_only_noted)
{
	struct bar b = { 0 };
	struct msg own = arrive(WIDE_ME, 1, 5), child = arrive(1001, 0x12345678, 9);
	struct actions out;

	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &child, &out), 0);
	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &own, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 1);
	ck_assert_uint_eq(b.early[0].threads, 0x12345678);
	child = arrive(1002, 1, 9);
	child.object = WIDE_OBJECT;
	bar_set_life(&child, 1);
	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &child, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 2);
	ck_assert_uint_eq(b.arrived, 1);
	ck_assert_uint_eq(b.gen, 0);
	/* The same for a child of the waiting thread's generation. */
	child = arrive(1003, 1, 9);
	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &child, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 3);
	ck_assert_uint_eq(b.children, 0);
	child = arrive(1002, 1, 9);
	child.object = WIDE_OBJECT;
	bar_set_life(&child, 1);
	b = (struct bar){ 0 };
	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &child, &out), 0);
	ck_assert_int_eq(bar_step(WIDE_ME, NULL, larger, &b, NULL, &own, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 1);
}

/* At the root, the last arrival ends the episode, from a thread or a child. */
UNIT_TEST(the_root_ends_the_episode)
{
	static const struct bar_tree t = { .parent = SET_NOBODY,
					   .nchildren = 1,
					   .child = { 1001 } };
	unsigned int first;

	for (first = 0; first < 2; first++) {
		struct bar b = { 0 };
		struct msg own = arrive(WIDE_ME, 1, 5), child = arrive(1001, 1, 9);
		struct actions out;

		ck_assert_int_eq(
			bar_step(WIDE_ME, &t, larger, &b, NULL, first ? &own : &child, &out), 0);
		ck_assert_uint_eq(out.n, 0);
		ck_assert_int_eq(
			bar_step(WIDE_ME, &t, larger, &b, NULL, first ? &child : &own, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
		ck_assert_uint_eq(out.v[0].msg.value, 9);
		ck_assert_uint_eq(b.result, 9);
		ck_assert_uint_eq(b.threads + b.arrived + b.children + b.any + b.up, 0);
	}
}

/* ---- generations ----------------------------------------------------------------------------- */

static const struct bar_tree root = { .parent = SET_NOBODY, .nchildren = 1, .child = { 1001 } };

static struct msg come(uint16_t src, uint32_t life, uint64_t value)
{
	struct msg m = arrive(src, 2, value);

	m.object = WIDE_OBJECT;
	m.op = WIDE_OP;
	bar_set_life(&m, life);
	return m;
}

static int comes(struct bar *b, const struct bar_tree *t, uint16_t src, uint32_t life,
		 uint64_t value, struct actions *out)
{
	struct msg m = come(src, life, value);

	return bar_step(WIDE_ME, t, chain, b, NULL, &m, out);
}

static void told(const struct actions *out, unsigned int n, uint16_t rank, uint32_t life)
{
	const struct msg *m = &unit_action(out, ACT_SEND, n)->msg;

	ck_assert_uint_eq(m->type, MSG_DEPART);
	ck_assert_uint_eq(m->dst, rank);
	ck_assert_uint_eq(m->src, WIDE_ME);
	ck_assert_uint_eq(m->object, WIDE_OBJECT);
	ck_assert_uint_eq(bar_life(m), life);
	ck_assert_int_eq(m->count, -EINVAL);
}

UNIT_TEST(a_generation_has_24_bits_in_a_message)
{
	struct msg m = arrive(1, 1, 1);

	bar_set_life(&m, 0xabcdef);
	ck_assert_uint_eq(m.req_slot, 0xcdef);
	ck_assert_uint_eq(m.home, 0xab);
	ck_assert_uint_eq(bar_life(&m), 0xabcdef);
	ck_assert_uint_eq(BAR_LIFE_MAX, 0xffffff);
}

/* Generations differ in each byte. */
UNIT_TEST(an_older_generation_is_refused)
{
	static const uint32_t steps[] = { 1, 0x100, 0x10000, 0x800000 };
	unsigned int i;

	for (i = 0; i < 4; i++) {
		const uint32_t now = 0xabcdef, before = now - steps[i];
		struct bar b = { 0 }, was;
		struct actions out;
		struct msg depart = departure(WIDE_PARENT, WIDE_ME);

		ck_assert_int_eq(comes(&b, &root, WIDE_ME, now, 1, &out), 0);
		was = b;
		ck_assert_int_eq(comes(&b, &root, WIDE_ME, before, 2, &out), -ESTALE);
		ck_assert_mem_eq(&b, &was, sizeof(b));
		ck_assert_int_eq(comes(&b, &root, 1001, before, 3, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART");
		told(&out, 0, 1001, before);
		ck_assert_mem_eq(&b, &was, sizeof(b));
		ck_assert_int_eq(comes(&b, &root, 1001, now, 3, &out), 0);
		ck_assert_int_eq(comes(&b, &root, WIDE_ME, now, 2, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
		ck_assert_uint_eq(bar_life(&out.v[0].msg), now);
		ck_assert_uint_eq(b.result, (1 * 31 + 3) * 31 + 2);
		ck_assert_int_eq(b.ended, 0);
		/*
		 * The same between two episodes; the departure of an old generation is ignored,
		 * too.
		 */
		was = b;
		ck_assert_int_eq(comes(&b, &root, WIDE_ME, before, 2, &out), -ESTALE);
		ck_assert_int_eq(comes(&b, NULL, 1001, before, 3, &out), 0);
		told(&out, 0, 1001, before);
		depart.object = WIDE_OBJECT;
		bar_set_life(&depart, before);
		ck_assert_int_eq(bar_step(WIDE_ME, &root, chain, &b, NULL, &depart, &out), 0);
		ck_assert_uint_eq(out.n, 0);
		ck_assert_mem_eq(&b, &was, sizeof(b));
	}
}

/*
 * The older episode's waiters get an error, however late they look; those of the new episode do
 * not.
 */
UNIT_TEST(a_newer_thread_ends_the_older_episode)
{
	struct bar b = { 0 };
	struct actions out;
	uint64_t result = 99;
	uint32_t seen;

	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, &root, 1001, 7, 3, &out), 0);
	seen = b.part.gen;
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 0x10007, 5, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
	told(&out, 0, 1001, 7);
	ck_assert_uint_eq(b.gen, seen + 1);
	ck_assert_uint_eq(b.part.gen, seen + 1); /* it waits for an episode that is in progress */
	ck_assert_uint_eq(b.part.arrived, 1);
	ck_assert_uint_eq(b.children, 0);
	ck_assert_int_eq(bar_ended(&b, 7, &result), -EINVAL);
	ck_assert_uint_eq(result, 99);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 0x10007, 6, &out), 0);
	ck_assert_int_eq(comes(&b, &root, 1001, 0x10007, 7, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
	ck_assert_int_eq(bar_ended(&b, 7, &result), -EINVAL);
	ck_assert_int_eq(bar_ended(&b, 0x10007, &result), 0);
	ck_assert_uint_eq(result, (5 * 31 + 6) * 31 + 7);
}

/*
 * With any status. A thread of the last episode may look after the next generation has had
 * episodes. After more generations it gets 0.
 */
UNIT_TEST(a_late_thread_gets_the_end_of_its_own_generation)
{
	static const struct bar_tree t = { .parent = WIDE_PARENT };
	static const int16_t ends[] = { 0, -EINVAL, -4095 };
	struct bar b = { 0 };
	struct actions out;
	uint64_t result;
	uint32_t life, i;

	for (life = 7; life < 16; life++) {
		struct msg m = departure(WIDE_PARENT, WIDE_ME);

		for (i = 0; i < 2; i++)
			ck_assert_int_eq(comes(&b, &t, WIDE_ME, life, 1, &out), 0);
		m.object = WIDE_OBJECT;
		m.count = ends[life % 3];
		m.value = 0x8000000100000000ull + life;
		bar_set_life(&m, life);
		ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, NULL, &m, &out), 0);
		ck_assert_int_eq(bar_ended(&b, life, &result), ends[life % 3]);
		ck_assert_uint_eq(result, m.value);
		if (life > 7)
			ck_assert_int_eq(bar_ended(&b, life - 1, &result), ends[(life - 1) % 3]);
		if (life > 8)
			ck_assert_int_eq(bar_ended(&b, life - 2, &result), 0);
		ck_assert_uint_eq(result, m.value);
	}
}

/* The parent has the older arrival, and answers it. */
UNIT_TEST(an_arrival_that_was_given_up_ends_nothing)
{
	static const struct bar_tree t = { .parent = WIDE_PARENT };
	struct msg m = departure(WIDE_PARENT, WIDE_ME);
	struct bar b = { 0 }, was;
	struct actions out;

	ck_assert_int_eq(comes(&b, &t, WIDE_ME, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, &t, WIDE_ME, 7, 1, &out), 0);
	ck_assert_uint_eq(bar_life(unit_sent(&out, MSG_ARRIVE)), 7);
	ck_assert_int_eq(comes(&b, &t, WIDE_ME, 8, 1, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake-all");
	ck_assert_int_eq(comes(&b, &t, WIDE_ME, 8, 1, &out), 0);
	ck_assert_uint_eq(bar_life(unit_sent(&out, MSG_ARRIVE)), 8);
	was = b;
	m.object = WIDE_OBJECT;
	bar_set_life(&m, 7);
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, NULL, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_mem_eq(&b, &was, sizeof(b));
	bar_set_life(&m, 9);
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, NULL, &m, &out), -EBADMSG);
	bar_set_life(&m, 8);
	ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, NULL, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake-all");
}

/*
 * Only a child of the same group: it has the newer handle. Its arrival counts with the newer
 * threads.
 */
UNIT_TEST(a_newer_child_ends_the_older_episode)
{
	struct bar b = { 0 };
	struct actions out;
	uint64_t result;

	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, &root, 1001, 9, 3, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake-all");
	ck_assert_int_eq(bar_ended(&b, 7, &result), -EINVAL);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), -ESTALE);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 8, 1, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake-all");
	ck_assert_int_eq(bar_ended(&b, 8, &result), -EINVAL);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 9, 1, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 9, 1, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
	ck_assert_int_eq(bar_ended(&b, 9, &result), 0);
	/* If no thread waits, none is told. */
	ck_assert_int_eq(comes(&b, &root, 1001, 10, 3, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.life, 9);
	ck_assert_uint_eq(b.earlies, 1);
}

/* The child ends the episode that this node waits for, but starts no new generation. */
UNIT_TEST(a_child_that_lies_uses_up_no_generation)
{
	static const struct bar_tree without = { .parent = SET_NOBODY,
						 .nchildren = 1,
						 .child = { 1002 } };
	unsigned int first;

	for (first = 0; first < 2; first++) {
		struct bar b = { 0 };
		struct actions out;

		if (first)
			ck_assert_int_eq(comes(&b, &root, 1001, BAR_LIFE_MAX, 50, &out), 0);
		ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
		if (!first)
			ck_assert_int_eq(comes(&b, &root, 1001, BAR_LIFE_MAX, 50, &out), 0);
		ck_assert_uint_eq(b.gen, 1);
		ck_assert_uint_eq(b.life, 8);
		ck_assert_int_eq(comes(&b, &without, WIDE_ME, 8, 1, &out), 0);
		ck_assert_int_eq(comes(&b, &without, WIDE_ME, 8, 2, &out), 0);
		ck_assert_int_eq(comes(&b, &without, 1002, 8, 3, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
		ck_assert_uint_eq(b.result, (1 * 31 + 2) * 31 + 3);
		ck_assert_int_eq(b.ended, 0);
	}
}

UNIT_TEST(an_episode_has_one_group)
{
	const struct bar_group wide = { .mask = 1ull << 63 | 1, .locals = 0x1234 },
			       other = { .mask = 1ull << 63 };
	struct bar b = { 0 }, was;
	struct msg m = come(WIDE_ME, 8, 1);
	struct actions out;

	ck_assert_int_eq(bar_admit(&b, &m, &wide), 0);
	ck_assert_uint_eq(b.mask, wide.mask);
	ck_assert_uint_eq(b.locals, wide.locals);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 8, 1, &out), 0);
	ck_assert_int_eq(bar_admit(&b, &m, &wide), 0);
	was = b;
	ck_assert_int_eq(bar_admit(&b, &m, &other), -EINVAL);
	m = come(WIDE_ME, 7, 1);
	ck_assert_int_eq(bar_admit(&b, &m, &wide), -ESTALE);
	ck_assert_mem_eq(&b, &was, sizeof(b));
	m = come(WIDE_ME, 9, 1);
	ck_assert_int_eq(bar_admit(&b, &m, &other), 0);
	ck_assert_uint_eq(b.mask, other.mask);
	ck_assert_uint_eq(b.locals, 0);
	/* Barrier 0 has one generation. */
	was = b = (struct bar){ 0 };
	m.object = 0;
	ck_assert_int_eq(bar_admit(&b, &m, &other), -EBADMSG);
	ck_assert_mem_eq(&b, &was, sizeof(b));
	bar_set_life(&m, 0);
	ck_assert_int_eq(bar_admit(&b, &m, &other), 0);
	ck_assert_uint_eq(b.mask, other.mask);
}

/*
 * The child arrived before a thread with an older handle. Only this thread gets an error, at once.
 */
UNIT_TEST(a_thread_that_is_older_than_its_child_is_told)
{
	static const struct bar_tree two = { .parent = SET_NOBODY,
					     .nchildren = 2,
					     .child = { 1001, 1002 } };
	struct bar b = { 0 };
	struct actions out;
	uint64_t result;

	ck_assert_int_eq(comes(&b, NULL, 1001, 9, 3, &out), 0);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake-all");
	ck_assert_int_eq(bar_ended(&b, 7, &result), -EINVAL);
	ck_assert_uint_eq(b.life, 8);
	ck_assert_uint_eq(b.earlies, 1);
	ck_assert_uint_eq(b.threads, 0);
	/* One newer child is enough. */
	b = (struct bar){ 0 };
	ck_assert_int_eq(comes(&b, NULL, 521, 0xabcdef, 3, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 1001, 0x12000a, 3, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 1002, 9, 3, &out), 0);
	ck_assert_int_eq(comes(&b, &two, WIDE_ME, 7, 1, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake-all");
	ck_assert_uint_eq(b.life, 8);
	ck_assert_uint_eq(b.earlies, 3);
	/* A child is found even behind one of a newer generation. */
	b = (struct bar){ 0 };
	ck_assert_int_eq(comes(&b, NULL, 521, 9, 3, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 1002, 7, 3, &out), 0);
	ck_assert_int_eq(comes(&b, &two, WIDE_ME, 7, 1, &out), 0);
	ck_assert_uint_eq(b.children, 1);
	ck_assert_uint_eq(b.earlies, 1);
}

/*
 * Even if the tree is known: the child counts when a thread of its generation arrives, and its
 * newer arrival is separate.
 */
UNIT_TEST(a_child_that_is_first_waits_apart)
{
	struct bar b = { 0 };
	struct actions out;

	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, &root, 1001, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_uint_eq(b.gen, 1);
	ck_assert_int_eq(comes(&b, &root, 1001, 7, 3, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.children, 0);
	ck_assert_uint_eq(b.earlies, 1);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 9, 5, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART");
	told(&out, 0, 1001, 7);
	ck_assert_int_eq(comes(&b, &root, 1001, 9, 6, &out), 0);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 9, 7, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
	ck_assert_uint_eq(b.result, (5 * 31 + 6) * 31 + 7);
}

/* A rank that is no member does not affect the older episode, and does not wait forever. */
UNIT_TEST(a_newer_stranger_waits_apart)
{
	static const struct bar_tree later = { .parent = SET_NOBODY,
					       .nchildren = 1,
					       .child = { 521 } };
	struct bar b = { 0 };
	struct actions out;
	unsigned int known, i;

	for (known = 0; known < 2; known++) {
		b = (struct bar){ 0 };
		if (known)
			ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
		ck_assert_int_eq(comes(&b, known ? &root : NULL, 521, 0xffffff, 50, &out), 0);
		for (i = known; i < 2; i++)
			ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
		ck_assert_int_eq(comes(&b, &root, 1001, 7, 2, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
		ck_assert_uint_eq(b.result, (1 * 31 + 1) * 31 + 2);
		ck_assert_int_eq(b.ended, 0);
		ck_assert_uint_eq(b.earlies, 1);
		/* The stranger is a member of a later group: its arrival is not lost. */
		ck_assert_int_eq(comes(&b, &later, WIDE_ME, 0xffffff, 1, &out), 0);
		ck_assert_int_eq(comes(&b, &later, WIDE_ME, 0xffffff, 2, &out), 0);
		ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
		ck_assert_uint_eq(b.result, (50 * 31 + 1) * 31 + 2);
	}
}

UNIT_TEST(of_a_rank_the_newest_arrival_waits)
{
	struct bar b = { 0 };
	struct actions out;

	ck_assert_int_eq(comes(&b, NULL, 1001, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 1001, 8, 2, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 1);
	ck_assert_uint_eq(b.early[0].life, 8);
	ck_assert_int_eq(comes(&b, NULL, 1001, 7, 1, &out), 0);
	told(&out, 0, 1001, 7);
	ck_assert_int_eq(comes(&b, NULL, 1001, 8, 1, &out), -EBADMSG);
	ck_assert_uint_eq(b.early[0].value, 2);
	ck_assert_int_eq(comes(&b, NULL, 1002, 8, 3, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 1002, 9, 4, &out), 0);
	ck_assert_uint_eq(b.earlies, 2);
	ck_assert_uint_eq(b.early[1].life, 9);
	ck_assert_uint_eq(b.early[1].value, 4);
}

/*
 * Arrivals of the oldest generation are dropped for new ones: each generation has at most
 * BAR_FANOUT.
 */
UNIT_TEST(children_of_two_generations_have_room)
{
	static const struct bar_early none[BAR_FANOUT];
	struct bar b = { 0 };
	struct actions out;
	uint16_t i;

	for (i = 0; i < BAR_FANOUT; i++)
		ck_assert_int_eq(comes(&b, NULL, (uint16_t)(1001 + i), i == 5 ? 6 : 7, i, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 900, 5, 1, &out), 0);
	told(&out, 0, 900, 5);
	ck_assert_int_eq(comes(&b, NULL, 901, 7, 1, &out), 0);
	told(&out, 0, 1006, 6);
	ck_assert_int_eq(comes(&b, NULL, 902, 7, 1, &out), 0);
	told(&out, 0, 902, 7);
	for (i = 0; i < BAR_FANOUT; i++) {
		ck_assert_int_eq(comes(&b, NULL, (uint16_t)(2001 + i), 8, i, &out), 0);
		ck_assert_uint_eq(out.n, 1);
		told(&out, 0, i < 5 ? (uint16_t)(1001 + i) : i < 7 ? (uint16_t)(1002 + i) : 901, 7);
	}
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, BAR_FANOUT);
	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 9, 1, &out), 0);
	ck_assert_uint_eq(out.n, BAR_FANOUT + 1);
	ck_assert_uint_eq(b.earlies, 0);
	ck_assert_mem_eq(b.early, none, sizeof(none));
	/* One waiting arrival is newer: eight of this generation fit. */
	for (i = 0; i < BAR_FANOUT; i++)
		ck_assert_int_eq(comes(&b, NULL, (uint16_t)(2001 + i), i ? 10 : 11, i, &out), 0);
	ck_assert_int_eq(comes(&b, NULL, 900, 10, 1, &out), 0);
	told(&out, 0, 900, 10);
	ck_assert_int_eq(comes(&b, NULL, 900, 11, 1, &out), 0);
	told(&out, 0, 2002, 10);
}

/* In any order; a repeated arrival is refused. */
UNIT_TEST(each_child_is_counted_once)
{
	static const struct bar_tree four = { .parent = SET_NOBODY,
					      .nchildren = 4,
					      .child = { 5, 300, 1001, 2000 } };
	static const uint16_t order[] = { 1001, 5, 300 }, sorted[] = { 5, 300, 1001 };
	struct bar b = { 0 }, was;
	struct actions out;
	unsigned int i;

	ck_assert_int_eq(comes(&b, &four, WIDE_ME, 7, 1, &out), 0);
	ck_assert_int_eq(comes(&b, &four, WIDE_ME, 7, 1, &out), 0);
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(comes(&b, &four, order[i], 7, 2, &out), 0);
	was = b;
	for (i = 0; i < 3; i++) {
		ck_assert_uint_eq(b.from[i], sorted[i]);
		ck_assert_int_eq(comes(&b, &four, order[i], 7, 2, &out), -EBADMSG);
		ck_assert_mem_eq(&b, &was, sizeof(b));
	}
	ck_assert_int_eq(comes(&b, &four, 2000, 7, 2, &out), 0);
	ck_assert_uint_eq(b.gen, 1);
}

/* Eight arrivals wait; the barrier must not read behind its struct. */
UNIT_TEST(a_full_barrier_reads_nothing_behind_itself)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct bar *b = (struct bar *)(at + page) - 1;
	struct bar_tree *tree;
	struct actions out;
	uint16_t i;

	ck_assert_ptr_ne(at, MAP_FAILED);
	ck_assert_int_eq(mprotect(at + page, page, PROT_NONE), 0);
	for (i = 0; i < BAR_FANOUT; i++)
		ck_assert_int_eq(comes(b, NULL, (uint16_t)(2001 + i), 9, i, &out), 0);
	ck_assert_int_eq(comes(b, NULL, 900, 9, 1, &out), 0);
	told(&out, 0, 900, 9);
	ck_assert_int_eq(comes(b, &root, WIDE_ME, 7, 1, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b->earlies, BAR_FANOUT);
	ck_assert_uint_eq(b->life, 7);
	ck_assert_int_eq(comes(b, &root, WIDE_ME, 10, 1, &out), 0);
	ck_assert_uint_eq(out.n, BAR_FANOUT + 1);
	/* Nor behind the tree. */
	tree = (struct bar_tree *)(at + page) - 1;
	*tree = (struct bar_tree){ .parent = SET_NOBODY, .nchildren = BAR_FANOUT };
	b = (struct bar *)at;
	*b = (struct bar){ 0 };
	ck_assert_int_eq(comes(b, tree, WIDE_ME, 7, 1, &out), 0);
	ck_assert_int_eq(comes(b, tree, 900, 7, 1, &out), 0);
	told(&out, 0, 900, 7);
	ck_assert_int_eq(munmap(at, 2 * page), 0);
}

/* Strangers occupy all places. The child gets an error, and so do the waiting threads. */
UNIT_TEST(a_newer_child_without_room_ends_the_older_episode)
{
	struct bar b = { 0 };
	uint64_t result;
	struct actions out;
	uint16_t i;

	ck_assert_int_eq(comes(&b, &root, WIDE_ME, 7, 1, &out), 0);
	for (i = 0; i < BAR_FANOUT; i++)
		ck_assert_int_eq(comes(&b, &root, (uint16_t)(2001 + i), 0x120009, i, &out), 0);
	ck_assert_int_eq(comes(&b, &root, 1001, 0x120009, 1, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DEPART wake-all");
	told(&out, 0, 1001, 0x120009);
	ck_assert_int_eq(bar_ended(&b, 7, &result), -EINVAL);
	ck_assert_uint_eq(b.life, 8);
	ck_assert_uint_eq(b.earlies, BAR_FANOUT);
}

/*
 * All at once: children of an episode that ends, early strangers and children, and the end of the
 * next episode.
 */
UNIT_TEST(no_generation_does_more_than_it_may)
{
	struct bar_tree old = { .parent = 9, .nchildren = BAR_FANOUT },
			t = { .parent = SET_NOBODY };
	uint16_t i, n;

	for (i = 0; i < BAR_FANOUT; i++)
		old.child[i] = (uint16_t)(1001 + i), t.child[i] = (uint16_t)(2001 + i);
	for (n = 0; n <= BAR_FANOUT; n++) {
		struct msg m = come(WIDE_ME, 8, 1);
		struct bar b = { 0 };
		struct actions out;

		ck_assert_int_eq(comes(&b, &old, WIDE_ME, 7, 1, &out), 0);
		for (i = 0; i < BAR_FANOUT; i++) {
			ck_assert_int_eq(comes(&b, &old, old.child[i], 7, 1, &out), 0);
			ck_assert_int_eq(comes(&b, &old, t.child[i], 8, 1, &out), 0);
		}
		t.nchildren = n;
		m.aux = 1;
		ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, NULL, &m, &out), 0);
		ck_assert_uint_eq(out.n, 2 * BAR_FANOUT + 2);
		ck_assert_uint_lt(out.n, ACTIONS_MAX);
		ck_assert_uint_eq(b.gen, 2);
	}
}

/* It arrives for all threads of its node, after any other arrivals. */
UNIT_TEST(the_last_of_all_is_the_last_in_each_generation)
{
	static const struct bar_tree t = { .parent = WIDE_PARENT };
	struct bar b = { 0 };
	struct actions out;
	uint32_t life;

	for (life = 7; life < 10; life++) {
		struct bar_part all = { .all = 1 };
		struct msg m = come(WIDE_ME, life, life);

		m.aux = 0x12345678;
		ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, &all, &m, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_ARRIVE)->value, life);
		ck_assert_uint_eq(all.gen, b.gen);
		ck_assert_int_eq(bar_step(WIDE_ME, &t, chain, &b, &all, &m, &out), -EBADMSG);
	}
	ck_assert_uint_eq(b.gen, 2);
}

UNIT_SUITE("barrier_rules")
