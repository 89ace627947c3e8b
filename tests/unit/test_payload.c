// SPDX-License-Identifier: BSD-2-Clause
/* test_payload.c - calls/payload.c: the rules of payloads of MSG_CALL, MSG_RETURN and MSG_CHUNK. */
#include <errno.h>
#include <stdlib.h>

#include "../payload_values.h"
#include "job/ctl.h"
#include "suite.h"
#include "watch/stall.h"

#define MIB (1ull << 20)
#define BASE 0x100000000000ull
#define SPACE (64 * MIB)
#define HEAP (16 * MIB)
#define RANKS 5
#define NODES 3
#define REGIONS 100

static const uint16_t node_of[RANKS] = { 0, 0, 1, 2, 2 };
static const struct payload_limits lim = { .me = 1,
					   .from = 2,
					   .ranks = RANKS,
					   .nodes = NODES,
					   .node_of = node_of,
					   .base = BASE,
					   .space = SPACE,
					   .heap = HEAP,
					   .regions = REGIONS };

static uint64_t unit_up(uint64_t v)
{
	return v / (2 * MIB) * (2 * MIB) + (v % (2 * MIB) ? 2 * MIB : 0);
}

/* The rules for numbers, expressed in another way. a and b: the two numbers before. */
static bool means(uint8_t rule, uint64_t v, uint64_t a, uint64_t b, size_t rows)
{
	switch ((enum payload_field_rule)rule) {
	case PAYLOAD_RULE_ANY: return true;
	case PAYLOAD_RULE_ZERO: return v == 0;
	case PAYLOAD_RULE_BIT: return v == 0 || v == 1;
	case PAYLOAD_RULE_SIZE: return v > 0 && v <= SPACE;
	case PAYLOAD_RULE_BLOCK_SIZE:
		return v == 4096 || v == 8192 || v == 16384 || v == 32768 || v == 65536 ||
			v == 131072 || v == 262144 || v == 524288 || v == MIB || v == 2 * MIB;
	case PAYLOAD_RULE_POLICY: return v < 3;
	case PAYLOAD_RULE_PRIORITY: return v < 4;
	case PAYLOAD_RULE_FIXED: return a == 2 ? v < RANKS : v == 0;
	case PAYLOAD_RULE_HERE: return v == 2;
	case PAYLOAD_RULE_FROM: return v == 3 || v == 4;
	case PAYLOAD_RULE_RANK: return v < RANKS;
	case PAYLOAD_RULE_RANK_OR_0:
	case PAYLOAD_RULE_USERS: return v <= RANKS;
	case PAYLOAD_RULE_NODE: return v < NODES;
	case PAYLOAD_RULE_NODE_OR_0: return v <= NODES;
	case PAYLOAD_RULE_REGION: return v < REGIONS;
	case PAYLOAD_RULE_REGION_OR_END: return v <= REGIONS;
	case PAYLOAD_RULE_PLACE: return v < SPACE && v == unit_up(v);
	case PAYLOAD_RULE_UNITS: return v && v == unit_up(v) && v <= SPACE && a + v <= SPACE;
	case PAYLOAD_RULE_TAKEN: return v == unit_up(b) && a + v <= SPACE;
	case PAYLOAD_RULE_OFFSET: return v < SPACE;
	case PAYLOAD_RULE_LENGTH: return v <= SPACE && a + v <= SPACE;
	case PAYLOAD_RULE_HEAP: return v >= BASE && v < BASE + HEAP;
	case PAYLOAD_RULE_UNIT: return v < 8;
	case PAYLOAD_RULE_RUN:
	case PAYLOAD_RULE_FEW: return v && v <= 8 && a + v <= 8;
	case PAYLOAD_RULE_RUN_OR_0: return v <= 8 && a + v <= 8;
	case PAYLOAD_RULE_SOME: return v > 0;
	case PAYLOAD_RULE_PART: return v <= a;
	case PAYLOAD_RULE_ROWS: return v <= rows;
	case PAYLOAD_RULE_ABOUT: return v <= ABOUT_DONE;
	case PAYLOAD_RULE_NAME:
	case PAYLOAD_RULE_TEXT:
	case PAYLOAD_RULE_STALLED:
	case PAYLOAD_RULE_COUNT: break;
	}
	return true;
}

/* The number `n` fields before; 0 if there is none. */
static uint64_t before(const struct rule_type *t, unsigned int field, unsigned int n,
		       const char *at)
{
	return field >= n && payload_is_number(&t->fields[field - n])
		? rule_get(&t->fields[field - n], at)
		: 0;
}

static bool all_rules_hold(const struct rule_type *t, const char *at, size_t rows)
{
	unsigned int i;

	for (i = 0; i < t->n; i++) {
		const struct rule_field *f = &t->fields[i];

		if (payload_is_number(f) && f->rule != PAYLOAD_RULE_STALLED &&
		    !means(f->rule, rule_get(f, at), before(t, i, 1, at), before(t, i, 2, at),
			   rows))
			return false;
	}
	return true;
}

/*
 * For all structs and all numbers, values at the bounds of the rules: a value is accepted if and
 * only if the rules allow it.
 */
UNIT_TEST(every_number_of_every_payload_is_held_to_its_rule)
{
	unsigned int refused[PAYLOAD_RULE_COUNT] = { 0 }, s, i, k, n, r;
	static const size_t rows[] = { 0, 3 };
	char good[WIRE_CALL_MAX], at[WIRE_CALL_MAX];

	for (s = SHAPE_NONE + 1; s < SHAPES; s++) {
		const struct rule_type *t = payload_type(s);

		payload_good(&lim, s, good);
		for (r = 0; r < 2; r++)
			unit_require(payload_allows(&lim, s, good, rows[r]));
		for (i = 0; i < t->n; i++) {
			const struct rule_field *f = &t->fields[i];
			uint64_t values[VALUES_MAX];

			if (!payload_is_number(f) || f->rule == PAYLOAD_RULE_STALLED)
				continue;
			n = payload_values(&lim, s, i, good, 3, values);
			for (k = 0; k < n; k++) {
				memcpy(at, good, t->size);
				if (!rule_set(f, at, values[k]))
					continue;
				if (payload_allows(&lim, s, at, 3) != all_rules_hold(t, at, 3))
					ck_abort_msg("%s: %s %#lx", t->name, f->name,
						     (unsigned long)values[k]);
				refused[f->rule] += !all_rules_hold(t, at, 3);
			}
		}
	}
	for (r = 0; r < PAYLOAD_RULE_COUNT; r++)
		ck_assert(r == PAYLOAD_RULE_ANY || r == PAYLOAD_RULE_NAME ||
			  r == PAYLOAD_RULE_TEXT || r == PAYLOAD_RULE_STALLED || refused[r]);
}

UNIT_TEST(texts_end_and_what_is_unused_is_zero)
{
	unsigned int s, i, texts = 0, zeros = 0;
	char good[WIRE_CALL_MAX];

	for (s = SHAPE_NONE + 1; s < SHAPES; s++) {
		const struct rule_type *t = payload_type(s);

		for (i = 0; i < t->n; i++) {
			const struct rule_field *f = &t->fields[i];

			payload_good(&lim, s, good);
			if (f->rule == PAYLOAD_RULE_NAME || f->rule == PAYLOAD_RULE_TEXT) {
				memset(good + f->offset, 'x', f->size - 1);
				ck_assert(payload_allows(&lim, s, good, 0));
				good[f->offset + f->size - 1] = 'x';
				ck_assert(!payload_allows(&lim, s, good, 0));
				good[f->offset] = 0;
				ck_assert_int_eq(payload_allows(&lim, s, good, 0),
						 f->rule == PAYLOAD_RULE_TEXT);
				texts++;
			} else if (f->rule == PAYLOAD_RULE_ZERO) {
				good[f->offset + f->size - 1] = 1;
				ck_assert(!payload_allows(&lim, s, good, 0));
				zeros++;
			}
		}
	}
	ck_assert_uint_gt(texts, 5);
	ck_assert_uint_gt(zeros, 10);
}

UNIT_TEST(what_a_thread_waits_for_is_in_the_window)
{
	struct stall_row row = { .about = { .kind = ABOUT_BLOCK,
					    .object = 2 * (SPACE / 4096 - 1) + 1 } };

	ck_assert(payload_allows(&lim, SHAPE_STALL, &row, 0));
	row.about.object += 2;
	ck_assert(!payload_allows(&lim, SHAPE_STALL, &row, 0));
	row.about.kind = ABOUT_OBJECT;
	ck_assert(payload_allows(&lim, SHAPE_STALL, &row, 0));
}

/* Everything that the node may receive from another one. */
static struct payload_limits limits_of(const struct payload_call *c)
{
	struct payload_limits l = lim;

	if (c->to == CALL_WITH_FIRST)
		l.me = 0;
	if (c->from == CALL_WITH_FIRST)
		l.from = 0;
	return l;
}

UNIT_TEST(a_request_has_the_size_of_its_call_and_room_for_the_answer)
{
	unsigned int op;
	char at[WIRE_CALL_MAX];

	for (op = 1; op < CALL_OPS; op++) {
		const struct payload_call *c = payload_call((uint8_t)op);
		const struct payload_limits l = limits_of(c);
		const uint32_t row = payload_type(c->row)->size;
		const size_t size = payload_good_request(&l, (uint8_t)op, at);
		const uint32_t room = payload_room((uint8_t)op, 2);

		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room), 0);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size + 1, room), -EBADMSG);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size - 1, room), -EBADMSG);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, 0, room), -EBADMSG);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room + 1), -EBADMSG);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room - 1), -EBADMSG);
		ck_assert_int_eq(
			payload_request(&l, (uint8_t)op, at, size, room + WIRE_CALL_MAX * 16),
			-EBADMSG);
		if (row)
			ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room - row),
					 c->rows == PAYLOAD_MANY ? 0 : -EBADMSG);
		ck_assert_uint_le(payload_room((uint8_t)op, 1), WIRE_CALL_MAX);
	}
	ck_assert_int_eq(payload_request(&lim, 0, at, sizeof(struct call_head), 0), -EBADMSG);
	ck_assert_int_eq(payload_request(&lim, CALL_OPS, at, sizeof(struct call_head), 0),
			 -EBADMSG);
}

UNIT_TEST(a_call_is_to_whom_it_may_be_and_from_whom_it_may_be)
{
	unsigned int op;
	char at[WIRE_CALL_MAX];

	for (op = 1; op < CALL_OPS; op++) {
		const struct payload_call *c = payload_call((uint8_t)op);
		struct payload_limits l = limits_of(c);
		const uint32_t room = payload_room((uint8_t)op, 1);
		size_t size = payload_good_request(&l, (uint8_t)op, at);
		struct call_head head = { .to = 1 };

		if (c->to == CALL_WITH_FIRST) { /* rank of the same node, but not its first */
			memcpy(at, &head, sizeof(head));
			ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room),
					 -EBADMSG);
		}
		head.to = 3; /* rank of another node */
		memcpy(at, &head, sizeof(head));
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room), -EBADMSG);
		l.from = 2;
		size = payload_good_request(&l, (uint8_t)op, at);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, at, size, room),
				 c->from == CALL_WITH_FIRST ? -EBADMSG : 0);
	}
}

static size_t good_answer(uint8_t op, char *at, uint32_t rows)
{
	const struct payload_call *c = payload_call(op);
	const struct rule_type *answer = payload_type(c->answer);
	const struct rule_type *row = payload_type(c->row);
	uint32_t i;

	if (c->rows != PAYLOAD_MANY)
		rows = c->rows;
	payload_good(&lim, c->answer, at);
	for (i = 0; i < rows; i++)
		payload_good(&lim, c->row, at + answer->size + i * row->size);
	return answer->size + rows * (size_t)row->size;
}

UNIT_TEST(an_answer_is_whole)
{
	unsigned int op;
	char at[WIRE_CALL_MAX];

	for (op = 1; op < CALL_OPS; op++) {
		const size_t size = good_answer((uint8_t)op, at, 2);
		const bool counts = payload_counts((uint8_t)op);

		ck_assert_int_eq(payload_answer(&lim, (uint8_t)op, at, size, (uint32_t)size), 0);
		ck_assert_int_eq(payload_answer(&lim, (uint8_t)op, at, size + 1, (uint32_t)size),
				 -EBADMSG);
		ck_assert_int_eq(payload_answer(&lim, (uint8_t)op, at, size, (uint32_t)size + 1),
				 counts ? 0 : -EBADMSG);
		if (size)
			ck_assert_int_eq(
				payload_answer(&lim, (uint8_t)op, at, size - 1, (uint32_t)size),
				-EBADMSG);
		if (counts)
			ck_assert_int_eq(payload_answer(&lim, (uint8_t)op, at,
							good_answer((uint8_t)op, at, 1),
							(uint32_t)size),
					 0);
		if (size && !counts)
			ck_assert_int_eq(payload_answer(&lim, (uint8_t)op, at, 0, (uint32_t)size),
					 -EBADMSG);
	}
	ck_assert_int_eq(payload_answer(&lim, 0, at, 0, 0), -EBADMSG);
	ck_assert_int_eq(payload_answer(&lim, CALL_OPS, at, 0, 0), -EBADMSG);
}

UNIT_TEST(each_row_of_an_answer_is_looked_at)
{
	struct trimmed t = { .head.n = PAYLOAD_RUNS };
	struct stall_row rows[2] = { { .rank = 0 }, { .rank = RANKS } };

	ck_assert_int_eq(payload_answer(&lim, CALL_TRIM, &t, sizeof(t), sizeof(t)), 0);
	t.head.n++;
	ck_assert_int_eq(payload_answer(&lim, CALL_TRIM, &t, sizeof(t), sizeof(t)), -EBADMSG);
	t.head.n = 1;
	t.runs[PAYLOAD_RUNS - 1] = (struct units_run){ .at = 7, .n = 2 };
	ck_assert_int_eq(payload_answer(&lim, CALL_TRIM, &t, sizeof(t), sizeof(t)), -EBADMSG);
	ck_assert_int_eq(payload_answer(&lim, CALL_STALLS, rows, sizeof(rows[0]), sizeof(rows)), 0);
	ck_assert_int_eq(payload_answer(&lim, CALL_STALLS, rows, sizeof(rows), sizeof(rows)),
			 -EBADMSG);
}

/* A transport may align its buffers in any way. */
UNIT_TEST(a_payload_may_lie_anywhere)
{
	char buffer[WIRE_CALL_MAX + 1];
	unsigned int op;

	for (op = 1; op < CALL_OPS; op++) {
		const struct payload_limits l = limits_of(payload_call((uint8_t)op));
		char at[WIRE_CALL_MAX];
		const size_t size = payload_good_request(&l, (uint8_t)op, at);

		memcpy(buffer + 1, at, size);
		ck_assert_int_eq(payload_request(&l, (uint8_t)op, buffer + 1, size,
						 payload_room((uint8_t)op, 1)),
				 0);
	}
}

UNIT_TEST(a_part_of_a_collective_is_of_whole_values)
{
	const uint8_t doubles = DSM_SUM | DSM_DOUBLE << 4, no_op = DSM_XOR | DSM_DOUBLE << 4;

	ck_assert_int_eq(payload_chunk(true, doubles, 8), 0);
	ck_assert_int_eq(payload_chunk(true, doubles, CTL_CHUNK_BYTES), 0);
	ck_assert_int_eq(payload_chunk(true, doubles, CTL_CHUNK_BYTES + 8), -EBADMSG);
	ck_assert_int_eq(payload_chunk(true, doubles, 9), -EBADMSG);
	ck_assert_int_eq(payload_chunk(true, doubles, 0), -EBADMSG);
	ck_assert_int_eq(payload_chunk(true, no_op, 8), -EBADMSG);
	ck_assert_int_eq(payload_chunk(false, 0, 9), 0);
	ck_assert_int_eq(payload_chunk(false, 0, 0), -EBADMSG);
	ck_assert_int_eq(payload_chunk(false, 0, CTL_CHUNK_BYTES + 1), -EBADMSG);
}

UNIT_TEST(a_job_without_a_heap_has_no_units)
{
	struct payload_limits l = lim;
	struct units_run run = { 0 };
	uint64_t word = BASE;

	l.heap = 0;
	ck_assert(!payload_allows(&l, SHAPE_RUN, &run, 0));
	ck_assert(!payload_allows(&l, SHAPE_MEMORY, &word, 0));
}

UNIT_TEST(everything_has_a_name)
{
	unsigned int i, k;

	for (i = 0; i < PAYLOAD_RULE_COUNT; i++)
		for (k = 0; k < i; k++)
			ck_assert_str_ne(payload_table.texts[i], payload_table.texts[k]);
	for (i = 1; i < CALL_OPS; i++)
		ck_assert_ptr_nonnull(payload_call((uint8_t)i)->name);
	ck_assert_ptr_null(payload_call(0));
	ck_assert_ptr_null(payload_call(CALL_OPS));
}

UNIT_SUITE("payload")
