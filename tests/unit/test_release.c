// SPDX-License-Identifier: BSD-2-Clause
/* test_release.c - core/release: each event in each state, the lists, and who may say what. */
#include "core.h"

#include "core/dispatch.h"

#define ME 0x3f1
#define HOME 0x305
#define OTHER 0x2fe
#define NODES 1024
#define SLOT 0x1234
#define OBJECT 0x87654321u
#define INDEX 3

static struct rel blocks[8];
static struct rel_lists lists;
static struct actions out;

static struct rel_ctx context(bool home)
{
	return (struct rel_ctx){ .me = ME,
				 .nnodes = NODES,
				 .home = home ? ME : HOME,
				 .run = 0x180000001,
				 .ended = 0x180000000,
				 .lists = &lists,
				 .blocks = blocks,
				 .index = INDEX };
}

/* A block in that state; at the home, it is registered for two nodes. */
static struct rel *block_in(bool home, unsigned int state)
{
	struct rel *p = &blocks[INDEX];

	memset(blocks, 0, sizeof(blocks));
	memset(&lists, 0, sizeof(lists));
	p->state = (uint8_t)state;
	p->slot = SLOT;
	if (home && state != RELH_EXCLUSIVE)
		p->copyset = set_of(HOME, 16) | set_of(OTHER, 16);
	return p;
}

static struct msg event_of(bool home, unsigned int ev)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .object = OBJECT,
			     .src = ev == RE_DATA || ev == RE_GRANT || ev == RE_TOLD || home ? HOME
											     : ME,
			     .dst = ME,
			     .req_node = ev == RE_DATA || ev == RE_GRANT ? ME : HOME,
			     .req_slot = SLOT,
			     .home = HOME,
			     .op = GRANT_READ };
}

/* The actions, and the next state; NULL: no correct node causes the event. */
struct reaction {
	const char *does;
	uint8_t next;
	int err;
};

/* Only the first home, and the next one for a while, get requests, and only the first one DONE. */
#define PASSES(state) [RE_FETCH] = { "", state, -EBADMSG }, [RE_DONE] = { "", state, -EBADMSG }

/* clang-format off */
static const struct reaction copies[REL_STATES][REL_EVENTS] = {
	[REL_NONE] = { [RE_READ] = { "READ_REQ wait", REL_FETCH, 0 }, [RE_WRITE] = { "READ_REQ wait", REL_FETCH, 0 },
		       [RE_USED] = { "", REL_NONE, 0 }, [RE_APPLY] = { "", REL_NONE, 0 }, [RE_TOLD] = { "", REL_NONE, 0 }, PASSES(REL_NONE) },
	[REL_FETCH] = { [RE_READ] = { "wait", REL_FETCH, 0 }, [RE_WRITE] = { "wait", REL_FETCH, 0 },
			[RE_USED] = { "", REL_FETCH, 0 }, [RE_DATA] = { "open ro data wake", REL_GOT, 0 },
			[RE_GRANT] = { "", REL_FETCH, -EBADMSG }, /* without MSGF_ZERO */
			[RE_APPLY] = { "", REL_AGAIN, 0 }, [RE_TOLD] = { "", REL_AGAIN, 0 }, PASSES(REL_FETCH) },
	[REL_AGAIN] = { [RE_READ] = { "wait", REL_AGAIN, 0 }, [RE_WRITE] = { "wait", REL_AGAIN, 0 },
			[RE_USED] = { "", REL_AGAIN, 0 }, [RE_DATA] = { "READ_REQ", REL_FETCH, 0 },
			[RE_GRANT] = { "", REL_AGAIN, -EBADMSG },
			[RE_APPLY] = { "", REL_AGAIN, 0 }, [RE_TOLD] = { "", REL_AGAIN, 0 }, PASSES(REL_AGAIN) },
	[REL_GOT] = { [RE_READ] = { "wait", REL_GOT, 0 }, [RE_WRITE] = { "wait", REL_GOT, 0 },
		      [RE_USED] = { "", REL_CLEAN, 0 }, [RE_APPLY] = { "", REL_GOT, -EAGAIN }, [RE_TOLD] = { "", REL_GOT, -EAGAIN }, PASSES(REL_GOT) },
	[REL_CLEAN] = { [RE_READ] = { "open ro again", REL_CLEAN, 0 }, [RE_WRITE] = { "twin open rw again", REL_OPEN, 0 },
			[RE_USED] = { "", REL_CLEAN, 0 }, [RE_APPLY] = { "close", REL_NONE, 0 }, [RE_TOLD] = { "merge", REL_CLEAN, 0 }, PASSES(REL_CLEAN) },
	[REL_RAISE] = { [RE_READ] = { "open ro again", REL_RAISE, 0 }, [RE_WRITE] = { "wait", REL_RAISE, 0 },
			[RE_USED] = { "", REL_RAISE, 0 }, [RE_GRANT] = { "wake", REL_CLEAN, 0 },
			[RE_APPLY] = { "", REL_RAISE, -EAGAIN }, [RE_TOLD] = { "merge", REL_RAISE, 0 },
			[RE_FETCH] = { "", REL_RAISE, -EBADMSG } },
	[REL_OPEN] = { [RE_READ] = { "open rw again", REL_OPEN, 0 }, [RE_WRITE] = { "open rw again", REL_OPEN, 0 },
		       [RE_USED] = { "", REL_OPEN, 0 }, [RE_APPLY] = { "", REL_STALE, 0 },
		       [RE_CHANGED] = { "", REL_OPEN, 0 }, [RE_SAME] = { "", REL_OPEN, 0 }, [RE_TOLD] = { "merge", REL_OPEN, 0 },
		       /* it has asked for nothing */
		       [RE_GIVEN] = { "", REL_OPEN, -EBADMSG }, PASSES(REL_OPEN) },
	[REL_STALE] = { [RE_READ] = { "open rw again", REL_STALE, 0 }, [RE_WRITE] = { "open rw again", REL_STALE, 0 },
			[RE_USED] = { "", REL_STALE, 0 }, [RE_APPLY] = { "", REL_STALE, 0 },
			[RE_CHANGED] = { "untwin", REL_NONE, 0 }, [RE_SAME] = { "untwin", REL_NONE, 0 }, [RE_TOLD] = { "", REL_STALE, 0 }, PASSES(REL_STALE) },
};

static const struct reaction homes[RELH_STATES][REL_EVENTS] = {
	[RELH_EXCLUSIVE] = { [RE_READ] = { "open rw again", RELH_EXCLUSIVE, 0 }, [RE_WRITE] = { "open rw again", RELH_EXCLUSIVE, 0 },
			     [RE_FETCH] = { "DATA ro<-rw", RELH_CLEAN, 0 }, [RE_FLUSH] = { "merge", RELH_EXCLUSIVE, 0 },
			     [RE_APPLY] = { "", RELH_EXCLUSIVE, 0 }, [RE_TOLD] = { "", RELH_EXCLUSIVE, -EBADMSG } },
	[RELH_CLEAN] = { [RE_READ] = { "open ro again", RELH_CLEAN, 0 }, [RE_WRITE] = { "twin open rw again", RELH_OPEN, 0 },
			 [RE_FETCH] = { "DATA ro<-rw", RELH_CLEAN, 0 }, [RE_FLUSH] = { "merge notice", RELH_CLEAN, 0 },
			     [RE_APPLY] = { "", RELH_CLEAN, 0 }, [RE_TOLD] = { "", RELH_CLEAN, -EBADMSG } },
	[RELH_OPEN] = { [RE_READ] = { "open rw again", RELH_OPEN, 0 }, [RE_WRITE] = { "open rw again", RELH_OPEN, 0 },
			[RE_FETCH] = { "DATA ro<-ro", RELH_OPEN, 0 }, [RE_FLUSH] = { "merge notice", RELH_OPEN, 0 },
			[RE_CHANGED] = { "notice untwin", RELH_EXCLUSIVE, 0 }, [RE_SAME] = { "", RELH_OPEN, 0 },
			     [RE_APPLY] = { "", RELH_OPEN, 0 }, [RE_TOLD] = { "", RELH_OPEN, -EBADMSG } },
	[RELH_LENT] = { [RE_READ] = { "open rw again", RELH_LENT, 0 }, [RE_WRITE] = { "open rw again", RELH_LENT, 0 },
			[RE_FETCH] = { "DATA ro<-ro", RELH_LENT, 0 }, [RE_FLUSH] = { "merge notice", RELH_LENT, 0 },
			[RE_CHANGED] = { "notice", RELH_EXCLUSIVE, 0 },
			     [RE_APPLY] = { "", RELH_LENT, 0 }, [RE_TOLD] = { "", RELH_LENT, -EBADMSG } },
};
/* clang-format on */

UNIT_LOOP_TEST(every_event_in_every_state_has_this_effect, 0, 2)
{
	const bool home = _i;
	unsigned int s, e;

	for (s = 0; s < (home ? (unsigned int)RELH_STATES : (unsigned int)REL_STATES); s++)
		for (e = 0; e < REL_EVENTS; e++) {
			const struct reaction *r = home ? &homes[s][e] : &copies[s][e];
			const struct rel_ctx ctx = context(home);
			struct rel *p = block_in(home, s), before = *p;
			struct msg m = event_of(home, e);
			int err = rel_step(&ctx, p, (enum rel_event)e, &m, &out);

			ck_assert_int_eq(err, r->does ? r->err : -EBADMSG);
			ck_assert_str_eq(rel_rule_name(home, s, e),
					 r->does ? rel_rule_name(home, s, e) : "-");
			if (err) {
				ck_assert_mem_eq(p, &before, sizeof(before));
				ck_assert_uint_eq(out.n, 0);
				continue;
			}
			ck_assert_str_eq(unit_text(&out), r->does);
			ck_assert_uint_eq(p->state, r->next);
			ck_assert_uint_le(out.n, ACTIONS_MAX - 1);
		}
}

UNIT_TEST(a_copy_is_requested_of_the_home_for_this_slot)
{
	const struct rel_ctx ctx = context(false);
	struct rel *p = block_in(false, REL_NONE);
	struct msg m = event_of(false, RE_WRITE);
	const struct msg *ask;

	p->slot = 0;
	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &m, &out), 0);
	ask = unit_sent(&out, MSG_READ_REQ);
	ck_assert_uint_eq(ask->src, ME);
	ck_assert_uint_eq(ask->dst, HOME);
	ck_assert_uint_eq(ask->req_node, ME);
	ck_assert_uint_eq(ask->req_slot, SLOT);
	ck_assert_uint_eq(ask->object, OBJECT);
	ck_assert_uint_eq(ask->flags, MSGF_KNOWN | MSGF_RELEASE);
	ck_assert_uint_eq(unit_action(&out, ACT_WAIT, 0)->slot, SLOT);
	ck_assert_uint_eq(p->writes, 1);
}

/* The thread that waited wanted to write: one miss. */
UNIT_TEST(a_writer_gets_a_twin_when_it_uses_the_copy)
{
	const struct rel_ctx ctx = context(false);
	struct rel *p = block_in(false, REL_FETCH);
	struct msg m = event_of(false, RE_WRITE), data = event_of(false, RE_DATA);

	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &m, &out), 0); /* joins a reader's request */
	ck_assert_int_eq(rel_step(&ctx, p, RE_DATA, &data, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_WAKE, 0)->slot, SLOT);
	ck_assert_int_eq(rel_step(&ctx, p, RE_USED, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "twin open rw again");
	ck_assert_uint_eq(p->state, REL_OPEN);
	ck_assert_uint_eq(lists.opened, INDEX + 1);
	ck_assert_uint_eq(p->writes, 0);
}

UNIT_TEST(a_copy_is_not_fetched_before_its_own_diff_is_merged)
{
	struct rel_ctx ctx = context(false);
	struct rel *p = block_in(false, REL_OPEN);
	struct msg m = event_of(false, RE_READ);

	ck_assert_int_eq(rel_step(&ctx, p, RE_APPLY, &m, &out), 0);
	ck_assert_int_eq(rel_step(&ctx, p, RE_CHANGED, &m, &out), 0);
	ck_assert_uint_eq(p->flushed, 0x80000001);
	ck_assert_int_eq(rel_step(&ctx, p, RE_READ, &m, &out), -EAGAIN);
	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &m, &out), -EAGAIN);
	ck_assert_uint_eq(p->state, REL_NONE);
	ctx.ended = ctx.run;
	ck_assert_int_eq(rel_step(&ctx, p, RE_READ, &m, &out), 0);
}

UNIT_TEST(contents_come_from_the_home_for_the_slot_that_asked)
{
	const struct rel_ctx ctx = context(false);
	struct msg good = event_of(false, RE_DATA), m;
	unsigned int i;

	for (i = 0; i < 5; i++) {
		struct rel *p = block_in(false, REL_FETCH);

		m = good;
		switch (i) {
		case 0: m.src = OTHER; break;
		case 1: m.req_slot ^= 1; break;
		case 2: m.req_node = OTHER; break;
		case 3: m.op = GRANT_WRITE; break;
		default: break;
		}
		ck_assert_int_eq(rel_step(&ctx, p, RE_DATA, &m, &out), i < 4 ? -EBADMSG : 0);
	}
}

UNIT_TEST(only_a_node_itself_asks_for_a_copy_or_flushes)
{
	const struct rel_ctx ctx = context(true);
	struct rel *p = block_in(true, RELH_CLEAN);
	struct msg m = event_of(true, RE_FETCH);

	m.req_node = OTHER;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), -EBADMSG);
	m.src = m.req_node = ME;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), -EBADMSG);
	ck_assert_int_eq(rel_step(&ctx, p, RE_FLUSH, &m, &out), -EBADMSG);
	m.src = m.req_node = NODES;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), -EBADMSG);
	ck_assert_int_eq(rel_step(&ctx, p, RE_FLUSH, &m, &out), -EBADMSG);
}

UNIT_TEST(a_fetch_registers_its_node_and_gets_contents_for_its_slot)
{
	const struct rel_ctx ctx = context(true);
	struct rel *p = block_in(true, RELH_EXCLUSIVE);
	struct msg m = event_of(true, RE_FETCH);
	const struct msg *data;

	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), 0);
	ck_assert_uint_eq(p->copyset, set_of(HOME, 16));
	data = unit_sent(&out, MSG_DATA);
	ck_assert_uint_eq(data->dst, HOME);
	ck_assert_uint_eq(data->src, ME);
	ck_assert_uint_eq(data->home, ME);
	ck_assert_uint_eq(data->req_node, HOME);
	ck_assert_uint_eq(data->req_slot, SLOT);
	ck_assert_uint_eq(data->object, OBJECT);
	ck_assert_uint_eq(data->op, GRANT_READ);
}

UNIT_TEST(a_flush_leaves_its_writer_registered_and_notes_the_others)
{
	const struct rel_ctx ctx = context(true);
	unsigned int s;

	for (s = RELH_CLEAN; s < RELH_STATES; s++) {
		struct rel *p = block_in(true, s);
		struct msg m = event_of(true, RE_FLUSH);
		const struct action *a;

		ck_assert_int_eq(rel_step(&ctx, p, RE_FLUSH, &m, &out), 0);
		a = unit_action(&out, ACT_NOTICE, 0);
		ck_assert_uint_eq(a->mask, set_of(HOME, 16) | set_of(OTHER, 16));
		ck_assert_uint_eq(a->except, HOME);
		ck_assert_uint_eq(p->copyset, set_of(HOME, 16));
		/* A writer that has been told before is not registered again. */
		p->copyset = set_of(OTHER, 16);
		ck_assert_int_eq(rel_step(&ctx, p, RE_FLUSH, &m, &out), 0);
		ck_assert_uint_eq(p->copyset, 0);
		ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
		ck_assert_uint_eq(!!unit_action(&out, ACT_UNTWIN, 0), s == RELH_OPEN);
	}
}

UNIT_TEST(what_the_home_has_written_is_noted_to_all_and_exclusive_again)
{
	const struct rel_ctx ctx = context(true);
	struct rel *p = block_in(true, RELH_OPEN);
	struct msg m = event_of(true, RE_CHANGED);

	ck_assert_int_eq(rel_step(&ctx, p, RE_CHANGED, &m, &out), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_NOTICE, 0)->mask,
			  set_of(HOME, 16) | set_of(OTHER, 16));
	ck_assert_uint_eq(unit_action(&out, ACT_NOTICE, 0)->except, ME);
	ck_assert_uint_eq(p->copyset, 0);
}

/* Two closes without a difference: before the next one, the block is lowered. */
static void step_same(const struct rel_ctx *ctx, struct rel *p, bool home)
{
	struct msg m = event_of(home, RE_SAME);
	int i;

	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(rel_lower(ctx, p), PROT_RW);
		ck_assert_int_eq(rel_step(ctx, p, RE_SAME, &m, &out), 0);
	}
	ck_assert_int_eq(rel_lower(ctx, p), PROT_RO);
}

/*
 * An open block that is not written any more is made read-only when the third close finds no
 * difference, before it is compared again.
 */
UNIT_LOOP_TEST(a_block_is_open_until_three_closes_find_no_difference, 0, 2)
{
	const bool home = _i;
	const struct rel_ctx ctx = context(home);
	struct rel *p = block_in(home, home ? (unsigned int)RELH_OPEN : (unsigned int)REL_OPEN);
	struct msg m = event_of(home, RE_SAME);

	ck_assert(rel_open(&ctx, p));
	step_same(&ctx, p, home);
	if (!home) {
		ck_assert_int_eq(rel_step(&ctx, p, RE_CHANGED, &m, &out), 0);
		step_same(&ctx, p, home);
	}
	ck_assert_int_eq(rel_step(&ctx, p, RE_SAME, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "untwin");
	ck_assert_uint_eq(p->state, home ? (unsigned int)RELH_CLEAN : (unsigned int)REL_CLEAN);
	ck_assert_int_eq(rel_prot(&ctx, p), PROT_RO);
	ck_assert(!rel_open(&ctx, p));
	/* Written again, it has three closes again; when memory is short, one. */
	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &m, &out), 0);
	step_same(&ctx, p, home);
	ck_assert(rel_seems_idle(&ctx, p));
	rel_hurry(p);
	ck_assert_int_eq(rel_lower(&ctx, p), PROT_RO);
	ck_assert(!rel_seems_idle(&ctx, p));
}

UNIT_TEST(a_block_to_be_dropped_is_closed_before_it_is_compared)
{
	const struct rel_ctx ctx = context(false);

	ck_assert_int_eq(rel_lower(&ctx, block_in(false, REL_STALE)), PROT_CLOSED);
}

UNIT_TEST(mappings_may_do_what_the_state_allows)
{
	static const uint8_t of_copy[REL_STATES] = { PROT_CLOSED, PROT_CLOSED, PROT_CLOSED,
						     PROT_CLOSED, PROT_RO,     PROT_RO,
						     PROT_RW,     PROT_RW };
	static const uint8_t of_home[RELH_STATES] = { PROT_RW, PROT_RO, PROT_RW, PROT_RW };
	const struct rel_ctx copy = context(false), home = context(true);
	unsigned int s;

	for (s = 0; s < REL_STATES; s++)
		ck_assert_int_eq(rel_prot(&copy, block_in(false, s)), of_copy[s]);
	for (s = 0; s < RELH_STATES; s++)
		ck_assert_int_eq(rel_prot(&home, block_in(true, s)), of_home[s]);
}

/* ---- who is told ----------------------------------------------------------------------------- */

static struct rel_ctx teller(void)
{
	struct rel_ctx ctx = context(true);

	ctx.me = ctx.home = 5;
	ctx.nnodes = 64;
	ctx.tells = ctx.kept = true;
	return ctx;
}

static uint64_t bits(uint16_t a, uint16_t b)
{
	return set_of(a, 1) | set_of(b, 1);
}

static void steps(const struct rel_ctx *ctx, struct rel *p, enum rel_event ev, uint16_t node)
{
	struct msg m = { .object = OBJECT, .src = node, .dst = 5, .req_node = node };

	ck_assert_int_eq(rel_step(ctx, p, ev, &m, &out), 0);
}

/* The masks of the last step: who was noted, and who was told. */
static void noted_and_told(uint64_t noted, uint64_t told, uint16_t except)
{
	const struct action *tell = told ? unit_action(&out, ACT_TELL, 0) : NULL;

	ck_assert_uint_eq(unit_action(&out, ACT_NOTICE, 0)->mask, noted);
	ck_assert_uint_eq(unit_action(&out, ACT_NOTICE, 0)->except, except);
	ck_assert_uint_eq(!!unit_action(&out, ACT_TELL, 0), !!told);
	if (tell) {
		ck_assert_uint_eq(tell->mask, told);
		ck_assert_uint_eq(tell->except, except);
	}
}

UNIT_TEST(a_node_that_has_written_is_told_twice)
{
	const struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_OPEN);
	unsigned int i;

	p->copyset = bits(3, 15) | bits(16, 63);
	p->same = 1;
	ck_assert(!rel_would_tell(&ctx, p, 5));
	steps(&ctx, p, RE_FLUSH, 15);
	noted_and_told(bits(3, 15) | bits(16, 63), 0, 15);
	ck_assert_uint_eq(p->copyset, bits(15, 15));
	p->copyset |= bits(3, 16);
	for (i = 0; i < 2; i++) {
		ck_assert(rel_would_tell(&ctx, p, 5));
		ck_assert(!rel_would_tell(&ctx, p, 15));
		ck_assert_int_eq(rel_told_writes(p), !i); /* the second time, it may only read */
		steps(&ctx, p, RE_CHANGED, 5);
		ck_assert_str_eq(unit_text(&out), "notice tell");
		noted_and_told(i ? 0 : bits(3, 16), bits(15, 15), 5);
		ck_assert_uint_eq(p->copyset, bits(15, 15));
		ck_assert_uint_eq(p->state, RELH_OPEN);
		ck_assert_uint_eq(p->same, 0);
		ck_assert_uint_eq(p->flags, REL_WRITTEN); /* its home does not move */
	}
	ck_assert(!rel_would_tell(&ctx, p, 5));
	steps(&ctx, p, RE_CHANGED, 5);
	ck_assert_str_eq(unit_text(&out), "notice untwin");
	noted_and_told(bits(15, 15), 0, 5);
	ck_assert_uint_eq(p->copyset, 0);
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
}

UNIT_TEST(a_node_that_fetches_again_after_a_notice_is_told_once)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		ctx.run += REL_SOON + 1; /* not soon */
		steps(&ctx, p, RE_FETCH, 0);
		ck_assert_uint_eq(p->steady, 0);
		ck_assert_int_eq(rel_would_tell(&ctx, p, 5), i > 0);
		ck_assert(!rel_told_writes(p));
		steps(&ctx, p, RE_WRITE, 5);
		steps(&ctx, p, RE_CHANGED, 5);
		noted_and_told(i ? 0 : bits(0, 0), i ? bits(0, 0) : 0, 5);
		if (!i)
			continue;
		steps(&ctx, p, RE_CHANGED, 5);
		noted_and_told(bits(0, 0), 0, 5);
	}
	ck_assert_uint_eq(p->uses, USE_NOTED);
	/* The fetch of a node that may be told twice takes nothing from it. */
	steps(&ctx, p, RE_FLUSH, 0);
	ck_assert_str_eq(unit_text(&out), "merge");
	ck_assert_uint_eq(p->uses, USE_MORE);
	steps(&ctx, p, RE_FETCH, 0);
	ck_assert_uint_eq(p->uses, USE_MORE);
}

/*
 * The home changes the block, in each close once, and one node or two fetch it again `late` closes
 * after each notice. Returns how many of n changes were noted.
 */
static unsigned int noted_of(struct rel_ctx *ctx, struct rel *p, unsigned int n, uint64_t readers,
			     unsigned int late)
{
	unsigned int noted = 0;

	for (; n; n--) {
		ctx->run++;
		if (!p->copyset) {
			ctx->run += late;
			steps(ctx, p, RE_FETCH, 0);
			if (readers & set_of(15, 1))
				steps(ctx, p, RE_FETCH, 15);
			steps(ctx, p, RE_WRITE, 5);
		}
		steps(ctx, p, RE_CHANGED, 5);
		ck_assert(!p->copyset || p->copyset == readers); /* all are told, or none */
		noted += !p->copyset;
	}
	return noted;
}

UNIT_TEST(a_node_that_always_fetches_again_soon_is_told_for_longer)
{
	unsigned int two, noted;

	for (two = 0; two < 2; two++) {
		const uint64_t readers = two ? bits(0, 15) : bits(0, 0);
		struct rel *p = block_in(true, RELH_EXCLUSIVE);
		struct rel_ctx ctx = teller();

		/* each time for twice as long, on average, at most for 16 changes */
		noted = noted_of(&ctx, p, 64, readers, 0);
		ck_assert_uint_ge(noted, 5);
		ck_assert_uint_le(noted, 10);
		ck_assert_uint_eq(p->steady, REL_STEADY);
		noted = noted_of(&ctx, p, 1600, readers, 1);
		ck_assert_uint_ge(noted, 80);
		ck_assert_uint_le(noted, 120);
		ck_assert_uint_eq(p->steady, REL_STEADY);
		/* late: once, as ever */
		noted_of(&ctx, p, 32, readers, REL_SOON);
		ck_assert_uint_eq(p->steady, 0);
		noted = noted_of(&ctx, p, 200, readers, REL_SOON);
		ck_assert_uint_eq(noted, 100);
		/* not by a diff of another node */
		p->steady = REL_STEADY;
		p->copyset = readers | bits(2, 2);
		p->uses = USE_LAST | (uint32_t)USE_LAST << 30;
		p->state = RELH_OPEN;
		steps(&ctx, p, RE_FLUSH, 2);
		noted_and_told(bits(2, 2), readers, 2);
		ck_assert_uint_eq(p->uses & 3, USE_NOTED);
		ck_assert_uint_eq(p->uses >> 30, two ? USE_NOTED : USE_LAST);
	}
}

UNIT_TEST(only_readers_are_told_for_longer)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_OPEN);

	/* who has written is told twice, and then as one that reads */
	p->steady = REL_STEADY;
	for (ctx.run = 0; ctx.run < 32; ctx.run++) {
		p->copyset = bits(0, 0);
		p->uses = USE_MORE;
		steps(&ctx, p, RE_CHANGED, 5);
		ck_assert_uint_eq(p->uses, USE_LAST);
	}
	/* The notice of a diff says nothing of the time. */
	p->uses = 0;
	steps(&ctx, p, RE_FLUSH, 15);
	ck_assert_str_eq(unit_text(&out), "merge notice untwin");
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
	ck_assert_uint_eq(p->steady, 0);
}

/* Of one block in 16 changes, on average, however many closes are between them. */
UNIT_LOOP_TEST(notices_come_at_any_distance_of_closes, 1, 40)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_OPEN);
	unsigned int i, gap = 0, longest = 0, noted = 0;

	p->steady = REL_STEADY;
	for (i = 0; i < 4000; i++) {
		ctx.run += (unsigned int)_i;
		p->state = RELH_OPEN;
		p->copyset = bits(0, 0);
		p->uses = USE_LAST;
		steps(&ctx, p, RE_CHANGED, 5);
		gap = p->uses == USE_NOTED ? 0 : gap + 1;
		longest = gap > longest ? gap : longest;
		noted += !gap;
	}
	ck_assert_uint_ge(noted, 4000 / 16 * 3 / 4);
	ck_assert_uint_le(noted, 4000 / 16 * 5 / 4);
	ck_assert_uint_le(longest, 200);
}

/* The number of the close is not the same for all blocks: one close does not note all of them. */
UNIT_TEST(blocks_are_not_all_noted_in_one_close)
{
	struct rel_ctx ctx = teller();
	unsigned int i, noted = 0;

	for (i = 0; i < 160; i++) {
		struct rel *p = block_in(true, RELH_OPEN);

		p->steady = REL_STEADY;
		p->copyset = bits(0, 0);
		p->uses = USE_LAST;
		ctx.run = 77;
		ctx.index = i;
		steps(&ctx, p, RE_CHANGED, 5);
		noted += p->uses == USE_NOTED;
		ck_assert_uint_eq(p->copyset, bits(0, 0)); /* told this time in any case */
	}
	ck_assert_uint_ge(noted, 5);
	ck_assert_uint_le(noted, 15);
}

UNIT_TEST(what_one_has_written_is_told_to_another)
{
	const struct rel_ctx ctx = teller();
	unsigned int s;

	for (s = RELH_CLEAN; s < RELH_STATES; s++) {
		struct rel *p = block_in(true, s);

		p->copyset = bits(1, 2) | bits(4, 4);
		p->uses = USE_LAST << 2 | USE_MORE << 4 | USE_NOTED << 8;
		steps(&ctx, p, RE_FLUSH, 2);
		ck_assert_str_eq(unit_text(&out), "merge notice tell");
		noted_and_told(bits(2, 4), bits(1, 1), 2);
		ck_assert_uint_eq(p->copyset, bits(1, 2));
		ck_assert_uint_eq(p->uses, USE_NOTED << 2 | USE_MORE << 4 | USE_NOTED << 8);
		ck_assert_uint_eq(p->state, s);
		/* Who has lost its copy meanwhile is not registered by its diff. */
		p->uses |= USE_LAST << 2;
		steps(&ctx, p, RE_FLUSH, 4);
		noted_and_told(0, bits(1, 2), 4);
		ck_assert_uint_eq(p->copyset, bits(1, 2));
		ck_assert_uint_eq(p->uses >> 8, USE_MORE);
	}
}

UNIT_TEST(nobody_is_told_without_the_diff_or_of_several_nodes)
{
	static const struct {
		bool tells, kept;
		uint16_t nodes;
		bool told;
		enum rel_use next;
	} all[] = {
		{ true, true, 64, true, USE_LAST },   { true, false, 64, false, USE_NOTED },
		{ false, true, 64, false, USE_MORE }, { true, true, 65, false, USE_MORE },
		{ true, true, 128, false, USE_MORE },
	};
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct rel_ctx ctx = teller();
		struct rel *p = block_in(true, RELH_OPEN);

		ctx.nnodes = all[i].nodes;
		ctx.tells = all[i].tells;
		ctx.kept = all[i].kept;
		p->copyset = 1;
		p->uses = USE_MORE;
		ck_assert_int_eq(rel_would_tell(&ctx, p, 5), all[i].tells && ctx.nnodes == 64);
		steps(&ctx, p, RE_CHANGED, 5);
		noted_and_told(!all[i].told, all[i].told, 5);
		ck_assert_uint_eq(p->uses, all[i].next);
	}
}

UNIT_TEST(only_registered_nodes_count_as_writers)
{
	struct rel *p = block_in(true, RELH_OPEN);

	p->uses = USE_MORE | USE_LAST << 2;
	p->copyset = bits(1, 1);
	ck_assert(!rel_told_writes(p));
	p->copyset |= bits(0, 0);
	ck_assert(rel_told_writes(p));
}

/* A notice is no diff; a new copy has nothing of the last one. */
UNIT_TEST(what_belongs_to_a_copy_ends_with_it)
{
	const struct rel_ctx ctx = context(false);
	struct rel *p = block_in(false, REL_OPEN);
	struct msg m = event_of(false, RE_APPLY);

	p->same = 2;
	ck_assert_int_eq(rel_step(&ctx, p, RE_APPLY, &m, &out), 0);
	ck_assert_uint_eq(p->state, REL_STALE);
	ck_assert_uint_eq(p->same, 2);
	p = block_in(false, REL_NONE);
	p->flags = REL_ASKS | REL_CHANGED;
	m = event_of(false, RE_READ);
	ck_assert_int_eq(rel_step(&ctx, p, RE_READ, &m, &out), 0);
	ck_assert_uint_eq(p->flags, 0);
}

/* Without it, what nodes use is not noted either. */
UNIT_TEST(a_host_that_tells_nobody_notes_no_use)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);

	ctx.tells = false;
	p->uses = USE_NOTED << 2;
	steps(&ctx, p, RE_FETCH, 1);
	steps(&ctx, p, RE_FLUSH, 1);
	steps(&ctx, p, RE_FLUSH, 2);
	steps(&ctx, p, RE_FLUSH, 1);
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
	ck_assert_uint_eq(p->uses, USE_NOTED << 2);
}

/* ---- blocks that are lent -------------------------------------------------------------------- */

/* A node fetches the block, and the home rewrites it so many closes later, as without lending. */
static void rewrite_after(struct rel_ctx *ctx, struct rel *p, unsigned int closes)
{
	steps(ctx, p, RE_FETCH, 1);
	ck_assert_str_eq(unit_text(&out), "DATA ro<-rw");
	ck_assert_uint_eq(p->state, RELH_CLEAN);
	ctx->run += closes;
	steps(ctx, p, RE_WRITE, 5);
	ck_assert_uint_eq(rel_next_open(&blocks[rel_take_open(&lists) - 1]), 0);
	steps(ctx, p, RE_CHANGED, 5);
	ck_assert_str_eq(unit_text(&out), ctx->kept ? "notice tell" : "notice untwin");
}

static void lends(const struct rel_ctx *ctx, struct rel *p)
{
	ck_assert(rel_lends(ctx, p));
	steps(ctx, p, RE_FETCH, 1);
	ck_assert_str_eq(unit_text(&out), "DATA ro<-ro");
	steps(ctx, p, RE_FETCH, 2);
	ck_assert_str_eq(unit_text(&out), "DATA ro<-ro");
	ck_assert(rel_lent(ctx, p) && !rel_lends(ctx, p) && !rel_open(ctx, p));
	ck_assert_uint_eq(rel_next_open(&blocks[rel_take_open(&lists) - 1]), 0);
	steps(ctx, p, RE_CHANGED, 5);
	ck_assert_str_eq(unit_text(&out), "notice");
	noted_and_told(bits(1, 2), 0, 5);
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
	ck_assert_uint_eq(p->copyset, 0);
	ck_assert_uint_eq(p->same, (uint8_t)ctx->run);
}

UNIT_TEST(a_home_lends_what_it_rewrites_soon_after_a_fetch)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);
	unsigned int i, turn;

	ctx.kept = false;
	ctx.lends = 3;
	ctx.run = 0x1fe; /* its lower byte returns to 0 */
	rewrite_after(&ctx, p, REL_SOON);
	rewrite_after(&ctx, p, 0);
	for (turn = 0; turn < 3; turn++) {
		for (i = 0; i < REL_LENDS; i++)
			lends(&ctx, p);
		/* Is that still right? */
		rewrite_after(&ctx, p, 1);
	}
	for (i = 0; i < REL_LENDS; i++)
		lends(&ctx, p);
	/* It is not: a node may have used its copy more than once. */
	rewrite_after(&ctx, p, REL_SOON + 1);
	rewrite_after(&ctx, p, REL_SOON);
	ck_assert(!rel_lends(&ctx, p));
	rewrite_after(&ctx, p, REL_SOON);
	ck_assert(rel_lends(&ctx, p));
	ctx.lends = 0;
	ck_assert(!rel_lends(&ctx, p));
	rewrite_after(&ctx, p, 0);
}

UNIT_TEST(a_home_does_not_lend_what_it_tells)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);

	ctx.kept = false;
	ctx.lends = 2;
	rewrite_after(&ctx, p, 0);
	ck_assert(rel_lends(&ctx, p));
	ctx.kept = true;
	p->rewrites = 0;
	p->uses = USE_MORE << 2;
	rewrite_after(&ctx, p, 0);
	ck_assert_uint_eq(p->rewrites, 0);
	ck_assert_uint_eq(p->state, RELH_OPEN);
}

UNIT_TEST(rewrites_are_counted_as_far_as_they_count)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);
	unsigned int i;

	ctx.kept = false;
	ctx.lends = 1;
	for (i = 1; i <= REL_LENDS; i++) {
		lends(&ctx, p);
		ck_assert_uint_eq(p->rewrites, i % REL_LENDS);
	}
	ctx.lends = 3;
	for (i = 0; i < 4; i++) {
		p->state = RELH_OPEN;
		p->copyset = bits(1, 1);
		p->flags = REL_SOON_WRITTEN;
		steps(&ctx, p, RE_CHANGED, 5);
		ck_assert_uint_eq(p->rewrites, i ? 2 : 1);
	}
}

/* Only those that come soon after the first copy has left, whatever else the home knows. */
UNIT_TEST(later_rewrites_are_none)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_OPEN);

	ctx.kept = false;
	ctx.lends = 3;
	p->flags = REL_WRITTEN;
	p->rewrites = 1;
	steps(&ctx, p, RE_CHANGED, 5);
	ck_assert_uint_eq(p->rewrites, 0);
}

/* "Soon" is after the first copy has left. */
UNIT_TEST(later_copies_do_not_change_the_time)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);

	ctx.run = 0x1234;
	steps(&ctx, p, RE_FETCH, 1);
	ck_assert_uint_eq(p->same, 0x34);
	ctx.run++;
	steps(&ctx, p, RE_FETCH, 2);
	ck_assert_uint_eq(p->same, 0x34);
}

/* Of who has asked for it, and of no other block. */
UNIT_TEST(a_home_moves_rather_than_lends)
{
	struct rel_ctx ctx = teller();
	struct rel *p = block_in(true, RELH_EXCLUSIVE);
	struct msg m = {
		.type = MSG_WRITE_REQ, .object = OBJECT, .src = 1, .dst = 5, .req_node = 1
	};

	ctx.lends = 1;
	ctx.follow = true;
	p->rewrites = 4;
	p->only = 0;
	ck_assert(rel_lends(&ctx, p));
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DATA)->op, GRANT_WRITE);
	ck_assert_uint_eq(p->writes, 0);
	/* Nor does it move while it is lent. */
	p = block_in(true, RELH_LENT);
	p->only = 2;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DATA)->op, GRANT_READ);
	ck_assert_uint_eq(p->state, RELH_LENT);
}

UNIT_TEST(only_the_home_tells)
{
	struct rel_ctx ctx = context(false);
	struct rel *p = block_in(false, REL_OPEN);
	struct msg m = event_of(false, RE_TOLD);

	m.src = OTHER;
	ck_assert_int_eq(rel_step(&ctx, p, RE_TOLD, &m, &out), -EBADMSG);
	p->home = OTHER + 1;
	ck_assert_int_eq(rel_step(&ctx, p, RE_TOLD, &m, &out), 0);
	/* What the first home has told is in the contents that came with the home. */
	m.src = HOME;
	for (p->state = 0; p->state < RELH_STATES; p->state++) {
		p->home = ME + 1;
		ck_assert_int_eq(rel_step(&ctx, p, RE_TOLD, &m, &out), 0);
		ck_assert_str_eq(unit_text(&out), "");
	}
}

UNIT_TEST(a_list_has_each_block_once_and_is_taken_whole)
{
	struct rel_ctx ctx = context(false);
	unsigned int i, seen = 0;
	uint32_t entry;

	block_in(false, REL_NONE);
	for (i = 0; i < 8; i++)
		blocks[i].state = REL_OPEN;
	for (i = 0; i < 16; i++) {
		ctx.index = i % 8;
		rel_list_open(&ctx, &blocks[i % 8]);
		rel_notice(&lists, blocks, i % 8);
	}
	for (entry = rel_take_notices(&lists); entry; entry = rel_next_notice(&blocks[entry - 1]))
		seen++;
	ck_assert_uint_eq(seen, 8);
	ck_assert_uint_eq(rel_take_notices(&lists), 0);
	for (entry = rel_take_open(&lists); entry; entry = rel_next_open(&blocks[entry - 1])) {
		/* Until it has left the list, it does not join another. */
		ctx.index = entry - 1;
		rel_list_open(&ctx, &blocks[entry - 1]);
		ck_assert_uint_eq(lists.opened, 0);
		seen++;
	}
	ck_assert_uint_eq(seen, 16);
	rel_notice(&lists, blocks, 5);
	ck_assert_uint_eq(rel_take_notices(&lists), 6);
	blocks[3].state = REL_CLEAN;
	rel_list_open(&ctx, &blocks[3]);
	ck_assert_uint_eq(lists.opened, 0);
}

UNIT_TEST(a_list_has_blocks_with_large_numbers)
{
	enum { FIRST = 0x10000, SECOND = 0x20001 };
	static struct rel many[SECOND + 1];
	struct rel_ctx ctx = context(false);
	unsigned int i;

	block_in(false, REL_NONE);
	for (i = 0; i < 2; i++) {
		ctx.index = i ? SECOND : FIRST;
		many[ctx.index].state = REL_OPEN;
		rel_notice(&lists, many, ctx.index);
		rel_list_open(&ctx, &many[ctx.index]);
	}
	ck_assert_uint_eq(rel_take_notices(&lists), SECOND + 1);
	ck_assert_uint_eq(rel_take_open(&lists), SECOND + 1);
	ck_assert_uint_eq(rel_next_notice(&many[SECOND]), FIRST + 1);
	ck_assert_uint_eq(rel_next_open(&many[SECOND]), FIRST + 1);
	ck_assert_uint_eq(rel_next_notice(&many[FIRST]), 0);
	ck_assert_uint_eq(rel_next_open(&many[FIRST]), 0);
}

/* A release block has few messages; a sequential one has none of them. */
UNIT_TEST(a_release_block_takes_no_message_of_the_sequential_ones)
{
	const struct rel_ctx ctx = context(true);
	struct dispatch d = { .me = ME, .nnodes = NODES, .rel_ctx = &ctx };
	uint32_t number;
	unsigned int t;

	for (t = 0; t < MSG_TYPES; t++) {
		struct msg m = event_of(true, RE_FETCH);

		m.type = (uint8_t)t;
		d.rel = block_in(true, RELH_CLEAN);
		if (dispatch_target(&m, &number) == TARGET_BLOCK)
			ck_assert_int_eq(dispatch_step(&d, &m, &out),
					 t == MSG_READ_REQ || t == MSG_WRITE_REQ ? 0 : -EBADMSG);
	}
}

UNIT_LOOP_TEST(a_name_without_a_state_or_an_event_is_a_question_mark, 0, 2)
{
	const bool home = _i;
	const unsigned int states = home ? (unsigned int)RELH_STATES : (unsigned int)REL_STATES;
	unsigned int i;

	for (i = 0; i < states; i++) {
		ck_assert_str_ne(rel_state_name(home, i), "?");
		ck_assert_str_eq(rel_state_name(home, states + i), "?");
		ck_assert_str_eq(rel_rule_name(home, i, REL_EVENTS), "-");
	}
	for (i = 0; i < REL_EVENTS; i++) {
		ck_assert_str_ne(rel_event_name(i), "?");
		ck_assert_str_eq(rel_event_name(REL_EVENTS + i), "?");
		ck_assert_str_eq(rel_rule_name(home, states, i), "-");
	}
}

UNIT_SUITE("release")
