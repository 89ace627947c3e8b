// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_dispatch_rules.c - core/dispatch: the state machine that a message is for, creation and
 * destruction of objects, refusals.
 */
#include "core.h"

#include "core/dispatch.h"

#define ME 1021
#define PEER 777
#define SLOT 0x1234
#define PLACES 3 /* objects; index 0 is none */

static struct sync table[PLACES + 1];
static struct object_list list;
static const struct objects objects = { .list = &list, .flat = table, .limit = PLACES + 1 };
static struct queue_entry nodes[WIRE_MAX_NODES * (SLOT + 1)];

static struct msg request(uint8_t type, uint8_t op, uint64_t name)
{
	struct msg m = unit_msg(type, PEER, ME, 0, SLOT);

	m.op = op;
	object_address(&m, name);
	return m;
}

/* As a host: find the target, step, return the answer. */
static struct actions out; /* actions of the last step */

static struct msg carry(const struct msg *m, const char *text)
{
	struct dispatch d = { .me = ME, .nnodes = WIRE_MAX_NODES, .objects = &objects };
	uint32_t number, missing;
	enum target t = dispatch_target(m, &number);

	ck_assert(t == TARGET_CREATE || t == TARGET_OBJECT);
	d.queue = (struct qpool){ .entries = nodes, .nslots = SLOT + 1 };
	d.index = t == TARGET_CREATE ? objects_take(&objects, &missing) : 0;
	d.object = objects_at(&objects, t == TARGET_CREATE ? d.index : number);
	ck_assert_int_eq(dispatch_step(&d, m, &out), 0);
	ck_assert_str_eq(unit_text(&out), text);
	if (!out.n)
		return (struct msg){ 0 };
	ck_assert_uint_eq(out.v[0].msg.src, ME);
	if (out.v[0].msg.type == MSG_RECALL)
		return out.v[0].msg; /* no answer */
	ck_assert_uint_eq(out.v[0].msg.dst, PEER);
	ck_assert_uint_eq(out.v[0].msg.req_node, PEER);
	ck_assert_uint_eq(out.v[0].msg.req_slot, SLOT);
	if (t != TARGET_CREATE)
		ck_assert_uint_eq(out.v[0].msg.object, m->object);
	return out.v[0].msg;
}

static struct msg create(uint8_t kind, uint64_t value)
{
	struct msg m = request(MSG_SYNC, SOP_CREATE, 0);

	m.aux = kind;
	m.value = value;
	return carry(&m, "REPLY");
}

static int16_t operate(uint8_t op, uint64_t name)
{
	struct msg m = request(MSG_SYNC, op, name);

	return carry(&m, "REPLY").count;
}

static void setup(void)
{
	memset(table, 0, sizeof(table));
	memset(&list, 0, sizeof(list));
}

UNIT_TEST(an_object_is_known_by_its_name_alone)
{
	struct msg made = create(SYNC_ATOMIC, 42), load = request(MSG_SYNC, SOP_LOAD, made.value);
	uint64_t wrong[] = { made.value + 1, made.value ^ 1ull << 24, made.value ^ 1ull << 32,
			     made.value ^ 1ull << 47, 0 };
	unsigned int i;

	ck_assert_int_eq(made.count, 0);
	ck_assert_uint_eq(carry(&load, "REPLY").value, 42);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(operate(SOP_LOAD, wrong[i]), -EINVAL);
		ck_assert_int_eq(operate(SOP_DESTROY, wrong[i]), -EINVAL);
	}
	ck_assert_uint_eq(carry(&load, "REPLY").value, 42);
}

UNIT_TEST(a_destroyed_object_leaves_its_place_but_not_its_name)
{
	uint64_t names[PLACES], first, again;
	unsigned int i, k;

	for (i = 0; i < PLACES; i++) {
		names[i] = create(SYNC_SEM, 1).value;
		for (k = 0; k < i; k++)
			ck_assert_uint_ne(names[i], names[k]);
	}
	ck_assert_int_eq(create(SYNC_SEM, 1).count, -ENOSPC);
	first = names[1];
	for (i = 0; i < 1000; i++) {
		/*
		 * Each change of the list has a new number; otherwise a compare and exchange could
		 * succeed on a stale head.
		 */
		ck_assert_uint_eq(list.free >> 32, 2 * i);
		ck_assert_int_eq(operate(SOP_DESTROY, names[1]), 0);
		ck_assert_uint_eq(list.free >> 32, 2 * i + 1);
		ck_assert_int_eq(operate(SOP_WAIT, names[1]), -EINVAL);
		ck_assert_int_eq(operate(SOP_DESTROY, names[1]), -EINVAL);
		again = create(SYNC_SEM, 1).value;
		ck_assert_uint_ne(again, names[1]);
		ck_assert_uint_ne(again, first);
		names[1] = again;
	}
	ck_assert_int_eq(create(SYNC_SEM, 1).count, -ENOSPC);
}

UNIT_TEST(an_object_in_use_is_not_destroyed)
{
	struct msg made = create(SYNC_RWLOCK, 0);

	ck_assert_int_eq(operate(SOP_WRLOCK, made.value), 0);
	ck_assert_int_eq(operate(SOP_DESTROY, made.value), -EBUSY);
	ck_assert_int_eq(operate(SOP_WRUNLOCK, made.value), 0);
	ck_assert_int_eq(operate(SOP_DESTROY, made.value), 0);
}

/*
 * The home asks the rank that keeps the mutex, and does what it answers. Other requests must be
 * repeated meanwhile.
 */
UNIT_TEST(a_kept_mutex_is_recalled_before_it_is_destroyed)
{
	static const int16_t says[] = { -EBUSY, -EINPROGRESS, 0 };
	struct msg made = create(SYNC_MUTEX, 0), lock = request(MSG_LOCK, 0, made.value), recalled,
		   m;
	struct msg destroy = request(MSG_SYNC, SOP_DESTROY, made.value), again = destroy;
	unsigned int i;

	lock.aux = 0x12345678;
	carry(&lock, "LOCKED");
	for (i = 0; i < 3; i++) {
		m = carry(&destroy, "RECALL");
		ck_assert_uint_eq(m.dst, lock.src);
		ck_assert_uint_eq(m.aux, 0x12345678);
		ck_assert_uint_eq(m.object, lock.object);
		ck_assert_uint_eq(m.req_node, lock.req_node);
		ck_assert_int_eq(carry(&again, "REPLY").count, -EINPROGRESS);
		recalled = lock;
		recalled.type = MSG_RECALLED;
		recalled.count = says[i];
		carry(&recalled, says[i] ? "REPLY" : "FREED REPLY");
		m = out.v[out.n - 1].msg;
		ck_assert_int_eq(m.count, says[i]);
		ck_assert_uint_eq(m.dst, destroy.src);
		ck_assert_uint_eq(m.req_slot, SLOT);
		ck_assert_uint_eq(m.object, destroy.object);
	}
	ck_assert_int_eq(operate(SOP_DESTROY, made.value), -EINVAL);
}

UNIT_TEST(a_mutex_that_nobody_has_is_destroyed_at_once)
{
	uint64_t name = create(SYNC_MUTEX, 0).value;

	ck_assert_int_eq(operate(SOP_DESTROY, name), 0);
	ck_assert_int_eq(operate(SOP_DESTROY, name), -EINVAL);
}

/*
 * The keeper gave the mutex back before it was asked, and so answers "soon". The mutex it sent back
 * overtook the question.
 */
UNIT_TEST(a_mutex_that_came_back_meanwhile_is_destroyed)
{
	struct msg made = create(SYNC_MUTEX, 0), m = request(MSG_LOCK, 0, made.value);
	struct msg destroy = request(MSG_SYNC, SOP_DESTROY, made.value);

	carry(&m, "LOCKED");
	carry(&destroy, "RECALL");
	m.type = MSG_UNLOCK;
	ck_assert_uint_eq(carry(&m, "FREED").value, 0);
	/* the question is still out */
	ck_assert_int_eq(operate(SOP_DESTROY, made.value), -EINPROGRESS);
	m.type = MSG_RECALLED;
	m.count = -EINPROGRESS;
	ck_assert_int_eq(carry(&m, "REPLY").count, 0);
	ck_assert_int_eq(operate(SOP_DESTROY, made.value), -EINVAL);
}

/*
 * LOCK of a destroyed mutex is refused. An UNLOCK may cross the message of its successor, which
 * destroyed the mutex.
 */
UNIT_TEST(requests_for_a_mutex_that_is_gone_are_answered_as_such)
{
	struct msg lock = request(MSG_LOCK, 0, object_name(1, 1)), unlock = lock, m, turn = lock;

	lock.aux = unlock.aux = 0x12345678;
	unlock.type = MSG_UNLOCK;
	m = carry(&lock, "FREED");
	ck_assert_int_eq(m.count, -EINVAL);
	ck_assert_uint_eq(m.value, 0);
	ck_assert_uint_eq(m.aux, 0x12345678);
	m = carry(&unlock, "FREED");
	ck_assert_int_eq(m.count, 0);
	ck_assert_uint_eq(m.value, 1);
	ck_assert_uint_eq(m.aux, 0x12345678);
	turn.type = MSG_RESUME;
	turn.op = 1;
	carry(&turn, "");
	/* An object of another kind is no mutex. */
	lock = request(MSG_LOCK, 0, create(SYNC_SEM, 0).value);
	ck_assert_int_eq(carry(&lock, "FREED").count, -EINVAL);
}

/*
 * A block released by its owner is fetched; one released by another rank is not. Both get an
 * answer.
 */
UNIT_TEST(a_release_is_answered_whoever_it_is_from)
{
	unsigned int state, owner, evict;

	for (state = 0; state < DIR_STATES; state++)
		for (owner = 0; owner < 2; owner++)
			for (evict = 0; evict < 2; evict++) {
				struct copy p = { 0 };
				struct dir e = { .state = state & 7, .owner = owner ? PEER : 5 },
					   was = e;
				struct dispatch d = { .me = ME,
						      .nnodes = WIRE_MAX_NODES,
						      .manager = evict ? 700 : SET_NOBODY,
						      .page = &p,
						      .dir = &e };
				struct msg m = unit_msg(MSG_RELEASE, PEER, ME, PEER, SLOT);
				bool fetch =
					owner && (state == DIR_SHARED || state == DIR_EXCLUSIVE);

				m.op = evict ? RELEASE_EVICT : RELEASE_KEEP;
				m.object = 0x87654321u;
				ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
				ck_assert_uint_eq(out.n, 1u + fetch);
				ck_assert_uint_eq(out.v[0].msg.type, MSG_REPLY);
				ck_assert_uint_eq(out.v[0].msg.dst, PEER);
				ck_assert_uint_eq(out.v[0].msg.req_slot, SLOT);
				ck_assert_uint_eq(out.v[0].msg.object, m.object);
				ck_assert_int_eq(out.v[0].msg.count, 0);
				if (fetch) {
					ck_assert_uint_eq(out.v[1].type, ACT_FETCH);
					ck_assert_uint_eq(out.v[1].prot, evict ? PROT_RW : PROT_RO);
					/* this node asks itself, also later */
					ck_assert_uint_eq(p.home, ME + 1);
					m.home = ME;
					m.flags = evict ? 0 : MSGF_PUSH;
					ck_assert_mem_eq(&out.v[1].msg, &m, sizeof(m));
				}
				ck_assert_mem_eq(&e, &was, sizeof(e));
			}
}

/*
 * A block is placed here: the home says so, and stays. Otherwise a rank requests the block, or
 * reports the home of its only copy.
 */
UNIT_TEST(a_block_settles_in_every_state)
{
	unsigned int state, phase, has, known;

	for (state = 0; state < DIR_STATES; state++)
		for (phase = 0; phase < DIR_PHASES; phase++)
			for (has = 0; has < PG_STATES; has++)
				for (known = 0; known < 2; known++) {
					struct copy p = { .state = (uint8_t)has, .home = 9 },
						    copy = p;
					struct dir e = { .state = state & 7,
							 .phase = phase & 7,
							 .uses = 1 },
						   was = e;
					struct dispatch d = { .me = ME,
							      .nnodes = WIRE_MAX_NODES,
							      .manager = known ? 700 : SET_NOBODY,
							      .page = &p,
							      .dir = &e };
					struct msg m = unit_msg(MSG_SETTLE, PEER, ME, PEER, SLOT);
					bool home = state == DIR_PLACED || state == DIR_SHARED ||
						state == DIR_EXCLUSIVE;
					bool stays =
						home && phase != DIR_HANDING && phase != DIR_MOVING;
					bool asks = known && !stays &&
						(has == PG_INVALID || has == PG_READ);
					const struct msg *reply = &out.v[0].msg;

					m.object = 0x87654321u;
					ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
					ck_assert_uint_eq(out.n, 1u + asks);
					ck_assert_uint_eq(reply->type, MSG_REPLY);
					ck_assert_uint_eq(reply->dst, PEER);
					ck_assert_uint_eq(reply->req_slot, SLOT);
					ck_assert_int_eq(reply->count,
							 stays           ? 0
								 : known ? -EBUSY
									 : -ENXIO);
					ck_assert_uint_eq(reply->value,
							  known && !stays && has == PG_WRITE ? 9
											     : 0);
					if (asks) {
						ck_assert_uint_eq(out.v[1].type, ACT_FETCH);
						ck_assert_uint_eq(out.v[1].prot, PROT_RW);
						ck_assert_uint_eq(out.v[1].msg.object, m.object);
						ck_assert_uint_eq(out.v[1].msg.flags, MSGF_PLACE);
						ck_assert_uint_eq(out.v[1].msg.home, 700);
					}
					was.uses = stays ? DIR_STAYS : 1;
					ck_assert_mem_eq(&e, &was, sizeof(e));
					ck_assert_mem_eq(&p, &copy, sizeof(p));
				}
}

UNIT_TEST(every_type_has_its_target)
{
	unsigned int t;
	uint32_t number;

	for (t = 0; t < 256; t++) {
		struct msg m = {
			.type = (uint8_t)t, .object = 5u << 24 | 77, .aux = 88, .req_slot = 99
		};
		enum target target = dispatch_target(&m, &number);
		bool host = t == MSG_CALL || t == MSG_RETURN || t == MSG_PING || t >= MSG_BYE ||
			t == MSG_REVOKE;

		if (!t || t >= MSG_TYPES)
			ck_assert_int_eq(target, TARGET_NONE);
		else if (t == MSG_REPLY)
			ck_assert(target == TARGET_SLOT && number == 99);
		else if (t == MSG_ARRIVE || t == MSG_DEPART)
			ck_assert(target == TARGET_BARRIER && number == m.object);
		else if (t == MSG_NEXT || t == MSG_LOCKED || t == MSG_FREED || t == MSG_RECALL)
			ck_assert(target == TARGET_HOLD && number == 88);
		else if (t == MSG_SYNC)
			ck_assert_int_eq(target, TARGET_CREATE); /* op 0 */
		else if (t == MSG_LOCK || t == MSG_TRYLOCK || t == MSG_UNLOCK ||
			 t == MSG_RECALLED || t == MSG_REVOKED)
			ck_assert(target == TARGET_OBJECT && number == 77);
		else if (t == MSG_FLUSHED || t == MSG_NOTED)
			ck_assert_int_eq(target, TARGET_CLOSING);
		else if (host)
			ck_assert_int_eq(target, TARGET_HOST);
		else
			ck_assert(target == TARGET_BLOCK && number == m.object);
	}
}

UNIT_TEST(the_manager_matters_to_these)
{
	unsigned int t, flags;

	for (t = 0; t < 256; t++)
		for (flags = 0; flags < 256; flags++) {
			struct msg m = { .type = (uint8_t)t, .flags = (uint8_t)flags };
			bool request = t == MSG_READ_REQ || t == MSG_WRITE_REQ;
			bool always = t == MSG_DONE || t == MSG_HOME || t == MSG_MOVE ||
				t == MSG_MOVE_ACK || t == MSG_ADOPT || t == MSG_MOVED ||
				t == MSG_PLACE || t == MSG_SETTLE || t == MSG_CLAIM ||
				t == MSG_RELEASE;
			bool matters =
				request ? flags & MSGF_FORWARDED || !(flags & MSGF_KNOWN) : always;

			unit_require(dispatch_manager(&m) == matters);
		}
}

/*
 * A slot accepts answers only from the rank that was asked, about the object of the request, and as
 * many as the request has.
 */
UNIT_TEST(a_slot_takes_the_answer_to_its_question)
{
	unsigned int t;

	for (t = 0; t < MSG_TYPES; t++) {
		bool asks = t == MSG_SYNC || t == MSG_PLACE || t == MSG_SETTLE || t == MSG_CLAIM ||
			t == MSG_RELEASE || t == MSG_CALL || t == MSG_ECHO;
		struct msg m = unit_msg((uint8_t)t, ME, PEER, ME, SLOT);
		struct msg reply = unit_msg(t == MSG_CALL ? MSG_RETURN : MSG_REPLY, PEER, ME, ME,
					    SLOT),
			   stray = reply;
		bool last = false;
		uint64_t ask = 0;

		m.op = SOP_LOAD;
		m.object = reply.object = stray.object = 0x87654321u;
		ask_note(&ask, &m);
		stray.src = ME;
		ck_assert_int_eq(dispatch_answer(&ask, &stray, &last), -EBADMSG);
		stray = reply;
		stray.object ^= 1u << 31;
		ck_assert_int_eq(dispatch_answer(&ask, &stray, &last), -EBADMSG);
		stray = reply;
		stray.type = t == MSG_CALL ? MSG_REPLY : MSG_RETURN;
		ck_assert_int_eq(dispatch_answer(&ask, &stray, &last), -EBADMSG);
		ck_assert_int_eq(dispatch_answer(&ask, &reply, &last), asks ? 0 : -EBADMSG);
		ck_assert_int_eq(last, asks);
		ck_assert_int_eq(dispatch_answer(&ask, &reply, &last), -EBADMSG);
	}
}

UNIT_TEST(an_answer_keeps_its_width)
{
	struct msg q = unit_msg(MSG_SYNC, ME, PEER, ME, SLOT),
		   m = unit_msg(MSG_REPLY, PEER, ME, ME, SLOT);
	uint64_t ask = 0;
	struct dispatch d = { .me = ME, .nnodes = WIRE_MAX_NODES, .ask = &ask };

	q.op = SOP_ADD;
	ask_note(&ask, &q);
	m.count = -4095;
	m.value = 0x123456789abcdef0;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_uint_eq(out.v[0].slot, SLOT);
	ck_assert_int_eq(out.v[0].status, -4095);
	ck_assert_uint_eq(out.v[0].mask, 0x123456789abcdef0);
}

UNIT_TEST(a_refused_record_keeps_the_status)
{
	struct hold h = { .state = HOLD_WAITING, .home = PEER, .object = 1, .slot = SLOT };
	struct dispatch d = { .me = ME, .nnodes = WIRE_MAX_NODES, .hold = &h };
	struct msg m = unit_msg(MSG_FREED, PEER, ME, ME, SLOT);

	m.count = -4095;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "wake");
	ck_assert_int_eq(out.v[0].status, -4095);
}

UNIT_TEST(an_object_keeps_its_first_value)
{
	struct msg load =
		request(MSG_SYNC, SOP_LOAD, create(SYNC_ATOMIC, 0x123456789abcdef0).value);

	ck_assert_uint_eq(carry(&load, "REPLY").value, 0x123456789abcdef0);
}

/* The host found no free index, or had no memory for the one it found. */
UNIT_TEST(no_place_and_no_memory_are_no_object)
{
	struct dispatch d = { .me = ME, .nnodes = WIRE_MAX_NODES, .objects = &objects };
	struct msg m = request(MSG_SYNC, SOP_CREATE, 0);
	unsigned int i;

	m.aux = SYNC_SEM;
	for (i = 0; i < 2; i++) {
		d.index = i;
		d.object = i ? NULL : &table[1];
		ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
		ck_assert_str_eq(unit_text(&out), "REPLY");
		ck_assert_int_eq(out.v[0].msg.count, -ENOSPC);
		ck_assert_uint_eq(table[1].kind, SYNC_NONE);
	}
}

/* A peer's message may result from a third rank's lie, but this rank's own messages cannot. */
UNIT_TEST(nobody_lies_to_itself)
{
	struct copy p = { 0 };
	struct dir e = { 0 };
	struct hold h = { 0 };
	struct dispatch d = { .me = ME,
			      .nnodes = WIRE_MAX_NODES,
			      .manager = PEER,
			      .page = &p,
			      .dir = &e,
			      .hold = &h };
	static const uint8_t types[] = { MSG_DATA, MSG_INV_ACK, MSG_LOCKED };
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct msg m = unit_msg(types[i], PEER, ME, ME, SLOT);

		m.op = GRANT_WRITE;
		ck_assert_int_eq(dispatch_step(&d, &m, &out), -ESTALE);
		m.src = m.home = ME;
		ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
	}
}

/* A home that owns the block already has it: it fetches nothing. */
UNIT_TEST(a_home_releases_to_itself)
{
	struct copy p = { .state = PG_WRITE, .home = ME + 1 };
	struct dir e = { .state = DIR_EXCLUSIVE, .owner = ME };
	struct dispatch d = {
		.me = ME, .nnodes = WIRE_MAX_NODES, .manager = ME, .page = &p, .dir = &e
	};
	struct msg m = unit_msg(MSG_RELEASE, ME, ME, ME, SLOT);

	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "REPLY");
}

/* A rank becomes the home only if it has a request in this slot and knows no home yet. */
UNIT_TEST(who_knows_a_home_is_not_made_one)
{
	struct dir e = { 0 };
	struct copy p;
	struct dispatch d = {
		.me = ME, .nnodes = WIRE_MAX_NODES, .manager = PEER, .page = &p, .dir = &e
	};
	struct msg m = unit_msg(MSG_HOME, PEER, ME, ME, SLOT);

	m.op = MSG_READ_REQ;
	p = (struct copy){ .state = PG_READ, .slot = SLOT };
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
	p = (struct copy){ .state = PG_WANT_READ, .slot = SLOT, .home = 5 + 1 };
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
	p = (struct copy){ .state = PG_WANT_READ, .slot = SLOT };
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
}

/* Forwarded requests count from when this rank becomes the home. */
UNIT_TEST(a_new_home_counts_from_0)
{
	struct dir e;
	struct copy p;
	struct dispatch d = { .me = ME,
			      .nnodes = WIRE_MAX_NODES,
			      .manager = PEER,
			      .queue = { nodes, SLOT + 1, NULL },
			      .page = &p,
			      .dir = &e };
	struct msg home = unit_msg(MSG_HOME, PEER, ME, ME, SLOT),
		   adopt = unit_msg(MSG_ADOPT, PEER, ME, ME, 0),
		   done = unit_msg(MSG_DONE, PEER, ME, PEER, SLOT);

	home.op = MSG_READ_REQ;
	e = (struct dir){ 0 };
	p = (struct copy){ .state = PG_WANT_READ, .slot = SLOT, .forwarded = 7 };
	ck_assert_int_eq(dispatch_step(&d, &home, &out), 0);
	ck_assert_uint_eq(p.forwarded, 0);
	adopt.value = PEER;
	e = (struct dir){ 0 };
	p = (struct copy){ .state = PG_WRITE, .home = PEER + 1, .forwarded = 7 };
	ck_assert_int_eq(dispatch_step(&d, &adopt, &out), 0);
	ck_assert_uint_eq(p.forwarded, 0);
	ck_assert_uint_eq(p.home, ME + 1);
	e = (struct dir){
		.state = DIR_EXCLUSIVE, .phase = DIR_BUSY, .owner = PEER, .served = PEER
	};
	p = (struct copy){ .home = ME + 1, .forwarded = 7 };
	ck_assert_int_eq(dispatch_step(&d, &done, &out), 0);
	ck_assert_uint_eq(p.forwarded, 7);
}

/* The manager may be any rank. If this rank knows one, that is it. */
UNIT_TEST(who_is_told_of_a_move_asks_the_manager)
{
	struct copy p = { .state = PG_WANT_READ, .home = PEER + 1, .slot = SLOT };
	struct dir e = { 0 };
	struct dispatch d = {
		.me = ME, .nnodes = WIRE_MAX_NODES, .manager = 1000, .page = &p, .dir = &e
	};
	struct msg m = unit_msg(MSG_MOVED, PEER, ME, ME, SLOT);

	m.value = 1001;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
	m.value = 1000;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "READ_REQ");
	ck_assert_uint_eq(out.v[0].msg.dst, 1000);
}

/* Times have 32 bits, and so has the hold time. */
UNIT_TEST(a_block_is_held_for_its_time)
{
	struct copy p = { .state = PG_WRITE,
			  .flags = PAGE_OWNER,
			  .home = PEER + 1,
			  .hold = 0x12345678 + 0x23456 };
	struct dispatch d = { .me = ME,
			      .nnodes = WIRE_MAX_NODES,
			      .now = 0x12345678,
			      .hold_us = 0x23456,
			      .manager = PEER,
			      .page = &p };
	struct msg m = unit_msg(MSG_FWD_WRITE, PEER, ME, 5, SLOT);

	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "timer");
	ck_assert_uint_eq(out.v[0].at, p.hold);
}

/* The group of a past episode does not decide about the first arrival of the next one. */
UNIT_TEST(a_child_that_comes_before_the_threads_is_kept)
{
	const struct bar_tree alone = { .parent = SET_NOBODY };
	struct bar b = { .mask = 1ull << 9 };
	struct dispatch d = { .me = 9, .nnodes = 64, .bar = &b };
	struct msg m = unit_msg(MSG_ARRIVE, 10, 9, 10, 0);

	m.aux = 1;
	m.home = 0;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 1);
	b = (struct bar){ .mask = 1ull << 9 };
	d.tree = &alone;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(b.earlies, 1);
}

/* The same with any group. */
UNIT_TEST(a_tree_that_a_test_names_is_the_one)
{
	const struct bar_tree named = { .parent = 1000 };
	struct bar b = { .mask = 1ull << 9 };
	struct dispatch d = { .me = 9, .nnodes = 64, .bar = &b, .tree = &named };
	struct msg m = unit_msg(MSG_ARRIVE, 9, 9, 9, 0);

	m.aux = 1;
	m.home = 0;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_str_eq(unit_text(&out), "ARRIVE");
	ck_assert_uint_eq(out.v[0].msg.dst, 1000);
}

/* Only the first thread of an episode sets the group, at a barrier that exists. */
UNIT_TEST(a_thread_that_is_refused_names_no_group)
{
	const struct bar_group two = { .mask = 3ull << 8, .locals = 1 },
			       one = { .mask = 1ull << 9, .locals = 1 };
	struct bar b = { 0 };
	struct dispatch d = { .me = 8, .nnodes = 64, .bar = &b, .group = &two };
	struct msg m = unit_msg(MSG_ARRIVE, 8, 8, 8, 0);

	m.aux = 2;
	bar_set_life(&m, 0x12345);
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	d.group = &one;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -EINVAL);
	bar_set_life(&m, 0x12344);
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -ESTALE);
	ck_assert_uint_eq(b.mask, two.mask);
	bar_set_life(&m, 0x12346);
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_uint_eq(b.mask, one.mask);
}

UNIT_SUITE("dispatch_rules", .setup = setup)
