// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_host_release.c - core/host_release: what a host with release blocks is told to do for
 * misses, messages, diffs, notices, closes and acquires.
 */
#include "release_noted.h"

/* ---- misses --------------------------------------------------------------------------------- */

struct effect {
	const char *does;
	int result;
	uint8_t next;
};

static const uint8_t local[] = { PE_READ, PE_WRITE, PE_USED, PE_DROP, PE_DATA };
#define LOCAL sizeof(local)

/* clang-format off */
static const struct effect copy_effects[REL_STATES][LOCAL] = {
	[REL_NONE] = { { "[] READ_REQ to 205", CORE_ASKED, REL_FETCH }, { "[] READ_REQ to 205", CORE_ASKED, REL_FETCH },
		       { "[]", CORE_ASKED, REL_NONE }, { "[]", CORE_ASKED, REL_NONE }, { "[]", CORE_ASKED, REL_NONE } },
	[REL_FETCH] = { { "[]", CORE_ASKED, REL_FETCH }, { "[]", CORE_ASKED, REL_FETCH }, { "[]", CORE_ASKED, REL_FETCH },
			{ "[]", CORE_ASKED, REL_FETCH }, { "[]", CORE_ASKED, REL_FETCH } },
	[REL_AGAIN] = { { "[]", CORE_ASKED, REL_AGAIN }, { "[]", CORE_ASKED, REL_AGAIN }, { "[]", CORE_ASKED, REL_AGAIN },
			{ "[]", CORE_ASKED, REL_AGAIN }, { "[]", CORE_ASKED, REL_AGAIN } },
	[REL_GOT] = { { "[]", CORE_ASKED, REL_GOT }, { "[]", CORE_ASKED, REL_GOT }, { "[]", CORE_ASKED, REL_CLEAN },
		      { "[]", CORE_ASKED, REL_GOT }, { "[]", CORE_ASKED, REL_GOT } },
	[REL_CLEAN] = { { "[again 1 ]", CORE_OPEN, REL_CLEAN }, { "[twin again 2 ]", CORE_OPEN, REL_OPEN },
			{ "[]", CORE_ASKED, REL_CLEAN }, { "[lower 10001 0 ]", CORE_DROPPED, REL_NONE }, { "[]", CORE_ASKED, REL_CLEAN } },
	[REL_RAISE] = { { "[again 1 ]", CORE_OPEN, REL_RAISE }, { "[]", CORE_ASKED, REL_RAISE }, { "[]", CORE_ASKED, REL_RAISE },
			{ "[]", CORE_ASKED, REL_RAISE }, { "[]", CORE_ASKED, REL_RAISE } },
	[REL_OPEN] = { { "[again 2 ]", CORE_OPEN, REL_OPEN }, { "[again 2 ]", CORE_OPEN, REL_OPEN }, { "[]", CORE_ASKED, REL_OPEN },
		       { "[]", CORE_ASKED, REL_OPEN }, { "[]", CORE_ASKED, REL_OPEN } },
	[REL_STALE] = { { "[again 2 ]", CORE_OPEN, REL_STALE }, { "[again 2 ]", CORE_OPEN, REL_STALE }, { "[]", CORE_ASKED, REL_STALE },
			{ "[]", CORE_ASKED, REL_STALE }, { "[]", CORE_ASKED, REL_STALE } },
};

static const struct effect home_effects[RELH_STATES][LOCAL] = {
	[RELH_EXCLUSIVE] = { { "[again 2 ]", CORE_OPEN, RELH_EXCLUSIVE }, { "[again 2 ]", CORE_OPEN, RELH_EXCLUSIVE },
			     { "[]", CORE_ASKED, RELH_EXCLUSIVE }, { "[]", CORE_ASKED, RELH_EXCLUSIVE }, { "[]", CORE_ASKED, RELH_EXCLUSIVE } },
	[RELH_CLEAN] = { { "[again 1 ]", CORE_OPEN, RELH_CLEAN }, { "[twin again 2 ]", CORE_OPEN, RELH_OPEN },
			 { "[]", CORE_ASKED, RELH_CLEAN }, { "[]", CORE_ASKED, RELH_CLEAN }, { "[]", CORE_ASKED, RELH_CLEAN } },
	[RELH_OPEN] = { { "[again 2 ]", CORE_OPEN, RELH_OPEN }, { "[again 2 ]", CORE_OPEN, RELH_OPEN },
			{ "[]", CORE_ASKED, RELH_OPEN }, { "[]", CORE_ASKED, RELH_OPEN }, { "[]", CORE_ASKED, RELH_OPEN } },
	[RELH_LENT] = { { "[again 2 ]", CORE_OPEN, RELH_LENT }, { "[again 2 ]", CORE_OPEN, RELH_LENT },
			{ "[]", CORE_ASKED, RELH_LENT }, { "[]", CORE_ASKED, RELH_LENT }, { "[]", CORE_ASKED, RELH_LENT } },
};
/* clang-format on */

/* A thread waits exactly if a request is outstanding. */
UNIT_LOOP_TEST(every_local_event_in_every_state_has_this_effect, 0, 2)
{
	const struct msg wants = about(0, ME, ME);
	unsigned int s, e;

	host.home = _i;
	for (s = 0; s < (host.home ? (unsigned int)RELH_STATES : (unsigned int)REL_STATES); s++)
		for (e = 0; e < LOCAL; e++) {
			const struct effect *x =
				host.home ? &home_effects[s][e] : &copy_effects[s][e];
			const bool waits = !host.home &&
				((e < 2 && s <= REL_GOT) || (e == 1 && s == REL_RAISE));
			struct core_waiter t = { .wait = -1 };

			has((uint8_t)s);
			ck_assert_int_eq(core_page_event(&node, local[e], &wants, &t), x->result);
			noted(x->does);
			ck_assert_uint_eq(rel->state, x->next);
			ck_assert_int_eq(t.wait, waits ? SLOT : -1);
			ck_assert_uint_eq(t.seq, waits ? ANSWERS + SLOT : 0);
			has((uint8_t)s);
			ck_assert_int_eq(core_page_event(&node, local[e], &wants, NULL), x->result);
			noted(x->does);
		}
}

static int flush(uint16_t writer, bool asks, bool kept)
{
	const struct core_change c = { .object = OBJECT(INDEX),
				       .asks = asks,
				       .kept = kept,
				       .diff = diff_bytes,
				       .size = sizeof(diff_bytes) };

	return core_flush_block(&node, writer, &c);
}

UNIT_TEST(a_mapping_may_have_followed)
{
	const struct msg wants = about(0, ME, ME);

	host.follows = true;
	has(REL_CLEAN);
	ck_assert_int_eq(core_page_event(&node, PE_READ, &wants, NULL), CORE_FOLLOWED);
	ck_assert_int_eq(core_page_event(&node, PE_WRITE, &wants, NULL), CORE_FOLLOWED);
	noted("[again 1 ] [twin again 2 ]");
}

static void also(void *arg)
{
	locked(KEY);
	note("also %d", *(int *)arg);
}

/* Numbers of closes that are equal in one half. */
UNIT_TEST(a_miss_waits_for_the_nodes_own_diff)
{
	static const struct {
		uint64_t run, ended;
		int result;
	} all[] = {
		{ 0x280000001, 0x180000001, -EAGAIN },
		{ 0x280000001, 0x280000000, -EAGAIN },
		{ 0x280000001, 0x280000001, 0 },
		{ 0x180000002, 0x180000001, 0 },
	};
	const struct msg wants = about(0, ME, ME);
	int one = 1;
	struct core_waiter t = { .also = also, .arg = &one };
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		has(REL_NONE);
		rel->flushed = 0x80000001;
		closing.run = all[i].run;
		closing.ended = all[i].ended;
		ck_assert_int_eq(core_page_event(&node, i % 2 ? PE_READ : PE_WRITE, &wants, &t),
				 all[i].result);
		noted(all[i].result ? "[also 1 ]" : "[also 1 ] READ_REQ to 205");
		ck_assert_uint_eq(rel->state, all[i].result ? REL_NONE : REL_FETCH);
	}
}

UNIT_TEST(a_damaged_block_is_reported)
{
	const struct msg wants = about(0, ME, ME);

	has(REL_STATES);
	ck_assert_int_eq(core_page_event(&node, PE_READ, &wants, NULL), -EBADMSG);
	noted("[] damaged read in 8");
}

/* ---- messages ------------------------------------------------------------------------------- */

UNIT_TEST(a_copy_leaves_the_home_with_the_lock_held)
{
	const struct msg m = about(MSG_READ_REQ, OTHER, OTHER);

	host.home = true;
	has(RELH_OPEN);
	core_deliver(&node, &m, NULL);
	noted("[leaves ] leave 1 1 block to 306");
	ops.leaves = NULL;
	core_deliver(&node, &m, NULL);
	noted("[] leave 1 1 block to 306");
	core_deliver(
		&node,
		&(struct msg){
			.type = MSG_READ_REQ, .src = NODES, .dst = ME, .object = OBJECT(INDEX) },
		NULL);
	noted("[] refused -74");
}

/* Whatever a list had in it before. */
UNIT_TEST(no_action_but_those_of_the_step_is_carried_out)
{
	const struct msg m = about(MSG_DATA, HOME, ME);
	struct actions acts = { 0 };
	unsigned int i;

	for (i = 0; i < ACTIONS_MAX; i++)
		act_add(&acts, ACT_TWIN);
	has(REL_FETCH);
	ck_assert_int_eq(core_step(&node, &m, NULL, &acts), 0);
	noted("[]");
	ck_assert_str_eq(unit_text(&acts), "open ro data wake");
	ck_assert_int_eq(core_step(&node, &m, NULL, &acts), -EBADMSG);
	noted("[]");
	acts.v[0].type = ACT_DELIVER;
	acts.n = 0;
	core_carry_closing(&node, &acts);
	noted("");
}

UNIT_TEST(a_diff_is_merged_and_noted)
{
	static const struct {
		uint8_t state, next;
		uint16_t writer;
		const char *does;
	} all[] = {
		{ RELH_EXCLUSIVE, RELH_EXCLUSIVE, HOME, "[merge ]" },
		{ RELH_CLEAN, RELH_CLEAN, HOME,
		  "[merge ] notice 10001 to 1000100000000 of 205 but 205" },
		{ RELH_CLEAN, RELH_EXCLUSIVE, 0x3f1,
		  "[merge ] notice 10001 to 1000100000000 of 3f1 but 3f1" },
		{ RELH_OPEN, RELH_OPEN, OTHER,
		  "[merge ] notice 10001 to 1000100000000 of 306 but 306" },
		{ RELH_OPEN, RELH_EXCLUSIVE, 0x3f1,
		  "[merge untwin ] notice 10001 to 1000100000000 of 3f1 but 3f1" },
	};
	unsigned int i;

	host.home = true;
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		has(all[i].state);
		ck_assert_int_eq(flush(all[i].writer, false, false), 0);
		noted(all[i].does);
		ck_assert_uint_eq(rel->state, all[i].next);
		ck_assert_uint_eq(seen.about.type, MSG_FLUSH);
		ck_assert_uint_eq(seen.about.src, all[i].writer);
	}
	ck_assert_int_eq(flush(ME, false, true), -EBADMSG);
	host.home = false;
	ck_assert_int_eq(flush(HOME, false, true), -EBADMSG);
	noted("[] []");
}

UNIT_TEST(a_notice_of_the_home_is_kept)
{
	ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), OTHER), -EBADMSG);
	ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME & 0xff), -EBADMSG);
	ck_assert_uint_eq(lists.notices, 0);
	ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME), 0);
	ck_assert_uint_eq(lists.notices, INDEX + 1);
	ck_assert_uint_eq(rel->noticed, 1);
	ck_assert_uint_eq(seen.about.type, MSG_NOTE);
	ck_assert_uint_eq(seen.about.src, HOME);
	noted("");
}

UNIT_TEST(what_is_told_is_stored_or_noted)
{
	static const struct {
		const char *does;
		uint8_t next;
		bool noted;
	} all[REL_STATES] = {
		[REL_NONE] = { "[]", REL_NONE, false },
		[REL_FETCH] = { "[]", REL_AGAIN, false },
		[REL_AGAIN] = { "[]", REL_AGAIN, false },
		[REL_GOT] = { "[]", REL_GOT, true },
		[REL_CLEAN] = { "[merge ]", REL_CLEAN, false },
		[REL_RAISE] = { "[merge ]", REL_RAISE, false },
		[REL_OPEN] = { "[merge ]", REL_OPEN, false },
		[REL_STALE] = { "[]", REL_STALE, false },
	};
	unsigned int s;

	for (s = 0; s < REL_STATES; s++) {
		has((uint8_t)s);
		ck_assert_int_eq(
			core_tell_block(&node, OBJECT(INDEX), HOME, diff_bytes, sizeof(diff_bytes)),
			0);
		noted(all[s].does);
		ck_assert_uint_eq(rel->state, all[s].next);
		ck_assert_uint_eq(lists.notices, all[s].noted ? INDEX + 1 : 0);
		ck_assert(seen.noticed[1] == all[s].noted); /* before a thread may store to it */
		ck_assert_uint_eq(seen.about.type, MSG_NOTE);
		ck_assert_uint_eq(seen.about.src, HOME);
		ck_assert_int_eq(core_tell_block(&node, OBJECT(INDEX), OTHER, diff_bytes,
						 sizeof(diff_bytes)),
				 -EBADMSG);
		noted("[]");
	}
}

/* The host says whether it has room: before it merges, or when it has compared. */
UNIT_TEST(a_home_tells_what_the_host_has_room_for)
{
	unsigned int i;

	host.home = host.changed = host.tells = true;
	node.nnodes = 64;
	for (i = 0; i < 2; i++) {
		host.full = i;
		has(RELH_OPEN);
		rel->copyset = set_of(3, 1) | set_of(4, 1);
		rel->uses = USE_MORE << 6;
		rel->next_open = 0x10003;
		rel->listed = 1;
		ck_assert_uint_eq(core_gather_next(&node, INDEX + 1), 0x10003);
		noted(i ? "[keep diff 10001 for 102 untwin ] notice 10001 to 18 of 102 but 102"
			: "[keep diff 10001 for 102 ] notice 10001 to 10 of 102 but 102 tell 10001 to 8 of 102 but 102");
		has(RELH_CLEAN);
		rel->copyset = set_of(3, 1);
		rel->uses = USE_MORE << 6;
		ck_assert_int_eq(flush(4, false, !i), 0);
		noted(i ? "[merge ] notice 10001 to 8 of 4 but 4"
			: "[merge ] notice 10001 to 0 of 4 but 4 tell 10001 to 8 of 4 but 4");
	}
	node.nnodes = NODES;
}

/* The copyset of the home has one bit for several nodes. */
UNIT_TEST(a_notice_for_a_neighbour_is_ignored)
{
	static const struct {
		bool sequential, unknown;
		uint16_t nodes;
		int result;
	} all[] = {
		{ true, true, 65, 0 },
		{ true, true, 64, -EBADMSG },
		{ true, false, 65, -EBADMSG },
	};
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		host.sequential = all[i].sequential;
		host.unknown = all[i].unknown;
		node.nnodes = all[i].nodes;
		ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME), all[i].result);
		ck_assert_uint_eq(lists.notices, 0);
	}
	host.missing = -EAGAIN;
	host.unknown = true;
	node.nnodes = 65;
	ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME), -EAGAIN);
	noted("");
}

UNIT_TEST(what_is_not_found_is_refused)
{
	static const int errors[] = { -EAGAIN, -EBADMSG, -ENOMEM };
	const struct msg m = about(MSG_LOCKED, OTHER, ME);
	unsigned int i;
	int err;

	host.sequential = true;
	ck_assert_int_eq(core_tell_block(&node, OBJECT(INDEX), HOME, diff_bytes, 1), -EBADMSG);
	ck_assert_int_eq(flush(HOME, false, true), -EBADMSG);
	ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), HOME), -EBADMSG);
	ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME), -EBADMSG);
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		host.missing = errors[i];
		ck_assert_int_eq(flush(HOME, false, true), errors[i]);
		ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), HOME), errors[i]);
		ck_assert_int_eq(core_tell_block(&node, OBJECT(INDEX), HOME, diff_bytes, 1),
				 errors[i]);
		ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME), errors[i]);
		ck_assert_int_eq(core_closing_event(&node, CE_CLOSE, &m), errors[i]);
		ck_assert_int_eq(core_after(&node, &m, &m), errors[i]);
		ck_assert_uint_eq(core_gather_first(&node), 0);
		ck_assert_uint_eq(core_acquire_begin(&node, &err), 0);
		ck_assert_int_eq(err, errors[i]);
		ck_assert_int_eq(core_acquire_end(&node, true, -ENOENT), -ENOENT);
		ck_assert_int_eq(core_acquire(&node), errors[i] == -EAGAIN ? -EAGAIN : 0);
	}
	noted("");
}

UNIT_TEST(a_host_without_release_blocks_has_none_to_find)
{
	const struct msg m = about(MSG_LOCKED, OTHER, ME);

	ops.rel = NULL;
	ck_assert_int_eq(flush(HOME, false, true), -EBADMSG);
	ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), HOME), -EBADMSG);
	ck_assert_int_eq(core_note_block(&node, OBJECT(INDEX), HOME), -EBADMSG);
	ck_assert_int_eq(core_closing_event(&node, CE_CLOSE, &m), -EBADMSG);
	ck_assert_int_eq(core_after(&node, &m, &m), -EBADMSG);
	ck_assert_uint_eq(core_gather_first(&node), 0);
	ck_assert_int_eq(core_acquire(&node), 0);
	noted("");
}

/* ---- closes --------------------------------------------------------------------------------- */

static struct msg locks(uint16_t dst)
{
	return unit_msg(MSG_LOCKED, ME, dst, dst, SLOT);
}

/* More than one list of actions has room for. */
UNIT_TEST(all_messages_leave_after_their_close)
{
	const struct msg m = locks(OTHER), own = about(0, ME, ME),
			 flushed = { .src = HOME, .dst = ME, .value = RUN + 1 };
	struct msg to = own;
	unsigned int i;

	lists.opened = INDEX + 1;
	for (i = 0; i < WAITING; i++)
		core_release(&node, &m);
	ck_assert_uint_eq(seen.sent, 0);
	text[0] = 0;
	to.dst = HOME;
	ck_assert_int_eq(core_closing_event(&node, CE_SENT, &to), 0);
	noted("[] FLUSH to 205");
	ck_assert_int_eq(core_closing_event(&node, CE_GATHERED, &own), 0);
	noted("[]");
	ck_assert_int_eq(core_closing_event(&node, CE_FLUSHED, &flushed), 0);
	text[0] = 0;
	ck_assert_int_eq(core_closing_event(&node, CE_FLUSHED, &flushed), -EBADMSG);
	noted("[]");
	ck_assert_int_eq(core_closing_event(&node, CE_GATHERED, &own), 0);
	ck_assert_uint_eq(seen.sent, 1 + WAITING);
	ck_assert_uint_eq(closing.held, 0);
}

UNIT_TEST(a_message_that_need_not_wait_leaves_at_once)
{
	const struct msg m = locks(OTHER), own = locks(ME);
	struct msg ack = m;

	core_release(&node, &m);
	noted("[] LOCKED to 306");
	lists.opened = INDEX + 1;
	core_release(&node, &own);
	noted("LOCKED to 102");
	ack.type = MSG_INV_ACK;
	core_release(&node, &ack);
	noted("INV_ACK to 306");
	core_release(&node, &m);
	noted("[] gather");
	ops.rel = NULL;
	core_release(&node, &m);
	noted("LOCKED to 306");
}

UNIT_TEST(each_action_of_a_close_reaches_its_callback)
{
	static const struct {
		uint8_t type;
		const char *what;
	} all[] = {
		{ ACT_SEND, "LOCKED to 306 gather" },
		{ ACT_AFTER, "LOCKED to 306 after 3 gather" },
		{ ACT_DELIVER, "LOCKED comes gather" },
		{ ACT_GATHER, "gather gather" },
		{ ACT_DRAIN, "gather []" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct actions acts = { 0 };
		struct action *a = act_add(&acts, all[i].type);

		a->msg = locks(OTHER);
		a->prot = AFTER_FLUSH | AFTER_NOTE;
		act_add(&acts, ACT_GATHER);
		core_carry_closing(&node, &acts);
		noted(all[i].what);
	}
}

UNIT_TEST(closes_that_are_gone_have_nothing_more_to_do)
{
	struct actions acts = { 0 };

	act_add(&acts, ACT_DRAIN);
	host.missing = -EBADMSG;
	core_carry_closing(&node, &acts);
	noted("");
	host.missing = 0;
	closing.phase = CLOSING_PHASES;
	core_carry_closing(&node, &acts);
	noted("[]");
}

UNIT_TEST(a_message_comes_after_the_close_that_it_names)
{
	struct msg m = unit_msg(MSG_AFTER, OTHER, ME, OTHER, SLOT),
		   inside = about(MSG_LOCKED, OTHER, ME);

	m.op = AFTER_NOTE;
	m.value = 0x100000001;
	ck_assert_int_eq(core_after(&node, &m, &inside), 0);
	noted("[]");
	ck_assert_int_eq(core_closing_event(&node, CE_NOTE,
					    &(struct msg){ .src = OTHER,
							   .dst = ME,
							   .req_node = OTHER,
							   .value = m.value }),
			 0);
	noted("[] NOTED to 306 LOCKED comes");
	ck_assert_int_eq(core_after(&node, &m, &inside), 0);
	noted("[] LOCKED comes");
	inside.src = HOME;
	ck_assert_int_eq(core_after(&node, &m, &inside), -EBADMSG);
	noted("[]");
}

/* A close looks at one block: what it does, and whether the next close looks at it again. */
UNIT_TEST(a_close_compares_each_open_block)
{
	static const struct {
		bool home, changed;
		uint8_t state, same, next;
		const char *does;
	} all[] = {
		{ false, true, REL_OPEN, 0, REL_OPEN, "[diff 10001 for 205 ]" },
		{ false, true, REL_OPEN, 2, REL_OPEN, "[diff 10001 for 205 ]" },
		{ false, false, REL_OPEN, 0, REL_OPEN, "[diff 10001 for 205 ]" },
		{ false, false, REL_OPEN, 2, REL_CLEAN,
		  "[diff 10001 for 205 lower 10001 1 diff 10001 for 205 untwin ]" },
		{ false, true, REL_OPEN, REL_IDLE, REL_OPEN,
		  "[lower 10001 1 diff 10001 for 205 ]" },
		{ false, true, REL_STALE, 0, REL_NONE,
		  "[lower 10001 0 diff 10001 for 205 untwin ]" },
		{ false, false, REL_STALE, 0, REL_NONE,
		  "[lower 10001 0 diff 10001 for 205 untwin ]" },
		{ false, true, REL_CLEAN, 0, REL_CLEAN, "[]" },
		{ true, false, RELH_OPEN, 0, RELH_OPEN, "[diff 10001 for 102 ]" },
		{ true, false, RELH_OPEN, 2, RELH_CLEAN,
		  "[diff 10001 for 102 lower 10001 1 diff 10001 for 102 untwin ]" },
		{ true, true, RELH_OPEN, 0, RELH_EXCLUSIVE,
		  "[diff 10001 for 102 untwin ] notice 10001 to 1000100000000 of 102 but 102" },
		{ true, true, RELH_EXCLUSIVE, 0, RELH_EXCLUSIVE, "[]" },
		/* nobody compares it */
		{ true, false, RELH_LENT, 0, RELH_EXCLUSIVE,
		  "[] notice 10001 to 1000100000000 of 102 but 102" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const bool opened =
			rel_open(&(struct rel_ctx){ .me = ME, .home = all[i].home ? ME : HOME },
				 &(struct rel){ .state = all[i].next });

		host.home = all[i].home;
		host.changed = all[i].changed;
		has(all[i].state);
		rel->same = all[i].same;
		rel->next_open = 0x10003;
		rel->listed = 1;
		ck_assert_uint_eq(core_gather_next(&node, INDEX + 1), 0x10003);
		noted(all[i].does);
		ck_assert_uint_eq(rel->state, all[i].next);
		ck_assert_uint_eq(lists.opened, opened ? INDEX + 1 : 0);
		ck_assert_uint_eq(rel->listed, opened);
		if (all[i].does[1] != ']' && !all[i].home && all[i].changed)
			ck_assert_uint_eq(rel->flushed, (uint32_t)RUN);
		ck_assert_uint_eq(seen.about.object, OBJECT(INDEX));
		ck_assert_uint_eq(seen.about.src, ME);
		ck_assert_uint_eq(seen.about.type, 0);
	}
}

/* Between the first comparison of a block that seems idle, and its lowering. */
UNIT_TEST(a_store_before_an_idle_block_is_lowered_is_sent)
{
	has(REL_OPEN);
	rel->same = REL_IDLE - 1;
	rel->listed = 1;
	host.stores = true;
	core_gather_next(&node, INDEX + 1);
	noted("[diff 10001 for 205 lower 10001 1 diff 10001 for 205 ]");
	ck_assert_uint_eq(rel->state, REL_OPEN);
	ck_assert_uint_eq(rel->flushed, (uint32_t)RUN);
}

/* What a close finds asks for the home; the home says in its acknowledgement that it is given. */
UNIT_TEST(a_diff_asks_for_the_home_and_the_home_is_given)
{
	node.nnodes = NODES;
	has(REL_OPEN);
	host.moves = host.changed = true;
	rel->listed = 1;
	rel->flags = REL_CHANGED;
	core_gather_next(&node, INDEX + 1);
	noted("[diff 10001 for 205, asking ]");
	ck_assert_uint_eq(rel->state, REL_OPEN);
	ck_assert_uint_eq(rel->flags, REL_ASKS | REL_CHANGED);
	ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), OTHER), -EBADMSG);
	noted("[]");
	closing.run = RUN;
	closing.ended = RUN - 1;
	ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), OTHER), -EBADMSG);
	ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), HOME), 0);
	ck_assert_uint_eq(seen.about.type, MSG_FLUSHED);
	noted("[] [] DONE to 205");
	ck_assert_uint_eq(rel->state, RELH_OPEN);
	ck_assert_uint_eq(rel->copyset, set_of(HOME, set_granule(NODES)));
	ck_assert_int_eq(core_give_block(&node, OBJECT(INDEX), HOME), -EBADMSG);
	noted("[]");
}

/* The copy of a writer whose close has not ended may be the master. */
UNIT_TEST(no_notice_is_applied_while_the_home_may_be_given)
{
	int err = 0;
	bool stale = false;

	has(REL_OPEN);
	rel->flags = REL_ASKS;
	rel->flushed = (uint32_t)RUN;
	rel->noticed = 1;
	closing.run = RUN;
	closing.ended = RUN - 1;
	core_acquire_next(&node, INDEX + 1, &stale, &err);
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert(!stale); /* another close would ask again, and so on */
	ck_assert_uint_eq(rel->state, REL_OPEN);
	ck_assert_uint_eq(lists.notices, INDEX + 1);
	closing.ended = RUN;
	err = 0;
	core_acquire_next(&node, INDEX + 1, &stale, &err);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(rel->state, REL_STALE);
}

UNIT_TEST(a_home_gives_what_a_diff_asks_for)
{
	unsigned int i;

	node.nnodes = NODES;
	host.home = host.moves = true;
	for (i = 0; i < 2; i++) {
		has(RELH_CLEAN);
		rel->copyset = set_of(OTHER, set_granule(NODES));
		rel->only = OTHER + 1;
		ck_assert_int_eq(flush(OTHER, i, false), 0);
		noted(i ? "[merge ]" : "[merge ] notice 10001 to 1000000000000 of 306 but 306");
		ck_assert_uint_eq(rel->flags, i ? REL_MOVING : 0);
		ck_assert_uint_eq(core_given_first(&node, HOME), 0);
		ck_assert_uint_eq(core_given_first(&node, OTHER), i ? INDEX + 1 : 0);
		if (i)
			ck_assert_uint_eq(core_given_next(&node, INDEX + 1), 0);
		ck_assert_uint_eq(core_given_first(&node, OTHER), 0);
	}
}

static void two_open(void)
{
	unsigned int i;

	for (i = 0; i < 2; i++)
		blocks[INDEX + i] = (struct rel){ .state = REL_OPEN,
						  .listed = 1,
						  .noticed = 1,
						  .next_open = i ? 0 : INDEX + 2,
						  .next_notice = i ? 0 : INDEX + 2 };
	lists = (struct rel_lists){ .opened = INDEX + 1, .notices = INDEX + 1 };
}

UNIT_TEST(a_close_looks_at_all_open_blocks_once)
{
	two_open();
	host.changed = true;
	core_gather(&node);
	noted("[diff 10001 for 205 ] [diff 10002 for 205 ]");
	ck_assert_uint_eq(lists.opened, INDEX + 2);
	lists.opened = 0;
	core_gather(&node);
	noted("");
}

/* ---- acquires ------------------------------------------------------------------------------- */

UNIT_TEST(a_notice_is_applied_to_a_copy_in_every_state)
{
	static const struct {
		const char *does;
		uint8_t next;
		bool stale;
		int err;
	} all[REL_STATES + 1] = {
		[REL_NONE] = { "[]", REL_NONE, false, 0 },
		[REL_FETCH] = { "[]", REL_AGAIN, false, 0 },
		[REL_AGAIN] = { "[]", REL_AGAIN, false, 0 },
		[REL_GOT] = { "[]", REL_GOT, false, -EAGAIN },
		[REL_CLEAN] = { "[lower 10001 0 ]", REL_NONE, false, 0 },
		[REL_RAISE] = { "[]", REL_RAISE, false, -EAGAIN },
		[REL_OPEN] = { "[]", REL_STALE, true, 0 },
		[REL_STALE] = { "[]", REL_STALE, true, 0 },
		[REL_STATES] = { "[]", REL_STATES, false, 0 },
	};
	unsigned int s, before;

	for (s = 0; s <= REL_STATES; s++)
		for (before = 0; before < 2; before++) {
			bool stale = before;
			int err = before ? -EINTR : 0;

			has((uint8_t)s);
			rel->next_notice = 0x10003;
			rel->noticed = 1;
			ck_assert_uint_eq(core_acquire_next(&node, INDEX + 1, &stale, &err),
					  0x10003);
			noted(all[s].does);
			ck_assert_uint_eq(rel->state, all[s].next);
			ck_assert_int_eq(stale, before || all[s].stale);
			ck_assert_int_eq(err, all[s].err ? all[s].err : before ? -EINTR : 0);
			ck_assert_uint_eq(lists.notices, all[s].err ? INDEX + 1 : 0);
			ck_assert(seen.noticed[0]); /* until it is applied */
			ck_assert_uint_eq(seen.about.object, OBJECT(INDEX));
			ck_assert_uint_eq(seen.about.src, ME);
		}
}

UNIT_TEST(an_acquire_applies_all_notices)
{
	ck_assert_int_eq(core_acquire(&node), 0); /* none */
	noted("[] []");
	two_open();
	rel->state = blocks[INDEX + 1].state = REL_CLEAN;
	ck_assert_int_eq(core_acquire(&node), 0);
	noted("[] [lower 10001 0 ] [lower 10002 0 ] []");
	ck_assert_uint_eq(lists.notices, 0);
	ck_assert_uint_eq(closing.applying, 0);
	ck_assert_uint_eq(closing.run, RUN);
}

UNIT_TEST(an_acquire_that_must_drop_open_blocks_waits_for_a_close)
{
	const struct msg own = about(0, ME, ME);

	two_open();
	ck_assert_int_eq(core_acquire(&node), -EAGAIN);
	noted("[] [] [] [] gather");
	ck_assert_uint_eq(closing.due, RUN + 1);
	ck_assert_uint_eq(closing.applying, 0);
	ck_assert_int_eq(core_acquire(&node), -EAGAIN);
	noted("[] []");
	ck_assert_int_eq(core_closing_event(&node, CE_GATHERED, &own), 0);
	ck_assert_int_eq(core_acquire(&node), 0);
}

UNIT_TEST(a_copy_that_was_not_used_yet_is_dropped_later)
{
	has(REL_GOT);
	rel_notice(&lists, blocks, INDEX);
	ck_assert_int_eq(core_acquire(&node), -EAGAIN);
	noted("[] [] []");
	ck_assert_uint_eq(lists.notices, INDEX + 1);
	rel->state = REL_CLEAN;
	ck_assert_int_eq(core_acquire(&node), 0);
	noted("[] [lower 10001 0 ] []");
}

UNIT_TEST(one_thread_applies_notices_at_a_time)
{
	int err = 1;

	rel_notice(&lists, blocks, INDEX);
	ck_assert_uint_eq(core_acquire_begin(&node, &err), INDEX + 1);
	ck_assert_int_eq(err, 0);
	ck_assert_uint_eq(closing.applying, 1);
	rel_notice(&lists, blocks, INDEX + 1);
	ck_assert_int_eq(core_acquire(&node), -EAGAIN);
	ck_assert_uint_eq(core_acquire_begin(&node, &err), 0);
	ck_assert_int_eq(err, -EAGAIN);
	ck_assert_uint_eq(lists.notices, INDEX + 2);
	ck_assert_int_eq(core_acquire_end(&node, false, -EINTR), -EINTR);
	noted("[] [] [] []");
	ck_assert_uint_eq(closing.applying, 0);
}

UNIT_SUITE("host_release", .setup = setup)
