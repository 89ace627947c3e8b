// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_dir_moves.c - core/dir, core/dispatch: homes that follow use, the nodes that may move them,
 * requests to former homes.
 */
#include "core.h"

#include "core/dispatch.h"

#define RANKS 8
#define SLOTS 4
#define OBJECT 0x87654321u
#define MANAGER 6
#define HOME 0
#define USER 2
#define OTHER 3

static struct queue_entry nodes[RANKS * SLOTS];
static uint16_t forwarded;

/* The context of rank `me`, which knows the manager. */
static struct dir_ctx at(uint16_t me)
{
	return (struct dir_ctx){ .me = me,
				 .nnodes = RANKS,
				 .manager = MANAGER,
				 .follow = DIR_FOLLOW,
				 .queue = { .entries = nodes, .nslots = SLOTS },
				 .forwarded = &forwarded };
}

static struct msg from(uint8_t type, uint16_t src, uint16_t dst, uint16_t req_node)
{
	struct msg m = unit_msg(type, src, dst, req_node, 1);

	m.object = OBJECT;
	return m;
}

static int take(const struct dir_ctx *c, struct dir *d, uint8_t type, uint16_t rank,
		struct actions *out)
{
	struct msg m = from(type, rank, c->me, rank);

	return dir_step(c, d, &m, out);
}

/* Handle a request and its DONE; *out is the result of DONE. */
static void use(const struct dir_ctx *c, struct dir *d, uint8_t type, uint16_t rank,
		struct actions *out)
{
	ck_assert_int_eq(take(c, d, type, rank, out), 0);
	ck_assert_uint_gt(out->n, 0);
	ck_assert_int_eq(take(c, d, MSG_DONE, rank, out), 0);
}

static struct dir owned(void)
{
	memset(nodes, 0, sizeof(nodes));
	forwarded = 0;
	return (struct dir){ .state = DIR_EXCLUSIVE, .owner = HOME, .served = HOME, .copyset = 1 };
}

UNIT_TEST(a_home_follows_who_writes_again_and_again)
{
	struct dir_ctx c = at(HOME);
	struct dir d = owned();
	struct actions out;
	unsigned int i;

	for (i = 0; i <= DIR_FOLLOW; i++) {
		use(&c, &d, MSG_WRITE_REQ, USER, &out);
		if (i < DIR_FOLLOW) {
			ck_assert_uint_eq(out.n, 0);
			ck_assert_uint_eq(d.uses, i);
			use(&c, &d, MSG_READ_REQ, i & 1 ? OTHER : 5, &out);
		}
	}
	ck_assert_str_eq(unit_text(&out), "MOVE");
	ck_assert_uint_eq(out.v[0].msg.dst, MANAGER);
	ck_assert_uint_eq(out.v[0].msg.req_node, USER);
	ck_assert_uint_eq(d.phase, DIR_MOVING);
	ck_assert_uint_eq(d.state, DIR_EXCLUSIVE);
}

/*
 * Each of these ends the row of uses: another rank writes, the home reads, the home writes. Some
 * uses never begin one.
 */
UNIT_TEST(a_home_does_not_follow_others)
{
	unsigned int breaks, i;

	for (breaks = 0; breaks < 5; breaks++) {
		struct dir_ctx c = at(HOME);
		struct dir d = owned();
		struct actions out;

		if (breaks == 3)
			c.follow = 0;
		if (breaks == 4)
			d.uses = DIR_STAYS;
		for (i = 0; i < 8; i++) {
			use(&c, &d, MSG_WRITE_REQ, USER, &out);
			ck_assert_uint_eq(out.n, 0);
			use(&c, &d, MSG_READ_REQ, OTHER, &out);
			if (i % 2 && breaks < 3)
				use(&c, &d, breaks == 1 ? MSG_READ_REQ : MSG_WRITE_REQ,
				    breaks ? HOME : 5, &out);
			d.migratory = 0;
		}
		ck_assert_uint_eq(d.uses == DIR_STAYS, breaks == 4);
	}
}

/* The home's own writes do not move it, nor does it move if it does not know the manager. */
UNIT_TEST(a_home_stays_where_it_is)
{
	struct dir_ctx c = at(HOME);
	struct dir d = owned();
	struct actions out;
	unsigned int i;

	for (i = 0; i < 6; i++) {
		use(&c, &d, MSG_READ_REQ, OTHER, &out);
		use(&c, &d, MSG_WRITE_REQ, HOME, &out);
		ck_assert_uint_eq(d.uses, 0);
	}
	d.phase = DIR_HANDING;
	d.owner = d.served = USER;
	c.manager = SET_NOBODY;
	ck_assert_int_eq(take(&c, &d, MSG_DONE, USER, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(d.phase, DIR_IDLE);
	/* Waiting requests are served all the same. */
	d.phase = DIR_HANDING;
	ck_assert_int_eq(take(&c, &d, MSG_READ_REQ, OTHER, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&c, &d, MSG_DONE, USER, &out), 0);
	ck_assert_str_eq(unit_text(&out), "resume");
}

/* The first touch is no repeated write. A placed block stays. */
UNIT_TEST(a_row_begins_after_the_first_touch)
{
	static const struct {
		uint8_t state, flags, uses;
	} cases[] = {
		{ DIR_UNTOUCHED, 0, 0 },
		{ DIR_PLACED, 0, DIR_STAYS },
		{ DIR_UNTOUCHED, MSGF_FORWARDED, DIR_STAYS },
		{ DIR_PLACED, MSGF_FORWARDED, DIR_STAYS },
		{ DIR_UNTOUCHED, MSGF_PLACE, 0 },
	};
	unsigned int i, type;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (type = MSG_READ_REQ; type <= MSG_WRITE_REQ; type++) {
			struct dir_ctx c = at(MANAGER);
			struct dir d = { .state = cases[i].state & 7, .uses = 1 };
			bool forward = cases[i].flags & MSGF_FORWARDED;
			struct msg m = from((uint8_t)type, forward ? MANAGER : USER, MANAGER, USER);
			struct actions out;

			m.flags = cases[i].flags;
			ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
			ck_assert_uint_eq(d.state, DIR_EXCLUSIVE);
			ck_assert_uint_eq(d.uses, cases[i].uses);
		}
}

UNIT_TEST(a_row_ends_when_the_home_reads)
{
	unsigned int uses;

	for (uses = 0; uses <= DIR_STAYS; uses++) {
		struct dir_ctx c = at(HOME);
		struct dir d = owned();
		struct actions out;

		d.owner = d.served = USER;
		d.copyset = 1 << USER;
		d.uses = uses & 3;
		use(&c, &d, MSG_READ_REQ, OTHER, &out);
		ck_assert_uint_eq(d.uses, uses);
		use(&c, &d, MSG_READ_REQ, HOME, &out);
		ck_assert_uint_eq(d.uses, uses == DIR_STAYS ? DIR_STAYS : 0);
	}
}

UNIT_TEST(a_row_ends_when_the_block_migrates)
{
	unsigned int uses;

	for (uses = 0; uses <= DIR_STAYS; uses++) {
		struct dir_ctx c = at(HOME);
		struct dir d = owned();
		struct actions out;

		d.owner = d.served = USER;
		d.copyset = 1 << USER;
		d.migratory = 1;
		d.uses = uses & 3;
		ck_assert_int_eq(take(&c, &d, MSG_READ_REQ, OTHER, &out), 0);
		ck_assert_str_eq(unit_text(&out), "FWD_MIGRATE");
		ck_assert_uint_eq(d.uses, uses == DIR_STAYS ? DIR_STAYS : 0);
	}
}

/* Whatever its use so far, touched or not. The home itself has the block already. */
UNIT_TEST(a_home_comes_along_with_a_block_that_is_placed)
{
	unsigned int touched, stays, rank;

	for (touched = 0; touched < 2; touched++)
		for (stays = 0; stays < 2; stays++)
			for (rank = 0; rank < 2; rank++) {
				struct dir_ctx c = at(HOME);
				struct dir d = owned();
				struct msg m =
					from(MSG_WRITE_REQ, MANAGER, HOME, rank ? USER : HOME);
				struct actions out;

				c.follow = 0;
				d.owner = OTHER;
				d.copyset = 1u << OTHER;
				d.uses = stays ? DIR_STAYS : 0;
				if (!touched)
					d = (struct dir){ 0 };
				m.flags = MSGF_PLACE | MSGF_FORWARDED;
				ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
				ck_assert_str_eq(unit_text(&out), touched ? "FWD_WRITE" : "GRANT");
				ck_assert_uint_eq(d.phase, rank ? DIR_HANDING : DIR_BUSY);
				ck_assert_int_eq(take(&c, &d, MSG_DONE, rank ? USER : HOME, &out),
						 0);
				ck_assert_str_eq(unit_text(&out), rank ? "MOVE" : "");
			}
}

UNIT_TEST(a_claim_is_for_the_owner_of_the_only_copy)
{
	unsigned int state, phase, where, manages;

	for (state = 0; state < DIR_STATES; state++)
		for (phase = 0; phase < DIR_PHASES; phase++)
			for (where = 0; where < 4; where++)
				for (manages = 0; manages < 2; manages++) {
					static const uint64_t values[] = { USER, OTHER,
									   USER + (1ull << 32),
									   HOME };
					struct dir_ctx c = at(HOME);
					struct dir d = { .state = state & 7,
							 .phase = phase & 7,
							 .owner = where == 3 ? HOME : USER,
							 .served = OTHER },
						   was = d;
					struct msg m = from(MSG_CLAIM, OTHER, HOME, OTHER);
					bool may = state == DIR_EXCLUSIVE && phase == DIR_IDLE &&
						!where;
					struct actions out;

					c.manager = manages ? HOME : MANAGER;
					m.value = values[where];
					m.req_slot = 0x1234;
					ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
					ck_assert_uint_eq(out.v[0].msg.req_slot, 0x1234);
					ck_assert_str_eq(unit_text(&out),
							 !may              ? "REPLY"
								 : manages ? "REPLY ADOPT"
									   : "REPLY MOVE");
					ck_assert_uint_eq(out.v[0].msg.dst, OTHER);
					ck_assert_int_eq(out.v[0].msg.count, -EBUSY);
					if (may) {
						ck_assert_uint_eq(
							d.phase, manages ? DIR_HOMING : DIR_MOVING);
						/* whose HOME_ACK is awaited */
						ck_assert_uint_eq(d.served, USER);
					} else {
						ck_assert_mem_eq(&d, &was, sizeof(d));
					}
				}
}

static struct dir handing(void)
{
	struct dir d = owned();

	d.owner = d.served = USER;
	d.copyset = 1u << USER;
	d.phase = DIR_HANDING;
	d.uses = 2;
	return d;
}

/* The user is made the home, and learns who its manager is. */
static void adopts(const struct actions *out)
{
	ck_assert_str_eq(unit_text(out), "ADOPT");
	ck_assert_uint_eq(out->v[0].msg.dst, USER);
	ck_assert_uint_eq(out->v[0].msg.value, MANAGER);
}

UNIT_TEST(a_manager_hands_over_by_itself)
{
	struct dir_ctx c = at(MANAGER);
	struct dir d = handing();
	struct actions out;

	ck_assert_int_eq(take(&c, &d, MSG_DONE, OTHER, &out), -EBADMSG);
	ck_assert_int_eq(take(&c, &d, MSG_DONE, USER, &out), 0);
	adopts(&out);
	ck_assert_uint_eq(d.state, DIR_MOVED);
	ck_assert_uint_eq(d.phase, DIR_HOMING);
	ck_assert_uint_eq(d.owner, USER);
	ck_assert_uint_eq(d.copyset, 0);
	ck_assert_int_eq(take(&c, &d, MSG_READ_REQ, OTHER, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&c, &d, MSG_HOME_ACK, OTHER, &out), -EBADMSG);
	ck_assert_int_eq(take(&c, &d, MSG_HOME_ACK, USER, &out), 0);
	ck_assert_str_eq(unit_text(&out), "resume");
}

UNIT_TEST(a_home_asks_the_manager_first)
{
	struct dir_ctx c = at(HOME);
	struct dir d = handing();
	struct actions out;
	struct msg turn, no = from(MSG_MOVE_ACK, MANAGER, HOME, HOME);

	forwarded = 77;
	ck_assert_int_eq(take(&c, &d, MSG_DONE, USER, &out), 0);
	ck_assert_str_eq(unit_text(&out), "MOVE");
	ck_assert_uint_eq(out.v[0].msg.value, 77);
	ck_assert_int_eq(take(&c, &d, MSG_READ_REQ, OTHER, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(take(&c, &d, MSG_MOVE_ACK, OTHER, &out), -EBADMSG);
	/* Refused: all is as it was, and whoever waits is served. */
	no.count = -EBUSY;
	ck_assert_int_eq(dir_step(&c, &d, &no, &out), 0);
	ck_assert_str_eq(unit_text(&out), "resume");
	ck_assert_uint_eq(d.state, DIR_EXCLUSIVE);
	ck_assert_uint_eq(d.uses, 0);
	turn = unit_action(&out, ACT_RESUME, 0)->msg;
	ck_assert_int_eq(dir_step(&c, &d, &turn, &out), 0);
	ck_assert_str_eq(unit_text(&out), "FWD_READ");
	ck_assert_int_eq(take(&c, &d, MSG_MOVE_ACK, MANAGER, &out), -EBADMSG);
	d = handing();
	ck_assert_int_eq(take(&c, &d, MSG_DONE, USER, &out), 0);
	ck_assert_int_eq(take(&c, &d, MSG_MOVE_ACK, MANAGER, &out), 0);
	adopts(&out);
	ck_assert_uint_eq(d.state, DIR_LEFT);
	ck_assert_uint_eq(d.phase, DIR_IDLE);
	ck_assert_uint_eq(d.owner, MANAGER);
}

/*
 * A block placed at this home moves where it is placed next. If the manager refuses, the block
 * stays, as before.
 */
UNIT_TEST(a_placed_block_stays_when_the_manager_refuses)
{
	struct dir_ctx c = at(HOME);
	unsigned int refuse;

	for (refuse = 0; refuse < 2; refuse++) {
		struct msg m = from(MSG_MOVE_ACK, MANAGER, HOME, HOME);
		struct dir d = handing();
		struct actions out;

		d.uses = DIR_STAYS;
		ck_assert_int_eq(take(&c, &d, MSG_DONE, USER, &out), 0);
		ck_assert_str_eq(unit_text(&out), "MOVE");
		m.count = refuse ? -EBUSY : 0;
		ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
		ck_assert_uint_eq(d.uses, refuse ? DIR_STAYS : 0);
	}
}

/*
 * A former home sends requests of ranks that believe in it to the manager. Other messages are
 * refused.
 */
UNIT_TEST(a_home_that_was_sends_back_who_believes_in_it)
{
	static const uint8_t states[] = { DIR_LEFT, DIR_MOVED };
	unsigned int state, flags, write;

	for (state = 0; state < 2; state++)
		for (write = 0; write < 2; write++)
			for (flags = 0; flags < 4; flags++) {
				struct dir_ctx c = at(states[state] == DIR_LEFT ? HOME : MANAGER);
				struct dir d = { .state = states[state] & 7,
						 .owner = states[state] == DIR_LEFT ? 6 : 2 };
				struct dir was = d;
				struct msg m = from(write ? MSG_WRITE_REQ : MSG_READ_REQ, OTHER,
						    c.me, OTHER);
				struct actions out;
				bool known = flags & 1, forward = flags & 2,
				     left = states[state] == DIR_LEFT;
				int err;

				forwarded = 0;
				m.flags = (uint8_t)((known ? MSGF_KNOWN : 0) |
						    (forward ? MSGF_FORWARDED : 0));
				m.src = forward ? MANAGER : OTHER;
				err = dir_step(&c, &d, &m, &out);
				ck_assert_uint_eq(forwarded, 0);
				if (forward || (left && !known)) {
					ck_assert_int_eq(err, -EBADMSG);
					ck_assert_mem_eq(&d, &was, sizeof(d));
				} else if (known) {
					ck_assert_int_eq(err, 0);
					ck_assert_str_eq(unit_text(&out), "MOVED");
					ck_assert_uint_eq(out.v[0].msg.dst, OTHER);
					ck_assert_uint_eq(out.v[0].msg.req_slot, 1);
					ck_assert_uint_eq(out.v[0].msg.value, MANAGER);
					ck_assert_mem_eq(&d, &was, sizeof(d));
				} else {
					ck_assert_int_eq(err, 0);
					ck_assert_uint_eq(out.v[0].msg.dst, USER);
					ck_assert_uint_eq(d.copyset, 1);
				}
			}
}

UNIT_TEST(a_manager_lets_a_home_move_that_has_served_all)
{
	unsigned int phase, state, src, count;

	for (state = 0; state < DIR_STATES; state++)
		for (phase = 0; phase < DIR_PHASES; phase++)
			for (src = 0; src < 2; src++)
				for (count = 6; count < 9; count++) {
					struct dir_ctx c = at(MANAGER);
					struct dir d = { .state = state & 7,
							 .phase = phase & 7,
							 .copyset = 0x10007 };
					struct msg m =
						from(MSG_MOVE, src ? HOME : OTHER, MANAGER, USER);
					bool may = state == DIR_MOVED && src;
					bool now = phase == DIR_IDLE && count == 7;
					struct actions out;

					m.value = count;
					ck_assert_int_eq(dir_step(&c, &d, &m, &out),
							 may ? 0 : -EBADMSG);
					if (!may)
						continue;
					ck_assert_str_eq(unit_text(&out), "MOVE_ACK");
					ck_assert_uint_eq(out.v[0].msg.dst, HOME);
					ck_assert_int_eq(out.v[0].msg.count, now ? 0 : -EBUSY);
					ck_assert_uint_eq(d.owner, now ? USER : HOME);
					ck_assert_uint_eq(d.phase,
							  now ? (unsigned int)DIR_HOMING : phase);
				}
}

UNIT_TEST(nobody_else_lets_a_home_move)
{
	struct dir_ctx c = at(OTHER);
	struct dir d = { .state = DIR_MOVED };
	struct msg m = from(MSG_MOVE, HOME, OTHER, USER);
	struct actions out;

	ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
	c = at(MANAGER);
	m.req_node = HOME;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
	m.req_node = RANKS;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
}

/* Ranks that become home by themselves, and a manager that becomes the home again. */
UNIT_TEST(a_home_is_adopted_in_the_right_moment_only)
{
	unsigned int state, phase, manages;

	for (manages = 0; manages < 2; manages++)
		for (state = 0; state < DIR_STATES; state++)
			for (phase = 0; phase < DIR_PHASES; phase++) {
				uint16_t me = manages ? MANAGER : USER;
				struct dir_ctx c = at(me);
				struct dir d = { .state = state & 7,
						 .phase = phase & 7,
						 .owner = me,
						 .served = me,
						 .uses = DIR_STAYS,
						 .migratory = 1 };
				struct msg m = from(MSG_ADOPT, HOME, me, me);
				bool ok = manages ? state == DIR_MOVED && phase == DIR_HOMING
						  : (state == DIR_UNTOUCHED || state == DIR_LEFT) &&
						(phase == DIR_IDLE || phase == DIR_TURN);
				struct actions out;

				m.value = MANAGER;
				ck_assert_int_eq(dir_step(&c, &d, &m, &out), ok ? 0 : -EBADMSG);
				if (!ok)
					continue;
				ck_assert_uint_eq(d.state, DIR_EXCLUSIVE);
				ck_assert_uint_eq(d.owner, me);
				ck_assert_uint_eq(d.copyset, 1ull << me);
				ck_assert_uint_eq(d.uses, 0); /* counts from before are gone */
				ck_assert_uint_eq(d.migratory, 0);
				ck_assert_str_eq(unit_text(&out), manages ? "" : "HOME_ACK");
				ck_assert_uint_eq(d.phase,
						  manages ? (unsigned int)DIR_IDLE : phase);
				if (!manages)
					ck_assert_uint_eq(out.v[0].msg.dst, MANAGER);
			}
}

/* The new home knows a different manager, or the manager waits for another rank. */
UNIT_TEST(a_home_is_not_adopted_for_a_stranger)
{
	struct dir_ctx c = at(USER);
	struct dir d = { 0 }, m6 = { .state = DIR_MOVED, .phase = DIR_HOMING, .served = OTHER };
	struct msg m = from(MSG_ADOPT, HOME, USER, USER);
	struct actions out;

	m.value = OTHER;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), -EBADMSG);
	c.manager = SET_NOBODY;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(out.v[0].msg.dst, OTHER);
	c = at(MANAGER);
	m.value = MANAGER;
	ck_assert_int_eq(dir_step(&c, &m6, &m, &out), -EBADMSG);
}

/*
 * A rank accepts only the home of its only copy as the one that makes it the home; from then on it
 * knows.
 */
UNIT_TEST(only_the_home_of_a_copy_is_adopted)
{
	unsigned int state, who;

	for (state = 0; state < PG_STATES; state++)
		for (who = 0; who < 4; who++) {
			struct copy page = { .state = (uint8_t)state,
					     .home = who == 3 ? 0 : HOME + 1,
					     .forwarded = 5 };
			struct dir dir = { 0 };
			struct dispatch d = { .me = USER,
					      .nnodes = RANKS,
					      .manager = MANAGER,
					      .queue = { .entries = nodes, .nslots = SLOTS },
					      .page = &page,
					      .dir = &dir };
			struct msg m = from(MSG_ADOPT,
					    who == 1           ? OTHER
						    : who == 2 ? USER
							       : HOME,
					    USER, USER);
			bool ok = state == PG_WRITE && !who;
			struct actions out;

			if (who == 2)
				page.home = USER + 1;
			m.value = MANAGER;
			ck_assert_int_eq(dispatch_step(&d, &m, &out), ok ? 0 : -EBADMSG);
			ck_assert_uint_eq(page.home,
					  ok || who == 2     ? USER + 1
						  : who == 3 ? 0
							     : HOME + 1);
			ck_assert_uint_eq(page.forwarded, ok ? 0 : 5);
		}
}

UNIT_TEST(a_requester_believes_only_its_home_that_it_moved)
{
	unsigned int src, slot, manager;

	for (src = 0; src < 2; src++)
		for (slot = 0; slot < 2; slot++)
			for (manager = 0; manager < 3; manager++) {
				struct copy page = { .state = PG_WANT_WRITE,
						     .home = HOME + 1,
						     .slot = 1 },
					    was = page;
				struct dir dir = { 0 };
				struct dispatch d = {
					.me = USER,
					.nnodes = RANKS,
					.manager = manager == 2 ? SET_NOBODY : MANAGER,
					.queue = { .entries = nodes, .nslots = SLOTS },
					.page = &page,
					.dir = &dir
				};
				struct msg m = from(MSG_MOVED, src ? HOME : OTHER, USER, USER);
				bool ok = src && slot && manager;
				struct actions out;

				m.req_slot = slot & 1;
				m.value = manager ? MANAGER : OTHER;
				ck_assert_int_eq(dispatch_step(&d, &m, &out), ok ? 0 : -EBADMSG);
				if (!ok) {
					ck_assert_mem_eq(&page, &was, sizeof(page));
					continue;
				}
				ck_assert_str_eq(unit_text(&out), "WRITE_REQ");
				ck_assert_uint_eq(out.v[0].msg.dst, MANAGER);
				ck_assert_uint_eq(out.v[0].msg.flags, 0);
				ck_assert_uint_eq(page.home, 0);
				ck_assert_uint_eq(page.state, PG_WANT_WRITE);
				/* If asked again, it answers the rank that is the home by then. */
				ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
			}
}

UNIT_TEST(what_was_forwarded_is_counted_when_it_is_served)
{
	struct dir_ctx c = at(HOME);
	struct dir d = owned();
	struct msg m = from(MSG_WRITE_REQ, MANAGER, HOME, USER), turn;
	struct actions out;

	d.phase = DIR_BUSY;
	m.flags = MSGF_FORWARDED;
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(forwarded, 0);
	ck_assert_int_eq(take(&c, &d, MSG_DONE, HOME, &out), 0);
	turn = unit_action(&out, ACT_RESUME, 0)->msg;
	ck_assert_int_eq(dir_step(&c, &d, &turn, &out), 0);
	ck_assert_uint_eq(forwarded, 1);
	/* A block that no rank has touched was placed here, and stays. */
	d = (struct dir){ 0 };
	ck_assert_int_eq(dir_step(&c, &d, &m, &out), 0);
	ck_assert_uint_eq(forwarded, 2);
	ck_assert_uint_eq(d.uses, DIR_STAYS);
}

UNIT_SUITE("dir_moves")
