// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_page.c - core/page: every state with every event, and races that the table alone does not
 * show.
 */
#include "core.h"

#include "core/page.h"

#define ME 2
#define OTHER 1

static const struct page_ctx ctx = { .me = ME, .now = 1000 };

static int step(struct copy *p, enum page_event ev, struct msg m, struct actions *out)
{
	return page_step(&ctx, p, ev, &m, out);
}

/* Messages that differ in the fields that rules look at. */
static struct msg variant(unsigned int i)
{
	struct msg m = unit_msg(MSG_DATA, OTHER, ME, i & 1 ? OTHER : ME, 3);

	m.op = i & 2 ? GRANT_WRITE : GRANT_READ;
	m.flags = i & 4 ? MSGF_ZERO : 0;
	m.count = i & 8 ? 2 : 0;
	m.home = OTHER;
	return m;
}

UNIT_TEST(every_pair_is_bounded_and_illegal_ones_change_nothing)
{
	unsigned int state, ev, owner, pins, i;

	for (state = 0; state < PG_STATES; state++)
		for (ev = 0; ev < PE_EVENTS; ev++)
			for (owner = 0; owner < 2; owner++)
				for (pins = 0; pins < 3; pins++)
					for (i = 0; i < 16; i++) {
						struct copy p = { .state = (uint8_t)state,
								  .flags = owner ? PAGE_OWNER : 0,
								  .pins_read = pins == 1,
								  .pins_write = pins == 2,
								  .home = OTHER + 1,
								  .slot = 3,
								  .acks = state == PG_COUNT };
						struct copy before = p;
						struct actions out = { .n = 99 };
						int err = step(&p, (enum page_event)ev, variant(i),
							       &out);

						ck_assert(!err || err == -EBADMSG);
						ck_assert_uint_lt(out.n, ACTIONS_MAX);
						if (page_rule_name(state, ev)[0] == '-')
							ck_assert_int_eq(err, -EBADMSG);
						if (err) {
							ck_assert_mem_eq(&p, &before, sizeof(p));
							ck_assert_uint_eq(out.n, 0);
						}
					}
}

UNIT_TEST(states_and_events_out_of_range_are_refused)
{
	struct copy p = { .state = PG_STATES }, q = { 0 };
	struct actions out;

	ck_assert_int_eq(step(&p, PE_READ, variant(0), &out), -EBADMSG);
	ck_assert_int_eq(step(&q, PE_EVENTS, variant(0), &out), -EBADMSG);
}

UNIT_TEST(everything_has_a_name)
{
	unsigned int s, e;

	for (s = 0; s < PG_STATES; s++)
		for (e = 0; e < PE_EVENTS; e++) {
			ck_assert_ptr_nonnull(page_rule_name(s, e));
			ck_assert_str_ne(page_rule_name(s, e), "?");
			ck_assert_str_ne(page_state_name(s), "?");
			ck_assert_str_ne(page_event_name(e), "?");
		}
	ck_assert_str_eq(page_state_name(PG_STATES), "?");
	ck_assert_str_eq(page_event_name(PE_EVENTS), "?");
	ck_assert_str_eq(page_rule_name(PG_STATES, 0), "?");
	ck_assert_str_eq(page_rule_name(PG_INVALID, PE_EVENTS), "?");
	ck_assert_str_eq(page_rule_name(PG_INVALID, PE_EVENTS + 1), "?");
}

UNIT_TEST(states_say_what_may_be_done)
{
	unsigned int state;

	for (state = 0; state < PG_STATES; state++) {
		struct copy p = { .state = (uint8_t)state };

		ck_assert_int_eq(page_asks(&p),
				 state == PG_WANT_READ || state == PG_WANT_WRITE ||
					 state == PG_UPGRADE);
		ck_assert_int_eq(page_readable(&p),
				 state == PG_READ || state == PG_WRITE || state == PG_UPGRADE);
		ck_assert_int_eq(page_writable(&p), state == PG_WRITE);
	}
}

/*
 * If a bit stands for several ranks, a rank without a copy may be asked to drop one, but not to
 * send one.
 */
UNIT_TEST(who_knows_no_home_gives_nothing)
{
	const struct page_ctx many = { .me = ME, .nnodes = 100, .now = 1000 };
	static const uint8_t events[] = { PE_FWD_READ, PE_FWD_WRITE, PE_FWD_MIGRATE };
	struct msg m = unit_msg(MSG_FWD_READ, OTHER, ME, 7, 3);
	struct actions out;
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct copy p = { .state = events[i] == PE_FWD_MIGRATE ? PG_WRITE : PG_READ,
				  .flags = PAGE_OWNER };

		ck_assert_int_eq(page_step(&many, &p, (enum page_event)events[i], &m, &out),
				 -EBADMSG);
		ck_assert_uint_eq(out.n, 0);
	}
}

/*
 * An access passes on to the home only FIRST_TOUCH; a read also PUSH, a write also PLACE. Times
 * have 32 bits.
 */
UNIT_TEST(a_request_and_a_hold_time_are_kept_in_full)
{
	const struct page_ctx late = { .me = ME, .now = 0x12345678, .hold_us = 0x23456 };
	struct msg m = unit_msg(0, ME, ME, ME, 5);
	struct copy p = { .home = OTHER + 1 };
	struct actions out;

	m.flags = 0xff;
	ck_assert_int_eq(step(&p, PE_READ, m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_READ_REQ)->flags,
			  MSGF_FIRST_TOUCH | MSGF_KNOWN | MSGF_PUSH);
	p.state = PG_READ;
	ck_assert_int_eq(step(&p, PE_WRITE, m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_WRITE_REQ)->flags,
			  MSGF_HAS | MSGF_FIRST_TOUCH | MSGF_KNOWN | MSGF_PLACE);
	p.state = PG_GOT_READ;
	ck_assert_int_eq(page_step(&late, &p, PE_USED, &m, &out), 0);
	ck_assert_uint_eq(p.hold, 0x12345678 + 0x23456);
}

UNIT_TEST(a_home_that_is_known_is_asked)
{
	struct msg m = unit_msg(0, ME, ME, ME, 5);
	struct copy p = { .home = 600 + 1 };
	struct actions out;

	m.home = 9; /* rank 9 is the manager */
	ck_assert_int_eq(step(&p, PE_READ, m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_READ_REQ)->dst, 600);
}

/*
 * A grant needs ZERO if the block is not here. Only this rank reports that it has used the block.
 */
UNIT_TEST(flags_and_names_are_those_of_the_step)
{
	struct msg grant = unit_msg(MSG_GRANT, OTHER, ME, ME, 3), m = unit_msg(0, ME, ME, 9, 4);
	struct copy p = { .state = PG_WANT_WRITE, .slot = 3 };
	struct actions out;

	grant.op = GRANT_WRITE;
	grant.flags = (uint8_t)~MSGF_ZERO;
	ck_assert_int_eq(step(&p, PE_GRANT, grant, &out), -EBADMSG);
	grant.flags = MSGF_ZERO;
	ck_assert_int_eq(step(&p, PE_GRANT, grant, &out), 0);
	ck_assert_int_eq(p.acks, 0);
	ck_assert_int_eq(step(&p, PE_USED, m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DONE)->req_node, ME);
	ck_assert_uint_eq(unit_sent(&out, MSG_DONE)->req_slot, 3);
}

/* How the last write was granted must affect neither the copy nor the next grant. */
UNIT_TEST(what_is_left_of_the_last_grant_does_not_matter)
{
	struct msg data = unit_msg(MSG_DATA, OTHER, ME, ME, 3),
		   ack = unit_msg(MSG_INV_ACK, OTHER, ME, ME, 3);
	struct copy p = { .state = PG_READ, .flags = OPEN_UPGRADE << 4, .home = OTHER + 1 };
	struct actions out;

	ck_assert_int_eq(step(&p, PE_FWD_READ, unit_msg(MSG_FWD_READ, OTHER, ME, 7, 3), &out),
			 -EBADMSG);
	ck_assert_int_eq(step(&p, PE_DROP, data, &out), 0);
	ck_assert_str_eq(unit_text(&out), "close");
	ck_assert_uint_eq(p.state, PG_INVALID);
	p.state = PG_WANT_WRITE;
	p.slot = 3;
	data.op = GRANT_WRITE;
	data.home = OTHER;
	data.count = 1;
	ck_assert_int_eq(step(&p, PE_DATA, data, &out), 0);
	ck_assert_str_eq(unit_text(&out), "land");
	ck_assert_int_eq(step(&p, PE_INV_ACK, ack, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_OPEN, 0)->from, OPEN_LANDED);
}

UNIT_TEST(first_read_asks_the_manager_and_learns_the_home)
{
	struct msg m = unit_msg(0, ME, ME, ME, 5), grant = unit_msg(MSG_GRANT, 7, ME, ME, 5);
	struct copy p = { 0 };
	struct actions out;

	m.home = 9;
	ck_assert_int_eq(step(&p, PE_READ, m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_READ_REQ)->dst, 9);
	ck_assert_uint_eq(unit_action(&out, ACT_WAIT, 0)->slot, 5);
	grant.op = GRANT_WRITE;
	grant.flags = MSGF_ZERO;
	grant.home = 7;
	ck_assert_int_eq(step(&p, PE_GRANT, grant, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_OPEN, 0)->from, OPEN_ZERO);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, 5);
	ck_assert_uint_eq(p.state, PG_GOT_WRITE);
	ck_assert_int_eq(step(&p, PE_USED, m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DONE)->dst, 7);
	ck_assert_uint_eq(p.state, PG_WRITE);
}

UNIT_TEST(upgrade_waits_for_every_sharer_in_any_order)
{
	struct msg ask = unit_msg(0, ME, ME, ME, 4), ack = unit_msg(MSG_INV_ACK, 0, ME, ME, 4);
	struct msg grant = unit_msg(MSG_GRANT, OTHER, ME, ME, 4);
	unsigned int early, i;

	grant.op = GRANT_WRITE;
	grant.count = 3;
	for (early = 0; early <= 3; early++) {
		struct copy p = { .state = PG_READ, .home = OTHER + 1 };
		struct actions out;

		ck_assert_int_eq(step(&p, PE_WRITE, ask, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_WRITE_REQ)->flags, MSGF_HAS | MSGF_KNOWN);
		for (i = 0; i < early; i++)
			ck_assert_int_eq(step(&p, PE_INV_ACK, ack, &out), 0);
		ck_assert_int_eq(step(&p, PE_GRANT, grant, &out), 0);
		for (; i < 3; i++) {
			ck_assert_ptr_null(unit_action(&out, ACT_OPEN, 0));
			ck_assert_int_eq(step(&p, PE_INV_ACK, ack, &out), 0);
		}
		ck_assert_uint_eq(unit_action(&out, ACT_OPEN, 0)->prot, PROT_RW);
		ck_assert_uint_eq(unit_action(&out, ACT_OPEN, 0)->from, OPEN_UPGRADE);
		ck_assert_uint_eq(p.state, PG_GOT_WRITE);
		ck_assert_uint_eq(p.flags & PAGE_OWNER, PAGE_OWNER);
	}
}

UNIT_TEST(an_upgrade_that_loses_its_copy_takes_the_data)
{
	struct msg inv = unit_msg(MSG_INV, 0, ME, 7, 1),
		   data = unit_msg(MSG_DATA, OTHER, ME, ME, 4);
	struct copy p = { .state = PG_UPGRADE, .home = 1, .slot = 4 };
	struct actions out;

	ck_assert_int_eq(step(&p, PE_INV, inv, &out), 0);
	ck_assert_uint_eq(out.v[0].type, ACT_CLOSE);
	ck_assert_uint_eq(unit_sent(&out, MSG_INV_ACK)->dst, 7);
	ck_assert_uint_eq(p.state, PG_WANT_WRITE);
	data.op = GRANT_WRITE;
	data.count = 1;
	data.home = 0;
	ck_assert_int_eq(step(&p, PE_DATA, data, &out), 0);
	ck_assert_ptr_nonnull(unit_action(&out, ACT_LAND, 0));
	ck_assert_int_eq(step(&p, PE_INV_ACK, unit_msg(MSG_INV_ACK, 0, ME, ME, 4), &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_OPEN, 0)->from, OPEN_LANDED);
}

UNIT_TEST(the_owner_forwards_and_others_may_not_be_asked_to)
{
	struct msg fwd = unit_msg(MSG_FWD_WRITE, 0, ME, 7, 1);
	struct copy p = { .state = PG_WRITE, .flags = PAGE_OWNER, .home = 1 },
		    q = { .state = PG_READ, .home = 1 };
	struct actions out;

	fwd.count = 2;
	ck_assert_int_eq(step(&p, PE_FWD_WRITE, fwd, &out), 0);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_uint_eq(out.v[0].type, ACT_DATA);
	ck_assert_uint_eq(out.v[0].prot, PROT_CLOSED);
	ck_assert_uint_eq(out.v[0].msg.dst, 7);
	ck_assert_int_eq(out.v[0].msg.count, 2);
	ck_assert_uint_eq(p.state, PG_INVALID);
	ck_assert_uint_eq(p.flags, 0);
	ck_assert_int_eq(step(&q, PE_FWD_WRITE, fwd, &out), -EBADMSG);
	ck_assert_int_eq(step(&q, PE_FWD_READ, fwd, &out), -EBADMSG);
}

/* A home that reads gets a copy, and the duty to send it on. */
UNIT_TEST(the_home_that_reads_is_the_owner)
{
	static const uint8_t states[] = { PG_READ, PG_WRITE, PG_UPGRADE };
	struct msg data = unit_msg(MSG_DATA, OTHER, ME, ME, 4);
	struct copy here = { .state = PG_WANT_READ, .home = ME + 1, .slot = 4 }, other = here;
	struct actions out;
	unsigned int i;

	for (i = 0; i < 6; i++) {
		struct copy p = { .state = states[i / 2], .flags = PAGE_OWNER, .home = OTHER + 1 };
		uint16_t who = i & 1 ? OTHER : 7;

		ck_assert_int_eq(
			step(&p, PE_FWD_READ, unit_msg(MSG_FWD_READ, OTHER, ME, who, 1), &out), 0);
		ck_assert_uint_eq(p.flags, i & 1 ? 0 : PAGE_OWNER);
	}
	data.op = GRANT_READ;
	data.home = ME;
	ck_assert_int_eq(step(&here, PE_DATA, data, &out), 0);
	ck_assert_uint_eq(here.flags, PAGE_OWNER);
	other.home = OTHER + 1;
	data.home = OTHER;
	ck_assert_int_eq(step(&other, PE_DATA, data, &out), 0);
	ck_assert_uint_eq(other.flags, 0);
}

UNIT_TEST(threads_do_not_open_what_is_still_being_filled)
{
	struct copy p = { .state = PG_GOT_WRITE, .flags = PAGE_OWNER, .home = 1, .slot = 4 };
	struct actions out;

	ck_assert(!page_readable(&p) && !page_writable(&p));
	ck_assert_int_eq(page_pin(&p, 1), -EAGAIN);
	ck_assert_int_eq(step(&p, PE_WRITE, unit_msg(0, ME, ME, ME, 6), &out), 0);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_uint_eq(out.v[0].type, ACT_WAIT);
	ck_assert_uint_eq(out.v[0].slot, 4);
}

UNIT_TEST(a_time_is_before_the_next_half_of_all_times)
{
	static const uint32_t at[] = { 0,         0xffff,         0x10000,   0x12345678,
				       INT32_MAX, INT32_MAX + 1u, UINT32_MAX };
	unsigned int i;

	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		ck_assert(!us_before(at[i], at[i]));
		ck_assert(us_before(at[i], at[i] + 1) && !us_before(at[i] + 1, at[i]));
		ck_assert(us_before(at[i], at[i] + INT32_MAX) &&
			  !us_before(at[i] + INT32_MAX, at[i]));
	}
}

UNIT_TEST(the_hold_time_keeps_a_block_and_wraps)
{
	uint32_t starts[] = { 100, UINT32_MAX - 4 };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct page_ctx c = { .me = ME, .now = starts[i], .hold_us = 10 };
		struct copy p = { .state = PG_GOT_WRITE, .flags = PAGE_OWNER, .home = 1 };
		struct msg m = unit_msg(MSG_FWD_WRITE, 0, ME, 7, 1);
		struct actions out;

		ck_assert_int_eq(page_step(&c, &p, PE_USED, &m, &out), 0);
		c.now += 9;
		ck_assert_int_eq(page_step(&c, &p, PE_FWD_WRITE, &m, &out), 0);
		ck_assert_uint_eq(out.n, 1);
		ck_assert_uint_eq(out.v[0].type, ACT_TIMER);
		ck_assert_uint_eq(out.v[0].at, starts[i] + 10);
		/* one request at a time */
		ck_assert_int_eq(page_step(&c, &p, PE_FWD_READ, &m, &out), -EBADMSG);
		c.now += 1;
		ck_assert_int_eq(page_step(&c, &p, PE_REPLAY, &m, &out), 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_DATA)->dst, 7);
		ck_assert_uint_eq(p.state, PG_INVALID);
	}
}

/* ---- brief reads: the home does not wait until the contents have arrived ---- */

/* The home sends contents of slot 3. */
static struct msg data_of_read(bool brief)
{
	struct msg m = unit_msg(MSG_DATA, OTHER, ME, ME, 3);

	m.op = GRANT_READ;
	m.home = OTHER;
	m.count = brief;
	return m;
}

UNIT_TEST(a_brief_read_is_not_confirmed)
{
	const struct msg use = unit_msg(0, ME, ME, ME, 3);
	struct copy p = { .state = PG_WANT_READ, .slot = 3 };
	struct actions out;

	ck_assert_int_eq(step(&p, PE_DATA, data_of_read(true), &out), 0);
	ck_assert_str_eq(unit_text(&out), "open ro data wake");
	ck_assert_uint_eq(p.state, PG_GOT_READ);
	ck_assert_int_eq(step(&p, PE_USED, use, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(p.state, PG_READ);
	/* the next one is, if the home waits */
	p.state = PG_INVALID;
	ck_assert_int_eq(step(&p, PE_READ, use, &out), 0);
	ck_assert_int_eq(step(&p, PE_DATA, data_of_read(false), &out), 0);
	ck_assert_int_eq(step(&p, PE_USED, use, &out), 0);
	ck_assert_str_eq(unit_text(&out), "DONE");
}

/* known: the home. It is not known if its manager has forwarded the request. */
UNIT_LOOP_TEST(contents_that_an_invalidation_has_overtaken_are_asked_for_anew, 0, 2)
{
	const struct msg inv = unit_msg(MSG_INV, OTHER, ME, 7, 1);
	struct copy p = { .state = PG_WANT_READ, .slot = 3, .home = _i ? OTHER + 1 : 0 };
	struct actions out;

	ck_assert_int_eq(step(&p, PE_INV, inv, &out), 0);
	ck_assert_str_eq(unit_text(&out), "INV_ACK");
	ck_assert_int_eq(step(&p, PE_DATA, data_of_read(true), &out), 0);
	ck_assert_str_eq(unit_text(&out), "READ_REQ");
	ck_assert_uint_eq(out.v[0].msg.dst, OTHER);
	ck_assert_uint_eq(out.v[0].msg.req_node, ME);
	ck_assert_uint_eq(out.v[0].msg.req_slot, 3);
	ck_assert_uint_eq(out.v[0].msg.flags, MSGF_KNOWN | MSGF_CONFIRM);
	ck_assert_uint_eq(p.flags, 0);
	ck_assert_uint_eq(p.state, PG_WANT_READ);
	ck_assert_uint_eq(p.home, OTHER + 1);
	ck_assert_int_eq(step(&p, PE_DATA, data_of_read(false), &out), 0);
	ck_assert_str_eq(unit_text(&out), "open ro data wake");
	ck_assert_int_eq(step(&p, PE_USED, data_of_read(false), &out), 0);
	ck_assert_str_eq(unit_text(&out), "DONE");
}

UNIT_TEST(an_invalidation_of_an_earlier_copy_spoils_no_confirmed_read)
{
	const struct msg inv = unit_msg(MSG_INV, OTHER, ME, 7, 1), ask = unit_msg(0, ME, ME, ME, 3);
	struct copy p = { .state = PG_WANT_READ, .slot = 3, .home = OTHER + 1 };
	struct actions out;

	ck_assert_int_eq(step(&p, PE_INV, inv, &out), 0);
	ck_assert_int_eq(step(&p, PE_DATA, data_of_read(false), &out), 0);
	ck_assert_str_eq(unit_text(&out), "open ro data wake");
	ck_assert_uint_eq(p.flags, 0);
	/* nor the next request */
	p = (struct copy){ .flags = PAGE_OVERTAKEN | PAGE_BRIEF, .home = OTHER + 1 };
	ck_assert_int_eq(step(&p, PE_READ, ask, &out), 0);
	ck_assert_int_eq(step(&p, PE_DATA, data_of_read(true), &out), 0);
	ck_assert_str_eq(unit_text(&out), "open ro data wake");
}

UNIT_LOOP_TEST(an_invalidation_waits_until_a_brief_read_has_been_used, 0, 2)
{
	const struct page_ctx c = { .me = ME, .now = 0x12345678, .hold_us = _i ? 10 : 0 },
			      wide = { .me = ME, .nnodes = 1000 };
	const struct msg inv = unit_msg(MSG_INV, OTHER, ME, 7, 1), use = unit_msg(0, ME, ME, ME, 3);
	struct copy p = { .state = PG_WANT_READ, .slot = 3 };
	struct msg data = data_of_read(true);
	struct actions out;

	ck_assert_int_eq(page_step(&c, &p, PE_DATA, &data, &out), 0);
	ck_assert_int_eq(page_step(&c, &p, PE_INV, &inv, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(page_step(&c, &p, PE_INV, &inv, &out), -EBADMSG); /* one at a time */
	ck_assert_int_eq(page_step(&c, &p, PE_REPLAY, &use, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(page_step(&c, &p, PE_USED, &use, &out), 0);
	if (_i) {
		ck_assert_uint_eq(out.n, 1);
		ck_assert_uint_eq(unit_action(&out, ACT_TIMER, 0)->at, 0x12345678 + 10);
		ck_assert_uint_eq(p.state, PG_READ);
		ck_assert_int_eq(page_step(&c, &p, PE_REPLAY, &use, &out), 0);
	}
	ck_assert_str_eq(unit_text(&out), "close INV_ACK");
	ck_assert_uint_eq(unit_sent(&out, MSG_INV_ACK)->dst, 7);
	ck_assert_uint_eq(unit_sent(&out, MSG_INV_ACK)->req_slot, 1);
	ck_assert_uint_eq(p.state, PG_INVALID);
	ck_assert_uint_eq(p.flags, 0);
	/* only of the home, also where a bit of the copyset is several nodes' */
	p = (struct copy){
		.state = PG_GOT_READ, .flags = PAGE_BRIEF, .slot = 3, .home = OTHER + 1
	};
	data = unit_msg(MSG_INV, 7, ME, 8, 1);
	ck_assert_int_eq(page_step(&wide, &p, PE_INV, &data, &out), -EBADMSG);
	ck_assert_int_eq(page_step(&wide, &p, PE_INV, &inv, &out), 0);
	/* of a confirmed read, the home waits for MSG_DONE */
	p = (struct copy){ .state = PG_GOT_READ, .slot = 3, .home = OTHER + 1 };
	ck_assert_int_eq(page_step(&c, &p, PE_INV, &inv, &out), -EBADMSG);
}

UNIT_TEST(a_hold_time_long_past_is_not_taken_for_the_future)
{
	struct page_ctx c = { .me = ME, .now = 0x90000000u, .hold_us = 10 };
	struct copy p = { .state = PG_WRITE, .flags = PAGE_OWNER, .home = 1, .hold = 10 };
	struct msg m = unit_msg(MSG_FWD_WRITE, 0, ME, 7, 1);
	struct actions out;

	ck_assert_int_eq(page_step(&c, &p, PE_FWD_WRITE, &m, &out), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_DATA));
}

UNIT_TEST(pins_hold_back_what_would_harm_them)
{
	struct copy p = { .state = PG_READ, .home = 1 };
	struct msg inv = unit_msg(MSG_INV, 0, ME, 7, 1);
	struct actions out;

	ck_assert_int_eq(page_pin(&p, 2), -EAGAIN);
	ck_assert_int_eq(page_unpin(&p, 1), -EINVAL);
	ck_assert_int_eq(page_pin(&p, 1), 0);
	ck_assert_int_eq(page_pin(&p, 1), 0);
	ck_assert_int_eq(step(&p, PE_DROP, inv, &out), 0);
	ck_assert_uint_eq(p.state, PG_READ);
	ck_assert_int_eq(step(&p, PE_INV, inv, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(page_unpin(&p, 1), 0);
	ck_assert_int_eq(step(&p, PE_REPLAY, inv, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(page_unpin(&p, 1), 1);
	ck_assert_int_eq(step(&p, PE_REPLAY, inv, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_INV_ACK)->dst, 7);
	ck_assert_uint_eq(p.state, PG_INVALID);
}

/*
 * A reader of a migrating block takes it from no rank that has pinned it for reading, and does not
 * wait for the pin.
 */
UNIT_TEST(a_block_that_migrates_is_kept_where_it_is_pinned)
{
	struct page_ctx c = { .me = ME, .now = 100, .hold_us = 10 };
	struct msg fwd = unit_msg(MSG_FWD_MIGRATE, 0, ME, 7, 1);
	unsigned int how;

	for (how = 0; how < 3; how++) {
		struct copy p = { .state = PG_WRITE, .flags = PAGE_OWNER, .home = 1 };
		struct actions out;

		p.hold = how == 2 ? 105 : 0;
		ck_assert_int_eq(page_pin(&p, 1), 0);
		if (how == 1)
			ck_assert_int_eq(page_pin(&p, 2), 0);
		ck_assert_int_eq(page_step(&c, &p, PE_FWD_MIGRATE, &fwd, &out), 0);
		if (how) {
			ck_assert_ptr_null(unit_sent(&out, MSG_KEPT));
			ck_assert_uint_eq(p.held, PE_FWD_MIGRATE);
			c.now = 105;
			if (how == 1)
				ck_assert_int_eq(page_unpin(&p, 2), 1);
			ck_assert_int_eq(page_step(&c, &p, PE_REPLAY, &fwd, &out), 0);
		}
		ck_assert_uint_eq(out.n, 1);
		ck_assert_uint_eq(unit_sent(&out, MSG_KEPT)->dst, 0);
		ck_assert_uint_eq(unit_sent(&out, MSG_KEPT)->req_node, 7);
		ck_assert_uint_eq(unit_sent(&out, MSG_KEPT)->req_slot, 1);
		ck_assert_uint_eq(p.state, PG_WRITE);
		ck_assert_uint_eq(p.flags, PAGE_OWNER);
		ck_assert_uint_eq(p.held, 0);
		c.now = 100;
	}
}

/*
 * A deferred request is sent when the last pin that it conflicts with ends. Another rank's read
 * does not conflict with a pin for reading.
 */
UNIT_TEST(the_last_pin_in_the_way_lets_go)
{
	enum page_event events[] = { PE_FWD_READ, PE_FWD_WRITE };
	unsigned int i, first;

	for (i = 0; i < 2; i++)
		for (first = 1; first <= 2; first++) {
			struct copy p = { .state = PG_WRITE, .flags = PAGE_OWNER, .home = 1 };
			struct msg fwd = unit_msg(MSG_FWD_READ, 0, ME, 7, 1);
			bool both = events[i] == PE_FWD_WRITE;
			uint8_t second = (uint8_t)(3 - first);
			struct actions out;

			ck_assert_int_eq(page_pin(&p, 1), 0);
			ck_assert_int_eq(page_pin(&p, 2), 0);
			ck_assert_int_eq(step(&p, events[i], fwd, &out), 0);
			ck_assert_uint_eq(out.n, 0);
			ck_assert_int_eq(page_unpin(&p, (uint8_t)first), 1);
			ck_assert_int_eq(step(&p, PE_REPLAY, fwd, &out), 0);
			ck_assert_uint_eq(out.n, first == 2 && !both);
			if (!out.n) {
				ck_assert_int_eq(page_unpin(&p, second), 1);
				ck_assert_int_eq(step(&p, PE_REPLAY, fwd, &out), 0);
			}
			ck_assert_uint_eq(unit_sent(&out, MSG_DATA)->dst, 7);
			ck_assert_uint_eq(p.held, 0);
			ck_assert_uint_eq(p.state, both ? PG_INVALID : PG_READ);
		}
}

UNIT_TEST(pins_are_counted_up_to_their_limit)
{
	struct copy p = { .state = PG_WRITE, .flags = PAGE_OWNER };
	unsigned int i;

	for (i = 0; i < UINT8_MAX; i++)
		ck_assert_int_eq(page_pin(&p, 2), 0);
	ck_assert_int_eq(page_pin(&p, 2), -ERANGE);
	ck_assert_int_eq(page_pin(&p, 1), 0);
	for (i = 0; i < UINT8_MAX; i++)
		ck_assert_int_eq(page_unpin(&p, 2), 0);
	ck_assert_int_eq(page_unpin(&p, 2), -EINVAL);
}

UNIT_SUITE("page")
