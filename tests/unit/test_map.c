// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_map.c - core/map: how several mappings of one page change, for all states, events and ranks.
 */
#include "core.h"

#include "core/map.h"

#define ALL ((1ULL << MAP_BITS) - 1)

static struct map_todo step(enum map_kind kind, struct map *m, enum map_event ev, uint16_t who)
{
	struct map_todo todo;

	map_step(kind, m, ev, who, &todo);
	return todo;
}

UNIT_TEST(a_page_starts_closed)
{
	struct map m = { 0 };

	ck_assert_int_eq(map_state(&m), PROT_CLOSED);
	ck_assert_uint_eq(map_loose(MAP_SHOWN, &m), ALL);
	ck_assert_uint_eq(map_loose(MAP_ASKED, &m), 0);
}

UNIT_TEST(ranks_have_bits_of_their_own_up_to_62)
{
	uint64_t seen = 0;
	uint16_t r;

	for (r = 0; r < MAP_BITS; r++) {
		ck_assert_uint_eq(seen & map_bit(r), 0);
		seen |= map_bit(r);
		ck_assert_uint_eq(map_bit(r), map_bit((uint16_t)(r + MAP_BITS)));
	}
	ck_assert_uint_eq(seen, ALL);
}

/* The kernel maps the page: it is filled for one rank to read, and the others get markers first. */
UNIT_TEST(shown_readers_are_marked_before_contents_come)
{
	struct map m = { 0 };
	struct map_todo t = step(MAP_SHOWN, &m, MAP_FILL_RO, 3);

	/* 65 shares a bit with 3 */
	ck_assert(map_has(&t, 2) && map_has(&t, 65) && !map_has(&t, 3));
	ck_assert(t.to == PROT_RO && t.open == PROT_RO);
	ck_assert(map_state(&m) == PROT_RO && map_loose(MAP_SHOWN, &m) == 0);
	t = step(MAP_SHOWN, &m, MAP_LOWER, 0);
	ck_assert_uint_eq(t.down, 0);
	t = step(MAP_SHOWN, &m, MAP_RAISE, 5);
	ck_assert(!t.down && t.open == PROT_RW && map_state(&m) == PROT_RW);
	ck_assert_uint_eq(map_loose(MAP_SHOWN, &m), map_bit(5));
	t = step(MAP_SHOWN, &m, MAP_RAISE, 5);
	ck_assert(!t.down && t.open == PROT_RW);
	t = step(MAP_SHOWN, &m, MAP_AGAIN_RW, 6);
	ck_assert(!t.down && t.open == PROT_RW);
	ck_assert_uint_eq(map_loose(MAP_SHOWN, &m), map_bit(5) | map_bit(6));
	t = step(MAP_SHOWN, &m, MAP_LOWER, 0);
	ck_assert(map_has(&t, 5) && map_has(&t, 6) && !map_has(&t, 3) && t.to == PROT_RO &&
		  t.open == PROT_CLOSED);
	ck_assert(map_state(&m) == PROT_RO && map_loose(MAP_SHOWN, &m) == 0);
	t = step(MAP_SHOWN, &m, MAP_SHUT, 0);
	ck_assert(!t.down && t.to == PROT_CLOSED && t.open == PROT_CLOSED &&
		  map_state(&m) == PROT_CLOSED);
	ck_assert_uint_eq(map_loose(MAP_SHOWN, &m), ALL);
}

UNIT_TEST(shown_writers_leave_the_others_as_they_are)
{
	struct map m = { 0 };
	struct map_todo t;

	map_marked(&m, 4);
	ck_assert(map_state(&m) == PROT_CLOSED && map_loose(MAP_SHOWN, &m) == map_bit(4));
	t = step(MAP_SHOWN, &m, MAP_FILL_RW, 7);
	ck_assert(!t.down && t.open == PROT_RW && map_state(&m) == PROT_RW);
	ck_assert_uint_eq(map_loose(MAP_SHOWN, &m), map_bit(4) | map_bit(7));
	ck_assert_int_eq(t.to, PROT_RW);
	map_marked(&m, 7);
	ck_assert(map_state(&m) == PROT_RW && map_loose(MAP_SHOWN, &m) == map_bit(7));
	map_marked(&m, 9);
	ck_assert(map_state(&m) == PROT_RW && map_loose(MAP_SHOWN, &m) == 0);
	t = step(MAP_SHOWN, &m, MAP_RAISE, 300);
	ck_assert(t.to == PROT_RW && t.open == PROT_RW && map_loose(MAP_SHOWN, &m) == map_bit(300));
	t = step(MAP_SHOWN, &m, MAP_AGAIN_RW, 301);
	ck_assert(t.open == PROT_RW && map_loose(MAP_SHOWN, &m) == (map_bit(300) | map_bit(301)));
	t = step(MAP_SHOWN, &m, MAP_SHUT, 0);
	ck_assert_uint_eq(map_loose(MAP_SHOWN, &m), ALL);
}

UNIT_TEST(asked_mappings_come_down_one_by_one)
{
	struct map m = { 0 };
	struct map_todo t = step(MAP_ASKED, &m, MAP_FILL_RW, 1);

	ck_assert(!t.down && t.open == PROT_RW && map_loose(MAP_ASKED, &m) == map_bit(1));
	t = step(MAP_ASKED, &m, MAP_AGAIN_RO, 2);
	ck_assert(t.open == PROT_RO && map_loose(MAP_ASKED, &m) == (map_bit(1) | map_bit(2)));
	t = step(MAP_ASKED, &m, MAP_LOWER, 0);
	ck_assert(map_has(&t, 1) && map_has(&t, 2) && !map_has(&t, 3) && t.to == PROT_RO);
	ck_assert(map_state(&m) == PROT_RO &&
		  map_loose(MAP_ASKED, &m) == (map_bit(1) | map_bit(2)));
	t = step(MAP_ASKED, &m, MAP_RAISE, 3);
	ck_assert(!t.down && t.to == PROT_RW && t.open == PROT_RW && map_state(&m) == PROT_RW);
	ck_assert_uint_eq(map_loose(MAP_ASKED, &m), map_bit(1) | map_bit(2) | map_bit(3));
	t = step(MAP_ASKED, &m, MAP_SHUT, 0);
	ck_assert(t.down == (map_bit(1) | map_bit(2) | map_bit(3)) && t.to == PROT_CLOSED &&
		  t.except == MAP_NOBODY);
	ck_assert(map_state(&m) == PROT_CLOSED && !map_loose(MAP_ASKED, &m));
	t = step(MAP_ASKED, &m, MAP_FILL_RO, 9);
	ck_assert(t.open == PROT_RO && map_state(&m) == PROT_RO &&
		  map_loose(MAP_ASKED, &m) == map_bit(9));
}

/*
 * A mapping counted as marked is not opened for writing ahead of its touch: no step would notice.
 */
UNIT_TEST(a_page_is_shown_ahead_as_the_kernel_would_show_it)
{
	struct map m = { 0 };

	ck_assert(map_shown(&m, 1) == PROT_CLOSED);
	step(MAP_SHOWN, &m, MAP_FILL_RW, 1);
	ck_assert(map_shown(&m, 1) == PROT_RW && map_shown(&m, 2) == PROT_RW);
	step(MAP_SHOWN, &m, MAP_LOWER, 0);
	ck_assert(map_shown(&m, 1) == PROT_RO && map_shown(&m, 2) == PROT_RO);
	step(MAP_SHOWN, &m, MAP_RAISE, 1);
	ck_assert(map_shown(&m, 1) == PROT_RW && map_shown(&m, 2) == PROT_RO);
	step(MAP_SHOWN, &m, MAP_SHUT, 0);
	ck_assert(map_shown(&m, 1) == PROT_CLOSED);
	map_marked(&m, 1); /* early, for the other ranks */
	ck_assert(map_shown(&m, 1) == PROT_CLOSED && map_shown(&m, 2) == PROT_CLOSED);
}

UNIT_TEST(high_ranks_and_bits_are_carried)
{
	struct map m = { 0 };
	struct map_todo t = step(MAP_SHOWN, &m, MAP_FILL_RO, 300);

	ck_assert_uint_eq(map_bit(300), 1ull << (300 - 4 * 62));
	ck_assert_uint_eq(t.down, ALL);
	ck_assert_uint_eq(t.except, 300);
	ck_assert(!map_has(&t, 300) && map_has(&t, 300 - 256));
	m = (struct map){ 0 };
	step(MAP_ASKED, &m, MAP_FILL_RW, 40);
	t = step(MAP_ASKED, &m, MAP_LOWER, 0);
	ck_assert_uint_eq(t.down, 1ull << 40);
	ck_assert_uint_eq(map_loose(MAP_ASKED, &m), 1ull << 40);
}

/*
 * In any state, a request opens no more than the node's state and the request allow, and is
 * recorded.
 */
UNIT_TEST(who_asks_late_gets_what_there_is)
{
	unsigned int kind, a, b, late;

	for (kind = 0; kind < MAP_KINDS; kind++)
		for (a = 0; a < MAP_AGAIN_RO; a++)
			for (b = 0; b < MAP_AGAIN_RO; b++)
				for (late = MAP_AGAIN_RO; late <= MAP_AGAIN_RW; late++) {
					struct map m = { 0 }, before;
					enum prot want = late == MAP_AGAIN_RO ? PROT_RO : PROT_RW,
						  got;
					struct map_todo t;

					step((enum map_kind)kind, &m, (enum map_event)a, 1);
					step((enum map_kind)kind, &m, (enum map_event)b, 1);
					before = m;
					t = step((enum map_kind)kind, &m, (enum map_event)late, 2);
					got = map_state(&m) < want ? map_state(&m) : want;
					if (kind == MAP_SHOWN && got == PROT_RO)
						got = PROT_CLOSED; /* the kernel maps it */
					unit_require(!t.down && t.open == got &&
						     map_state(&m) == map_state(&before));
					unit_require(map_loose((enum map_kind)kind, &m) ==
						     (map_loose((enum map_kind)kind, &before) |
						      (got ? map_bit(2) : 0)));
				}
}

/*
 * A mapping that does not exist is neither raised nor lowered. Filling a page twice is the same as
 * once.
 */
UNIT_TEST(steps_that_do_not_fit_open_nothing)
{
	unsigned int kind;

	for (kind = 0; kind < MAP_KINDS; kind++) {
		struct map m = { 0 };
		struct map_todo t = step((enum map_kind)kind, &m, MAP_RAISE, 1);

		ck_assert(!t.down && !t.open && !m.word);
		t = step((enum map_kind)kind, &m, MAP_LOWER, 1);
		ck_assert(!t.down && !t.open && !m.word);
	}
	{
		struct map m = { 0 };
		struct map_todo t = step(MAP_ASKED, &m, MAP_FILL_RW, 1);

		t = step(MAP_ASKED, &m, MAP_FILL_RO, 2);
		ck_assert(t.down == map_bit(1) && t.to == PROT_CLOSED &&
			  map_loose(MAP_ASKED, &m) == map_bit(2));
		t = step(MAP_ASKED, &m, MAP_FILL_RW, 3);
		ck_assert(t.down == map_bit(2) && t.to == PROT_CLOSED &&
			  map_loose(MAP_ASKED, &m) == map_bit(3));
	}
}

/* Each step, on a page that the node may write and that ranks 1 and 2 have open. */
UNIT_TEST(each_step_says_what_comes_down_and_what_opens)
{
	static const struct {
		uint8_t kind, ev, down, to, open, state;
		uint64_t loose;
	} rows[] = {
		{ MAP_SHOWN, MAP_FILL_RO, 1, PROT_RO, PROT_RO, PROT_RO, 0 },
		{ MAP_SHOWN, MAP_FILL_RW, 0, PROT_RW, PROT_RW, PROT_RW, 1 << 1 | 1 << 2 | 1 << 3 },
		{ MAP_SHOWN, MAP_RAISE, 0, PROT_RW, PROT_RW, PROT_RW, 1 << 1 | 1 << 2 | 1 << 3 },
		{ MAP_SHOWN, MAP_LOWER, 1, PROT_RO, PROT_CLOSED, PROT_RO, 0 },
		{ MAP_SHOWN, MAP_SHUT, 0, PROT_CLOSED, PROT_CLOSED, PROT_CLOSED, ALL },
		{ MAP_ASKED, MAP_FILL_RO, 1, PROT_CLOSED, PROT_RO, PROT_RO, 1 << 3 },
		{ MAP_ASKED, MAP_FILL_RW, 1, PROT_CLOSED, PROT_RW, PROT_RW, 1 << 3 },
		{ MAP_ASKED, MAP_RAISE, 0, PROT_RW, PROT_RW, PROT_RW, 1 << 1 | 1 << 2 | 1 << 3 },
		{ MAP_ASKED, MAP_LOWER, 1, PROT_RO, PROT_CLOSED, PROT_RO, 1 << 1 | 1 << 2 },
		{ MAP_ASKED, MAP_SHUT, 1, PROT_CLOSED, PROT_CLOSED, PROT_CLOSED, 0 },
	};
	unsigned int i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum map_kind kind = (enum map_kind)rows[i].kind;
		struct map m = { 0 };
		struct map_todo t;

		if (kind == MAP_SHOWN) {
			map_marked(&m, 1);
			step(kind, &m, MAP_FILL_RW, 1);
			step(kind, &m, MAP_RAISE, 2);
		} else {
			step(kind, &m, MAP_FILL_RW, 1);
			step(kind, &m, MAP_AGAIN_RW, 2);
		}
		ck_assert_uint_eq(map_loose(kind, &m), 1 << 1 | 1 << 2);
		t = step(kind, &m, (enum map_event)rows[i].ev, 3);
		ck_assert_uint_eq(t.down, rows[i].down ? 1 << 1 | 1 << 2 : 0);
		ck_assert_uint_eq(t.except,
				  kind == MAP_SHOWN && rows[i].ev == MAP_FILL_RO ? 3 : MAP_NOBODY);
		ck_assert(t.to == rows[i].to && t.open == rows[i].open &&
			  map_state(&m) == rows[i].state);
		ck_assert_uint_eq(map_loose(kind, &m), rows[i].loose);
	}
}

UNIT_SUITE("map")
