// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_sync.c - core/sync: every kind of object with every operation, and what each object
 * guarantees.
 */
#include "core.h"

#include "core/set.h"
#include "core/sync.h"

#define SLOTS 2
#define RANKS 8

static struct queue_entry nodes[RANKS * SLOTS];
static const struct sync_ctx ctx = { .me = 0, .queue = { .entries = nodes, .nslots = SLOTS } };
static struct actions out;

static int op(struct sync *s, uint8_t what, uint16_t rank, uint64_t value)
{
	struct msg m = unit_msg(MSG_SYNC, rank, 0, rank, 0);

	m.op = what;
	m.value = value;
	return sync_step(&ctx, s, &m, &out);
}

static int turn(struct sync *s)
{
	struct msg m = unit_msg(MSG_RESUME, 0, 0, 0, 0);

	return sync_step(&ctx, s, &m, &out);
}

/* Check that answer n of the last step went to this rank, with this status. */
static void answered(unsigned int n, uint16_t rank, int16_t status)
{
	const struct action *a = unit_action(&out, ACT_SEND, n);

	ck_assert_ptr_nonnull(a);
	ck_assert_uint_eq(a->msg.type, MSG_REPLY);
	ck_assert_uint_eq(a->msg.dst, rank);
	ck_assert_int_eq(a->msg.count, status);
}

static void setup(void)
{
	memset(nodes, 0, sizeof(nodes));
}

UNIT_TEST(every_pair_is_bounded_and_answered_or_refused)
{
	unsigned int kind, what, busy;

	for (kind = 0; kind <= SYNC_KINDS; kind++)
		for (what = 0; what <= SYNC_OPS; what++)
			for (busy = 0; busy < 4; busy++) {
				struct sync s = { .kind = (uint8_t)kind,
						  .readers = busy & 1,
						  .writer = busy == 2,
						  .value = busy == 3 },
					    before = s;
				int err;

				setup();
				err = op(&s, (uint8_t)what, 3, 1);
				ck_assert(!err || err == -EBADMSG);
				ck_assert_uint_lt(out.n, ACTIONS_MAX);
				if (kind == SYNC_KINDS || what == SYNC_OPS)
					ck_assert_int_eq(err, -EBADMSG);
				else if (sync_rule_name(kind, what)[0] == '-')
					answered(0, 3, -EINVAL);
				if (err)
					ck_assert_mem_eq(&s, &before, sizeof(s));
			}
}

UNIT_TEST(everything_has_a_name)
{
	unsigned int k, o;

	for (k = 0; k < SYNC_KINDS; k++)
		ck_assert_str_ne(sync_kind_name(k), "?");
	for (o = 0; o < SYNC_OPS; o++)
		ck_assert_str_ne(sync_op_name(o), "?");
	ck_assert_str_eq(sync_kind_name(SYNC_KINDS), "?");
	ck_assert_str_eq(sync_op_name(SYNC_OPS), "?");
	ck_assert_str_eq(sync_rule_name(SYNC_KINDS, 0), "-");
	ck_assert_str_eq(sync_rule_name(SYNC_SEM, SYNC_OPS), "-");
	ck_assert_str_eq(sync_rule_name(SYNC_SEM, 64 + SOP_POST), "-");
}

UNIT_TEST(readers_share_and_do_not_overtake_a_writer)
{
	struct sync s = { .kind = SYNC_RWLOCK };

	op(&s, SOP_RDLOCK, 1, 0);
	answered(0, 1, 0);
	op(&s, SOP_RDLOCK, 2, 0);
	answered(0, 2, 0);
	op(&s, SOP_WRLOCK, 3, 0);
	ck_assert_uint_eq(out.n, 0);
	op(&s, SOP_RDLOCK, 4, 0);
	ck_assert_uint_eq(out.n, 0);
	op(&s, SOP_RDLOCK, 5, 0);
	op(&s, SOP_RDUNLOCK, 1, 0);
	ck_assert_uint_eq(out.n, 1);
	op(&s, SOP_RDUNLOCK, 2, 0);
	answered(1, 3, 0);
	ck_assert_int_eq(turn(&s), 0);
	ck_assert_uint_eq(out.n, 0); /* readers wait for the writer */
	op(&s, SOP_WRUNLOCK, 3, 0);
	answered(1, 4, 0);
	ck_assert_ptr_nonnull(unit_action(&out, ACT_RESUME, 0));
	ck_assert_int_eq(turn(&s), 0);
	answered(0, 5, 0);
	ck_assert_int_eq(op(&s, SOP_WRUNLOCK, 3, 0), -EBADMSG);
	ck_assert_int_eq(turn(&s), -EBADMSG);
}

/* A trylock succeeds only if the lock is free and no thread waits. */
UNIT_TEST(a_try_overtakes_nobody)
{
	struct sync s = { .kind = SYNC_RWLOCK };

	op(&s, SOP_TRYRDLOCK, 1, 0);
	answered(0, 1, 0);
	op(&s, SOP_TRYRDLOCK, 2, 0);
	answered(0, 2, 0);
	op(&s, SOP_TRYWRLOCK, 3, 0);
	answered(0, 3, -EBUSY);
	op(&s, SOP_WRLOCK, 3, 0);
	op(&s, SOP_TRYRDLOCK, 4, 0); /* readers hold the lock, but a writer waits */
	ck_assert_uint_eq(out.n, 1);
	answered(0, 4, -EBUSY);
	op(&s, SOP_RDUNLOCK, 1, 0);
	op(&s, SOP_RDUNLOCK, 2, 0);
	answered(1, 3, 0);
	op(&s, SOP_TRYRDLOCK, 4, 0);
	answered(0, 4, -EBUSY);
	op(&s, SOP_WRUNLOCK, 3, 0);
	op(&s, SOP_TRYWRLOCK, 4, 0);
	answered(0, 4, 0);
	ck_assert_uint_eq(s.writer, 1);
	ck_assert_uint_eq(s.readers, 0);
	ck_assert_ptr_null(unit_action(&out, ACT_RESUME, 0));
}

/* A timed request. Returns the number of answers of its step; the first says that it is in line. */
static unsigned int timed(struct sync *s, uint8_t what, uint16_t rank)
{
	struct msg m = unit_msg(MSG_SYNC, rank, 0, rank, 0);

	m.op = what;
	m.flags = MSGF_TIMED;
	ck_assert_int_eq(sync_step(&ctx, s, &m, &out), 0);
	answered(0, rank, 0);
	ck_assert_uint_eq(out.v[0].msg.value, 1);
	ck_assert(out.n == 1 || out.v[1].msg.value == 0);
	return out.n;
}

UNIT_TEST(readers_behind_a_writer_that_gives_up_are_let_go)
{
	struct sync s = { .kind = SYNC_RWLOCK };

	ck_assert_uint_eq(timed(&s, SOP_RDLOCK, 1), 2);
	ck_assert_uint_eq(timed(&s, SOP_WRLOCK, 2), 1);
	ck_assert_uint_eq(timed(&s, SOP_RDLOCK, 3), 1);
	op(&s, SOP_RDLOCK, 4, 0);
	op(&s, SOP_WRLOCK, 5, 0);
	op(&s, SOP_CANCEL, 2, 0);
	answered(0, 2, -ETIMEDOUT);
	answered(1, 3, 0);
	ck_assert_ptr_nonnull(unit_action(&out, ACT_RESUME, 0));
	op(&s, SOP_CANCEL, 3, 0); /* its turn has come, and the turns of others are to follow */
	ck_assert_uint_eq(out.n, 1);
	answered(0, 3, -EALREADY);
	ck_assert_int_eq(turn(&s), 0);
	answered(0, 4, 0);
	ck_assert_int_eq(turn(&s), 0);
	ck_assert_uint_eq(out.n, 0); /* the second writer waits for three readers */
	ck_assert_uint_eq(s.readers, 3);
	op(&s, SOP_CANCEL, 5, 0);
	ck_assert_uint_eq(out.n, 1);
	op(&s, SOP_TRYRDLOCK, 5, 0);
	answered(0, 5, 0);
}

UNIT_TEST(a_semaphore_counts)
{
	struct sync s = { .kind = SYNC_SEM, .value = 1 };

	op(&s, SOP_WAIT, 1, 0);
	answered(0, 1, 0);
	op(&s, SOP_TRYWAIT, 2, 0);
	answered(0, 2, -EAGAIN);
	op(&s, SOP_WAIT, 2, 0);
	op(&s, SOP_WAIT, 3, 0);
	op(&s, SOP_POST, 4, 3);
	answered(0, 4, 0);
	answered(1, 2, 0);
	op(&s, SOP_TRYWAIT, 5, 0); /* must not overtake waiters */
	answered(0, 5, -EAGAIN);
	turn(&s);
	answered(0, 3, 0);
	op(&s, SOP_LOAD, 6, 0);
	answered(0, 6, 0);
	ck_assert_uint_eq(out.v[0].msg.value, 1);
	op(&s, SOP_POST, 4, 0x7fffffff);
	answered(0, 4, -EOVERFLOW);
	op(&s, SOP_POST, 4, UINT64_MAX);
	answered(0, 4, -EOVERFLOW);
	ck_assert_uint_eq(s.value, 1);
}

UNIT_TEST(a_timed_wait_is_told_when_it_is_in_line)
{
	struct sync s = { .kind = SYNC_SEM, .value = 1 };
	struct msg m = unit_msg(MSG_SYNC, 1, 0, 1, 0);

	m.op = SOP_WAIT;
	m.flags = MSGF_TIMED;
	ck_assert_int_eq(sync_step(&ctx, &s, &m, &out), 0);
	ck_assert_uint_eq(out.n, 2);
	ck_assert_uint_eq(out.v[0].msg.value, 1);
	ck_assert_uint_eq(out.v[1].msg.value, 0);
	ck_assert_int_eq(sync_step(&ctx, &s, &m, &out), 0);
	ck_assert_uint_eq(out.n, 1);
	ck_assert_int_eq(sync_step(&ctx, &s, &m, &out), -EBADMSG); /* it waits already */
	op(&s, SOP_CANCEL, 1, 0);
	answered(0, 1, -ETIMEDOUT);
	op(&s, SOP_CANCEL, 1, 0);
	answered(0, 1, -EALREADY);
	ck_assert(sync_idle(&s));
}

/*
 * A broadcast counts all waiters. Until each has been answered, a later waiter must neither gain a
 * signal nor take one.
 */
UNIT_TEST(a_cancel_takes_no_signal_of_others)
{
	struct sync s = { .kind = SYNC_COND };
	uint16_t r;

	for (r = 1; r <= 3; r++) {
		op(&s, SOP_ENQUEUE, r, 0);
		ck_assert_uint_eq(out.v[0].msg.value, 1);
	}
	op(&s, SOP_BROADCAST, 0, 0);
	answered(1, 1, 0);
	op(&s, SOP_ENQUEUE, 4, 0);
	op(&s, SOP_CANCEL, 2, 0);
	answered(0, 2, -EALREADY); /* it has been signalled */
	op(&s, SOP_CANCEL, 4, 0);
	answered(0, 4, -ETIMEDOUT);
	turn(&s);
	answered(0, 2, 0);
	turn(&s);
	answered(0, 3, 0);
	ck_assert(sync_idle(&s));
}

UNIT_TEST(an_object_with_a_turn_out_is_not_idle)
{
	struct sync s = { .kind = SYNC_COND };

	op(&s, SOP_ENQUEUE, 1, 0);
	op(&s, SOP_ENQUEUE, 2, 0);
	op(&s, SOP_SIGNAL, 3, 0);
	op(&s, SOP_CANCEL, 2, 0);
	answered(0, 2, -ETIMEDOUT);
	ck_assert(!sync_idle(&s));
	ck_assert_int_eq(turn(&s), 0);
	ck_assert(sync_idle(&s));
}

/* An object that is held or waited for must not be destroyed: its users would hang. */
UNIT_TEST(an_object_in_use_is_not_idle)
{
	static const struct {
		uint8_t kind, op, idle, undo;
	} cases[] = {
		{ SYNC_RWLOCK, SOP_RDLOCK, 0, SOP_RDUNLOCK },
		{ SYNC_RWLOCK, SOP_WRLOCK, 0, SOP_WRUNLOCK },
		{ SYNC_RWLOCK, SOP_TRYRDLOCK, 0, SOP_RDUNLOCK },
		{ SYNC_RWLOCK, SOP_TRYWRLOCK, 0, SOP_WRUNLOCK },
		{ SYNC_SEM, SOP_WAIT, 0, SOP_POST }, /* the value is 0, so it waits */
		{ SYNC_COND, SOP_ENQUEUE, 0, SOP_SIGNAL },
		{ SYNC_SEM, SOP_POST, 1, SOP_WAIT }, /* a value alone is no use */
		{ SYNC_ATOMIC, SOP_STORE, 1, SOP_STORE },
	};
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sync s = { .kind = cases[i].kind };

		setup();
		ck_assert(sync_idle(&s));
		ck_assert_int_eq(op(&s, cases[i].op, 1, 1), 0);
		ck_assert_int_eq(sync_idle(&s), cases[i].idle);
		ck_assert_int_eq(op(&s, cases[i].undo, 2, 1), 0);
		ck_assert(sync_idle(&s));
	}
}

UNIT_TEST(a_signal_without_waiters_is_lost)
{
	struct sync s = { .kind = SYNC_COND };

	op(&s, SOP_SIGNAL, 1, 0);
	op(&s, SOP_BROADCAST, 1, 0);
	ck_assert(sync_idle(&s));
	op(&s, SOP_ENQUEUE, 2, 0);
	ck_assert_uint_eq(out.n, 1);
}

/* The last of a round waits for nobody. The next one begins before all have been answered. */
UNIT_TEST(the_last_to_meet_lets_the_others_go)
{
	struct sync s = { .kind = SYNC_COND };
	unsigned int round;

	for (round = 0; round < 3; round++) {
		op(&s, SOP_MEET, 1, 3);
		ck_assert_uint_eq(out.n, 0);
		op(&s, SOP_MEET, 2, 3);
		ck_assert_uint_eq(out.n, 0);
		op(&s, SOP_MEET, 3, 3);
		answered(0, 3, 0);
		ck_assert_uint_eq(out.v[0].msg.value, SYNC_LAST);
		answered(1, 1, 0);
		ck_assert_uint_eq(out.v[1].msg.value, 0);
		op(&s, SOP_MEET, 3, 3); /* 2 is not answered yet */
		ck_assert_uint_eq(out.n, 0);
		op(&s, SOP_MEET, 1, 3);
		ck_assert_uint_eq(out.n, 0);
		turn(&s);
		ck_assert_uint_eq(out.n, 2);
		answered(0, 2, 0);
		turn(&s);
		ck_assert_uint_eq(out.n, 0);
		ck_assert(!sync_idle(&s));
		op(&s, SOP_MEET, 2, 3);
		answered(0, 2, 0);
		ck_assert_uint_eq(out.v[0].msg.value, SYNC_LAST);
		answered(1, 3, 0);
		turn(&s);
		answered(0, 1, 0);
		ck_assert(sync_idle(&s));
	}
	op(&s, SOP_MEET, 1, 1);
	answered(0, 1, 0);
	ck_assert_uint_eq(out.v[0].msg.value, SYNC_LAST);
}

/* Counts need more than 16 bits: every slot of every rank may wait. */
UNIT_TEST(a_broadcast_is_for_all_of_a_large_job)
{
	enum { EACH = 65, ALL = WIRE_MAX_NODES * EACH };
	static struct queue_entry many[ALL];
	const struct sync_ctx large = { .me = 0, .queue = { .entries = many, .nslots = EACH } };
	struct msg m = unit_msg(MSG_SYNC, 0, 0, 0, 0);
	struct sync s = { .kind = SYNC_COND };
	unsigned int i;

	m.op = SOP_ENQUEUE;
	for (i = 0; i < ALL; i++) {
		m.src = m.req_node = (uint16_t)(i / EACH);
		m.req_slot = (uint16_t)(i % EACH);
		unit_require(!sync_step(&large, &s, &m, &out));
	}
	m.op = SOP_BROADCAST;
	ck_assert_int_eq(sync_step(&large, &s, &m, &out), 0);
	ck_assert_uint_eq(s.readers, ALL - 1); /* the first has gone */
}

UNIT_TEST(atomics_return_what_was_there)
{
	struct sync s = { .kind = SYNC_ATOMIC, .value = 7 };
	struct msg m = unit_msg(MSG_SYNC, 1, 0, 1, 0);

	op(&s, SOP_ADD, 1, 5);
	ck_assert_uint_eq(out.v[0].msg.value, 7);
	op(&s, SOP_LOAD, 1, 0);
	ck_assert_uint_eq(out.v[0].msg.value, 12);
	op(&s, SOP_EXCHANGE, 1, 1);
	ck_assert_uint_eq(out.v[0].msg.value, 12);
	op(&s, SOP_STORE, 1, UINT64_MAX);
	op(&s, SOP_ADD, 1, 2);
	ck_assert_uint_eq(s.value, 1);
	m.op = SOP_CAS;
	m.value = 1;
	m.value2 = 0x1122334455667788ull;
	ck_assert_int_eq(sync_step(&ctx, &s, &m, &out), 0);
	answered(0, 1, 0);
	ck_assert_uint_eq(s.value, 0x1122334455667788ull);
	ck_assert_int_eq(sync_step(&ctx, &s, &m, &out), 0);
	answered(0, 1, -EAGAIN);
	ck_assert_uint_eq(out.v[0].msg.value, 0x1122334455667788ull);
}

UNIT_SUITE("sync", .setup = setup)
