// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_closing.c - core/closing: which messages wait for what, services, bounds of lists, and what
 * no correct node sends.
 */
#include "core.h"

#include "core/closing.h"
#include "core/sync.h"

#define NODES 8
#define ME 5
#define HELD 40

static struct closing n;
static struct closing_peer peers[NODES];
static struct closing_held held[HELD];
static struct rel_lists lists;
static struct actions out;
static struct closing_ctx ctx;

static void begin(void)
{
	memset(&n, 0, sizeof(n));
	memset(peers, 0, sizeof(peers));
	memset(held, 0, sizeof(held));
	lists = (struct rel_lists){ .opened = 1 };
	ctx = (struct closing_ctx){ .me = ME,
				    .nnodes = NODES,
				    .lists = &lists,
				    .peers = peers,
				    .held = held,
				    .nheld = HELD };
}

static struct msg about(uint16_t src, uint16_t dst, uint16_t writer, uint64_t close)
{
	return (struct msg){
		.version = WIRE_VERSION, .src = src, .dst = dst, .req_node = writer, .value = close
	};
}

/* What the step does, as "SEND type->node". */
static const char *text(void)
{
	static char line[ACTIONS_MAX * 32];
	size_t k = 0;
	unsigned int i;

	line[0] = 0;
	for (i = 0; i < out.n; i++) {
		const struct action *a = &out.v[i];
		const char *space = i ? " " : "";

		ck_assert_uint_eq(a->msg.version, WIRE_VERSION);
		switch ((enum act)a->type) {
		case ACT_SEND:
			k += (size_t)sprintf(line + k, "%s%s>%u", space, wire_name(a->msg.type),
					     a->msg.dst);
			break;
		case ACT_AFTER:
			k += (size_t)sprintf(line + k, "%s%s>%u after %u:%u", space,
					     wire_name(a->msg.type), a->msg.dst,
					     (unsigned int)a->mask, a->prot);
			break;
		case ACT_DELIVER:
			k += (size_t)sprintf(line + k, "%s%s!", space, wire_name(a->msg.type));
			break;
		case ACT_GATHER: k += (size_t)sprintf(line + k, "%sgather", space); break;
		case ACT_DRAIN: k += (size_t)sprintf(line + k, "%sdrain", space); break;
		default: ck_abort_msg("action %u", a->type);
		}
	}
	return line;
}

static int step(enum closing_event ev, struct msg m)
{
	return closing_step(&ctx, &n, ev, &m, &out);
}

static void expect(enum closing_event ev, struct msg m, const char *does)
{
	ck_assert_int_eq(step(ev, m), 0);
	ck_assert_str_eq(text(), does);
}

static void refuse(enum closing_event ev, struct msg m)
{
	struct closing before = n;
	struct closing_peer peers_before[NODES];

	memcpy(peers_before, peers, sizeof(peers));
	ck_assert_int_eq(step(ev, m), -EBADMSG);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_mem_eq(&n, &before, sizeof(n));
	ck_assert_mem_eq(peers, peers_before, sizeof(peers));
}

static struct msg locked(uint16_t dst)
{
	struct msg m = about(ME, dst, dst, 0);

	m.type = MSG_LOCKED;
	return m;
}

/* A close with diffs for these nodes, and notices for those, up to the waiting. */
static void gathered(uint32_t flush, uint32_t note)
{
	uint16_t i;

	for (i = 0; i < NODES; i++) {
		if (flush >> i & 1)
			ck_assert_int_eq(step(CE_SENT, about(ME, i, 0, 0)), 0);
		if (note >> i & 1)
			ck_assert_int_eq(step(CE_TOLD, about(ME, i, 0, 0)), 0);
	}
	ck_assert_int_eq(step(CE_GATHERED, about(ME, ME, 0, 0)), 0);
}

UNIT_TEST(a_message_leaves_at_once_if_nothing_is_open)
{
	begin();
	lists.opened = 0;
	expect(CE_RELEASE, locked(2), "LOCKED>2");
	ck_assert_uint_eq(n.run, 0);
	ck_assert_uint_eq(n.held, 0);
}

UNIT_TEST(a_message_waits_for_the_acknowledgements_of_a_close)
{
	begin();
	expect(CE_RELEASE, locked(2), "gather");
	ck_assert_uint_eq(n.run, 1);
	expect(CE_SENT, about(ME, 3, 0, 0), "FLUSH>3");
	ck_assert_uint_eq(out.v[0].msg.value, 1);
	ck_assert_uint_eq(out.v[0].msg.req_node, ME);
	ck_assert_uint_eq(out.v[0].msg.src, ME);
	expect(CE_TOLD, about(ME, 4, 0, 0), "NOTE>4");
	ck_assert_uint_eq(out.v[0].msg.value, 1);
	ck_assert_uint_eq(out.v[0].msg.req_node, ME);
	expect(CE_GATHERED, about(ME, ME, 0, 0), "");
	expect(CE_FLUSHED, about(3, ME, ME, 1), "");
	expect(CE_NOTED, about(4, ME, ME, 1), "LOCKED>2");
	ck_assert_uint_eq(n.ended, 1);
	ck_assert_int_eq(n.phase, CLOSING_IDLE);
	ck_assert_uint_eq(n.held, 0);
}

UNIT_TEST(an_empty_close_ends_when_it_has_gathered)
{
	begin();
	expect(CE_RELEASE, locked(2), "gather");
	expect(CE_GATHERED, about(ME, ME, 0, 0), "LOCKED>2");
}

/* Its stores may lie behind what the close that runs has looked at. */
UNIT_TEST(a_message_that_comes_during_a_close_waits_for_the_next)
{
	begin();
	expect(CE_RELEASE, locked(2), "gather");
	expect(CE_RELEASE, locked(3), "");
	gathered(1 << 4, 0);
	expect(CE_RELEASE, locked(4), "");
	expect(CE_FLUSHED, about(4, ME, ME, 1), "gather LOCKED>2");
	ck_assert_uint_eq(n.run, 2);
	ck_assert_uint_eq(n.ended, 1);
	expect(CE_GATHERED, about(ME, ME, 0, 0), "LOCKED>3 LOCKED>4");
}

UNIT_TEST(a_message_leaves_early_to_where_all_is_outstanding)
{
	static const struct {
		uint32_t flush, note;
		const char *does;
	} cases[] = {
		{ 1 << 2, 0, "LOCKED>2 after 1:1" },
		{ 0, 1 << 2, "LOCKED>2 after 1:2" },
		{ 1 << 2, 1 << 2, "LOCKED>2 after 1:3" },
		{ 1 << 2 | 1 << 3, 0, "" },
		{ 1 << 2, 1 << 3, "" },
		{ 0, 1 << 2 | 1 << 3, "" },
		{ 1 << 3, 0, "" },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin();
		expect(CE_RELEASE, locked(2), "gather");
		gathered(cases[i].flush, cases[i].note);
		ck_assert_str_eq(text(), cases[i].does);
	}
}

UNIT_TEST(a_message_leaves_early_once_the_others_have_acknowledged)
{
	begin();
	expect(CE_RELEASE, locked(2), "gather");
	gathered(1 << 2 | 1 << 3, 0);
	expect(CE_FLUSHED, about(3, ME, ME, 1), "LOCKED>2 after 1:1");
	expect(CE_FLUSHED, about(2, ME, ME, 1), "");
	ck_assert_uint_eq(n.ended, 1);
}

static int receive(uint16_t src, uint64_t close, uint8_t what, uint8_t type)
{
	struct msg m = about(src, ME, src, close), inside = about(src, ME, ME, 0);

	m.type = MSG_AFTER;
	m.op = what;
	inside.type = type;
	inside.op = type == MSG_SYNC ? SOP_POST : 0;
	return closing_after(&ctx, &n, &m, &inside, &out);
}

UNIT_TEST(a_message_is_held_back_until_its_close_is_served)
{
	begin();
	ck_assert_int_eq(receive(2, 7, AFTER_FLUSH | AFTER_NOTE, MSG_LOCKED), 0);
	ck_assert_str_eq(text(), "");
	expect(CE_FLUSH, about(2, ME, 2, 7), "");
	expect(CE_NOTE, about(2, ME, 2, 7), "NOTED>2");
	expect(CE_SPREAD, about(2, 3, 0, 0), "NOTE>3");
	ck_assert_uint_eq(out.v[0].msg.req_node, 2);
	ck_assert_uint_eq(out.v[0].msg.value, 7);
	expect(CE_MERGED, about(2, ME, 0, 0), "");
	expect(CE_NOTED, about(3, ME, 2, 7), "FLUSHED>2 LOCKED!");
	ck_assert_uint_eq(n.held, 0);
	ck_assert_int_eq(receive(2, 7, AFTER_FLUSH | AFTER_NOTE, MSG_SYNC), 0);
	ck_assert_str_eq(text(), "SYNC!");
	ck_assert_int_eq(receive(2, 6, AFTER_FLUSH, MSG_LOCKED), 0);
	ck_assert_str_eq(text(), "LOCKED!");
}

UNIT_TEST(only_messages_that_release_come_after_a_close)
{
	struct msg m = about(2, ME, 2, 7), inside = about(2, ME, ME, 0);

	begin();
	m.op = AFTER_FLUSH;
	ck_assert_int_eq(receive(2, 7, AFTER_FLUSH, MSG_READ_REQ), -EBADMSG);
	ck_assert_int_eq(receive(2, 7, AFTER_FLUSH, MSG_LOCK), -EBADMSG);
	ck_assert_int_eq(receive(2, 7, AFTER_FLUSH, MSG_AFTER), -EBADMSG);
	ck_assert_int_eq(receive(ME, 7, AFTER_FLUSH, MSG_LOCKED), -EBADMSG);
	inside.type = MSG_LOCKED;
	inside.src = 3;
	ck_assert_int_eq(closing_after(&ctx, &n, &m, &inside, &out), -EBADMSG);
	inside.src = 2;
	inside.dst = 4;
	ck_assert_int_eq(closing_after(&ctx, &n, &m, &inside, &out), -EBADMSG);
	ck_assert_uint_eq(n.held, 0);
}

/*
 * Node 3's notice was sent for node 2's diffs; node 4's flush of the same block found nobody to
 * note.
 */
UNIT_TEST(a_service_ends_after_the_notices_of_those_beside_it)
{
	begin();
	expect(CE_FLUSH, about(2, ME, 2, 1), "");
	expect(CE_FLUSH, about(4, ME, 4, 9), "");
	expect(CE_MERGED, about(4, ME, 0, 0), "");
	expect(CE_SPREAD, about(2, 3, 0, 0), "NOTE>3");
	expect(CE_MERGED, about(2, ME, 0, 0), "");
	expect(CE_NOTED, about(3, ME, 2, 1), "FLUSHED>4 FLUSHED>2");
	ck_assert_uint_eq(out.v[0].msg.value, 9);
	ck_assert_uint_eq(out.v[0].msg.req_node, 4);
	ck_assert_uint_eq(out.v[1].msg.value, 1);
	ck_assert_uint_eq(peers[4].flushed, 9);
	ck_assert_uint_eq(n.first, 0);
	ck_assert_uint_eq(n.last, 0);
}

UNIT_TEST(a_node_with_a_service_has_something_to_close)
{
	begin();
	lists.opened = 0;
	expect(CE_FLUSH, about(2, ME, 2, 1), "");
	expect(CE_RELEASE, locked(3), "gather");
	expect(CE_SPREAD, about(2, 3, 0, 0), "NOTE>3");
	expect(CE_MERGED, about(2, ME, 0, 0), "");
	expect(CE_GATHERED, about(ME, ME, 0, 0), "");
	expect(CE_NOTED, about(3, ME, 2, 1), "FLUSHED>2 LOCKED>3");
}

UNIT_TEST(an_acquire_waits_until_the_close_it_asked_for_has_gathered)
{
	begin();
	expect(CE_CLOSE, about(ME, ME, 0, 0), "gather");
	ck_assert_uint_eq(n.due, 1);
	ck_assert(!closing_gathered(&n, n.due));
	expect(CE_CLOSE, about(ME, ME, 0, 0), "");
	ck_assert_uint_eq(n.due, 2);
	gathered(1 << 2, 0);
	ck_assert(closing_gathered(&n, 1));
	ck_assert(!closing_gathered(&n, n.due));
	expect(CE_FLUSHED, about(2, ME, ME, 1), "gather");
	ck_assert(!closing_gathered(&n, n.due));
	gathered(0, 0);
	ck_assert(closing_gathered(&n, n.due));
	ck_assert_int_eq(n.phase, CLOSING_IDLE);
}

UNIT_TEST(closes_go_on_beyond_32_bits)
{
	unsigned int i;

	begin();
	n.run = n.ended = n.asked = n.due = 0xfffffffe;
	for (i = 0; i < 3; i++) {
		expect(CE_RELEASE, locked(2), "gather");
		gathered(1 << 3, 0);
		expect(CE_FLUSHED, about(3, ME, ME, n.run), "LOCKED>2");
	}
	ck_assert_uint_eq(n.run, 0x100000001);
	ck_assert_uint_eq(peers[3].sent, 0);
}

UNIT_TEST(acknowledgements_that_nobody_waits_for_are_refused)
{
	begin();
	refuse(CE_FLUSHED, about(3, ME, ME, 0));
	refuse(CE_FLUSHED, about(3, ME, ME, 1));
	refuse(CE_NOTED, about(3, ME, ME, 0));
	refuse(CE_NOTED, about(3, ME, 4, 1));
	refuse(CE_NOTED, about(3, ME, NODES, 1));
	expect(CE_RELEASE, locked(2), "gather");
	expect(CE_TOLD, about(ME, 4, 0, 0), "NOTE>4");
	expect(CE_SENT, about(ME, 3, 0, 0), "FLUSH>3");
	refuse(CE_TOLD, about(ME, 4, 0, 0));
	refuse(CE_SENT, about(ME, 3, 0, 0));
	refuse(CE_SENT, about(ME, ME, 0, 0));
	refuse(CE_TOLD, about(ME, ME, 0, 0));
	refuse(CE_SENT, about(ME, NODES, 0, 0));
	refuse(CE_TOLD, about(ME, NODES, 0, 0));
	expect(CE_GATHERED, about(ME, ME, 0, 0), "");
	refuse(CE_FLUSHED, about(3, ME, ME, 2));
	refuse(CE_FLUSHED, about(4, ME, ME, 1));
	refuse(CE_NOTED, about(3, ME, ME, 1));
	refuse(CE_NOTED, about(4, ME, ME, 2));
	refuse(CE_NOTED, about(4, ME, 2, 1));
	refuse(CE_FLUSHED, about(NODES, ME, ME, 1));
	expect(CE_NOTED, about(4, ME, ME, 1), "");
	refuse(CE_NOTED, about(4, ME, ME, 1));
	expect(CE_FLUSHED, about(3, ME, ME, 1), "LOCKED>2");
	refuse(CE_FLUSHED, about(3, ME, ME, 1));
}

UNIT_TEST(a_node_flushes_one_close_after_the_other)
{
	begin();
	refuse(CE_FLUSH, about(ME, ME, ME, 1));
	refuse(CE_MERGED, about(2, ME, 0, 0));
	refuse(CE_SPREAD, about(2, 3, 0, 0));
	expect(CE_FLUSH, about(2, ME, 2, 4), "");
	refuse(CE_FLUSH, about(2, ME, 2, 5));
	refuse(CE_SPREAD, about(2, 2, 0, 0));
	refuse(CE_SPREAD, about(2, ME, 0, 0));
	refuse(CE_SPREAD, about(ME, 3, 0, 0));
	refuse(CE_MERGED, about(ME, ME, 0, 0));
	expect(CE_MERGED, about(2, ME, 0, 0), "FLUSHED>2");
	refuse(CE_MERGED, about(2, ME, 0, 0));
	refuse(CE_FLUSH, about(2, ME, 2, 4));
	refuse(CE_FLUSH, about(2, ME, 2, 3));
	expect(CE_FLUSH, about(2, ME, 2, 5), "");
}

UNIT_TEST(a_notice_of_a_nodes_own_close_comes_once)
{
	begin();
	refuse(CE_NOTE, about(ME, ME, ME, 1));
	refuse(CE_NOTE, about(2, ME, ME, 1));
	expect(CE_NOTE, about(2, ME, 2, 3), "NOTED>2");
	ck_assert_uint_eq(out.v[0].msg.value, 3);
	ck_assert_uint_eq(out.v[0].msg.req_node, 2);
	refuse(CE_NOTE, about(2, ME, 2, 3));
	expect(CE_NOTE, about(2, ME, 4, 3), "NOTED>2");
	ck_assert_uint_eq(out.v[0].msg.req_node, 4);
	ck_assert_uint_eq(peers[2].noted, 3);
	ck_assert_uint_eq(peers[4].noted, 0);
}

UNIT_TEST(only_a_close_that_gathers_sends)
{
	static const uint8_t gathering[] = { CE_SENT, CE_TOLD, CE_GATHERED };
	unsigned int p, i;

	for (p = 0; p < CLOSING_PHASES; p++)
		for (i = 0; i < sizeof(gathering); i++)
			if (p != CLOSING_GATHER) {
				begin();
				n.phase = (uint8_t)p;
				peers[ME].serving = 1;
				n.first = n.last = ME * 2 + 1;
				peers[ME].notes = 1;
				refuse((enum closing_event)gathering[i], about(ME, 2, 0, 0));
				ck_assert_str_eq(closing_rule_name(p, gathering[i]), "-");
			}
	begin();
	refuse(CLOSING_EVENTS, about(2, ME, 2, 1));
	n.phase = CLOSING_PHASES;
	refuse(CE_DRAIN, about(ME, ME, 0, 0));
}

UNIT_TEST(a_message_without_room_to_wait_is_refused)
{
	unsigned int i;

	begin();
	for (i = 0; i < HELD; i++)
		ck_assert_int_eq(step(CE_RELEASE, locked(2)), 0);
	ck_assert_int_eq(step(CE_RELEASE, locked(2)), -ENOSPC);
	ck_assert_int_eq(receive(2, 7, AFTER_FLUSH, MSG_LOCKED), -ENOSPC);
	ck_assert_uint_eq(n.held, HELD);
}

/* It names closes that never come. The others, and this node, still have room. */
UNIT_TEST(one_sender_fills_no_more_than_half_of_the_room)
{
	enum { MANY = 600 };
	static struct closing_held many[MANY];
	unsigned int turn, i;

	begin();
	memset(many, 0, sizeof(many));
	ctx.held = many;
	ctx.nheld = MANY;
	for (turn = 1; turn <= 2; turn++) {
		for (i = 0; i < MANY / 2; i++)
			ck_assert_int_eq(receive(2, turn, AFTER_NOTE, MSG_LOCKED), 0);
		ck_assert_int_eq(receive(2, turn, AFTER_NOTE, MSG_LOCKED), -EBADMSG);
		ck_assert_uint_eq(out.n, 0);
		ck_assert_uint_eq(n.held, MANY / 2);
		ck_assert_uint_eq(peers[2].held, MANY / 2);
		ck_assert_int_eq(receive(3, turn, AFTER_FLUSH, MSG_LOCKED), 0);
		ck_assert_int_eq(step(CE_FLUSH, about(3, ME, 3, turn)), 0);
		ck_assert_int_eq(step(CE_MERGED, about(3, ME, 0, 0)), 0);
		ck_assert_str_eq(text(), "FLUSHED>3 LOCKED!");
		ck_assert_uint_eq(peers[3].held, 0);
		ck_assert_int_eq(step(CE_NOTE, about(2, ME, 2, turn)), 0);
		while (unit_action(&out, ACT_DRAIN, 0))
			ck_assert_int_eq(step(CE_DRAIN, about(ME, ME, 0, 0)), 0);
		ck_assert_uint_eq(n.held, 0);
		ck_assert_uint_eq(peers[2].held, 0);
	}
	for (i = 0; i < MANY; i++)
		ck_assert_int_eq(step(CE_RELEASE, locked(2)), 0);
	ck_assert_uint_eq(peers[ME].held, MANY);
}

/* All messages leave, by lists that are bounded. */
UNIT_TEST(many_messages_leave_in_several_steps)
{
	unsigned int i, sent = 0, steps = 0;

	begin();
	for (i = 0; i < HELD; i++)
		ck_assert_int_eq(step(CE_RELEASE, locked((uint16_t)(i % 4))), 0);
	gathered(1 << 7, 0); /* the others share the next close */
	ck_assert_int_eq(step(CE_FLUSHED, about(7, ME, ME, 1)), 0);
	ck_assert_int_eq(step(CE_GATHERED, about(ME, ME, 0, 0)), 0);
	for (;;) {
		ck_assert_uint_le(out.n, ACTIONS_MAX - 1);
		for (i = 0; i < out.n; i++)
			sent += out.v[i].type == ACT_SEND;
		if (!unit_action(&out, ACT_DRAIN, 0))
			break;
		ck_assert_int_eq(step(CE_DRAIN, about(ME, ME, 0, 0)), 0);
		steps++;
	}
	ck_assert_uint_eq(sent, HELD - 1);
	ck_assert_uint_ge(steps, HELD / CLOSING_DRAIN - 1);
	ck_assert_uint_eq(n.held, 0);
}

/* With a bit for several nodes, nobody knows whose NOTE is outstanding. */
UNIT_TEST(a_coarse_copyset_permits_no_early_message_after_a_note)
{
	static struct closing_peer many[130];

	begin();
	memset(many, 0, sizeof(many));
	ctx.nnodes = 130;
	ctx.peers = many;
	expect(CE_RELEASE, locked(0), "gather");
	gathered(0, 1 << 0);
	ck_assert_str_eq(text(), "");
	expect(CE_NOTED, about(0, ME, ME, 1), "LOCKED>0");
}

UNIT_TEST(services_of_many_nodes_end_in_their_order)
{
	enum { MANY = 1023, A = 0x102, B = 0x3f0, C = 0x301, D = 0x302 };
	static struct closing_peer many[MANY + 1]; /* one more than there are */

	begin();
	memset(many, 0, sizeof(many));
	many[MANY] = (struct closing_peer){ .serving = 1, .notes = 1, .asked = ~0ull };
	ctx.nnodes = MANY;
	ctx.peers = many;
	expect(CE_FLUSH, about(A, ME, A, 1), "");
	expect(CE_FLUSH, about(B, ME, B, 9), "");
	expect(CE_SPREAD, about(A, C, 0, 0), "NOTE>769");
	ck_assert_uint_eq(out.v[0].msg.req_node, A);
	ck_assert_uint_eq(out.v[0].msg.value, 1);
	expect(CE_SPREAD, about(B, D, 0, 0), "NOTE>770");
	ck_assert_uint_eq(out.v[0].msg.req_node, B);
	expect(CE_MERGED, about(B, ME, 0, 0), "");
	expect(CE_MERGED, about(A, ME, 0, 0), "");
	ck_assert_int_eq(receive(A, 1, AFTER_FLUSH, MSG_LOCKED), 0);
	ck_assert_str_eq(text(), "");
	expect(CE_NOTED, about(D, ME, B, 9), "");
	ck_assert_int_eq(step(CE_NOTED, about(C, ME, MANY, 1)), -EBADMSG);
	expect(CE_NOTED, about(C, ME, A, 1), "FLUSHED>1008 FLUSHED>258 LOCKED!");
	ck_assert_uint_eq(n.first, 0);
	ck_assert_uint_eq(n.last, 0);
	ck_assert_int_eq(receive(A, 1, AFTER_FLUSH, MSG_LOCKED), 0);
	ck_assert_str_eq(text(), "LOCKED!");
}

/* Whatever comes, lists are bounded, and what is refused changes nothing. */
UNIT_TEST(lists_stay_within_their_bounds)
{
	uint64_t seed = 12345;
	unsigned int i;

	begin();
	for (i = 0; i < 300000; i++) {
		const uint64_t r = unit_random(&seed);
		struct closing before = n;
		struct closing_peer old[NODES];
		struct msg m = about(r >> 8 & 7, r >> 12 & 7, r >> 16 & 7, n.run + (r >> 20 & 1));
		int err;

		lists.opened = r >> 24 & 1;
		m.type = MSG_LOCKED;
		memcpy(old, peers, sizeof(old));
		if (r >> 28 & 3)
			m.src = r >> 30 & 1 ? m.src : ME;
		if ((r & 15) < CLOSING_EVENTS)
			err = step((enum closing_event)(r & 15), m);
		else
			err = receive(m.src, m.value, (uint8_t)(1 + (r >> 32) % 3), MSG_LOCKED);
		unit_require(out.n < ACTIONS_MAX);
		unit_require(n.held <= HELD);
		if (err) {
			unit_require(!memcmp(&before, &n, sizeof(n)));
			unit_require(!memcmp(old, peers, sizeof(old)));
		}
	}
}

UNIT_TEST(messages_release_and_acquire_by_one_table)
{
	struct msg m = { .type = MSG_SYNC };
	unsigned int t, op;

	for (t = 0; t <= MSG_TYPES; t++) {
		m.type = (uint8_t)t;
		m.op = SOP_POST;
		ck_assert_int_eq(closing_releases(&m), !!(wire_order((uint8_t)t) & ORDER_RELEASE));
		ck_assert_int_eq(closing_acquires(&m), !!(wire_order((uint8_t)t) & ORDER_ACQUIRE));
		if (wire_class((uint8_t)t) == CLASS_COHERENCE ||
		    wire_class((uint8_t)t) == CLASS_DATA)
			ck_assert_int_eq(wire_order((uint8_t)t), ORDER_NEITHER);
	}
	m.type = MSG_SYNC;
	for (op = 0; op < SYNC_OPS; op++) {
		m.op = (uint8_t)op;
		ck_assert_int_eq(closing_releases(&m), sync_releases((uint8_t)op));
		ck_assert_int_eq(sync_waits((uint8_t)op) && sync_releases((uint8_t)op),
				 op == SOP_MEET);
	}
}

UNIT_TEST(a_name_without_a_phase_or_an_event_is_a_question_mark)
{
	unsigned int p, e;

	for (p = 0; p < CLOSING_PHASES; p++)
		for (e = 0; e < CLOSING_EVENTS; e++) {
			ck_assert_str_ne(closing_phase_name(p), "?");
			ck_assert_str_ne(closing_event_name(e), "?");
			ck_assert_str_ne(closing_rule_name(p, e), "?");
			ck_assert_str_eq(closing_phase_name(CLOSING_PHASES + p), "?");
			ck_assert_str_eq(closing_event_name(CLOSING_EVENTS + e), "?");
			ck_assert_str_eq(closing_rule_name(CLOSING_PHASES + p, e), "?");
			ck_assert_str_eq(closing_rule_name(p, CLOSING_EVENTS + e), "?");
		}
	ck_assert_str_eq(closing_rule_name(CLOSING_PHASES, CLOSING_EVENTS), "?");
}

UNIT_SUITE("closing")
