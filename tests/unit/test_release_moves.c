// SPDX-License-Identifier: BSD-2-Clause
/* test_release_moves.c - core/release: the home of a block moves to the node that writes it. */
#include "core.h"

#include "core/dispatch.h"

#define FIRST 0x305
#define NEXT 0x3f1
#define THIRD 0x2fe
#define NODES 1024
#define SLOT 0x1234
#define OBJECT 0x87654321u

static struct rel blocks[1];
static struct rel_lists lists;
static uint32_t given;
static struct actions out;

static struct rel_ctx at(uint16_t me)
{
	return (struct rel_ctx){ .me = me,
				 .nnodes = NODES,
				 .home = FIRST,
				 .follow = true,
				 .run = 7,
				 .ended = 7,
				 .lists = &lists,
				 .given = &given,
				 .blocks = blocks };
}

static struct rel *block_in(unsigned int state)
{
	memset(blocks, 0, sizeof(blocks));
	memset(&lists, 0, sizeof(lists));
	blocks->state = (uint8_t)state;
	return blocks;
}

static struct msg message(uint8_t type, uint16_t src, uint16_t dst, uint16_t req_node)
{
	struct msg m = unit_msg(type, src, dst, req_node, SLOT);

	m.object = OBJECT;
	m.op = GRANT_READ;
	return m;
}

static int step(uint16_t me, struct rel *p, enum rel_event ev, const struct msg *m)
{
	struct rel_ctx ctx = at(me);

	ctx.asks = ev == RE_CHANGED && rel_asks(&ctx, p);
	return rel_step(&ctx, p, ev, m, &out);
}

static int request(uint16_t me, struct rel *p, uint8_t type, uint16_t from)
{
	const struct msg m = message(type, from, me, from);

	return step(me, p, RE_FETCH, &m);
}

static int local(uint16_t me, struct rel *p, enum rel_event ev)
{
	const struct msg m = message(0, me, me, me);

	return step(me, p, ev, &m);
}

static int data(struct rel *p, uint16_t src, uint8_t op)
{
	struct msg m = message(MSG_DATA, src, NEXT, NEXT);

	m.op = op;
	return step(NEXT, p, RE_DATA, &m);
}

static bool moves(void)
{
	const struct msg *m = unit_sent(&out, MSG_DATA);

	return m && m->op == GRANT_WRITE;
}

/* ---- the node that asks ---------------------------------------------------------------------- */

UNIT_TEST(a_writer_asks_the_first_home_for_the_home_and_a_reader_does_not)
{
	struct rel *p = block_in(REL_NONE);
	const struct msg *ask;

	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_READ_REQ));
	p = block_in(REL_NONE);
	p->flags = REL_ASKS; /* it asked another time */
	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_READ_REQ));
	p = block_in(REL_NONE);
	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	ask = unit_sent(&out, MSG_WRITE_REQ);
	ck_assert_uint_eq(ask->dst, FIRST);
	ck_assert_uint_eq(ask->flags, MSGF_KNOWN | MSGF_RELEASE);
	ck_assert_uint_eq(p->flags, REL_ASKED);
}

UNIT_TEST(where_homes_stay_a_writer_asks_for_a_copy)
{
	struct rel_ctx ctx = at(NEXT);
	struct rel *p = block_in(REL_NONE);
	struct msg m = message(0, NEXT, NEXT, NEXT);

	ctx.follow = false;
	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &m, &out), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_READ_REQ));
	p = block_in(REL_OPEN);
	ck_assert_int_eq(rel_step(&ctx, p, RE_CHANGED, &m, &out), 0);
	ck_assert_uint_eq(p->flags, 0);
	ctx = at(FIRST);
	ctx.follow = false;
	p = block_in(RELH_EXCLUSIVE);
	m = message(MSG_WRITE_REQ, NEXT, FIRST, NEXT);
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), 0);
	ck_assert(!moves());
	/* when the node knows the region, homes may move */
	ck_assert_uint_eq(p->only, NEXT + 1);
}

/* After the close has sent the diff, before it ends. */
static int later(struct rel *p, enum rel_event ev, uint16_t src)
{
	const struct msg m = message(MSG_FLUSHED, src, NEXT, NEXT);
	struct rel_ctx ctx = at(NEXT);

	ctx.ended = 6;
	return rel_step(&ctx, p, ev, &m, &out);
}

static struct rel *asking(void)
{
	const struct rel_ctx ctx = at(NEXT);
	struct rel *p = block_in(REL_OPEN);

	ck_assert(!rel_asks(&ctx, p));
	ck_assert_int_eq(local(NEXT, p, RE_CHANGED), 0);
	ck_assert_uint_eq(p->flags, REL_CHANGED);
	ck_assert_int_eq(local(NEXT, p, RE_SAME), 0); /* between them it is not written */
	ck_assert(rel_asks(&ctx, p));
	ck_assert_uint_eq(rel_lower(&ctx, p), PROT_RW);
	ck_assert_int_eq(local(NEXT, p, RE_CHANGED), 0);
	ck_assert_str_eq(unit_text(&out), "");
	ck_assert_uint_eq(p->state, REL_OPEN);
	ck_assert_uint_eq(p->flags, REL_ASKS | REL_CHANGED);
	ck_assert_uint_eq(p->flushed, 7);
	return p;
}

UNIT_TEST(the_diff_of_the_second_close_asks_for_the_home)
{
	const struct rel_ctx ctx = at(NEXT);
	struct rel *p = asking();

	ck_assert_int_eq(later(p, RE_GIVEN, THIRD), -EBADMSG);
	ck_assert_int_eq(local(NEXT, p, RE_GIVEN), -EBADMSG); /* the close has ended */
	p->flushed = 6;
	ck_assert_int_eq(later(p, RE_GIVEN, FIRST), -EBADMSG); /* of a former close */
	p->flushed = 7;
	p->flags = REL_CHANGED;
	ck_assert_int_eq(later(p, RE_GIVEN, FIRST), -EBADMSG); /* it has not asked */
	p->flags = REL_ASKS;
	ck_assert_int_eq(later(p, RE_GIVEN, FIRST), 0);
	ck_assert_str_eq(unit_text(&out), "DONE");
	ck_assert_uint_eq(unit_sent(&out, MSG_DONE)->dst, FIRST);
	ck_assert_uint_eq(rel_home(&ctx, p), NEXT);
	ck_assert_uint_eq(p->state, RELH_OPEN);
	ck_assert_uint_eq(p->copyset, set_of(FIRST, 16));
	ck_assert_uint_eq(p->only, REL_SEVERAL);
	ck_assert_uint_eq(p->flags, 0);
	ck_assert_uint_eq(p->uses, 0);
	ck_assert(!rel_asks(&ctx, p));
}

UNIT_TEST(a_copy_that_may_be_the_master_stays)
{
	struct rel *p = asking();

	ck_assert_int_eq(later(p, RE_APPLY, FIRST), -EAGAIN);
	ck_assert_uint_eq(p->state, REL_OPEN);
	ck_assert_int_eq(local(NEXT, p, RE_APPLY), 0);
	ck_assert_uint_eq(p->state, REL_STALE);
	/* what it writes next is refused, not forgotten */
	ck_assert_int_eq(later(p, RE_GIVEN, FIRST), -EBADMSG);
}

/* Others write the block, too: neither node would be the better home. */
UNIT_TEST(what_others_change_between_asks_for_nothing)
{
	const struct rel_ctx ctx = at(NEXT);
	const struct msg m = message(MSG_NOTE, FIRST, NEXT, FIRST);
	struct rel *p = asking();

	ck_assert_int_eq(step(NEXT, p, RE_TOLD, &m), 0);
	ck_assert(!rel_asks(&ctx, p));
	ck_assert_int_eq(local(NEXT, p, RE_CHANGED), 0);
	ck_assert_uint_eq(p->flags, REL_CHANGED);
	/* noted, and applied later; then fetched again */
	ck_assert(rel_asks(&ctx, p));
	p->noticed = 1;
	ck_assert(!rel_asks(&ctx, p));
	p->noticed = 0;
	p->state = REL_NONE;
	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_READ_REQ));
	ck_assert_uint_eq(p->flags, 0);
}

/* What it is the home of could not go. */
UNIT_TEST(a_full_node_asks_for_no_home)
{
	struct rel_ctx ctx = at(NEXT);
	struct rel *p = block_in(REL_NONE);
	struct msg m = message(0, NEXT, NEXT, NEXT);

	ctx.full = true;
	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &m, &out), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_READ_REQ));
	p = block_in(REL_OPEN);
	p->flags = REL_CHANGED;
	ck_assert(!rel_asks(&ctx, p));
	ck_assert_int_eq(rel_step(&ctx, p, RE_CHANGED, &m, &out), 0);
	ck_assert_uint_eq(p->flags, REL_CHANGED);
}

/* ---- a store to a copy asks for the home ----------------------------------------------------- */

static int stores(struct rel *p)
{
	const struct msg m = message(0, NEXT, NEXT, NEXT);
	struct rel_ctx ctx = at(NEXT);

	ctx.raises = true;
	return rel_step(&ctx, p, RE_WRITE, &m, &out);
}

static int answer(struct rel *p, uint16_t src, uint8_t op)
{
	struct msg m = message(MSG_GRANT, src, NEXT, NEXT);

	m.op = op;
	return step(NEXT, p, RE_GRANT, &m);
}

static struct rel *raising(void)
{
	struct rel *p = block_in(REL_CLEAN);
	const struct msg *ask;

	ck_assert_int_eq(stores(p), 0);
	ck_assert_str_eq(unit_text(&out), "WRITE_REQ wait");
	ask = unit_sent(&out, MSG_WRITE_REQ);
	ck_assert_uint_eq(ask->dst, FIRST);
	ck_assert_uint_eq(ask->flags, MSGF_KNOWN | MSGF_RELEASE | MSGF_HAS);
	ck_assert_uint_eq(ask->req_slot, SLOT);
	ck_assert_uint_eq(p->state, REL_RAISE);
	return p;
}

UNIT_TEST(a_store_to_a_copy_asks_for_the_home_and_gets_it)
{
	const struct rel_ctx ctx = at(NEXT);
	struct rel *p = raising();

	ck_assert_int_eq(answer(p, THIRD, GRANT_WRITE), -EBADMSG);
	p->slot = SLOT + 1;
	ck_assert_int_eq(answer(p, FIRST, GRANT_WRITE), -EBADMSG);
	p->slot = SLOT;
	ck_assert_int_eq(answer(p, FIRST, GRANT_WRITE), 0);
	ck_assert_str_eq(unit_text(&out), "open rw upgrade wake");
	ck_assert_uint_eq(p->state, REL_GOT);
	ck_assert_int_eq(local(NEXT, p, RE_APPLY), -EAGAIN);
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_str_eq(unit_text(&out), "DONE");
	ck_assert_uint_eq(unit_sent(&out, MSG_DONE)->dst, FIRST);
	ck_assert_uint_eq(rel_home(&ctx, p), NEXT);
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
	ck_assert_uint_eq(p->flags, 0);
}

UNIT_TEST(a_store_that_was_refused_makes_a_twin_and_no_later_one_asks)
{
	struct rel *p = raising();
	struct msg m;

	ck_assert_int_eq(answer(p, FIRST, GRANT_READ), 0);
	ck_assert_str_eq(unit_text(&out), "wake");
	ck_assert_uint_eq(p->state, REL_CLEAN);
	ck_assert_uint_eq(p->flags, REL_REFUSED);
	ck_assert_int_eq(stores(p), 0);
	ck_assert_str_eq(unit_text(&out), "twin open rw again");
	/* nor after the next fetch */
	p->state = REL_NONE;
	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_int_eq(data(p, FIRST, GRANT_READ), 0);
	/* the thread that was refused comes late */
	m = message(0, NEXT, NEXT, NEXT);
	m.req_slot = SLOT + 1;
	ck_assert_int_eq(step(NEXT, p, RE_USED, &m), 0);
	ck_assert_uint_eq(p->state, REL_GOT);
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_uint_eq(p->state, REL_CLEAN);
	ck_assert_int_eq(stores(p), 0);
	ck_assert_str_eq(unit_text(&out), "twin open rw again");
}

UNIT_TEST(a_store_asks_only_if_that_may_help)
{
	struct rel_ctx ctx = at(NEXT);
	struct rel *p = block_in(REL_CLEAN);

	ck_assert(!rel_raises(&ctx, p));
	ctx.raises = true;
	ck_assert(rel_raises(&ctx, p));
	ctx.full = true;
	ck_assert(!rel_raises(&ctx, p));
	ctx.full = false;
	ctx.follow = false;
	ck_assert(!rel_raises(&ctx, p));
	ctx.follow = true;
	p->noticed = 1;
	ck_assert(!rel_raises(&ctx, p));
	p->noticed = 0;
	p->home = THIRD + 1;
	ck_assert(!rel_raises(&ctx, p));
	p->home = 0;
	p->state = REL_OPEN;
	ck_assert(!rel_raises(&ctx, p));
}

static int raise_of(struct rel *p, uint16_t me, uint16_t from)
{
	struct msg m = message(MSG_WRITE_REQ, from, me, from);

	m.flags = MSGF_HAS;
	return step(me, p, RE_FETCH, &m);
}

/* No contents leave. */
UNIT_TEST(a_home_that_does_not_write_is_given_to_a_copy)
{
	const struct rel_ctx ctx = at(FIRST);
	struct rel *p = block_in(RELH_EXCLUSIVE);

	ck_assert_int_eq(raise_of(p, FIRST, NEXT), 0); /* its copy was noted */
	ck_assert_str_eq(unit_text(&out), "GRANT");
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->op, GRANT_READ);
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
	ck_assert_int_eq(request(FIRST, p, MSG_READ_REQ, NEXT), 0);
	p->state = RELH_OPEN;
	ck_assert_int_eq(raise_of(p, FIRST, NEXT), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->op, GRANT_READ);
	p->state = RELH_CLEAN;
	ck_assert_int_eq(raise_of(p, FIRST, THIRD), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->op, GRANT_READ);
	ck_assert_int_eq(raise_of(p, FIRST, NEXT), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->op, GRANT_WRITE);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->home, FIRST);
	ck_assert_uint_eq(rel_home(&ctx, p), NEXT);
	ck_assert_uint_eq(p->state, REL_CLEAN);
	ck_assert_uint_eq(p->flags, REL_MOVING);
	ck_assert_uint_eq(lists.notices, 1);
	/* it is not there to be asked again, nor is any other node that is not the first home */
	ck_assert_int_eq(raise_of(p, FIRST, NEXT), -EBADMSG);
	p = block_in(RELH_CLEAN);
	p->home = THIRD + 1;
	ck_assert_int_eq(raise_of(p, THIRD, NEXT), -EBADMSG);
}

UNIT_TEST(a_reader_whose_copy_comes_has_not_asked)
{
	struct rel *p = block_in(REL_NONE);

	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_int_eq(data(p, FIRST, GRANT_READ), 0);
	ck_assert_uint_eq(p->flags, 0);
	ck_assert_uint_eq(p->home, 0);
}

/* ---- the first home -------------------------------------------------------------------------- */

UNIT_TEST(the_first_writer_gets_the_home_and_the_first_home_keeps_a_copy)
{
	static const uint8_t states[] = { RELH_EXCLUSIVE, RELH_CLEAN };
	const struct rel_ctx ctx = at(FIRST);
	const struct msg *m;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct rel *p = block_in(states[i]);

		if (i) {
			p->copyset = set_of(NEXT, 16);
			p->only = NEXT + 1;
		}
		ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
		ck_assert_str_eq(unit_text(&out), "DATA ro<-rw");
		m = unit_sent(&out, MSG_DATA);
		ck_assert_uint_eq(m->op, GRANT_WRITE);
		ck_assert_uint_eq(m->dst, NEXT);
		ck_assert_uint_eq(rel_home(&ctx, p), NEXT);
		ck_assert_uint_eq(p->state, REL_CLEAN);
		ck_assert_uint_eq(p->copyset, 0);
		ck_assert_uint_eq(p->slot, 0);
		ck_assert_uint_eq(p->flags, REL_MOVING);
	}
}

/* Open at the home, of which one other node has had a copy. */
static struct rel *open_at_home(void)
{
	struct rel *p = block_in(RELH_OPEN);

	p->copyset = set_of(NEXT, 16);
	p->only = NEXT + 1;
	return p;
}

/* The home may have opened it ahead of a store. */
UNIT_TEST(the_home_of_an_open_block_moves_if_it_has_not_changed_it)
{
	const struct rel_ctx ctx = at(FIRST);
	struct rel *p = open_at_home();

	p->uses = (uint32_t)USE_MORE << 2;
	p->flags = REL_CHANGED; /* that of a copy says nothing */
	ck_assert_int_eq(request(FIRST, p, MSG_READ_REQ, NEXT), 0);
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(moves());
	ck_assert_str_eq(unit_text(&out), "untwin DATA ro<-rw");
	ck_assert_int_eq(rel_prot(&ctx, p), PROT_RO);
	ck_assert_uint_eq(p->flushed, 0);
	p = open_at_home();
	p->flags = REL_WRITTEN;
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(!moves());
	ck_assert_int_eq(p->state, RELH_OPEN);
	/* clean, and opened again */
	p->state = RELH_CLEAN;
	ck_assert_int_eq(local(FIRST, p, RE_WRITE), 0);
	ck_assert_int_eq(p->state, RELH_OPEN);
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(moves());
}

static int flush(struct rel *p, uint16_t writer, uint8_t op)
{
	struct msg m = message(MSG_FLUSH, writer, FIRST, writer);

	m.op = op;
	return step(FIRST, p, RE_FLUSH, &m);
}

static bool gives(void)
{
	const uint32_t first = rel_take_given(&given);

	if (!first)
		return false;
	ck_assert_uint_eq(first, 1);
	ck_assert_uint_eq(blocks->noticed, 1);
	ck_assert_uint_eq(rel_next_notice(blocks), 0);
	ck_assert_uint_eq(blocks->noticed, 0);
	return true;
}

UNIT_TEST(a_home_that_does_not_write_is_given_to_the_writer_that_asks)
{
	const struct rel_ctx ctx = at(FIRST);
	struct rel *p = open_at_home();

	ck_assert_int_eq(flush(p, NEXT, GRANT_WRITE), 0);
	ck_assert(!gives()); /* the writer has not got its stores */
	p->state = RELH_CLEAN;
	ck_assert_int_eq(flush(p, NEXT, GRANT_READ), 0);
	ck_assert(!gives());
	ck_assert_int_eq(flush(p, NEXT, GRANT_WRITE), 0);
	ck_assert(gives());
	ck_assert_str_eq(unit_text(&out), "merge");
	ck_assert_uint_eq(rel_home(&ctx, p), NEXT);
	ck_assert_uint_eq(p->state, REL_CLEAN);
	ck_assert_uint_eq(p->copyset, 0);
	ck_assert_uint_eq(p->slot, 0);
	ck_assert_uint_eq(p->flushed, 0);
	ck_assert_uint_eq(p->flags, REL_MOVING);
	ck_assert_int_eq(local(FIRST, p, RE_WRITE), -EAGAIN);
}

UNIT_TEST(a_home_is_given_to_no_writer_that_is_not_the_only_other_node)
{
	struct rel_ctx ctx = at(FIRST);
	struct msg m = message(MSG_FLUSH, NEXT, FIRST, NEXT);
	struct rel *p = open_at_home();

	p->state = RELH_CLEAN;
	p->only = REL_SEVERAL;
	ck_assert_int_eq(flush(p, NEXT, GRANT_WRITE), 0);
	ck_assert(!gives());
	p->only = THIRD + 1;
	ck_assert_int_eq(flush(p, NEXT, GRANT_WRITE), 0);
	ck_assert(!gives());
	/* its copy is too old, and nobody is registered */
	p = block_in(RELH_EXCLUSIVE);
	p->only = NEXT + 1;
	ck_assert_int_eq(flush(p, NEXT, GRANT_WRITE), 0);
	ck_assert(!gives());
	/* noted by a faulty node */
	p = open_at_home();
	p->state = RELH_CLEAN;
	p->noticed = 1;
	ck_assert_int_eq(flush(p, NEXT, GRANT_WRITE), 0);
	ck_assert(!gives());
	ck_assert_uint_eq(p->state, RELH_CLEAN);
	p = open_at_home();
	p->state = RELH_CLEAN;
	ctx.follow = false;
	m.op = GRANT_WRITE;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FLUSH, &m, &out), 0);
	ck_assert(!gives());
	/* a home that has moved */
	ctx = at(THIRD);
	p = open_at_home();
	p->state = RELH_CLEAN;
	p->home = THIRD + 1;
	m = message(MSG_FLUSH, NEXT, THIRD, NEXT);
	m.op = GRANT_WRITE;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FLUSH, &m, &out), 0);
	ck_assert(!gives());
}

UNIT_TEST(the_home_stays_where_a_third_node_had_a_copy)
{
	struct rel *p = open_at_home();

	p->only = REL_SEVERAL;
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(!moves());
	p = block_in(RELH_EXCLUSIVE);
	ck_assert_int_eq(request(FIRST, p, MSG_READ_REQ, THIRD), 0);
	ck_assert_uint_eq(p->only, THIRD + 1);
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(!moves());
	ck_assert_uint_eq(p->only, REL_SEVERAL);
	ck_assert_int_eq(request(FIRST, p, MSG_READ_REQ, NEXT), 0);
	ck_assert_uint_eq(p->only, REL_SEVERAL);
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(!moves());
	/* the same node, again and again */
	p = block_in(RELH_EXCLUSIVE);
	ck_assert_int_eq(request(FIRST, p, MSG_READ_REQ, NEXT), 0);
	ck_assert_int_eq(request(FIRST, p, MSG_READ_REQ, NEXT), 0);
	ck_assert_uint_eq(p->only, NEXT + 1);
	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	ck_assert(moves());
}

static struct rel *moving(void)
{
	struct rel *p = block_in(RELH_EXCLUSIVE);

	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, NEXT), 0);
	return p;
}

UNIT_TEST(the_first_home_does_not_write_or_drop_before_the_next_one_has_the_contents)
{
	struct msg done = message(MSG_DONE, NEXT, FIRST, NEXT);
	struct rel *p = moving();

	/* its next acquire drops the copy: nobody notes it */
	ck_assert_uint_eq(p->noticed, 1);
	ck_assert_int_eq(local(FIRST, p, RE_READ), 0);
	ck_assert_int_eq(local(FIRST, p, RE_WRITE), -EAGAIN);
	ck_assert_uint_eq(p->state, REL_CLEAN);
	ck_assert_int_eq(local(FIRST, p, RE_APPLY), -EAGAIN);
	ck_assert_uint_eq(p->state, REL_CLEAN);
	done.src = done.req_node = THIRD;
	ck_assert_int_eq(step(FIRST, p, RE_DONE, &done), -EBADMSG);
	done.src = done.req_node = NEXT;
	ck_assert_int_eq(step(FIRST, p, RE_DONE, &done), 0);
	ck_assert_int_eq(step(FIRST, p, RE_DONE, &done), -EBADMSG);
	ck_assert_int_eq(local(FIRST, p, RE_APPLY), 0);
	ck_assert_uint_eq(p->state, REL_NONE);
	/* from now on an ordinary copy; its home does not move again */
	ck_assert_int_eq(local(FIRST, p, RE_WRITE), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_READ_REQ)->dst, NEXT);
}

UNIT_TEST(the_first_home_sends_requests_on)
{
	struct rel *p = moving();
	struct msg back = message(MSG_WRITE_REQ, NEXT, FIRST, THIRD);
	const struct msg *on;

	ck_assert_int_eq(request(FIRST, p, MSG_WRITE_REQ, THIRD), 0);
	on = unit_sent(&out, MSG_WRITE_REQ);
	ck_assert_uint_eq(on->src, FIRST);
	ck_assert_uint_eq(on->dst, NEXT);
	ck_assert_uint_eq(on->req_node, THIRD);
	ck_assert_uint_eq(on->req_slot, SLOT);
	ck_assert_uint_eq(on->object, OBJECT);
	ck_assert(on->flags & MSGF_FORWARDED);
	/* one that came too early comes back, and no other node sends it back */
	ck_assert_int_eq(step(FIRST, p, RE_FETCH, &back), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_WRITE_REQ)->dst, NEXT);
	back.src = THIRD - 1;
	ck_assert_int_eq(step(FIRST, p, RE_FETCH, &back), -EBADMSG);
	back.src = NEXT;
	back.flags = MSGF_FORWARDED;
	ck_assert_int_eq(step(FIRST, p, RE_FETCH, &back), -EBADMSG);
}

/* ---- the next home --------------------------------------------------------------------------- */

static struct rel *granted(enum rel_state state)
{
	struct rel *p = block_in(REL_NONE);

	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	p->state = (uint8_t)state;
	ck_assert_int_eq(data(p, FIRST, GRANT_WRITE), 0);
	ck_assert_str_eq(unit_text(&out), "open rw data wake");
	ck_assert_uint_eq(p->state, REL_GOT);
	return p;
}

/* A notice that was applied meanwhile is about what the first home wrote before. */
UNIT_TEST(a_node_is_the_home_when_it_uses_the_contents)
{
	static const enum rel_state states[] = { REL_FETCH, REL_AGAIN };
	const struct rel_ctx ctx = at(NEXT);
	const struct msg *done;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct rel *p = granted(states[i]);

		ck_assert_uint_eq(rel_home(&ctx, p), FIRST);
		ck_assert_int_eq(local(NEXT, p, RE_APPLY), -EAGAIN);
		ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
		ck_assert_str_eq(unit_text(&out), "DONE");
		done = unit_sent(&out, MSG_DONE);
		ck_assert_uint_eq(done->src, NEXT);
		ck_assert_uint_eq(done->dst, FIRST);
		ck_assert_uint_eq(done->req_node, NEXT);
		ck_assert_uint_eq(done->req_slot, SLOT);
		ck_assert_uint_eq(done->object, OBJECT);
		ck_assert_uint_eq(rel_home(&ctx, p), NEXT);
		ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
		ck_assert_uint_eq(p->copyset, 0);
		ck_assert_uint_eq(p->flags, 0);
		/* it does not move again */
		ck_assert_uint_eq(p->only, REL_SEVERAL);
		ck_assert_int_eq(request(NEXT, p, MSG_WRITE_REQ, THIRD), 0);
		ck_assert(!moves());
		p->state = RELH_EXCLUSIVE;
		p->copyset = 0;
		ck_assert_int_eq(request(NEXT, p, MSG_WRITE_REQ, FIRST), 0);
		ck_assert(!moves());
	}
}

/* So the next home tells it of changes once it has fetched the block again. */
UNIT_TEST(the_next_home_knows_that_the_first_one_has_lost_its_copy)
{
	struct rel_ctx ctx = { .me = 3,
			       .nnodes = 8,
			       .home = 5,
			       .follow = true,
			       .tells = true,
			       .lists = &lists,
			       .blocks = blocks };
	const struct msg asks = message(0, 3, 3, 3), fetches = message(MSG_READ_REQ, 5, 3, 5);
	struct msg grant = message(MSG_DATA, 5, 3, 3);
	struct rel *p = block_in(REL_NONE);

	grant.op = GRANT_WRITE;
	ck_assert_int_eq(rel_step(&ctx, p, RE_WRITE, &asks, &out), 0);
	ck_assert_int_eq(rel_step(&ctx, p, RE_DATA, &grant, &out), 0);
	ck_assert_int_eq(rel_step(&ctx, p, RE_USED, &asks, &out), 0);
	ck_assert(!rel_would_tell(&ctx, p, 3));
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &fetches, &out), 0);
	ck_assert(rel_would_tell(&ctx, p, 3));
}

UNIT_TEST(only_the_first_home_gives_the_home_to_who_asked)
{
	struct rel *p = block_in(REL_NONE);

	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_int_eq(data(p, FIRST, GRANT_WRITE), -EBADMSG);
	p->flags = REL_ASKS; /* another time */
	ck_assert_int_eq(data(p, FIRST, GRANT_WRITE), -EBADMSG);
	p = block_in(REL_NONE);
	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	ck_assert_int_eq(data(p, THIRD, GRANT_WRITE), -EBADMSG);
	ck_assert_int_eq(data(p, NEXT, GRANT_READ), -EBADMSG);
}

UNIT_TEST(a_request_that_comes_too_early_goes_back)
{
	struct rel *p = block_in(REL_NONE);
	struct msg m = message(MSG_READ_REQ, FIRST, NEXT, THIRD);
	const struct msg *back;
	unsigned int i;

	m.flags = MSGF_FORWARDED | MSGF_RELEASE;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG); /* it has not asked */
	p->flags = REL_CHANGED;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG);
	p->flags = REL_ASKS;
	p->state = REL_OPEN;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_READ_REQ)->dst, FIRST);
	p->state = REL_NONE;
	p->flags = 0;
	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	m.flags = MSGF_RELEASE; /* nobody has sent it on */
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG);
	m.flags = MSGF_FORWARDED | MSGF_RELEASE;
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), 0);
		back = unit_sent(&out, MSG_READ_REQ);
		ck_assert_uint_eq(back->src, NEXT);
		ck_assert_uint_eq(back->dst, FIRST);
		ck_assert_uint_eq(back->req_node, THIRD);
		ck_assert_uint_eq(back->flags, MSGF_RELEASE);
		if (!i)
			ck_assert_int_eq(data(p, FIRST, GRANT_WRITE), 0);
	}
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_DATA)->dst, THIRD);
	m.src = THIRD - 1;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG);
	m.src = FIRST;
	m.flags = 0;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG);
	m.src = m.req_node = NEXT;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG);
	m.src = m.req_node = NODES;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), -EBADMSG);
	m.src = m.req_node = NODES - 1;
	ck_assert_int_eq(step(NEXT, p, RE_FETCH, &m), 0);
}

UNIT_TEST(a_copy_of_a_block_that_has_moved_is_kept)
{
	const struct rel_ctx ctx = at(NEXT); /* here: a third node */
	struct rel *p = block_in(REL_NONE);

	ck_assert_int_eq(local(NEXT, p, RE_READ), 0);
	ck_assert_int_eq(data(p, THIRD, GRANT_READ), 0);
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	ck_assert_int_eq(local(NEXT, p, RE_CHANGED), 0);
	ck_assert_uint_eq(rel_lower(&ctx, p), PROT_RW);
	ck_assert_int_eq(local(NEXT, p, RE_CHANGED), 0);
	ck_assert_uint_eq(p->state, REL_OPEN);
}

/* ---- a third node ---------------------------------------------------------------------------- */

UNIT_TEST(a_third_node_learns_the_home_from_the_contents)
{
	const struct rel_ctx ctx = at(NEXT); /* here: the third node */
	struct rel *p = block_in(REL_NONE);

	ck_assert(rel_may_note(&ctx, p, THIRD)); /* its notice may overtake the contents */
	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	ck_assert_int_eq(data(p, THIRD, GRANT_READ), 0);
	ck_assert_uint_eq(rel_home(&ctx, p), THIRD);
	ck_assert(rel_may_note(&ctx, p, THIRD));
	ck_assert(rel_may_note(&ctx, p, FIRST)); /* an old one */
	ck_assert(!rel_may_note(&ctx, p, THIRD - 1));
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_int_eq(local(NEXT, p, RE_APPLY), 0);
	ck_assert_int_eq(local(NEXT, p, RE_CHANGED), 0);
	ck_assert_uint_eq(p->state, REL_NONE);
	/* it asks there, and no longer for the home; another cannot answer */
	p->flushed = 0;
	ck_assert_int_eq(local(NEXT, p, RE_WRITE), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_READ_REQ)->dst, THIRD);
	ck_assert_int_eq(data(p, FIRST, GRANT_READ), -EBADMSG);
	ck_assert_int_eq(data(p, THIRD, GRANT_READ), 0);
}

UNIT_TEST(where_homes_stay_only_the_home_answers_and_notes)
{
	struct rel_ctx ctx = at(NEXT);
	struct rel *p = block_in(REL_FETCH);
	struct msg m = message(MSG_DATA, THIRD, NEXT, NEXT);

	ctx.follow = false;
	p->slot = SLOT;
	ck_assert(!rel_may_note(&ctx, p, THIRD));
	ck_assert_int_eq(rel_step(&ctx, p, RE_DATA, &m, &out), -EBADMSG);
}

/* ---- what the home has never touched --------------------------------------------------------- */

static const struct msg *fresh_answer(struct rel *p, uint8_t type)
{
	const struct msg m = message(type, NEXT, FIRST, NEXT);
	struct rel_ctx ctx = at(FIRST);

	ctx.fresh = true;
	ck_assert_int_eq(rel_step(&ctx, p, RE_FETCH, &m, &out), 0);
	return unit_sent(&out, MSG_GRANT);
}

static int zeros(struct rel *p, uint16_t src, uint8_t op)
{
	struct msg m = message(MSG_GRANT, src, NEXT, NEXT);

	m.op = op;
	m.flags = MSGF_ZERO;
	return step(NEXT, p, RE_GRANT, &m);
}

static struct rel *fetching(void)
{
	struct rel *p = block_in(REL_FETCH);

	p->slot = SLOT;
	return p;
}

UNIT_TEST(a_fresh_block_is_granted_without_contents)
{
	struct rel *p = block_in(RELH_EXCLUSIVE);
	const struct msg *m = fresh_answer(p, MSG_READ_REQ);

	ck_assert_str_eq(unit_text(&out), "GRANT");
	ck_assert_uint_eq(m->dst, NEXT);
	ck_assert_uint_eq(m->req_slot, SLOT);
	ck_assert_uint_eq(m->op, GRANT_READ);
	ck_assert_uint_eq(m->flags, MSGF_ZERO);
	ck_assert_uint_eq(p->state, RELH_CLEAN);
	ck_assert_uint_eq(p->copyset, set_of(NEXT, set_granule(NODES)));
	ck_assert_uint_eq(p->only, NEXT + 1);
	/* to a writer, with the home */
	m = fresh_answer(p, MSG_WRITE_REQ);
	ck_assert_uint_eq(m->op, GRANT_WRITE);
	ck_assert_uint_eq(m->flags, MSGF_ZERO);
	ck_assert_uint_eq(p->home, NEXT + 1);
	ck_assert_uint_eq(p->flags, REL_MOVING);
}

UNIT_TEST(zeros_are_a_copy_whose_freshness_ends)
{
	const struct rel_ctx ctx = at(NEXT);
	struct rel *p = fetching();

	ck_assert_int_eq(zeros(p, FIRST, GRANT_READ), 0);
	ck_assert_str_eq(unit_text(&out), "open ro zero wake");
	ck_assert(!rel_fresh(&ctx, p));
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert(rel_fresh(&ctx, p));
	/* the home tells what it has stored since */
	ck_assert_int_eq(step(NEXT, p, RE_TOLD, &(struct msg){ .src = FIRST, .dst = NEXT }), 0);
	ck_assert(!rel_fresh(&ctx, p));
	/* contents that are no zeros */
	p = fetching();
	p->flags = REL_FRESH;
	ck_assert_int_eq(data(p, FIRST, GRANT_READ), 0);
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert(!rel_fresh(&ctx, p));
	/* a twin */
	p = fetching();
	p->writes = 1;
	ck_assert_int_eq(zeros(p, FIRST, GRANT_READ), 0);
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_uint_eq(p->state, REL_OPEN);
	ck_assert_uint_eq(p->flags, 0);
}

UNIT_TEST(zeros_with_the_home_make_it_exclusive)
{
	struct rel *p = fetching();

	ck_assert_int_eq(zeros(p, FIRST, GRANT_WRITE), -EBADMSG); /* it has not asked for it */
	p->flags = REL_ASKED;
	ck_assert_int_eq(zeros(p, FIRST, GRANT_WRITE), 0);
	ck_assert_str_eq(unit_text(&out), "open rw zero wake");
	ck_assert_int_eq(local(NEXT, p, RE_USED), 0);
	ck_assert_str_eq(unit_text(&out), "DONE");
	ck_assert_uint_eq(p->state, RELH_EXCLUSIVE);
	ck_assert_uint_eq(p->flags, 0);
}

UNIT_TEST(zeros_that_a_notice_has_outdated_are_requested_again)
{
	struct rel *p = fetching();

	p->state = REL_AGAIN;
	ck_assert_int_eq(zeros(p, FIRST, GRANT_READ), 0);
	ck_assert_str_eq(unit_text(&out), "READ_REQ");
	ck_assert_uint_eq(p->state, REL_FETCH);
}

UNIT_TEST(zeros_come_from_the_home_to_who_waits_for_contents)
{
	struct rel *p = fetching();
	struct msg m = message(MSG_GRANT, FIRST, NEXT, NEXT);

	m.flags = MSGF_ZERO;
	m.count = 1;
	ck_assert_int_eq(step(NEXT, p, RE_GRANT, &m), -EBADMSG);
	m.count = 0;
	m.flags = MSGF_ZERO | MSGF_PUSH;
	ck_assert_int_eq(step(NEXT, p, RE_GRANT, &m), -EBADMSG);
	m.flags = MSGF_ZERO;
	m.req_slot = SLOT + 1;
	ck_assert_int_eq(step(NEXT, p, RE_GRANT, &m), -EBADMSG);
	ck_assert_int_eq(answer(p, FIRST, GRANT_READ), -EBADMSG);
	ck_assert_int_eq(zeros(raising(), FIRST, GRANT_READ), -EBADMSG);
}

UNIT_SUITE("release_moves")
