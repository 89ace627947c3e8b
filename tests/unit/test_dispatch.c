// SPDX-License-Identifier: BSD-2-Clause
/* test_dispatch.c - core/dispatch: the object and the permitted senders of a message, objects that
 * come and go, answers to slots. */
#include "core.h"

#include "core/dispatch.h"

#define ME 2
#define HOME 5
#define OTHER 6
#define LIAR 7
#define RANKS 8
#define SLOTS 8
#define SLOT 3
#define PLACES 6

static struct copy page;
static struct dir dir;
static struct queue_entry nodes[RANKS * SLOTS];
static struct object_list list;
static struct sync table[PLACES];
static const struct objects objects = { .list = &list, .flat = table, .limit = PLACES };
static struct hold hold;
static struct bar bar;
static uint64_t ask;
static struct actions out;

static uint64_t combine(uint8_t op, uint64_t a, uint64_t b)
{
	return op + a + b;
}

static void setup(void)
{
	memset(&page, 0, sizeof(page));
	memset(&dir, 0, sizeof(dir));
	memset(nodes, 0, sizeof(nodes));
	memset(&list, 0, sizeof(list));
	memset(table, 0, sizeof(table));
	memset(&hold, 0, sizeof(hold));
	memset(&bar, 0, sizeof(bar));
	ask = 0;
}

/* Steps as a host does. */
static int step_at(uint16_t manager, const struct msg *m)
{
	struct dispatch d = { .me = ME,
			      .nnodes = RANKS,
			      .manager = manager,
			      .queue = { nodes, SLOTS, NULL },
			      .page = &page,
			      .dir = &dir,
			      .objects = &objects,
			      .hold = &hold,
			      .bar = &bar,
			      .combine = combine,
			      .ask = &ask };
	uint32_t number, missing;
	enum target t = dispatch_target(m, &number);

	if (t == TARGET_CREATE)
		d.index = objects_take(&objects, &missing);
	if (t == TARGET_CREATE || t == TARGET_OBJECT)
		d.object = objects_at(&objects, t == TARGET_CREATE ? d.index : number);
	return dispatch_step(&d, m, &out);
}

static int step(const struct msg *m)
{
	return step_at(HOME, m);
}

/* The message is refused, and no state changes. */
static void refused(int err, const struct msg *m, uint16_t manager)
{
	const struct copy p = page;
	const struct dir d = dir;
	const struct hold h = hold;
	const uint64_t a = ask;

	ck_assert_int_eq(step_at(manager, m), err);
	ck_assert_mem_eq(&page, &p, sizeof(p));
	ck_assert_mem_eq(&dir, &d, sizeof(d));
	ck_assert_mem_eq(&hold, &h, sizeof(h));
	ck_assert_uint_eq(ask, a);
}

UNIT_TEST(every_type_has_a_target)
{
	unsigned int t;

	for (t = 0; t <= MSG_TYPES; t++) {
		struct msg m = { .type = (uint8_t)t,
				 .object = 0x12000034,
				 .aux = 7,
				 .req_slot = SLOT,
				 .op = SOP_LOAD };
		enum target to;
		uint32_t n;

		m.op = t == MSG_RESUME ? 0 : SOP_LOAD;
		to = dispatch_target(&m, &n);
		ck_assert((to == TARGET_NONE) == (t == MSG_NONE || t == MSG_TYPES));
		if (to == TARGET_OBJECT)
			ck_assert_uint_eq(n, 0x34);
		if (to == TARGET_HOLD)
			ck_assert_uint_eq(n, 7);
		if (to == TARGET_SLOT)
			ck_assert_uint_eq(n, SLOT);
		if (to == TARGET_BLOCK)
			ck_assert_uint_eq(n, 0x12000034);
		if (to == TARGET_NONE || to == TARGET_HOST)
			refused(-EBADMSG, &m, HOME);
	}
}

/* ---- blocks --------------------------------------------------------------------------------- */

UNIT_TEST(nobody_asks_in_anothers_name)
{
	struct msg m = unit_msg(MSG_WRITE_REQ, LIAR, ME, OTHER, SLOT);

	refused(-EBADMSG, &m, ME);
	refused(-EBADMSG, &m, HOME);
	m.flags = MSGF_FORWARDED; /* only the manager may set it */
	refused(-EBADMSG, &m, HOME);
	m.src = HOME;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_GRANT)->dst, OTHER);
}

/* Otherwise a liar could begin something here, for which the manager, which later makes this rank
 * the home, would be blamed. */
UNIT_TEST(only_its_manager_is_asked_for_an_untouched_block)
{
	static const uint16_t managers[] = { ME, HOME, SET_NOBODY };
	unsigned int state, who, flags, write;

	for (state = 0; state < DIR_STATES; state++)
		for (who = 0; who < 3; who++)
			for (flags = 0; flags < 8; flags++)
				for (write = 0; write < 2; write++) {
					struct msg m =
						unit_msg(write ? MSG_WRITE_REQ : MSG_READ_REQ,
							 OTHER, ME, OTHER, SLOT);
					bool known = flags & 1, forward = flags & 2,
					     untouched = state <= DIR_PLACED;
					bool stray = known || (!forward && managers[who] == HOME);

					setup();
					dir = (struct dir){ .state = state & 7,
							    .owner = HOME,
							    .copyset = 1u << HOME };
					m.flags = (uint8_t)((known ? MSGF_KNOWN : 0) |
							    (forward ? MSGF_FORWARDED : 0) |
							    (flags & 4 ? MSGF_FIRST_TOUCH : 0));
					m.src = forward ? HOME : OTHER;
					ck_assert(dispatch_manager(&m) == (forward || !known));
					if ((untouched && stray) ||
					    (forward && managers[who] == ME))
						refused(-EBADMSG, &m, managers[who]);
					else if (state < DIR_MOVED)
						ck_assert_int_eq(step_at(managers[who], &m), 0);
				}
	/* The rank's own request goes where it was told; no rank is blamed. */
	setup();
	ck_assert_int_eq(
		step(&(struct msg){ .type = MSG_READ_REQ, .src = ME, .dst = ME, .req_node = ME }),
		0);
}

/* Otherwise it would occupy one of our slots' places in line, and our next request in that slot
 * would be refused. */
UNIT_TEST(only_our_own_request_is_forwarded_to_us)
{
	struct msg m = unit_msg(MSG_WRITE_REQ, HOME, ME, ME, SLOT),
		   own = unit_msg(MSG_WRITE_REQ, ME, ME, ME, SLOT);
	unsigned int state;

	m.flags = MSGF_FORWARDED;
	dir.state = DIR_EXCLUSIVE;
	dir.phase = DIR_BUSY;
	dir.owner = dir.served = OTHER;
	refused(-EBADMSG, &m, HOME);
	page.state = PG_WANT_WRITE;
	page.slot = SLOT + 1;
	refused(-EBADMSG, &m, HOME);
	m.type = MSG_READ_REQ;
	refused(-EBADMSG, &m, HOME);
	page.slot = SLOT; /* the slot may have asked before */
	for (state = 0; state < PG_STATES; state++) {
		page.state = (uint8_t)state;
		if (!page_asks(&page))
			refused(-EBADMSG, &m, HOME);
	}
	page.state = PG_WANT_READ;
	ck_assert_int_eq(step(&m), 0);
	refused(-EBADMSG, &own, HOME); /* the request is in line already */
}

UNIT_TEST(who_moved_a_block_here_is_blamed_for_the_circle)
{
	struct msg place = unit_msg(MSG_PLACE, LIAR, ME, LIAR, SLOT),
		   m = unit_msg(MSG_READ_REQ, HOME, ME, OTHER, SLOT);

	place.value = HOME; /* HOME is the manager, which forwards to us */
	refused(-EBADMSG, &place, HOME);
	ck_assert_int_eq(step_at(SET_NOBODY, &place), 0); /* this rank may be the manager */
	ck_assert_uint_eq(dir.state, DIR_MOVED);
	m.flags = MSGF_FORWARDED;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_uint_eq(unit_action(&out, ACT_BLAME, 0)->node, LIAR);
	refused(-ESTALE, &m, SET_NOBODY);
	m.src = LIAR;
	refused(-EBADMSG, &m, ME); /* nobody forwards to the manager */
}

UNIT_TEST(only_the_home_takes_a_copy_away)
{
	static const uint8_t types[] = { MSG_INV, MSG_FWD_READ, MSG_FWD_WRITE };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct msg m = unit_msg(types[i], LIAR, ME, OTHER, SLOT);

		page = (struct copy){ .state = PG_READ,
				      .flags = types[i] == MSG_INV ? 0 : PAGE_OWNER,
				      .home = HOME + 1 };
		refused(-EBADMSG, &m, HOME);
		m.src = HOME;
		ck_assert_int_eq(step(&m), 0);
		/* this rank never had a copy and knows no home: no rank can mean it */
		page = (struct copy){ 0 };
		refused(-EBADMSG, &m, HOME);
	}
}

UNIT_TEST(where_bits_are_several_ranks_a_stranger_is_invalidated)
{
	struct dispatch d = {
		.me = ME, .nnodes = 100, .manager = SET_NOBODY, .page = &page, .dir = &dir
	};
	struct msg m = unit_msg(MSG_INV, HOME, ME, OTHER, SLOT);
	unsigned int i;

	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_INV_ACK)->dst, OTHER);
	d.nnodes = 64;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
	/* Only the home of a copy may take it away. */
	d.nnodes = 100;
	m.src = LIAR;
	for (i = 0; i < 2; i++) {
		page = (struct copy){ .state = i ? PG_UPGRADE : PG_READ, .home = HOME + 1 };
		ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
	}
}

UNIT_TEST(an_answer_is_for_the_slot_and_from_the_home_that_was_asked)
{
	struct msg data = unit_msg(MSG_DATA, OTHER, ME, ME, SLOT),
		   ack = unit_msg(MSG_INV_ACK, OTHER, ME, ME, SLOT), m;
	struct msg grant = unit_msg(MSG_GRANT, HOME, ME, ME, SLOT);

	data.op = grant.op = GRANT_WRITE;
	data.home = HOME;
	refused(-ESTALE, &data, HOME); /* nothing was requested: a home may have lied about us */
	refused(-ESTALE, &ack, HOME);
	refused(-EBADMSG, &grant, HOME);
	page = (struct copy){ .state = PG_UPGRADE, .home = HOME + 1, .slot = SLOT };
	m = data, m.req_slot++;
	refused(-ESTALE, &m, HOME);
	m = data, m.home = LIAR;
	refused(-ESTALE, &m, HOME);
	m = ack, m.req_slot++;
	refused(-ESTALE, &m, HOME);
	m = grant, m.src = m.home = LIAR;
	refused(-EBADMSG, &m, HOME);
	m = grant, m.req_slot++;
	refused(-EBADMSG, &m, HOME);
	ck_assert_int_eq(step(&grant), 0);
	ck_assert_uint_eq(page.state, PG_GOT_WRITE);
}

UNIT_TEST(only_the_manager_makes_homes_and_only_of_who_asks)
{
	struct msg m = unit_msg(MSG_HOME, HOME, ME, ME, SLOT), bad;

	m.op = MSG_READ_REQ;
	refused(-EBADMSG, &m, HOME);
	page = (struct copy){ .state = PG_WANT_READ, .slot = SLOT };
	bad = m, bad.src = LIAR;
	refused(-EBADMSG, &bad, HOME);
	bad = m, bad.req_slot++;
	refused(-EBADMSG, &bad, HOME);
	ck_assert_int_eq(step(&m), 0);
	ck_assert_ptr_nonnull(unit_sent(&out, MSG_HOME_ACK));
}

UNIT_TEST(who_is_not_the_owner_gives_nothing_back)
{
	struct msg m = unit_msg(MSG_RELEASE, LIAR, ME, LIAR, SLOT);
	unsigned int state;

	m.op = RELEASE_EVICT;
	for (state = 0; state < DIR_STATES; state++) {
		dir = (struct dir){ .state = state & 7, .owner = OTHER, .copyset = 1u << OTHER };
		ck_assert_int_eq(step(&m), 0);
		/* an honest rank may be late, so it only gets an answer */
		ck_assert_uint_eq(out.n, 1);
		ck_assert_uint_eq(unit_sent(&out, MSG_REPLY)->dst, LIAR);
		dir.owner = LIAR;
		ck_assert_int_eq(step(&m), 0);
		ck_assert_uint_eq(out.n, 1u + (state == DIR_SHARED || state == DIR_EXCLUSIVE));
	}
	dir = (struct dir){ .state = DIR_SHARED, .owner = LIAR };
	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_FETCH, 0)->prot, PROT_RW);
	ck_assert_uint_eq(unit_action(&out, ACT_FETCH, 0)->msg.flags, 0);
	m.op = RELEASE_KEEP;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(unit_action(&out, ACT_FETCH, 0)->prot, PROT_RO);
	/* the home does not use it */
	ck_assert_uint_eq(unit_action(&out, ACT_FETCH, 0)->msg.flags, MSGF_PUSH);
}

/* ---- objects -------------------------------------------------------------------------------- */

static struct msg sync_msg(uint16_t src, uint8_t op, uint64_t name)
{
	struct msg m = unit_msg(MSG_SYNC, src, ME, src, SLOT);

	m.home = 0;
	m.op = op;
	object_address(&m, name);
	if (op == SOP_CREATE)
		m.aux = SYNC_ATOMIC;
	return m;
}

/* Returns the status of the answer; *value is its value. */
static int request(uint16_t src, uint8_t op, uint64_t name, uint64_t *value)
{
	struct msg m = sync_msg(src, op, name);

	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_uint_eq(out.v[0].msg.dst, src);
	ck_assert_uint_eq(out.v[0].msg.req_node, src);
	ck_assert_uint_eq(out.v[0].msg.object, (uint32_t)name);
	if (value)
		*value = out.v[0].msg.value;
	return out.v[0].msg.count;
}

UNIT_TEST(an_old_name_is_never_that_of_another)
{
	uint64_t old[200], value;
	unsigned int i, k;

	for (i = 0; i < 200; i++) {
		/* more bits than `object` has */
		table[1].gen = i < 100 ? table[1].gen : table[1].gen | 0xfff00;
		ck_assert_int_eq(request(OTHER, SOP_CREATE, 0, &old[i]), 0);
		ck_assert_uint_eq(old[i] & SYNC_INDEX_MAX, 1);
		for (k = 0; k < i; k++) {
			ck_assert_uint_ne(old[k], old[i]);
			ck_assert_int_eq(request(LIAR, SOP_ADD, old[k], NULL), -EINVAL);
			ck_assert_int_eq(request(LIAR, SOP_DESTROY, old[k], NULL), -EINVAL);
		}
		ck_assert_int_eq(request(LIAR, SOP_LOAD, old[i], &value), 0);
		ck_assert_int_eq(request(OTHER, SOP_DESTROY, old[i], NULL), 0);
	}
}

UNIT_TEST(a_place_whose_names_are_used_up_is_retired)
{
	uint64_t name[PLACES + 1];
	unsigned int i;

	table[1].gen = OBJECT_GEN_MAX - 1;
	ck_assert_int_eq(request(OTHER, SOP_CREATE, 0, &name[0]), 0);
	ck_assert_uint_eq(name[0], object_name(1, OBJECT_GEN_MAX));
	ck_assert_int_eq(request(OTHER, SOP_DESTROY, name[0], NULL), 0);
	for (i = 2; i < PLACES; i++) {
		ck_assert_int_eq(request(OTHER, SOP_CREATE, 0, &name[i]), 0);
		ck_assert_uint_eq(name[i], object_name(i, 1));
	}
	ck_assert_int_eq(request(OTHER, SOP_CREATE, 0, NULL), -ENOSPC);
	ck_assert_int_eq(request(OTHER, SOP_DESTROY, name[3], NULL), 0);
	ck_assert_int_eq(request(OTHER, SOP_CREATE, 0, &name[PLACES]), 0);
	ck_assert_uint_eq(name[PLACES], object_name(3, 2));
	ck_assert_int_eq(request(OTHER, SOP_LOAD, name[0], NULL), -EINVAL);
}

UNIT_TEST(places_may_lie_in_chunks)
{
	static struct sync first[OBJECT_CHUNK], second[OBJECT_CHUNK];
	struct sync *chunks[2] = { first };
	const struct objects o = { .list = &list, .chunks = chunks, .limit = 2 * OBJECT_CHUNK };
	uint32_t i, missing;

	memset(first, 0, sizeof(first));
	for (i = 1; i < OBJECT_CHUNK; i++)
		ck_assert_uint_eq(objects_take(&o, &missing), i);
	ck_assert_uint_eq(objects_take(&o, &missing), 0);
	ck_assert_uint_eq(missing, OBJECT_CHUNK);
	ck_assert_ptr_null(objects_at(&o, OBJECT_CHUNK));
	ck_assert_ptr_null(objects_at(&o, 2 * OBJECT_CHUNK));
	ck_assert_ptr_null(objects_at(&o, 0));
	chunks[1] = second;
	ck_assert_uint_eq(objects_take(&o, &missing), OBJECT_CHUNK);
	ck_assert_ptr_eq(objects_at(&o, OBJECT_CHUNK), &second[0]);
	objects_give(&o, 7);
	objects_give(&o, OBJECT_CHUNK);
	ck_assert_uint_eq(objects_take(&o, &missing), OBJECT_CHUNK);
	ck_assert_uint_eq(objects_take(&o, &missing), 7);
	ck_assert_uint_eq(objects_take(&o, &missing), OBJECT_CHUNK + 1);
}

UNIT_TEST(what_is_in_use_is_not_destroyed)
{
	struct msg m = sync_msg(OTHER, SOP_CREATE, 0);
	uint64_t name;

	m.aux = SYNC_RWLOCK;
	ck_assert_int_eq(step(&m), 0);
	name = out.v[0].msg.value;
	ck_assert_int_eq(request(OTHER, SOP_WRLOCK, name, NULL), 0);
	ck_assert_int_eq(request(LIAR, SOP_DESTROY, name, NULL), -EBUSY);
	ck_assert_int_eq(request(OTHER, SOP_WRUNLOCK, name, NULL), 0);
	ck_assert_int_eq(request(LIAR, SOP_DESTROY, name, NULL), 0);
}

/* A destroyed lock: a request is refused; a release is answered as if the lock had been passed on.
 * The requester is the sender, whatever the message names. */
UNIT_TEST(locks_of_gone_objects_are_answered)
{
	struct msg m = unit_msg(MSG_LOCK, OTHER, ME, 0x77, SLOT);

	m.object = 9u << 24 | 1;
	m.aux = 0x12345;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_FREED)->count, -EINVAL);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->aux, 0x12345);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->dst, OTHER);
	m.type = MSG_UNLOCK;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_FREED)->count, 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_FREED)->value, 1);
	m.type = MSG_RECALLED; /* the question is still out */
	ck_assert_int_eq(step(&m), -EBADMSG);
	table[1] = (struct sync){ .kind = SYNC_MUTEX, .gen = 0x7709 };
	m.type = MSG_LOCK;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->dst, OTHER);
	ck_assert_uint_eq(unit_sent(&out, MSG_LOCKED)->req_node, OTHER);
	table[1].kind = SYNC_SEM;
	ck_assert_int_eq(step(&m), 0);
	ck_assert_int_eq(unit_sent(&out, MSG_FREED)->count, -EINVAL);
}

/* ---- locks and answers ----------------------------------------------------------------------- */

UNIT_TEST(a_record_hears_its_home_and_its_lock_only)
{
	struct msg locked = unit_msg(MSG_LOCKED, OTHER, ME, ME, SLOT),
		   next = unit_msg(MSG_NEXT, HOME, ME, OTHER, 1), m;
	struct msg freed = unit_msg(MSG_FREED, HOME, ME, ME, SLOT);

	refused(-ESTALE, &locked, HOME);
	refused(-EBADMSG, &next, HOME);
	refused(-EBADMSG, &freed, HOME);
	hold = (struct hold){ .state = HOLD_WAITING, .home = HOME, .object = 1, .slot = SLOT };
	m = locked, m.object = 2;
	refused(-ESTALE, &m, HOME);
	m = locked, m.req_slot++;
	refused(-ESTALE, &m, HOME);
	m = next, m.src = LIAR;
	refused(-EBADMSG, &m, HOME);
	m = next, m.object = 2;
	refused(-EBADMSG, &m, HOME);
	m = freed, m.src = LIAR, m.count = -EBUSY;
	refused(-EBADMSG, &m, HOME);
	ck_assert_int_eq(step(&next), 0);
	ck_assert_int_eq(step(&locked), 0); /* from the last holder, whichever rank that was */
	ck_assert_uint_eq(hold.state, HOLD_HELD_NEXT);
	hold.state = HOLD_WAITING;
	freed.count = -ENOMEM;
	ck_assert_int_eq(step(&freed), 0);
	ck_assert_int_eq(unit_action(&out, ACT_WAKE, 0)->status, -ENOMEM);
}

static struct msg reply(uint16_t src, int16_t count, uint64_t value)
{
	struct msg m = unit_msg(MSG_REPLY, src, ME, ME, SLOT);

	m.count = count;
	m.value = value;
	return m;
}

UNIT_TEST(a_reply_is_taken_once_from_whom_was_asked)
{
	static const uint8_t types[] = { MSG_SYNC,  MSG_PLACE,   MSG_SETTLE,
					 MSG_CLAIM, MSG_RELEASE, MSG_ECHO };
	struct msg good = reply(HOME, -EBUSY, 77), m, q;
	unsigned int i;

	refused(-EBADMSG, &good, HOME);
	for (i = 0; i < sizeof(types); i++) {
		q = unit_msg(types[i], ME, HOME, ME, SLOT);
		q.op = types[i] == MSG_SYNC ? SOP_ADD : 0;
		ask_note(&ask, &q);
		m = good, m.src = LIAR;
		refused(-EBADMSG, &m, HOME);
		m = good, m.object++;
		refused(-EBADMSG, &m, HOME);
		m = good, m.type = MSG_RETURN;
		ck_assert_int_eq(dispatch_answer(&ask, &m, &(bool){ 0 }), -EBADMSG);
		ck_assert_int_eq(step(&good), 0);
		ck_assert_uint_eq(out.v[0].type, ACT_REPLY);
		ck_assert_uint_eq(out.v[0].slot, SLOT);
		ck_assert_int_eq(out.v[0].status, -EBUSY);
		ck_assert_uint_eq(out.v[0].mask, 77);
		ck_assert_uint_eq(out.v[0].prot, 1);
		refused(-EBADMSG, &good, HOME);
	}
	q = unit_msg(MSG_CALL, ME, HOME, ME, SLOT);
	ask_note(&ask, &q);
	refused(-EBADMSG, &good, HOME);
	good.type = MSG_RETURN;
	ck_assert_int_eq(dispatch_answer(&ask, &good, &(bool){ 0 }), 0);
	ck_assert_uint_eq(ask, 0);
}

/* Requests for blocks and locks are not noted in slots: no answer to a slot's question frees
 * them. */
UNIT_TEST(what_is_no_question_of_the_slot_is_not_noted)
{
	unsigned int t;

	for (t = 0; t < MSG_TYPES; t++)
		ck_assert(ask_is((uint8_t)t) ==
			  (t == MSG_SYNC || t == MSG_PLACE || t == MSG_SETTLE || t == MSG_CLAIM ||
			   t == MSG_RELEASE || t == MSG_CALL || t == MSG_ECHO));
}

static void note(uint8_t op, uint8_t flags)
{
	struct msg q = unit_msg(MSG_SYNC, ME, HOME, ME, SLOT);

	q.op = op;
	q.flags = flags;
	ask_note(&ask, &q);
}

static void answered(int16_t count, bool last)
{
	struct msg m = reply(HOME, count, 0);

	ck_assert_int_eq(step(&m), 0);
	ck_assert_uint_eq(out.v[0].prot, last);
}

UNIT_TEST(answers_are_as_many_as_the_question_has)
{
	struct msg more = reply(HOME, 0, 0);
	unsigned int i;

	for (i = 0; i < 2; i++) {
		note(i ? SOP_WAIT : SOP_ENQUEUE, i ? MSGF_TIMED : 0); /* "in line", then the turn */
		answered(0, false);
		answered(0, true);
		refused(-EBADMSG, &more, HOME);
		note(i ? SOP_WAIT : SOP_ENQUEUE, i ? MSGF_TIMED : 0); /* no such object */
		answered(-EINVAL, true);
		refused(-EBADMSG, &more, HOME);
		note(i ? SOP_WAIT : SOP_ENQUEUE, i ? MSGF_TIMED : 0); /* cancelled in time */
		answered(0, false);
		note(SOP_CANCEL, 0);
		answered(-ETIMEDOUT, true);
		refused(-EBADMSG, &more, HOME);
		/* too late: both answers come, in either order */
		note(i ? SOP_WAIT : SOP_ENQUEUE, i ? MSGF_TIMED : 0);
		answered(0, false);
		note(SOP_CANCEL, 0);
		answered(i ? -EALREADY : 0, false);
		answered(i ? 0 : -EALREADY, true);
		refused(-EBADMSG, &more, HOME);
		note(SOP_CANCEL, 0); /* the turn came before SOP_CANCEL was sent */
		answered(-EALREADY, true);
	}
	note(SOP_WAIT, 0);
	answered(0, true);
}

UNIT_SUITE("dispatch", .setup = setup)
