// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_page_rules.c - core/page: the full effect of each event in each state, with numbers as wide
 * as their fields.
 */
#include "core.h"

#include "core/page.h"

#define W_ME 0x3f1
#define W_HOME 0x305
#define W_OTHER 0x2fe
#define W_MANAGER 0x1fd
#define W_SLOT 0x1234
#define W_ASKED 0x4321 /* slot of the request in progress */
#define W_OBJECT 0x87654321u

static const struct page_ctx wide_ctx = { .me = W_ME, .now = 1000 };

static struct copy wide_copy(unsigned int state)
{
	return (struct copy){ .state = (uint8_t)state,
			      .flags = PAGE_OWNER | (state == PG_COUNT ? OPEN_LANDED << 4 : 0),
			      .home = W_HOME + 1,
			      .slot = W_ASKED,
			      .acks = state == PG_COUNT };
}

/*
 * The message of an event: local events are this rank's, the others another rank's. A grant grants
 * everything.
 */
static struct msg wide_msg(unsigned int ev)
{
	bool answer = ev == PE_DATA || ev == PE_GRANT || ev == PE_INV_ACK || ev == PE_MOVED,
	     own = ev <= PE_DROP || answer;

	return (struct msg){ .version = WIRE_VERSION,
			     .src = W_HOME,
			     .dst = W_ME,
			     .object = W_OBJECT,
			     .req_node = own ? W_ME : W_OTHER,
			     .req_slot = answer ? W_ASKED : W_SLOT,
			     .home = ev == PE_MOVED ? W_MANAGER : W_HOME,
			     .op = GRANT_WRITE,
			     .flags = ev == PE_GRANT ? MSGF_ZERO : 0 };
}

/*
 * The actions of an owner whose block is not pinned, and its next state. NULL: no correct peer
 * causes the event.
 */
static const struct reaction {
	const char *does;
	uint8_t next;
	/* clang-format off */
} reactions[PG_STATES][PE_EVENTS] = {
	[PG_INVALID] = { [PE_READ] = { "READ_REQ wait", PG_WANT_READ },
			 [PE_WRITE] = { "WRITE_REQ wait", PG_WANT_WRITE },
			 [PE_USED] = { "", PG_INVALID },
			 [PE_REPLAY] = { "", PG_INVALID },
			 [PE_DROP] = { "", PG_INVALID },
			 [PE_INV] = { "INV_ACK", PG_INVALID } },
	[PG_READ] = { [PE_READ] = { "open ro again", PG_READ },
		      [PE_WRITE] = { "WRITE_REQ wait", PG_UPGRADE },
		      [PE_USED] = { "", PG_READ },
		      [PE_REPLAY] = { "", PG_READ },
		      [PE_DROP] = { "", PG_READ },
		      [PE_INV] = { "close INV_ACK", PG_INVALID },
		      [PE_FWD_READ] = { "DATA ro<-ro", PG_READ },
		      [PE_FWD_WRITE] = { "DATA closed<-ro", PG_INVALID } },
	[PG_WRITE] = { [PE_READ] = { "open rw again", PG_WRITE },
		       [PE_WRITE] = { "open rw again", PG_WRITE },
		       [PE_USED] = { "", PG_WRITE },
		       [PE_REPLAY] = { "", PG_WRITE },
		       [PE_DROP] = { "", PG_WRITE },
		       [PE_FWD_READ] = { "DATA ro<-rw", PG_READ },
		       [PE_FWD_WRITE] = { "DATA closed<-rw", PG_INVALID },
		       [PE_FWD_MIGRATE] = { "DATA closed<-rw", PG_INVALID } },
	[PG_WANT_READ] = { [PE_READ] = { "wait", PG_WANT_READ },
			   [PE_WRITE] = { "wait", PG_WANT_READ },
			   [PE_USED] = { "", PG_WANT_READ },
			   [PE_REPLAY] = { "", PG_WANT_READ },
			   [PE_DROP] = { "", PG_WANT_READ },
			   [PE_INV] = { "INV_ACK", PG_WANT_READ },
			   [PE_MOVED] = { "READ_REQ", PG_WANT_READ },
			   [PE_DATA] = { "open rw data wake", PG_GOT_WRITE },
			   [PE_GRANT] = { "open rw zero wake", PG_GOT_WRITE } },
	[PG_WANT_WRITE] = { [PE_READ] = { "wait", PG_WANT_WRITE },
			    [PE_WRITE] = { "wait", PG_WANT_WRITE },
			    [PE_USED] = { "", PG_WANT_WRITE },
			    [PE_REPLAY] = { "", PG_WANT_WRITE },
			    [PE_DROP] = { "", PG_WANT_WRITE },
			    [PE_INV] = { "INV_ACK", PG_WANT_WRITE },
			    [PE_MOVED] = { "WRITE_REQ", PG_WANT_WRITE },
			    [PE_INV_ACK] = { "", PG_WANT_WRITE },
			    [PE_DATA] = { "open rw data wake", PG_GOT_WRITE },
			    [PE_GRANT] = { "open rw zero wake", PG_GOT_WRITE } },
	[PG_UPGRADE] = { [PE_READ] = { "open ro again", PG_UPGRADE },
			 [PE_WRITE] = { "wait", PG_UPGRADE },
			 [PE_USED] = { "", PG_UPGRADE },
			 [PE_REPLAY] = { "", PG_UPGRADE },
			 [PE_DROP] = { "", PG_UPGRADE },
			 [PE_INV] = { "close INV_ACK", PG_WANT_WRITE },
			 [PE_INV_ACK] = { "", PG_UPGRADE },
			 [PE_FWD_READ] = { "DATA ro<-ro", PG_UPGRADE },
			 [PE_FWD_WRITE] = { "DATA closed<-ro", PG_WANT_WRITE },
			 [PE_DATA] = { "open rw upgrade wake", PG_GOT_WRITE },
			 [PE_GRANT] = { "open rw upgrade wake", PG_GOT_WRITE } },
	[PG_COUNT] = { [PE_READ] = { "wait", PG_COUNT },
		       [PE_WRITE] = { "wait", PG_COUNT },
		       [PE_USED] = { "", PG_COUNT },
		       [PE_REPLAY] = { "", PG_COUNT },
		       [PE_DROP] = { "", PG_COUNT },
		       [PE_INV_ACK] = { "open rw landed wake", PG_GOT_WRITE } },
	[PG_GOT_READ] = { [PE_READ] = { "wait", PG_GOT_READ },
			  [PE_WRITE] = { "wait", PG_GOT_READ },
			  [PE_USED] = { "DONE", PG_READ },
			  [PE_REPLAY] = { "", PG_GOT_READ },
			  [PE_DROP] = { "", PG_GOT_READ } },
	[PG_GOT_WRITE] = { [PE_READ] = { "wait", PG_GOT_WRITE },
			   [PE_WRITE] = { "wait", PG_GOT_WRITE },
			   [PE_USED] = { "DONE", PG_WRITE },
			   [PE_REPLAY] = { "", PG_GOT_WRITE },
			   [PE_DROP] = { "", PG_GOT_WRITE } },
};
/* clang-format on */

UNIT_TEST(every_pair_does_what_it_should)
{
	unsigned int state, ev;

	for (state = 0; state < PG_STATES; state++)
		for (ev = 0; ev < PE_EVENTS; ev++) {
			const struct reaction *r = &reactions[state][ev];
			struct copy p = wide_copy(state);
			struct msg m = wide_msg(ev);
			struct actions out;
			int err = page_step(&wide_ctx, &p, (enum page_event)ev, &m, &out);

			if (!r->does) {
				ck_assert_int_eq(err, -EBADMSG);
				continue;
			}
			ck_assert_int_eq(err, 0);
			ck_assert_str_eq(unit_text(&out), r->does);
			ck_assert_uint_eq(p.state, r->next);
			/*
			 * A rank that gives the block away or loses it owns nothing; a rank that
			 * may write owns it.
			 */
			if (p.state == PG_GOT_WRITE || p.state == PG_WRITE)
				ck_assert_uint_eq(p.flags & PAGE_OWNER, PAGE_OWNER);
			if (p.state == PG_INVALID && state != PG_INVALID)
				ck_assert_uint_eq(p.flags, 0);
			if (p.state == PG_WANT_WRITE && state == PG_UPGRADE)
				ck_assert_uint_eq(p.flags, 0);
		}
}

static void check_message(const struct msg *m, unsigned int state)
{
	bool own = m->type == MSG_READ_REQ || m->type == MSG_WRITE_REQ || m->type == MSG_DONE;
	/* the manager after MOVED */
	bool again = own && (state == PG_WANT_READ || state == PG_WANT_WRITE);
	uint8_t asked = again ? 0 : MSGF_FIRST_TOUCH | MSGF_KNOWN;

	ck_assert_uint_eq(m->src, W_ME);
	ck_assert_uint_eq(m->object, W_OBJECT);
	ck_assert_uint_eq(m->dst, again ? W_MANAGER : own ? W_HOME : W_OTHER);
	ck_assert_uint_eq(m->req_node, own ? W_ME : W_OTHER);
	ck_assert_uint_eq(m->req_slot, m->type == MSG_DONE || again ? W_ASKED : W_SLOT);
	if (m->type == MSG_WRITE_REQ)
		ck_assert_uint_eq(m->flags, asked | (state == PG_READ ? MSGF_HAS : 0));
	else
		ck_assert_uint_eq(m->flags, m->type == MSG_READ_REQ ? asked : 0);
	if (m->type == MSG_DATA) {
		ck_assert_uint_eq(m->home, W_HOME);
		ck_assert_int_eq(m->count, 1000);
	}
}

/*
 * Check every field of every message, and the slot that waits or is woken, for each state and
 * event.
 */
UNIT_TEST(messages_name_their_request_in_full)
{
	unsigned int state, ev, i;

	for (state = 0; state < PG_STATES; state++)
		for (ev = 0; ev < PE_EVENTS; ev++) {
			struct copy p = wide_copy(state);
			struct msg m = wide_msg(ev);
			struct actions out;

			if (ev == PE_FWD_WRITE || ev == PE_FWD_READ || ev == PE_FWD_MIGRATE)
				m.count = 1000;
			if (ev == PE_READ || ev == PE_WRITE)
				m.flags = MSGF_FIRST_TOUCH;
			if (page_step(&wide_ctx, &p, (enum page_event)ev, &m, &out))
				continue;
			for (i = 0; i < out.n; i++) {
				const struct action *a = &out.v[i];
				bool asks =
					out.v[0].type == ACT_SEND && out.v[0].msg.req_node == W_ME;

				if (a->type == ACT_SEND || a->type == ACT_DATA)
					check_message(&a->msg, state);
				if (a->type == ACT_DATA)
					ck_assert_uint_eq(a->msg.op,
							  ev == PE_FWD_READ ? GRANT_READ
									    : GRANT_WRITE);
				if (a->type == ACT_WAIT)
					ck_assert_uint_eq(a->slot, asks ? W_SLOT : W_ASKED);
				if (a->type == ACT_WAKE) {
					ck_assert_uint_eq(a->slot, W_ASKED);
					ck_assert_int_eq(a->status, 0);
				}
			}
			if (out.n && out.v[out.n - 1].type == ACT_WAIT && out.n == 2)
				ck_assert_uint_eq(p.slot, W_SLOT);
			if (ev == PE_DATA || ev == PE_GRANT)
				ck_assert_uint_eq(p.home, W_HOME + 1);
		}
}

/* MOVED is accepted only by a rank that has asked. */
UNIT_TEST(who_has_not_asked_is_sent_to_no_other_home)
{
	static const uint8_t states[] = { PG_WANT_READ, PG_WANT_WRITE };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct copy p = wide_copy(states[i]), before = p;
		struct msg m = wide_msg(PE_MOVED);
		struct actions out;

		m.req_node = W_OTHER;
		ck_assert_int_eq(page_step(&wide_ctx, &p, PE_MOVED, &m, &out), -EBADMSG);
		ck_assert_mem_eq(&p, &before, sizeof(p));
	}
}

/* Without a known home, a request goes where the caller says. Acknowledgements are counted anew. */
UNIT_TEST(a_request_starts_from_nothing)
{
	uint8_t states[] = { PG_INVALID, PG_INVALID, PG_READ },
		events[] = { PE_READ, PE_WRITE, PE_WRITE };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct copy p = { .state = states[i], .acks = -5 };
		struct msg m = wide_msg(PE_READ);
		struct actions out;

		m.req_node = W_OTHER;
		ck_assert_int_eq(page_step(&wide_ctx, &p, (enum page_event)events[i], &m, &out), 0);
		ck_assert_uint_eq(out.v[0].msg.dst, W_HOME);
		ck_assert_uint_eq(out.v[0].msg.req_node, W_ME);
		ck_assert_int_eq(p.acks, 0);
	}
}

/* What a grant may contain in each state. Any other grant is refused, and changes nothing. */
UNIT_TEST(grants_are_taken_only_if_they_make_sense)
{
	unsigned int state, data, op, zero, count;

	for (state = PG_WANT_READ; state <= PG_UPGRADE; state++)
		for (data = 0; data < 2; data++)
			for (op = 0; op < 4; op++)
				for (zero = 0; zero < 2; zero++)
					for (count = 0; count < 3; count++) {
						struct copy p = wide_copy(state), before;
						struct msg m = wide_msg(PE_DATA);
						bool upgrade = state == PG_UPGRADE, ok, read;
						struct actions out;
						int err;

						p.flags = 0;
						before = p;
						m.op = (uint8_t)op;
						m.flags = zero ? MSGF_ZERO : 0;
						m.count = count == 2 ? 1000 : (int16_t)count;
						read = data && op == GRANT_READ && count < 2 &&
							state == PG_WANT_READ;
						ok = read ||
							(op == GRANT_WRITE &&
							 (data || upgrade || (zero && !count)));
						err = page_step(&wide_ctx, &p,
								data ? PE_DATA : PE_GRANT, &m,
								&out);
						ck_assert_int_eq(err, ok ? 0 : -EBADMSG);
						if (!ok) {
							ck_assert_mem_eq(&p, &before, sizeof(p));
							continue;
						}
						if (read) {
							ck_assert_str_eq(unit_text(&out),
									 "open ro data wake");
							ck_assert_uint_eq(p.state, PG_GOT_READ);
							ck_assert_uint_eq(p.flags,
									  count ? PAGE_BRIEF : 0);
						} else if (count) {
							ck_assert_str_eq(unit_text(&out),
									 data && !upgrade ? "land"
											  : "");
							ck_assert_uint_eq(p.state, PG_COUNT);
							ck_assert_int_eq(p.acks, m.count);
							ck_assert_uint_eq(p.flags >> 4,
									  upgrade ? OPEN_UPGRADE
										  : OPEN_LANDED);
						} else {
							ck_assert_uint_eq(p.state, PG_GOT_WRITE);
						}
					}
}

/* ---- what is held back ---- */

/* docs/protocol.md, "Progress". */
static bool held_back(unsigned int state, unsigned int ev, unsigned int pins, bool early)
{
	if (ev == PE_FWD_READ && state != PG_WRITE)
		return false; /* the event takes nothing away */
	if (pins & 2)
		return true;
	return (pins & 1 && ev != PE_FWD_READ && ev != PE_FWD_MIGRATE) ||
		(early && state != PG_UPGRADE);
}

static const enum page_event requests[] = { PE_INV, PE_FWD_READ, PE_FWD_WRITE, PE_FWD_MIGRATE };

/* A copy in a state, with pins (1: for reading, 2: for writing), that an event meets. */
struct meeting {
	struct page_ctx c;
	struct copy p, direct; /* direct: what the event makes of it where nothing holds it back */
	struct msg m;
	enum page_event ev;
	unsigned int state, pins;
	struct actions out; /* of direct */
	char text[80];
};

static void pin(struct copy *p, unsigned int pins)
{
	p->pins_read = pins & 1;
	p->pins_write = (uint8_t)(pins >> 1);
}

static int meet(struct meeting *t, enum page_event ev, struct actions *out)
{
	return page_step(&t->c, &t->p, ev, &t->m, out);
}

/* A home serves one request at a time: others are refused, and change nothing. */
static void expect_no_other(struct meeting *t)
{
	const struct copy before = t->p;
	struct actions late;
	unsigned int i;

	for (i = 0; i < 4; i++)
		if (reactions[t->state][requests[i]].does) {
			ck_assert_int_eq(meet(t, requests[i], &late), -EBADMSG);
			ck_assert_mem_eq(&t->p, &before, sizeof(before));
		}
}

/* The pins end one by one, the one for reading first; then the event is done. */
static void expect_done_later(struct meeting *t)
{
	struct actions late;
	unsigned int i, left;

	t->m = wide_msg(PE_REPLAY);
	for (left = t->pins; held_back(t->state, t->ev, left, false);) {
		ck_assert_int_eq(meet(t, PE_REPLAY, &late), 0);
		ck_assert_uint_eq(late.n, 0);
		ck_assert_uint_eq(t->p.held, t->ev);
		left &= left - 1;
		pin(&t->p, left);
	}
	ck_assert_int_eq(meet(t, PE_REPLAY, &late), 0);
	ck_assert_str_eq(unit_text(&late), t->text);
	ck_assert_uint_eq(t->p.state, t->direct.state);
	ck_assert_uint_eq(t->p.held, 0);
	for (i = 0; i < late.n; i++)
		ck_assert_mem_eq(&late.v[i].msg, &t->out.v[i].msg, sizeof(struct msg));
}

static void expect_held_back(struct meeting *t, const struct actions *late)
{
	const bool pinned = held_back(t->state, t->ev, t->pins, false);

	ck_assert_uint_eq(t->p.state, t->state);
	ck_assert_uint_eq(t->p.held, t->ev);
	ck_assert_uint_eq(t->p.held_node, W_OTHER);
	ck_assert_uint_eq(t->p.held_slot, W_SLOT);
	ck_assert_int_eq(t->p.held_count, 1000);
	ck_assert_str_eq(unit_text(late), pinned ? "" : "timer");
	if (late->n)
		ck_assert_uint_eq(late->v[0].at, 1010);
	expect_no_other(t);
	expect_done_later(t);
}

static void expect_meeting(unsigned int state, enum page_event ev, unsigned int pins, bool early)
{
	struct meeting t = { .c = { .me = W_ME, .now = early ? 1000 : 1010, .hold_us = 10 },
			     .p = wide_copy(state),
			     .m = wide_msg(ev),
			     .ev = ev,
			     .state = state,
			     .pins = pins };
	struct actions late;

	t.m.count = 1000;
	t.p.hold = 1010;
	t.direct = t.p;
	t.direct.pins_read = ev == PE_FWD_MIGRATE && pins == 1;
	pin(&t.p, pins);
	ck_assert_int_eq(page_step(&wide_ctx, &t.direct, ev, &t.m, &t.out), 0);
	strcpy(t.text, unit_text(&t.out));
	ck_assert_int_eq(meet(&t, ev, &late), 0);
	if (held_back(state, ev, pins, early)) {
		expect_held_back(&t, &late);
		return;
	}
	ck_assert_str_eq(unit_text(&late), t.text);
	ck_assert_uint_eq(t.p.state, t.direct.state);
}

UNIT_LOOP_TEST(what_would_harm_is_held_back_and_then_done_as_if_it_came_then, 0, 3)
{
	static const uint8_t states[] = { PG_READ, PG_WRITE, PG_UPGRADE };
	unsigned int e, pins;

	for (e = 0; e < 4; e++)
		for (pins = 0; pins < 8; pins++)
			if (reactions[states[_i]][requests[e]].does)
				expect_meeting(states[_i], requests[e], pins & 3, pins >> 2);
}

static int step(struct copy *p, enum page_event ev, struct actions *out)
{
	struct msg m = wide_msg(ev);

	return page_step(&wide_ctx, p, ev, &m, out);
}

UNIT_TEST(the_home_hears_of_a_block_that_is_kept)
{
	struct copy p = wide_copy(PG_WRITE);
	struct actions out;

	p.pins_read = 1;
	ck_assert_int_eq(step(&p, PE_FWD_MIGRATE, &out), 0);
	ck_assert_str_eq(unit_text(&out), "KEPT");
	ck_assert_uint_eq(out.v[0].msg.dst, W_HOME);
	ck_assert_uint_eq(out.v[0].msg.req_node, W_OTHER);
	ck_assert_uint_eq(out.v[0].msg.req_slot, W_SLOT);
}

UNIT_TEST(only_a_copy_that_nobody_needs_is_dropped)
{
	unsigned int owner, held, pinned;

	for (owner = 0; owner < 2; owner++)
		for (held = 0; held < 2; held++)
			for (pinned = 0; pinned < 2; pinned++) {
				struct copy p = { .state = PG_READ,
						  .home = 1,
						  .flags = owner ? PAGE_OWNER : 0,
						  .held = held ? PE_INV : 0,
						  .pins_read = (uint8_t)pinned };
				bool drops = !owner && !held && !pinned;
				struct actions out;

				ck_assert_int_eq(step(&p, PE_DROP, &out), 0);
				ck_assert_str_eq(unit_text(&out), drops ? "close" : "");
				ck_assert_uint_eq(p.state, drops ? PG_INVALID : PG_READ);
			}
}

UNIT_TEST(a_pin_needs_access_and_each_kind_is_counted)
{
	unsigned int state, access;

	for (state = 0; state < PG_STATES; state++)
		for (access = 1; access <= 2; access++) {
			struct copy p = { .state = (uint8_t)state };
			bool readable =
				state == PG_READ || state == PG_WRITE || state == PG_UPGRADE;
			bool may = access == 2 ? state == PG_WRITE : readable;

			ck_assert_int_eq(page_readable(&p), readable);
			ck_assert_int_eq(page_writable(&p), state == PG_WRITE);
			ck_assert_int_eq(page_pin(&p, (uint8_t)access), may ? 0 : -EAGAIN);
			ck_assert_uint_eq(p.pins_read, may && access == 1);
			ck_assert_uint_eq(p.pins_write, may && access == 2);
			ck_assert_int_eq(page_unpin(&p, (uint8_t)(3 - access)), -EINVAL);
			ck_assert_int_eq(page_unpin(&p, (uint8_t)access), may ? 0 : -EINVAL);
			ck_assert_uint_eq(p.pins_read + p.pins_write, 0);
		}
}

/* The hold time begins with the use, by this rank's clock. */
UNIT_TEST(a_used_block_is_held_for_its_time_only)
{
	uint32_t hold, now;

	for (hold = 0; hold < 4; hold++)
		for (now = 0; now < 6; now++) {
			struct page_ctx c = { .me = W_ME, .now = 50, .hold_us = hold };
			struct copy p = { .state = PG_GOT_WRITE, .flags = PAGE_OWNER, .home = 1 };
			struct actions out;

			ck_assert_int_eq(page_step(&c, &p, PE_USED, &(struct msg){ 0 }, &out), 0);
			ck_assert_uint_eq(p.hold, 50 + hold);
			c.now += now;
			ck_assert_int_eq(page_step(&c, &p, PE_FWD_READ, &(struct msg){ 0 }, &out),
					 0);
			ck_assert_str_eq(unit_text(&out), now < hold ? "timer" : "DATA ro<-rw");
		}
}

UNIT_SUITE("page_rules")
