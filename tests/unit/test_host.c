// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_host.c - core/host: the order in which a host is told to carry out actions, what is called
 * with the lock held, and what is handed back to the protocol.
 */
#include "host_noted.h"

/* ---- blocks that leave ---------------------------------------------------------------------- */

UNIT_TEST(access_ends_before_another_node_is_told)
{
	has_block(PG_READ);
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("[] stepped lower 1 to 0 INV_ACK to 6");
	has_block(PG_WRITE);
	deliver(MSG_FWD_WRITE, HOME, OTHER, GRANT_WRITE, 0);
	noted("[leaves ] stepped lower 2 to 0 block to 6");
	has_block(PG_WRITE);
	deliver(MSG_FWD_READ, HOME, OTHER, 0, 0);
	noted("[leaves ] stepped lower 2 to 1 block to 6");
}

UNIT_TEST(nothing_is_sent_while_access_ends)
{
	const struct msg ack = unit_msg(MSG_INV_ACK, ME, OTHER, OTHER, SLOT),
			 data = unit_msg(MSG_DATA, ME, OTHER, OTHER, SLOT);

	host.later = true;
	has_block(PG_READ);
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("[] stepped lower 1 to 0");
	core_lowered(&node, &ack, NULL);
	noted("INV_ACK to 6");
	has_block(PG_WRITE);
	deliver(MSG_FWD_WRITE, HOME, OTHER, GRANT_WRITE, 0);
	noted("[leaves ] stepped lower 2 to 0");
	core_lowered(&node, &data, &contents);
	noted("block to 6 with contents");
}

UNIT_TEST(access_may_end_before_lower_returns)
{
	host.early = true;
	has_block(PG_READ);
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("[] stepped lower 1 to 0 INV_ACK to 6");
	has_block(PG_WRITE);
	deliver(MSG_FWD_READ, HOME, OTHER, 0, 0);
	noted("[leaves ] stepped lower 2 to 1 block to 6");
}

UNIT_TEST(a_node_without_the_block_answers_at_once)
{
	node.nnodes = 100; /* then a bit of the copyset is two nodes' */
	has_block(PG_INVALID);
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	node.nnodes = RANKS;
	noted("[] stepped INV_ACK to 6");
}

UNIT_TEST(a_node_without_state_forgets_the_step)
{
	host.nothing = true;
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("[] INV refused -74");
	node.nnodes = 100;
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	node.nnodes = RANKS;
	noted("[] stepped INV_ACK to 6");
	ck_assert_int_eq(core_page_event(&node, PE_READ, &(struct msg){ .object = BLOCK }, NULL),
			 CORE_ASKED);
	noted("");
}

UNIT_TEST(changes_of_the_owner_are_counted_in_the_step)
{
	dir = (struct dir){ .state = DIR_EXCLUSIVE, .owner = OTHER, .copyset = set_of(OTHER, 1) };
	deliver(MSG_WRITE_REQ, HOME, HOME, 0, 0);
	noted("[] stepped FWD_WRITE to 6");
	ck_assert_uint_eq(transfers, 1);
}

/* ---- blocks that come ----------------------------------------------------------------------- */

UNIT_TEST(a_block_is_opened_before_its_thread_is_woken)
{
	has_block(PG_WANT_READ);
	deliver(MSG_DATA, OTHER, ME, GRANT_READ, 0);
	noted("[] stepped open 1 from 1 with contents wake 3");
}

UNIT_TEST(the_thread_is_not_woken_before_a_late_open)
{
	struct msg m = unit_msg(MSG_DATA, OTHER, ME, ME, SLOT);
	struct actions acts;

	host.later = true;
	has_block(PG_WANT_READ);
	m.op = GRANT_READ;
	m.home = HOME;
	ck_assert_int_eq(core_step(&node, &m, &contents, &acts), 0);
	core_carry_out(&node, &acts, 0, &m, &contents);
	noted("[] open 1 from 1 with contents");
	core_carry_out(&node, &acts, 1, &m, &contents);
	noted("wake 3");
}

UNIT_TEST(contents_land_before_the_step)
{
	has_block(PG_WANT_WRITE);
	deliver(MSG_DATA, OTHER, ME, GRANT_WRITE, 1);
	noted("land [] stepped");
	deliver(MSG_INV_ACK, HOME, ME, 0, 0);
	noted("[] stepped open 2 from 2 with contents wake 3");
	/* Not if nobody has asked for them, */
	has_block(PG_READ);
	deliver(MSG_DATA, OTHER, ME, GRANT_WRITE, 1);
	noted("[] DATA refused -116");
	/* and not in another slot. */
	has_block(PG_WANT_WRITE);
	page.slot++;
	deliver(MSG_DATA, OTHER, ME, GRANT_WRITE, 1);
	noted("[] DATA refused -116");
	has_block(PG_WANT_WRITE);
	deliver(MSG_DATA, OTHER, OTHER, GRANT_WRITE, 1);
	noted("[] DATA refused -116");
}

UNIT_TEST(a_grant_for_nobody_counts_as_used)
{
	host.unwanted = true;
	node.hold_us = HOLD_US;
	has_block(PG_WANT_WRITE);
	deliver(MSG_DATA, OTHER, ME, GRANT_WRITE, 0);
	noted("[] stepped open 2 from 1 with contents wake 3 [] DONE to 5 unclaimed 3");
	ck_assert_uint_eq(page.state, PG_WRITE);
	ck_assert_uint_eq(page.hold, 0); /* and may be taken away at once */
}

UNIT_TEST(a_block_is_held_for_its_thread)
{
	const struct msg used = {
		.object = BLOCK, .src = ME, .dst = ME, .req_node = ME, .req_slot = SLOT
	};
	struct core_waiter t = { .wait = -1 };

	node.hold_us = HOLD_US;
	has_block(PG_GOT_WRITE);
	page.flags = PAGE_OWNER;
	ck_assert_int_eq(core_page_event(&node, PE_USED, &used, &t), CORE_ASKED);
	noted("[] DONE to 5");
	ck_assert_uint_eq(page.hold, HOLD_US);
	deliver(MSG_FWD_WRITE, HOME, OTHER, GRANT_WRITE, 0);
	noted("[] stepped timer 10");
}

UNIT_TEST(a_time_that_cannot_be_waited_for_has_come)
{
	host.no_timer = true;
	node.hold_us = HOLD_US;
	has_block(PG_WRITE);
	page.hold = HOLD_US;
	deliver(MSG_FWD_WRITE, HOME, OTHER, GRANT_WRITE, 0);
	noted("[] stepped timer 10 [leaves ] lower 2 to 0 block to 6");
}

/* ---- messages ------------------------------------------------------------------------------- */

UNIT_TEST(a_refused_message_has_no_actions)
{
	deliver(MSG_GRANT, HOME, ME, GRANT_WRITE, 0);
	noted("[] GRANT refused -74");
	host.missing = -EAGAIN;
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("INV refused -11");
	deliver(MSG_LOCKED, HOME, ME, 0, 0);
	noted("LOCKED refused -11");
	host.missing = 0;
	deliver(MSG_PING, HOME, ME, 0, 0);
	noted("PING refused -74");
	deliver(MSG_TYPES, HOME, ME, 0, 0);
	noted("? refused -74");
}

UNIT_TEST(a_message_without_memory_is_delivered_again)
{
	has_block(PG_READ);
	host.missing = -EAGAIN;
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("INV refused -11");
	ck_assert_uint_eq(page.state, PG_READ);
	host.missing = 0;
	deliver(MSG_INV, HOME, OTHER, 0, 0);
	noted("[] stepped lower 1 to 0 INV_ACK to 6");
	ck_assert_uint_eq(page.state, PG_INVALID);
}

UNIT_TEST(a_multicast_goes_to_others)
{
	struct actions acts = { 0 };
	struct action *a = act_add(&acts, ACT_MCAST);
	const struct msg m = { .object = BLOCK };

	a->msg.type = MSG_INV;
	a->msg.req_node = OTHER;
	a->except = 1;
	a->mask = 0xffff;
	core_carry_out(&node, &acts, 0, &m, NULL);
	noted("INV to 0 INV to 2 INV to 3 INV to 4 INV to 5 INV to 7");
}

UNIT_TEST(each_action_reaches_its_callback)
{
	static const struct {
		uint8_t type;
		const char *what;
	} all[] = {
		{ ACT_SEND, "INV_ACK to 6" },
		{ ACT_RESUME, "INV_ACK to 6" },
		{ ACT_DATA, "lower 0 to 0 INV_ACK to 6" },
		{ ACT_LAND, "" },
		{ ACT_OPEN, "" },
		{ ACT_CLOSE, "" },
		{ ACT_WAKE, "wake 3" },
		{ ACT_WAIT, "" },
		{ ACT_TIMER, "timer 9" },
		{ ACT_WAKE_ALL, "wake all 1" },
		{ ACT_REPLY, "answer 3 -2" },
		{ ACT_FETCH, "fetch 1" },
		{ ACT_BLAME, "blame 6" },
	};
	const struct msg m = { .object = BLOCK };
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct actions acts = { 0 };
		struct action *a = act_add(&acts, all[i].type);

		a->msg = unit_msg(MSG_INV_ACK, ME, OTHER, OTHER, SLOT);
		a->slot = SLOT;
		a->status = -2;
		a->at = 9;
		a->node = OTHER;
		core_carry_out(&node, &acts, 0, &m, NULL);
		noted(all[i].what);
	}
}

UNIT_TEST(an_answer_reaches_its_slot)
{
	struct msg m = { .version = WIRE_VERSION,
			 .type = MSG_SYNC,
			 .op = SOP_POST,
			 .src = ME,
			 .dst = HOME,
			 .object = 4 };
	struct msg reply = { .type = MSG_REPLY,
			     .src = HOME,
			     .dst = ME,
			     .object = 4,
			     .req_node = ME,
			     .req_slot = SLOT };

	m.req_slot = SLOT;
	ask_note(&ask, &m);
	core_deliver(&node, &reply, NULL);
	noted("stepped answer 3 0");
	core_deliver(&node, &reply, NULL);
	noted("REPLY refused -74");
}

/* ---- events of this node -------------------------------------------------------------------- */

static void also(void *arg)
{
	locked(true);
	note("also %d", *(int *)arg);
}

UNIT_TEST(a_thread_learns_what_to_wait_for)
{
	int one = 1;
	struct core_waiter t = { .also = also, .arg = &one, .wait = -1 };
	const struct msg wants = {
		.object = BLOCK, .src = ME, .req_node = ME, .req_slot = SLOT, .home = HOME
	};

	ck_assert_int_eq(core_page_event(&node, PE_READ, &wants, &t), CORE_ASKED);
	noted("[also 1 ] READ_REQ to 5");
	ck_assert_int_eq(t.wait, SLOT);
	ck_assert_uint_eq(t.seq, 100 + SLOT);
	ck_assert_int_eq(core_page_event(&node, PE_READ, &wants, NULL), CORE_ASKED);
	noted("[]");
}

UNIT_TEST(an_open_block_is_mapped_with_the_lock_held)
{
	const struct msg wants = {
		.object = BLOCK, .src = ME, .req_node = ME, .req_slot = SLOT, .home = HOME
	};
	struct core_waiter t = { .wait = -1 };

	has_block(PG_WRITE);
	ck_assert_int_eq(core_page_event(&node, PE_READ, &wants, &t), CORE_OPEN);
	noted("[again 2 ]");
	ck_assert_int_eq(t.wait, -1);
	host.follows = true;
	ck_assert_int_eq(core_page_event(&node, PE_WRITE, &wants, &t), CORE_FOLLOWED);
	noted("[again 2 ]");
}

UNIT_TEST(a_copy_is_dropped_with_the_lock_held)
{
	const struct msg about = { .object = BLOCK, .src = ME, .dst = ME };

	has_block(PG_READ);
	ck_assert_int_eq(core_page_event(&node, PE_DROP, &about, NULL), CORE_DROPPED);
	noted("[drop ]");
	has_block(PG_WRITE);
	ck_assert_int_eq(core_page_event(&node, PE_DROP, &about, NULL), CORE_ASKED);
	noted("[]");
}

UNIT_TEST(a_damaged_page_is_reported)
{
	const struct msg about = { .object = BLOCK, .src = ME, .dst = ME };

	page.state = PG_STATES;
	ck_assert_int_eq(core_page_event(&node, PE_USED, &about, NULL), -EBADMSG);
	noted("[] damaged used in ?");
	host.missing = -EAGAIN;
	ck_assert_int_eq(core_page_event(&node, PE_USED, &about, NULL), -EAGAIN);
	noted("");
}

UNIT_TEST(a_freed_record_goes_back_with_its_lock_held)
{
	struct msg lock_it = {
		.type = MSG_LOCK, .src = ME, .dst = HOME, .object = 4, .req_slot = SLOT
	};
	struct msg freed_it = { .type = MSG_FREED,
				.src = HOME,
				.dst = ME,
				.object = 4,
				.req_node = ME,
				.req_slot = SLOT };

	core_hold_begin(&node, 0, &lock_it);
	noted("[]");
	ck_assert_uint_eq(hold.state, HOLD_WAITING);
	ck_assert(!core_hold_leave(&node, 0, SLOT));
	noted("[]");
	ck_assert_int_eq(core_hold_event(&node, 0, HE_UNLOCK, NULL), -EBADMSG);
	noted("[]");
	/* Granted: the record stays in use. */
	core_deliver(&node,
		     &(struct msg){ .type = MSG_LOCKED,
				    .src = HOME,
				    .dst = ME,
				    .object = 4,
				    .req_node = ME,
				    .req_slot = SLOT },
		     NULL);
	ck_assert_uint_eq(hold.state, HOLD_HELD);
	noted("[] stepped wake 3");
	hold = (struct hold){ .state = HOLD_WAITING, .home = HOME, .object = 4, .slot = SLOT };
	freed_it.count = -EBUSY;
	core_deliver(&node, &freed_it, NULL);
	noted("[freed 0 ] stepped wake 3");
	host.missing = -EBADMSG;
	core_hold_begin(&node, 0, &lock_it);
	ck_assert_int_eq(core_hold_event(&node, 0, HE_UNLOCK, NULL), -EBADMSG);
	ck_assert(!core_hold_leave(&node, 0, SLOT));
	noted("");
}

UNIT_TEST(a_kept_lock_is_returned_and_freed)
{
	hold = (struct hold){ .state = HOLD_CACHED, .home = HOME, .object = 4, .slot = SLOT };
	ck_assert_int_eq(core_hold_event(&node, 9, HE_GIVE, NULL), 1);
	noted("[] UNLOCK to 5");
	hold = (struct hold){
		.state = HOLD_HELD_NEXT, .home = HOME, .object = 4, .next_node = OTHER
	};
	ck_assert_int_eq(core_hold_event(&node, 9, HE_UNLOCK, NULL), 1);
	noted("[freed 9 ] LOCKED to 6");
}

UNIT_TEST(a_thread_that_arrives_learns_the_episode)
{
	const struct bar_group alone = { .mask = 1ull << ME };
	struct msg m = { .type = MSG_ARRIVE,
			 .op = 0,
			 .src = ME,
			 .dst = ME,
			 .object = 4,
			 .req_node = ME,
			 .aux = 1 };
	struct bar_part own = { .gen = 0 };
	uint32_t gen = 9;

	bar_set_life(&m, 1);
	ck_assert_int_eq(core_arrive(&node, &m, &alone, &own, &gen), 0);
	noted("[] wake all 4");
	ck_assert_uint_eq(gen, own.gen);
	ck_assert_uint_eq(bar.gen, 1);
	bar_set_life(&m, 0);
	ck_assert_int_eq(core_arrive(&node, &m, &alone, NULL, &gen), -ESTALE);
	noted("[]");
	ck_assert_uint_eq(gen, part.gen);
	host.missing = -EBADMSG;
	ck_assert_int_eq(core_arrive(&node, &m, &alone, NULL, &gen), -EBADMSG);
	noted("");
}

/* The library and the module, so far. */
UNIT_TEST(a_host_without_release_blocks_refuses_their_messages)
{
	static const uint8_t types[] = { MSG_FLUSH, MSG_FLUSHED, MSG_NOTE, MSG_NOTED, MSG_AFTER };
	struct msg m = unit_msg(MSG_NONE, HOME, ME, ME, 0);
	struct actions acts;
	unsigned int i;

	for (i = 0; i < sizeof(types); i++) {
		m.type = types[i];
		m.value = 1;
		ck_assert_int_eq(core_step(&node, &m, NULL, &acts), -EBADMSG);
		ck_assert_uint_eq(acts.n, 0);
	}
}

/* ---- messages that release ------------------------------------------------------------------ */

static void has_open_blocks(void)
{
	node.ops = &release_ops;
	lists.opened = 1;
}

UNIT_TEST(only_a_message_that_releases_to_another_node_waits_for_a_close)
{
	const struct msg ack = unit_msg(MSG_INV_ACK, ME, OTHER, OTHER, SLOT),
			 own = unit_msg(MSG_LOCKED, HOME, ME, ME, SLOT),
			 locks = unit_msg(MSG_LOCKED, ME, OTHER, OTHER, SLOT);

	core_release(&node, &locks); /* this host has no release blocks */
	noted("LOCKED to 6");
	has_open_blocks();
	core_release(&node, &ack);
	noted("INV_ACK to 6");
	core_release(&node, &own);
	noted("LOCKED to 2");
	ck_assert_uint_eq(closing.held, 0);
	core_release(&node, &locks);
	noted("[] gather");
	ck_assert_uint_eq(closing.held, 1);
}

/* Its destination is not to blame. */
UNIT_TEST(a_host_without_room_for_a_message_that_waits_ends)
{
	const struct msg locks = unit_msg(MSG_LOCKED, ME, OTHER, OTHER, SLOT),
			 early = unit_msg(MSG_LOCKED, OTHER, ME, ME, SLOT);
	struct msg after = unit_msg(MSG_AFTER, OTHER, ME, OTHER, SLOT);
	unsigned int i;

	has_open_blocks();
	core_release(&node, &locks);
	noted("[] gather");
	for (i = 1; i < WAITING; i++) {
		core_release(&node, &locks);
		noted("[]");
	}
	core_release(&node, &locks);
	noted("[] fail: too many messages wait for closes of release blocks");
	after.op = AFTER_FLUSH;
	after.value = 1;
	ck_assert_int_eq(core_after(&node, &after, &early), -ENOSPC);
	noted("[] fail: too many messages wait for closes of release blocks");
	ck_assert_int_eq(core_after(&node, &after, &locks), -EBADMSG);
	noted("[]");
}

UNIT_TEST(a_host_whose_lists_have_another_kind_of_block_ends)
{
	bool stale = false;
	int err = 0;

	has_open_blocks();
	ck_assert_uint_eq(core_gather_next(&node, 1), 0);
	noted("fail: a list of release blocks is damaged");
	ck_assert_uint_eq(core_acquire_next(&node, 1, &stale, &err), 0);
	noted("fail: a list of release blocks is damaged");
	host.missing = -EAGAIN;
	ck_assert_uint_eq(core_gather_next(&node, 1), 0);
	noted("fail: a list of release blocks is damaged");
	ck_assert(!stale && !err);
	host.missing = 0;
	host.releases = true;
	rel = (struct rel){ .next_open = 4, .next_notice = 5, .listed = 1, .noticed = 1 };
	ck_assert_uint_eq(core_gather_next(&node, 1), 4);
	ck_assert_uint_eq(core_acquire_next(&node, 1, &stale, &err), 5);
	noted("[] []");
	ck_assert(!stale && !err && !rel.listed && !rel.noticed);
}

UNIT_SUITE("host", .setup = setup)
