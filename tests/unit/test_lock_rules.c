// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_lock_rules.c - core/lock: the effect of each event on each hold record, and the answers of
 * the home, in full.
 */
#include "core.h"

#include "core/lock.h"

#define ME 1021
#define HOME 777
#define NEXT 1019
#define GEN 0x4567 /* generation of the object: UNLOCK stores it in the requester's field */
#define SLOT 0x1234
#define NEXT_SLOT 0x4321
#define OBJECT 0x87654321u
#define RECORD 0x12345678u
#define NEXT_RECORD 0x23456789u

/* The actions of a record, and its next state. NULL: no correct peer causes the event. */
static const struct reaction {
	const char *does;
	uint8_t next;
	/* clang-format off */
} reactions[HOLD_STATES][HE_EVENTS] = {
	[HOLD_FREE] = { [HE_RECALL] = { "RECALLED", HOLD_FREE } },
	[HOLD_WAITING] = { [HE_LOCKED] = { "wake", HOLD_HELD },
			   [HE_NEXT] = { "", HOLD_WAIT_NEXT },
			   [HE_REFUSED] = { "wake", HOLD_FREE },
			   [HE_RECALL] = { "RECALLED", HOLD_WAITING },
[HE_JOIN] = { "", HOLD_WAITING } },
	[HOLD_WAIT_NEXT] = { [HE_LOCKED] = { "wake", HOLD_HELD_NEXT }, [HE_RECALL] = { "RECALLED", HOLD_WAIT_NEXT },
[HE_JOIN] = { "", HOLD_WAIT_NEXT } },
	[HOLD_HELD] = { [HE_UNLOCK] = { "", HOLD_CACHED },
			[HE_NEXT] = { "", HOLD_HELD_NEXT },
			[HE_RECALL] = { "RECALLED", HOLD_HELD },
[HE_JOIN] = { "", HOLD_HELD },
[HE_COME] = { "", HOLD_HELD } },
	[HOLD_HELD_NEXT] = { [HE_UNLOCK] = { "LOCKED", HOLD_FREE }, [HE_RECALL] = { "RECALLED", HOLD_HELD_NEXT },
[HE_JOIN] = { "", HOLD_HELD_NEXT },
[HE_COME] = { "", HOLD_HELD_NEXT } },
	[HOLD_CACHED] = { [HE_TAKE] = { "", HOLD_HELD },
			[HE_GIVE] = { "UNLOCK", HOLD_LEAVING },
			[HE_NEXT] = { "LOCKED", HOLD_FREE },
			[HE_RECALL] = { "RECALLED", HOLD_LEAVING },
[HE_COME] = { "wake", HOLD_HELD } },
	[HOLD_LEAVING] = { [HE_NEXT] = { "LOCKED", HOLD_LEFT },
			   [HE_FREED] = { "", HOLD_FREE },
			   [HE_CROSSED] = { "", HOLD_LEAVING_NEXT },
			   [HE_RECALL] = { "RECALLED", HOLD_LEAVING } },
	[HOLD_LEAVING_NEXT] = { [HE_NEXT] = { "LOCKED", HOLD_FREE }, [HE_RECALL] = { "RECALLED", HOLD_LEAVING_NEXT } },
	[HOLD_LEFT] = { [HE_CROSSED] = { "", HOLD_FREE }, [HE_RECALL] = { "RECALLED", HOLD_LEFT } },
};
/* clang-format on */

static struct msg next_message(void)
{
	struct msg m = unit_msg(MSG_NEXT, HOME, ME, NEXT, NEXT_SLOT);

	m.object = OBJECT;
	m.aux = RECORD;
	m.value = NEXT_RECORD;
	return m;
}

static struct msg recall_message(void)
{
	struct msg m = unit_msg(MSG_RECALL, HOME, ME, GEN, 0);

	m.object = OBJECT;
	m.aux = RECORD;
	return m;
}

static void check_sent(const struct msg *m, unsigned int state)
{
	bool on = m->type == MSG_LOCKED;
	int16_t count = 0;

	if (m->type == MSG_RECALLED && state != HOLD_CACHED)
		count = state == HOLD_LEAVING ? -EINPROGRESS : -EBUSY;

	ck_assert_uint_eq(m->src, ME);
	ck_assert_uint_eq(m->object, OBJECT);
	ck_assert_uint_eq(m->dst, on ? NEXT : HOME);
	ck_assert_uint_eq(m->req_node, on ? NEXT : GEN);
	ck_assert_uint_eq(m->req_slot, on ? NEXT_SLOT : count ? 0 : SLOT);
	ck_assert_uint_eq(m->aux, on ? NEXT_RECORD : RECORD);
	ck_assert_uint_eq(m->value, 0);
	ck_assert_int_eq(m->count, count);
}

/* The queue of this node's threads. */
static struct queue_entry line[ME + 1];

UNIT_TEST(every_record_does_what_it_should)
{
	const struct hold_ctx ctx = { .me = ME, .passes = 1, .queue = { line, 1, NULL } };
	unsigned int state, ev;

	for (state = 0; state < HOLD_STATES; state++)
		for (ev = 0; ev < HE_EVENTS; ev++) {
			const struct reaction *r = &reactions[state][ev];
			bool known = state == HOLD_WAIT_NEXT || state == HOLD_HELD_NEXT;
			struct hold h = { .state = (uint8_t)state,
					  .home = HOME,
					  .object = OBJECT,
					  .slot = SLOT,
					  .gen = GEN };
			struct msg m = ev == HE_RECALL ? recall_message() : next_message();

			struct actions out;
			int err;

			if (known) {
				h.next_node = NEXT;
				h.next_slot = NEXT_SLOT;
				h.next_hold = NEXT_RECORD;
			}
			if (ev == HE_FREED || ev == HE_REFUSED)
				m.value = 0;
			if (ev == HE_JOIN)
				m.req_slot = 0;
			if (ev == HE_COME) {
				m.req_slot = SLOT;
				h.turn = TURN_WOKEN;
			}
			memset(line, 0, sizeof(line));
			err = hold_step(&ctx, RECORD, &h, (enum hold_event)ev, &m, &out);
			ck_assert_int_eq(err, r->does ? 0 : -EBADMSG);
			if (err)
				continue;
			ck_assert_str_eq(unit_text(&out), r->does);
			ck_assert_uint_eq(h.state, r->next);
			if (out.n && out.v[0].type == ACT_SEND)
				check_sent(&out.v[0].msg, state);
			if (out.n && out.v[0].type == ACT_WAKE) {
				ck_assert_uint_eq(out.v[0].slot, SLOT);
				ck_assert_int_eq(out.v[0].status, ev == HE_REFUSED ? -EBUSY : 0);
			}
			if (h.state == HOLD_WAIT_NEXT || h.state == HOLD_HELD_NEXT) {
				ck_assert_uint_eq(h.next_node, NEXT);
				ck_assert_uint_eq(h.next_slot, NEXT_SLOT);
				ck_assert_uint_eq(h.next_hold, NEXT_RECORD);
			}
		}
}

/*
 * Another node requests a free lock after a thread here was woken: the thread comes first, and the
 * count of passes begins.
 */
UNIT_TEST(a_woken_thread_is_the_first_that_another_node_waits_for)
{
	const struct hold_ctx ctx = {
		.me = ME, .passes = 8, .fast = true, .queue = { line, 1, NULL }
	};
	struct hold h = { .state = HOLD_CACHED,
			  .home = HOME,
			  .object = OBJECT,
			  .slot = SLOT,
			  .gen = GEN,
			  .turn = TURN_WOKEN,
			  .passed = 5 };
	struct msg m = next_message();
	struct actions out;

	ck_assert_int_eq(hold_step(&ctx, RECORD, &h, HE_NEXT, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(h.state, HOLD_HELD_NEXT);
	ck_assert_uint_eq(h.turn, TURN_GIVEN);
	ck_assert_uint_eq(h.passed, 1);
}

/*
 * The home asked when the record had this lock. A record with another home, generation or lock is
 * not affected.
 */
UNIT_TEST(a_recall_of_another_lock_takes_nothing_away)
{
	unsigned int state, i;

	for (state = 0; state < HOLD_STATES; state++)
		for (i = 0; i < 3; i++) {
			struct hold h = { .state = (uint8_t)state,
					  .home = HOME,
					  .object = OBJECT,
					  .slot = SLOT,
					  .gen = GEN },
				    before = h;
			struct msg m = recall_message();
			struct actions out;

			m.object += i == 0;
			m.req_node = (uint16_t)(m.req_node + (i == 1));
			m.src = (uint16_t)(m.src + (i == 2));
			ck_assert_int_eq(hold_step(&(struct hold_ctx){ .me = ME }, RECORD, &h,
						   HE_RECALL, &m, &out),
					 0);
			ck_assert_mem_eq(&h, &before, sizeof(h));
			ck_assert_str_eq(unit_text(&out), "RECALLED");
			ck_assert_int_eq(out.v[0].msg.count, -EBUSY);
			ck_assert_uint_eq(out.v[0].msg.dst, m.src);
			ck_assert_uint_eq(out.v[0].msg.object, m.object);
			ck_assert_uint_eq(out.v[0].msg.req_node, m.req_node);
			ck_assert_uint_eq(out.v[0].msg.aux, RECORD);
		}
}

/* The value of FREED says whether NEXT is on its way. */
UNIT_TEST(an_answer_to_unlock_is_told_apart_by_its_value)
{
	unsigned int crossed;

	for (crossed = 0; crossed < 2; crossed++) {
		struct hold h = { .state = HOLD_LEAVING };
		struct msg m = next_message();
		struct actions out;

		m.value = crossed;
		ck_assert_int_eq(
			hold_step(&(struct hold_ctx){ .me = ME }, RECORD, &h, HE_FREED, &m, &out),
			0);
		ck_assert_uint_eq(h.state, crossed ? HOLD_LEAVING_NEXT : HOLD_FREE);
	}
}

static void check_answer(const struct actions *out, uint8_t type, uint16_t rank, uint16_t slot,
			 uint32_t record)
{
	const struct msg *m = &out->v[0].msg;

	ck_assert_str_eq(unit_text(out), wire_name(type));
	ck_assert_uint_eq(m->src, HOME);
	ck_assert_uint_eq(m->dst, rank);
	ck_assert_uint_eq(m->object, OBJECT);
	ck_assert_uint_eq(m->req_node, rank);
	ck_assert_uint_eq(m->req_slot, slot);
	ck_assert_uint_eq(m->aux, record);
}

/*
 * The lock is free, or held by the asker's record, by another record of its rank, or by another
 * rank.
 */
UNIT_TEST(the_home_answers_every_request_in_every_state)
{
	static const struct {
		uint16_t rank;
		uint32_t record;
	} last[] = {
		{ 0, 0 }, { ME, RECORD }, { ME, NEXT_RECORD }, { NEXT, RECORD }, { 0, RECORD }
	};
	static const uint8_t types[] = { MSG_LOCK, MSG_TRYLOCK, MSG_UNLOCK };
	unsigned int i, k;

	for (i = 0; i < 5; i++)
		for (k = 0; k < 3; k++) {
			struct sync s = { .kind = SYNC_MUTEX, .gen = GEN << 8 | 0x12 };
			struct msg m = unit_msg(MSG_LOCK, last[i].rank, HOME, last[i].rank, 1), ask;
			struct actions out;
			uint64_t before;
			bool destroy;

			m.aux = last[i].record;
			m.object = OBJECT;
			if (i)
				ck_assert_int_eq(lock_home_step(HOME, &s, &m, &destroy, &out), 0);
			before = s.value;
			ask = unit_msg(types[k], ME, HOME, ME, SLOT);
			ask.object = OBJECT;
			ask.aux = RECORD;
			ck_assert_int_eq(lock_home_step(HOME, &s, &ask, &destroy, &out), 0);
			if (types[k] == MSG_UNLOCK) {
				check_answer(&out, MSG_FREED, ME, SLOT, RECORD);
				ck_assert_uint_eq(out.v[0].msg.value, i != 1);
				ck_assert_int_eq(out.v[0].msg.count, 0);
				ck_assert_uint_eq(s.value, i == 1 ? 0 : before);
			} else if (i && types[k] == MSG_TRYLOCK) {
				ck_assert_str_eq(unit_text(&out), "RECALL");
				ck_assert_uint_eq(out.v[0].msg.src, HOME);
				ck_assert_uint_eq(out.v[0].msg.dst, last[i].rank);
				ck_assert_uint_eq(out.v[0].msg.object, OBJECT);
				ck_assert_uint_eq(out.v[0].msg.req_node, GEN);
				ck_assert_uint_eq(out.v[0].msg.req_slot, 0);
				ck_assert_uint_eq(out.v[0].msg.aux, last[i].record);
				ck_assert_uint_eq(s.value, before);
			} else if (i) {
				ck_assert_str_eq(unit_text(&out), "NEXT");
				ck_assert_uint_eq(out.v[0].msg.dst, last[i].rank);
				ck_assert_uint_eq(out.v[0].msg.aux, last[i].record);
				ck_assert_uint_eq(out.v[0].msg.req_node, ME);
				ck_assert_uint_eq(out.v[0].msg.req_slot, SLOT);
				ck_assert_uint_eq(out.v[0].msg.value, RECORD);
				ck_assert_int_eq(out.v[0].msg.count, 0);
			} else {
				check_answer(&out, MSG_LOCKED, ME, SLOT, RECORD);
				ck_assert_uint_eq(out.v[0].msg.value, 0);
			}
		}
}

#define OTHER_RECORD 0x3456789au

/* What the home answers to a request, after the answer to its own question. */
static const struct answered {
	int16_t count;
	bool later; /* another rank has requested the lock meanwhile */
	bool freed; /* the keeper has given the lock back meanwhile */
	const char *says;
	int16_t status;
} answered[] = {
	{ 0, false, false, "FREED LOCKED", 0 },
	{ 0, true, false, "FREED FREED", -EBUSY },
	{ -EBUSY, false, false, "FREED", -EBUSY },
	{ -EBUSY, true, false, "FREED", -EBUSY },
	{ -EBUSY, false, true, "LOCKED", 0 },
	{ -EINPROGRESS, false, false, "FREED", -EINPROGRESS },
	{ -EINPROGRESS, false, true, "LOCKED", 0 },
	{ -EIO, false, false, "FREED", -EBUSY },
};

/* The home of a lock that NEXT's record has, the messages it gets, and its actions. */
struct home {
	struct sync s;
	struct msg first, try, answer, other;
	struct actions out;
	bool destroy;
};

static void hears(struct home *h, const struct msg *m)
{
	ck_assert_int_eq(lock_home_step(HOME, &h->s, m, &h->destroy, &h->out), 0);
}

static struct home kept_by_next(void)
{
	struct home h = { .s = { .kind = SYNC_MUTEX, .gen = GEN << 8 },
			  .first = unit_msg(MSG_LOCK, NEXT, HOME, NEXT, 1),
			  .try = unit_msg(MSG_TRYLOCK, ME, HOME, ME, SLOT),
			  .answer = unit_msg(MSG_RECALLED, NEXT, HOME, NEXT, 1),
			  .other = unit_msg(MSG_LOCK, 3, HOME, 3, 4) };

	h.first.object = h.try.object = h.answer.object = h.other.object = OBJECT;
	h.first.aux = h.answer.aux = NEXT_RECORD;
	h.try.aux = RECORD;
	h.other.aux = OTHER_RECORD;
	hears(&h, &h.first);
	return h;
}

/* The question for a trylock or for SOP_DESTROY is asked once. */
static void asks(struct home *h, bool destroys)
{
	if (destroys) {
		h->try.type = MSG_SYNC;
		h->out.n = 0;
		ck_assert(lock_home_recall(HOME, &h->s, &h->try, &h->out));
		ck_assert(!lock_home_recall(HOME, &h->s, &h->try, &h->out));
		ck_assert_str_eq(unit_text(&h->out), "RECALL");
	} else {
		hears(h, &h->try);
		hears(h, &h->try);
		check_answer(&h->out, MSG_FREED, ME, SLOT, RECORD);
		ck_assert_int_eq(h->out.v[0].msg.count, -EINPROGRESS);
	}
	ck_assert(!sync_idle(&h->s));
}

static void is_answered(struct home *h, const struct answered *a)
{
	const struct msg *m = &h->out.v[0].msg;

	if (a->later)
		hears(h, &h->other);
	if (a->freed) {
		h->first.type = MSG_UNLOCK;
		hears(h, &h->first);
		ck_assert(!sync_idle(&h->s)); /* the answer is still to come */
	}
	h->answer.count = a->count;
	hears(h, &h->answer);
	if (!a->count) {
		ck_assert_uint_eq(m->dst, NEXT);
		ck_assert_uint_eq(m->aux, NEXT_RECORD);
		ck_assert_uint_eq(m->value, a->later);
		ck_assert_int_eq(m->count, 0);
	}
}

static void check_trylock_told(struct home *h, const struct answered *a)
{
	const struct msg *m = &h->out.v[h->out.n - 1].msg;

	ck_assert_str_eq(unit_text(&h->out), a->says);
	ck_assert_uint_eq(m->dst, ME);
	ck_assert_uint_eq(m->req_node, ME);
	ck_assert_uint_eq(m->req_slot, SLOT);
	ck_assert_uint_eq(m->aux, RECORD);
	ck_assert_int_eq(m->count, a->status);
	/* A second answer is refused. */
	ck_assert_int_eq(lock_home_step(HOME, &h->s, &h->answer, &h->destroy, &h->out), -EBADMSG);
	if (a->status)
		return;
	/* The home knows the full name of the last in line now. */
	hears(h, &h->other);
	ck_assert_str_eq(unit_text(&h->out), "NEXT");
	ck_assert_uint_eq(h->out.v[0].msg.dst, ME);
	ck_assert_uint_eq(h->out.v[0].msg.aux, RECORD);
}

UNIT_TEST(an_answered_question_is_an_answered_request)
{
	unsigned int i, destroys;

	for (i = 0; i < sizeof(answered) / sizeof(answered[0]); i++)
		for (destroys = 0; destroys < 2; destroys++) {
			const struct answered *a = &answered[i];
			struct home h = kept_by_next();

			asks(&h, destroys);
			is_answered(&h, a);
			ck_assert_uint_eq(h.destroy, destroys);
			ck_assert_uint_eq(sync_idle(&h.s), destroys && !a->status);
			if (destroys) {
				ck_assert_uint_eq(h.s.who, ME);
				ck_assert_uint_eq(h.s.slot, SLOT);
			} else {
				check_trylock_told(&h, a);
			}
		}
}

UNIT_TEST(only_the_record_that_was_asked_answers)
{
	struct sync s = { .kind = SYNC_MUTEX, .gen = GEN << 8 };
	struct msg first = unit_msg(MSG_LOCK, NEXT, HOME, NEXT, 1),
		   try = unit_msg(MSG_TRYLOCK, ME, HOME, ME, SLOT), answer;
	struct actions out;
	bool destroy = true;
	struct sync before;

	first.aux = NEXT_RECORD;
	ck_assert_int_eq(lock_home_step(HOME, &s, &first, &destroy, &out), 0);
	ck_assert(!destroy);
	answer = first;
	answer.type = MSG_RECALLED;
	/* no question is out */
	ck_assert_int_eq(lock_home_step(HOME, &s, &answer, &destroy, &out), -EBADMSG);
	answer.req_node = 0;
	answer.aux = 0;
	ck_assert_int_eq(lock_home_step(HOME, &s, &answer, &destroy, &out), -EBADMSG);
	answer = first;
	answer.type = MSG_RECALLED;
	ck_assert_int_eq(lock_home_step(HOME, &s, &try, &destroy, &out), 0);
	before = s;
	answer.aux++;
	ck_assert_int_eq(lock_home_step(HOME, &s, &answer, &destroy, &out), -EBADMSG);
	answer.aux--;
	answer.req_node++;
	ck_assert_int_eq(lock_home_step(HOME, &s, &answer, &destroy, &out), -EBADMSG);
	ck_assert_mem_eq(&s, &before, sizeof(s));
	answer.req_node--;
	ck_assert_int_eq(lock_home_step(HOME, &s, &answer, &destroy, &out), 0);
	ck_assert(!destroy && !s.pumping && !s.tail);
}

UNIT_SUITE("lock_rules")
