// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_dir.c - core/dir: every state and phase with every message, queues, placement, coarse
 * copysets.
 */
#include "core.h"

#include "core/dir.h"

#define SLOTS 4
#define RANKS_MAX 1024

static struct queue_entry nodes[RANKS_MAX * SLOTS];

static struct dir_ctx home(uint16_t me, uint16_t nnodes)
{
	memset(nodes, 0, sizeof(nodes));
	return (struct dir_ctx){ .me = me,
				 .nnodes = nnodes,
				 .queue = { .entries = nodes, .nslots = SLOTS } };
}

static struct msg request(uint8_t type, uint16_t rank, uint16_t slot)
{
	return unit_msg(type, rank, 0, rank, slot);
}

static void done(const struct dir_ctx *c, struct dir *d, uint16_t rank, struct actions *out)
{
	struct msg m = request(MSG_DONE, rank, 0);

	ck_assert_int_eq(dir_step(c, d, &m, out), 0);
}

UNIT_TEST(every_message_is_bounded_and_illegal_ones_change_nothing)
{
	unsigned int state, phase, type, owner, i;

	for (state = 0; state <= DIR_STATES; state++)
		for (phase = 0; phase <= DIR_PHASES; phase++)
			for (type = 0; type <= MSG_TYPES; type++)
				for (owner = 0; owner < 3; owner++)
					for (i = 0; i < 8; i++) {
						struct dir_ctx c = home(0, 3);
						struct dir d = { .state = state & 7,
								 .phase = phase & 7,
								 .owner = (uint16_t)owner,
								 .served = 1,
								 .copyset =
									 1ull << owner | (i & 4) };
						struct dir before = d;
						struct actions out = { .n = 99 };
						struct msg m =
							unit_msg((uint8_t)type, 1, 0, i & 1, 0);
						int err;

						m.op = i & 2 ? MSG_READ_REQ : MSG_WRITE_REQ;
						m.value = i;
						err = dir_step(&c, &d, &m, &out);
						ck_assert(!err || err == -EBADMSG);
						ck_assert_uint_lt(out.n, ACTIONS_MAX);
						if (state == DIR_STATES || phase == DIR_PHASES)
							ck_assert_int_eq(err, -EBADMSG);
						if (err)
							ck_assert_mem_eq(&d, &before, sizeof(d));
					}
}

UNIT_TEST(everything_has_a_name)
{
	unsigned int s;

	for (s = 0; s < DIR_STATES; s++) {
		ck_assert_str_ne(dir_state_name(s), "?");
		ck_assert_str_ne(dir_rule_name(s, MSG_READ_REQ), "?");
		ck_assert_str_ne(dir_rule_name(s, MSG_WRITE_REQ), "-");
	}
	for (s = 0; s < DIR_PHASES; s++)
		ck_assert_str_ne(dir_phase_name(s), "?");
	ck_assert_str_eq(dir_state_name(DIR_STATES), "?");
	ck_assert_str_eq(dir_phase_name(DIR_PHASES), "?");
	ck_assert_str_eq(dir_rule_name(DIR_STATES, MSG_READ_REQ), "?");
}

UNIT_TEST(requests_are_served_in_the_order_they_came)
{
	struct dir_ctx c = home(0, 64);
	struct dir d = { 0 };
	struct actions out;
	struct msg m = request(MSG_WRITE_REQ, 5, 0), turn;
	uint16_t r;

	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	for (r = 0; r < 64; r++) {
		m = request(MSG_WRITE_REQ, (uint16_t)((r * 7 + 3) % 64), 1);
		if (m.req_node == 5)
			continue;
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
		ck_assert_uint_eq(out.n, 0);
	}
	for (r = 0; r < 64; r++) {
		uint16_t next = (uint16_t)((r * 7 + 3) % 64);

		if (next == 5)
			continue;
		done(&c, &d, d.served, &out);
		ck_assert_uint_eq(unit_action(&out, ACT_RESUME, 0)->node, next);
		ck_assert_uint_eq(d.phase, DIR_TURN);
		/* A request between DONE and the resulting RESUME queues behind all others. */
		turn = unit_action(&out, ACT_RESUME, 0)->msg;
		ck_assert_int_eq(dir_step(&c, &d, &turn, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_FWD_WRITE)->req_node, next);
		ck_assert_uint_eq(d.owner, next);
	}
	done(&c, &d, d.served, &out);
	ck_assert_uint_eq(d.phase, DIR_IDLE);
	ck_assert_uint_eq(d.tail, 0);
}

UNIT_TEST(a_request_is_not_queued_twice)
{
	struct dir_ctx c = home(0, 4);
	struct dir d = {
		.state = DIR_EXCLUSIVE, .owner = 1, .phase = DIR_BUSY, .served = 1, .copyset = 2
	};
	struct msg m = request(MSG_READ_REQ, 2, 1), far = request(MSG_READ_REQ, 4, 0),
		   slot = request(MSG_READ_REQ, 1, SLOTS);
	struct actions out;

	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
	ck_assert_int_eq(dir_step(&c, &d, &far, &out), -EBADMSG);
	ck_assert_int_eq(dir_step(&c, &d, &slot, &out), -EBADMSG);
	ck_assert_uint_eq(queue_length(&c.queue, d.tail), 1);
}

UNIT_TEST(a_queued_request_that_is_absurd_holds_nobody_up)
{
	struct dir_ctx c = home(0, 4);
	struct dir d = {
		.state = DIR_EXCLUSIVE, .owner = 1, .phase = DIR_BUSY, .served = 1, .copyset = 2
	};
	struct msg bad = request(MSG_READ_REQ, 1, 1), good = request(MSG_READ_REQ, 2, 1), turn;
	struct actions out;

	ck_assert_int_eq(dir_step(&c, &d, &bad, &out), 0); /* the owner requests its own block */
	ck_assert_int_eq(dir_step(&c, &d, &good, &out), 0);
	done(&c, &d, 1, &out);
	turn = unit_action(&out, ACT_RESUME, 0)->msg;
	ck_assert_int_eq(dir_step(&c, &d, &turn, &out), 0);
	turn = unit_action(&out, ACT_RESUME, 0)->msg;
	ck_assert_int_eq(dir_step(&c, &d, &turn, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->req_node, 2);
}

UNIT_TEST(only_the_one_that_is_served_is_done)
{
	struct dir_ctx c = home(0, 4);
	struct dir d = {
		.state = DIR_EXCLUSIVE, .owner = 1, .phase = DIR_BUSY, .served = 1, .copyset = 2
	};
	struct msg m = request(MSG_DONE, 2, 0);
	struct actions out;

	ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
	done(&c, &d, 1, &out);
	ck_assert_uint_eq(d.phase, DIR_IDLE);
}

static unsigned int reached(const struct action *a, uint16_t nnodes)
{
	return set_count(a->mask, nnodes, set_granule(nnodes), a->msg.req_node, a->except);
}

UNIT_TEST(a_writer_that_shares_gets_no_data_and_all_others_lose_theirs)
{
	struct dir_ctx c = home(0, 8);
	struct dir d = { .state = DIR_SHARED, .owner = 3, .copyset = 0x5a }; /* 1 3 4 6 */
	struct msg m = request(MSG_WRITE_REQ, 4, 0);
	struct actions out;

	m.flags = MSGF_HAS;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(reached(unit_action(&out, ACT_MCAST, 0), 8), 3);
	ck_assert_int_eq(unit_sent(&out, MSG_GRANT)->count, 3);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->flags, 0);
	ck_assert_uint_eq(d.copyset, 0x10);
	ck_assert_uint_eq(d.owner, 4);
}

UNIT_TEST(a_writer_that_lost_its_copy_gets_the_data)
{
	struct dir_ctx c = home(0, 8);
	struct dir d = { .state = DIR_SHARED, .owner = 3, .copyset = 0x4a }; /* 1 3 6 */
	struct msg m = request(MSG_WRITE_REQ, 4, 0);
	struct actions out;

	m.flags = MSGF_HAS;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	/* the owner loses its copy by giving it */
	ck_assert_uint_eq(reached(unit_action(&out, ACT_MCAST, 0), 8), 2);
	ck_assert_uint_eq(unit_sent(&out, MSG_FWD_WRITE)->dst, 3);
	ck_assert_int_eq(unit_sent(&out, MSG_FWD_WRITE)->count, 2);
}

UNIT_TEST(with_a_coarse_copyset_only_the_owner_is_believed_to_have_a_copy)
{
	uint16_t sizes[] = { 65, 100, 128, 129, 500, 1000, 1024, 1024 };
	const unsigned int n = sizeof(sizes) / sizeof(sizes[0]);
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct dir_ctx c = home(0, sizes[i]);
		uint16_t g = set_granule(sizes[i]), owner = 3, sharer = (uint16_t)(sizes[i] - 1);
		struct dir start = { .state = DIR_SHARED,
				     .owner = owner,
				     .copyset = i == n - 1 ? ~0ull
							   : set_of(owner, g) | set_of(sharer, g) },
			   d = start;
		uint16_t both = set_count(start.copyset, sizes[i], g, SET_NOBODY, SET_NOBODY);
		struct msg m = request(MSG_WRITE_REQ, sharer, 0),
			   o = request(MSG_WRITE_REQ, owner, 0);
		struct actions out;

		m.flags = o.flags = MSGF_HAS;
		ck_assert_uint_gt(g, 1);
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
		ck_assert_int_eq(unit_sent(&out, MSG_FWD_WRITE)->count, both - 2);
		if (both > 2)
			ck_assert_uint_eq(reached(unit_action(&out, ACT_MCAST, 0), sizes[i]),
					  both - 2u);
		d = start;
		ck_assert_int_eq(dir_step(&c, &d, &o, &out), 0);
		ck_assert_int_eq(unit_sent(&out, MSG_GRANT)->count, both - 1);
		ck_assert_uint_eq(reached(unit_action(&out, ACT_MCAST, 0), sizes[i]), both - 1u);
		ck_assert_uint_eq(d.copyset, set_of(owner, g));
	}
}

/*
 * A block is read, then written by the same rank, repeatedly: readers get it for writing, except
 * every sixteenth time.
 */
UNIT_TEST(a_block_that_migrates_is_granted_whole)
{
	struct dir_ctx c = home(0, 4);
	struct dir d = { .state = DIR_EXCLUSIVE, .owner = 1, .copyset = 2 };
	struct msg m = request(MSG_READ_REQ, 2, 0);
	struct actions out;
	unsigned int i, copies = 0;

	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_FWD_READ));
	done(&c, &d, 2, &out);
	m = request(MSG_WRITE_REQ, 2, 0);
	m.flags = MSGF_HAS;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	done(&c, &d, 2, &out);
	for (i = 0; i < 32 && !copies; i++) {
		m = request(MSG_READ_REQ, d.owner == 2 ? 3 : 2, 0);
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
		copies += unit_sent(&out, MSG_FWD_READ) != NULL;
		done(&c, &d, m.req_node, &out);
	}
	ck_assert_uint_eq(i, 16);
	/* Another rank reads before that one has written: migration ends. */
	m = request(MSG_READ_REQ, 0, 0);
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(d.migratory, 0);
}

/* A bit may stand for several ranks, so the number of copies is unknown. */
UNIT_TEST(with_a_coarse_copyset_nothing_migrates)
{
	struct dir_ctx c = home(0, 1000);
	const uint16_t g = set_granule(1000);
	struct dir d = { .state = DIR_SHARED, .copyset = set_of(0, g) | set_of(600, g) };
	struct msg m = request(MSG_WRITE_REQ, 0, 0);
	struct actions out;

	m.flags = MSGF_HAS;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_GRANT));
	ck_assert_uint_eq(d.migratory, 0);
}

static struct dir migrating(uint16_t reader, struct actions *out)
{
	struct dir_ctx c = home(0, 4);
	struct dir d = { .state = DIR_EXCLUSIVE, .owner = 1, .copyset = 2, .migratory = 1 };
	struct msg m = request(MSG_READ_REQ, reader, 3);

	ck_assert_int_eq(dir_step(&c, &d, &m, out), 0);
	ck_assert_uint_eq(unit_sent(out, MSG_FWD_MIGRATE)->dst, 1);
	ck_assert_uint_eq(unit_sent(out, MSG_FWD_MIGRATE)->req_node, reader);
	return d;
}

/* If a migrating block is pinned, the reader gets only a copy, and the block stops migrating. */
UNIT_TEST(a_block_that_is_kept_is_shared)
{
	struct dir_ctx c = home(0, 4);
	uint16_t reader;

	for (reader = 0; reader < 3; reader += 2) {
		struct actions out;
		struct dir d = migrating(reader, &out), other = d;
		struct msg kept = unit_msg(MSG_KEPT, 1, 0, reader, 3);

		ck_assert_int_eq(dir_step(&c, &d, &kept, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->dst, 1);
		ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->req_node, reader);
		ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->req_slot, 3);
		ck_assert_uint_eq(d.state, DIR_SHARED);
		ck_assert_uint_eq(d.migratory, 0);
		ck_assert_uint_eq(d.copyset, 2 | 1u << reader);
		ck_assert_uint_eq(d.owner, reader ? 1 : 0); /* a home that reads owns */
		ck_assert_int_eq(dir_step(&c, &d, &kept, &out), -EBADMSG);
		done(&c, &d, reader, &out);
		ck_assert_uint_eq(d.phase, DIR_IDLE);
		ck_assert_int_eq(dir_step(&c, &d, &kept, &out), -EBADMSG);
		/* The block was not pinned: the reader alone has it. */
		done(&c, &other, reader, &out);
		ck_assert_uint_eq(other.state, DIR_EXCLUSIVE);
		ck_assert_uint_eq(other.copyset, 1u << reader);
		ck_assert_uint_eq(other.owner, reader);
	}
}

UNIT_TEST(a_block_is_kept_for_any_rank)
{
	struct dir_ctx c = home(0, 1000);
	const uint16_t g = set_granule(1000);
	struct dir d = { .state = DIR_EXCLUSIVE,
			 .phase = DIR_BUSY,
			 .owner = 300,
			 .served = 300,
			 .migratory = 1,
			 .copyset = set_of(300, g) | set_of(600, g) };
	struct msg kept = unit_msg(MSG_KEPT, 600, 0, 300, 0x102);
	struct actions out;

	ck_assert_int_eq(dir_step(&c, &d, &kept, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->dst, 600);
	ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->req_node, 300);
	ck_assert_uint_eq(unit_sent(&out, MSG_FWD_READ)->req_slot, 0x102);
	ck_assert_uint_eq(d.owner, 600);
}

/* The manager itself redirects requests, and so does a former home. */
UNIT_TEST(who_is_sent_back_learns_of_any_manager)
{
	const uint16_t me[] = { 0, 700 };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct dir_ctx c = home(me[i], 1000);
		struct dir d = { .state = i ? DIR_MOVED : DIR_LEFT, .owner = i ? 600 : 700 };
		struct msg m = unit_msg(MSG_READ_REQ, 300, me[i], 300, 0);
		struct actions out;

		c.manager = 700;
		m.flags = MSGF_KNOWN;
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_MOVED)->dst, 300);
		ck_assert_uint_eq(unit_sent(&out, MSG_MOVED)->value, 700);
	}
}

/* Starting from rank 0, or from the manager; the new home tells the manager. */
UNIT_TEST(a_home_moves_to_any_rank)
{
	struct dir_ctx c = home(0, 1000), manager = home(700, 1000), there = home(600, 1000);
	struct dir d = { .state = DIR_EXCLUSIVE,
			 .phase = DIR_HANDING,
			 .owner = 600,
			 .served = 600 },
		   e = d, f = { 0 };
	struct msg ack = unit_msg(MSG_MOVE_ACK, 700, 0, 0, 0),
		   adopt = unit_msg(MSG_ADOPT, 0, 600, 600, 0);
	uint16_t forwarded = 0;
	struct actions out;

	c.manager = manager.manager = there.manager = 700;
	c.forwarded = &forwarded;
	done(&c, &d, 600, &out);
	ck_assert_uint_eq(unit_sent(&out, MSG_MOVE)->dst, 700);
	ck_assert_uint_eq(unit_sent(&out, MSG_MOVE)->req_node, 600);
	ck_assert_int_eq(dir_step(&c, &d, &ack, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_ADOPT)->dst, 600);
	ck_assert_uint_eq(unit_sent(&out, MSG_ADOPT)->value, 700);
	ck_assert_uint_eq(d.owner, 700);
	done(&manager, &e, 600, &out);
	ck_assert_uint_eq(unit_sent(&out, MSG_ADOPT)->dst, 600);
	ck_assert_uint_eq(unit_sent(&out, MSG_ADOPT)->value, 700);
	adopt.value = 700;
	ck_assert_int_eq(dir_step(&there, &f, &adopt, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_HOME_ACK)->dst, 700);
	ck_assert_uint_eq(f.owner, 600);
}

UNIT_TEST(any_rank_is_blamed_for_a_circle)
{
	struct dir_ctx c = home(0, 1000);
	struct dir d = { .state = DIR_MOVED, .owner = 700, .served = 600 };
	struct msg m = unit_msg(MSG_READ_REQ, 700, 0, 300, 0);
	uint16_t forwarded = 0;
	struct actions out;

	c.manager = 700;
	c.forwarded = &forwarded;
	m.flags = MSGF_FORWARDED;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_BLAME, 0)->node, 600);
}

UNIT_TEST(only_who_has_it_says_that_a_block_is_kept)
{
	struct dir_ctx c = home(0, 4);
	struct dir d, before;
	struct actions out;
	unsigned int i;

	for (i = 0; i < 8; i++) {
		struct msg m = unit_msg(MSG_KEPT, 1, 0, 2, 3);
		struct msg write = request(MSG_WRITE_REQ, 2, 3);

		d = migrating(2, &out);
		if (i == 0)
			m.src = 2;
		if (i == 1)
			m.src = 3;
		if (i == 2)
			m.req_node = 3;
		if (i == 3)
			d.phase = DIR_HANDING;
		if (i == 4)
			d.migratory = 0;
		if (i == 5) {
			d = (struct dir){
				.state = DIR_EXCLUSIVE, .owner = 1, .copyset = 2, .migratory = 1
			};
			ck_assert_int_eq(dir_step(&c, &d, &write, &out), 0);
		}
		if (i == 6) { /* every now and then, a copy of a migrating block */
			d.state = DIR_SHARED;
			d.owner = 1;
			m = unit_msg(MSG_KEPT, 2, 0, 1, 3);
		}
		if (i == 7) {
			d.copyset |= 1u << 4;
			m.src = 4;
		}
		before = d;
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
		ck_assert_mem_eq(&d, &before, sizeof(d));
	}
}

UNIT_TEST(the_first_toucher_becomes_the_home)
{
	struct dir_ctx c = home(0, 4), c2 = { .me = 2, .nnodes = 4, .queue = c.queue };
	struct dir manager = { 0 }, there = { 0 };
	struct msg m = request(MSG_READ_REQ, 2, 1), later = request(MSG_WRITE_REQ, 3, 1), move, ack,
		   turn;
	struct actions out;

	m.flags = later.flags = MSGF_FIRST_TOUCH;
	ck_assert_int_eq(dir_step(&c, &manager, &m, &out), 0);
	move = *unit_sent(&out, MSG_HOME);
	ck_assert_int_eq(dir_step(&c, &manager, &later, &out), 0);
	ck_assert_uint_eq(out.n, 0); /* wait until the new home knows */
	ck_assert_int_eq(dir_step(&c2, &there, &move, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->flags, MSGF_ZERO);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->home, 2);
	ack = *unit_sent(&out, MSG_HOME_ACK);
	ck_assert_int_eq(dir_step(&c2, &there, &move, &out), -EBADMSG);
	ck_assert_int_eq(dir_step(&c, &manager, &ack, &out), 0);
	turn = unit_action(&out, ACT_RESUME, 0)->msg;
	ck_assert_int_eq(dir_step(&c, &manager, &turn, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_WRITE_REQ)->dst, 2);
	ck_assert_uint_eq(unit_sent(&out, MSG_WRITE_REQ)->flags, MSGF_FORWARDED);
	ck_assert_uint_eq(manager.phase, DIR_IDLE);
}

UNIT_TEST(a_block_is_placed_only_while_untouched)
{
	struct {
		struct dir d;
		uint64_t where;
		int16_t count;
		uint8_t state;
	} cases[] = {
		{ { .state = DIR_UNTOUCHED }, 2, 0, DIR_MOVED },
		{ { .state = DIR_UNTOUCHED }, 0, 0, DIR_PLACED },
		{ { .state = DIR_PLACED }, 3, 0, DIR_MOVED },
		{ { .state = DIR_UNTOUCHED }, 4, -EINVAL, DIR_UNTOUCHED },
		{ { .state = DIR_SHARED, .copyset = 1 }, 2, -EBUSY, DIR_SHARED },
		{ { .state = DIR_MOVED, .owner = 1 }, 2, -EBUSY, DIR_MOVED },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct dir_ctx c = home(0, 4);
		struct msg m = request(MSG_PLACE, 1, 2);
		struct actions out;

		m.value = cases[i].where;
		ck_assert_int_eq(dir_step(&c, &cases[i].d, &m, &out), 0);
		ck_assert_int_eq(unit_sent(&out, MSG_REPLY)->count, cases[i].count);
		ck_assert_uint_eq(cases[i].d.state, cases[i].state);
	}
}

/* dsm_place() is a promise: the first rank to touch the block does not become its home. */
UNIT_TEST(a_placed_block_does_not_move_at_first_touch)
{
	uint8_t types[] = { MSG_READ_REQ, MSG_WRITE_REQ };
	unsigned int i, r;

	for (i = 0; i < 2; i++)
		for (r = 0; r < 4; r++) {
			struct dir_ctx c = home(0, 4);
			struct dir d = { 0 };
			struct msg place = request(MSG_PLACE, 1, 2),
				   touch = request(types[i], (uint16_t)r, 1);
			struct actions out;

			place.value = 0;
			touch.flags = MSGF_FIRST_TOUCH;
			ck_assert_int_eq(dir_step(&c, &d, &place, &out), 0);
			ck_assert_int_eq(unit_sent(&out, MSG_REPLY)->count, 0);
			ck_assert_int_eq(dir_step(&c, &d, &touch, &out), 0);
			ck_assert_ptr_null(unit_sent(&out, MSG_HOME));
			ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->dst, r);
			ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->home, 0);
			ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->flags, MSGF_ZERO);
			ck_assert_uint_eq(d.state, DIR_EXCLUSIVE);
			ck_assert_uint_eq(d.owner, r);
		}
}

/* The largest queue: 256 slots for each of 1,024 ranks. */
UNIT_TEST(every_slot_of_every_rank_may_wait)
{
	static struct queue_entry all[WIRE_MAX_NODES * 256];
	struct dir_ctx c = { .me = 0,
			     .nnodes = WIRE_MAX_NODES,
			     .queue = { .entries = all, .nslots = 256 } };
	struct dir d = {
		.state = DIR_EXCLUSIVE, .owner = 1, .phase = DIR_BUSY, .served = 1, .copyset = 1
	};
	uint16_t ranks[] = { 2, 255, 256, 511, 1023, 700, 3 },
		 slots[] = { 255, 0, 254, 128, 255, 1, 7 };
	const unsigned int n = sizeof(ranks) / sizeof(ranks[0]);
	struct actions out;
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct msg m = request(MSG_WRITE_REQ, ranks[i], slots[i]);

		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	}
	for (i = 0; i < n; i++) {
		struct msg turn;

		done(&c, &d, d.served, &out);
		ck_assert_uint_eq(unit_action(&out, ACT_RESUME, 0)->node, ranks[i]);
		ck_assert_uint_eq(unit_action(&out, ACT_RESUME, 0)->slot, slots[i]);
		turn = unit_action(&out, ACT_RESUME, 0)->msg;
		ck_assert_uint_eq(turn.req_node, ranks[i]);
		ck_assert_uint_eq(turn.req_slot, slots[i]);
		ck_assert_int_eq(dir_step(&c, &d, &turn, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_FWD_WRITE)->req_node, ranks[i]);
		ck_assert_uint_eq(unit_sent(&out, MSG_FWD_WRITE)->req_slot, slots[i]);
	}
	ck_assert_uint_eq(d.tail, 0);
}

UNIT_SUITE("dir")
