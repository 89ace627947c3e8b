// SPDX-License-Identifier: BSD-2-Clause
/* test_lease.c - core/lease, and leases at the home of a reader-writer lock (core/sync). */
#include "core.h"

#include "core/dispatch.h"
#include "core/lease.h"

#define SLOTS 200
#define NODES 400
#define HOME 300
#define OBJECT 5
#define GEN 0x123400u /* its lower byte is in the messages' `object` */

static struct queue_entry nodes[NODES * SLOTS];
static const struct sync_ctx ctx = { .me = HOME,
				     .leases = true,
				     .queue = { .entries = nodes, .nslots = SLOTS } };
static struct sync table[OBJECT + 1];
#define lock table[OBJECT]
static struct actions out;

static int step(uint8_t type, uint8_t op, uint8_t flags, uint16_t node, uint64_t value)
{
	struct msg m = unit_msg(type, node, HOME, node, 1);

	m.op = op;
	m.flags = flags;
	m.object = OBJECT;
	m.value = value;
	return sync_step(&ctx, &lock, &m, &out);
}

/* Step the lock with a request; its answer has this status, and this value. */
static void asks(uint8_t op, uint8_t flags, uint16_t node, int status, uint64_t value)
{
	ck_assert_int_eq(step(MSG_SYNC, op, flags, node, 0), 0);
	ck_assert_uint_ge(out.n, 1);
	ck_assert_uint_eq(out.v[0].msg.type, MSG_REPLY);
	ck_assert_uint_eq(out.v[0].msg.dst, node);
	ck_assert_int_eq(out.v[0].msg.count, status);
	ck_assert_uint_eq(out.v[0].msg.value, value);
}

static void fresh(void)
{
	memset(nodes, 0, sizeof(nodes));
	lock = (struct sync){ .kind = SYNC_RWLOCK, .gen = GEN };
}

/* Nodes 1, 2 and 63 have a lease, and a reader each. */
static void lease_three(void)
{
	fresh();
	asks(SOP_RDLOCK, MSGF_LEASE, 1, 0, 0);
	asks(SOP_RDLOCK, MSGF_LEASE, 1, 0, 0);
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	asks(SOP_RDLOCK, MSGF_LEASE, 1, 0, SYNC_LEASED);
	asks(SOP_RDLOCK, MSGF_LEASE, 2, 0, SYNC_LEASED);
	asks(SOP_RDLOCK, MSGF_LEASE, 63, 0, SYNC_LEASED);
	ck_assert_uint_eq(lock.readers, 0);
	ck_assert(!sync_idle(&lock) && sync_is_ending(&ctx, &lock));
}

/* The last step has asked this node, and another turn comes if there are more. */
static void revokes(unsigned int at, uint16_t node, bool more)
{
	ck_assert_uint_eq(out.n, at + 1 + more);
	ck_assert_uint_eq(out.v[at].type, ACT_SEND);
	ck_assert_uint_eq(out.v[at].msg.type, MSG_REVOKE);
	ck_assert_uint_eq(out.v[at].msg.src, HOME);
	ck_assert_uint_eq(out.v[at].msg.dst, node);
	ck_assert_uint_eq(out.v[at].msg.object, OBJECT);
	ck_assert_uint_eq(out.v[at].msg.req_node, GEN >> 8);
	ck_assert_uint_eq(lock.pumping, more);
	if (more)
		ck_assert_uint_eq(out.v[at + 1].type, ACT_RESUME);
}

UNIT_TEST(a_writer_revokes_all_leases_and_waits_for_their_readers)
{
	lease_three();
	ck_assert_int_eq(step(MSG_SYNC, SOP_WRLOCK, 0, 4, 0), 0);
	revokes(0, 1, true);
	ck_assert_int_eq(step(MSG_SYNC, SOP_RDLOCK, MSGF_LEASE, 5, 0), 0); /* behind the writer */
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(step(MSG_RESUME, 1, 0, HOME, 0), 0);
	revokes(0, 2, true);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 63, 0), -EBADMSG); /* it was not asked yet */
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 2, 0), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 2, 0), -EBADMSG);
	ck_assert_int_eq(step(MSG_RESUME, 1, 0, HOME, 0), 0);
	revokes(0, 63, false);
	asks(SOP_RDUNLOCK, 0, 63, 0, 0); /* faster than the answer that counts it */
	ck_assert_uint_eq(out.n, 1);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 63, 1), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 1, 70000), 0);
	ck_assert_uint_eq(out.n, 0);
	ck_assert_uint_eq(lock.readers, 70000);
	lock.readers = 2;
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	ck_assert_uint_eq(out.v[1].msg.dst, 4);
	ck_assert_uint_eq(lock.writer, RW_WRITER);
	ck_assert_int_eq(step(MSG_SYNC, SOP_RDUNLOCK, 0, 1, 0), -EBADMSG);
}

UNIT_TEST(no_lease_is_given_to_these)
{
	unsigned int i;

	lease_three();
	asks(SOP_RDLOCK, MSGF_LEASE, 2, 0, 0); /* it has one */
	asks(SOP_RDLOCK, MSGF_LEASE, 64, 0, 0);
	asks(SOP_RDLOCK, MSGF_LEASE, 266, 0, 0);
	asks(SOP_RDLOCK, 0, 3, 0, 0);
	asks(SOP_TRYRDLOCK, MSGF_LEASE, 3, 0, 0);
	ck_assert_int_eq(step(MSG_SYNC, SOP_RDLOCK, MSGF_LEASE | MSGF_TIMED, 3, 0), 0);
	ck_assert_uint_eq(out.n, 2);
	ck_assert_uint_eq(out.v[1].msg.value, 0);
	/* until the last one is returned, and then not before there were some reads */
	asks(SOP_RDUNLOCK, 0, 3, 0, 0);
	ck_assert_uint_eq(out.n, 1); /* nobody wants to write: none is revoked */
	ck_assert_int_eq(step(MSG_SYNC, SOP_WRLOCK, 0, 4, 0), 0);
	asks(SOP_CANCEL, 0, 4, -ETIMEDOUT, 0);
	asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, 0);
	while (lock.pumping)
		step(MSG_RESUME, 1, 0, HOME, 0);
	step(MSG_REVOKED, 0, 0, 1, 0);
	step(MSG_REVOKED, 0, 0, 2, 0);
	for (i = 0; i < LEASE_AFTER + 1; i++)
		asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, 0);
	step(MSG_REVOKED, 0, 0, 63, 0);
	for (i = 0; i < LEASE_AFTER; i++)
		asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, 0);
	asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, SYNC_LEASED);
	/* nor while a thread writes */
	fresh();
	lock.writer = RW_WRITER | LEASE_AFTER * RW_READ;
	for (i = 0; i < 4; i++) {
		struct msg m = unit_msg(MSG_SYNC, 3, HOME, 3, (uint16_t)i);

		m.op = SOP_RDLOCK;
		m.flags = MSGF_LEASE;
		ck_assert_int_eq(sync_step(&ctx, &lock, &m, &out), 0);
		ck_assert_uint_eq(out.n, 0);
	}
	ck_assert_uint_eq(lock.value, 0);
}

UNIT_TEST(a_host_without_leases_grants_none)
{
	struct sync_ctx other = ctx;
	struct msg m = unit_msg(MSG_SYNC, 1, HOME, 1, 1);
	unsigned int i;

	fresh();
	other.leases = false;
	m.op = SOP_RDLOCK;
	m.flags = MSGF_LEASE;
	for (i = 0; i < 5; i++) {
		ck_assert_int_eq(sync_step(&other, &lock, &m, &out), 0);
		ck_assert_uint_eq(out.v[0].msg.value, 0);
	}
	ck_assert_uint_eq(lock.value, 0);
	/* it may have no memory for the queue entry of a request that never queues */
	other.queue = (struct qpool){ .nslots = SLOTS };
	m.op = SOP_TRYWRLOCK;
	m.flags = 0;
	ck_assert_int_eq(sync_step(&other, &lock, &m, &out), 0);
	ck_assert_int_eq(out.v[0].msg.count, -EBUSY);
}

/* All three leases are returned, the last with so many readers. */
static void return_three(uint64_t readers)
{
	while (lock.pumping)
		step(MSG_RESUME, 1, 0, HOME, 0);
	step(MSG_REVOKED, 0, 0, 1, 0);
	step(MSG_REVOKED, 0, 0, 2, 0);
	ck_assert_uint_eq(out.n, 0);
	step(MSG_REVOKED, 0, 0, 63, readers);
}

UNIT_TEST(a_try_waits_for_the_leases_and_for_no_reader)
{
	unsigned int readers;

	for (readers = 0; readers < 2; readers++) {
		lease_three();
		ck_assert_int_eq(step(MSG_SYNC, SOP_TRYWRLOCK, 0, 4, 0), 0);
		revokes(0, 1, true);
		ck_assert_int_eq(step(MSG_SYNC, SOP_TRYWRLOCK, 0, 4, 0),
				 -EBADMSG); /* it is in line */
		asks(SOP_TRYWRLOCK, 0, 5, -EBUSY, 0);
		ck_assert_int_eq(step(MSG_SYNC, SOP_RDLOCK, 0, 6, 0), 0);
		ck_assert_uint_eq(out.n, 0);
		return_three(readers);
		ck_assert_uint_eq(out.v[0].msg.dst, 4);
		ck_assert_int_eq(out.v[0].msg.count, readers ? -EBUSY : 0);
		ck_assert_uint_eq(out.v[1].type, ACT_RESUME); /* of the one behind it */
	}
	/* a reader that is known is enough */
	lease_three();
	asks(SOP_RDLOCK, 0, 6, 0, 0);
	asks(SOP_TRYWRLOCK, 0, 4, -EBUSY, 0);
	ck_assert_uint_eq(out.n, 1);
	asks(SOP_RDUNLOCK, 0, 6, 0, 0);
	step(MSG_SYNC, SOP_TRYWRLOCK, 0, 4, 0);
	step(MSG_REVOKED, 0, 0, 1, 1);
	ck_assert_uint_eq(out.n, 0); /* a turn is to come */
	step(MSG_RESUME, 1, 0, HOME, 0);
	step(MSG_RESUME, 1, 0, HOME, 0);
	ck_assert_int_eq(out.v[1].msg.count, -EBUSY);
}

/* A lock that is free is given whatever the limit: SOP_CANCEL waits for the leases. */
UNIT_TEST(a_limit_that_has_passed_waits_for_the_leases)
{
	unsigned int readers;

	for (readers = 0; readers < 2; readers++) {
		lease_three();
		asks(SOP_WRLOCK, MSGF_TIMED, 390, 0, 1);
		revokes(1, 1, true);
		ck_assert_int_eq(step(MSG_SYNC, SOP_CANCEL, 0, 390, 0), 0);
		ck_assert_uint_eq(out.n, 0);
		return_three(readers);
		ck_assert_uint_eq(out.n, readers ? 1 : 2);
		ck_assert_int_eq(out.v[0].msg.count, readers ? -ETIMEDOUT : 0);
		ck_assert_uint_eq(out.v[0].msg.dst, 390);
		if (readers)
			continue;
		ck_assert_int_eq(out.v[1].msg.count, -EALREADY);
		ck_assert_uint_eq(out.v[1].msg.dst, 390);
		ck_assert_uint_eq(out.v[1].msg.req_slot, 1);
		ck_assert_uint_eq(out.v[1].msg.value, 0);
		ck_assert_uint_eq(lock.writer, RW_WRITER);
	}
	/* one behind another leaves at once, and so does one that waits for a reader */
	lease_three();
	step(MSG_SYNC, SOP_WRLOCK, 0, 4, 0);
	asks(SOP_WRLOCK, MSGF_TIMED, 5, 0, 1);
	asks(SOP_CANCEL, 0, 5, -ETIMEDOUT, 0);
	lease_three();
	asks(SOP_RDLOCK, 0, 6, 0, 0);
	asks(SOP_WRLOCK, MSGF_TIMED, 5, 0, 1);
	asks(SOP_CANCEL, 0, 5, -ETIMEDOUT, 0);
}

/* Its turn is under way, and the reader before it has left: it is no writer, and leaves. */
UNIT_TEST(a_reader_with_a_limit_leaves_beside_leases)
{
	lease_three();
	step(MSG_SYNC, SOP_TRYWRLOCK, 0, 4, 0);
	ck_assert_int_eq(step(MSG_SYNC, SOP_RDLOCK, MSGF_TIMED, 5, 0), 0);
	step(MSG_REVOKED, 0, 0, 1, 1);
	step(MSG_RESUME, 1, 0, HOME, 0);
	step(MSG_RESUME, 1, 0, HOME, 0);
	ck_assert_int_eq(out.v[1].msg.count, -EBUSY);
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	ck_assert(lock.value && lock.pumping);
	asks(SOP_CANCEL, 0, 5, -ETIMEDOUT, 0);
}

/* A writer that waits for a reader, and leaves, has revoked nothing. */
UNIT_TEST(a_writer_that_leaves_keeps_no_lease_from_being_given)
{
	unsigned int i;

	fresh();
	asks(SOP_RDLOCK, 0, 1, 0, 0);
	ck_assert_int_eq(step(MSG_SYNC, SOP_WRLOCK, 0, 4, 0), 0);
	asks(SOP_CANCEL, 0, 4, -ETIMEDOUT, 0);
	for (i = 0; i < LEASE_AFTER; i++)
		asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, 0);
	ck_assert_int_eq(step(MSG_SYNC, SOP_WRUNLOCK, 0, 3, 0), -EBADMSG); /* reads are counted */
	asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, SYNC_LEASED);
}

UNIT_TEST(an_end_comes_again_when_the_leases_are_returned)
{
	struct object_list l = { 0 };
	const struct objects all = { .list = &l, .flat = table, .limit = OBJECT + 1 };
	struct dispatch d = {
		.me = HOME, .leases = true, .queue = ctx.queue, .object = &lock, .objects = &all
	};
	struct msg m = unit_msg(MSG_SYNC, 4, HOME, GEN >> 8, 1);
	unsigned int i;

	m.op = SOP_DESTROY;
	m.object = OBJECT;
	lease_three();
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_int_eq(out.v[0].msg.count, -EINPROGRESS);
	revokes(1, 1, true);
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_int_eq(out.v[0].msg.count, -EINPROGRESS);
	ck_assert_uint_eq(out.n, 1); /* the turn that is to come asks for the next */
	return_three(1);
	lock.readers = 0;
	asks(SOP_WRLOCK, 0, 4, 0, 0);
	asks(SOP_WRUNLOCK, 0, 4, 0, 0);
	for (i = 0; i < LEASE_AFTER + 1; i++)
		asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, 0); /* none before it has come again */
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_int_eq(out.v[0].msg.count, -EBUSY);
	for (i = 0; i < LEASE_AFTER; i++)
		asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, 0);
	asks(SOP_RDLOCK, MSGF_LEASE, 3, 0, SYNC_LEASED);
	lock.readers = 0;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 3, 0), 0);
	ck_assert_int_eq(dispatch_step(&d, &m, &out), 0);
	ck_assert_int_eq(out.v[0].msg.count, 0);
	/* it is gone, and no answer may be out */
	m.type = MSG_REVOKED;
	m.op = 0;
	ck_assert_int_eq(dispatch_step(&d, &m, &out), -EBADMSG);
}

UNIT_TEST(more_unlocks_than_readers_are_noticed_at_the_end)
{
	lease_three();
	ck_assert_int_eq(step(MSG_SYNC, SOP_RDUNLOCK, 0, 1, 0), -EBADMSG); /* none was revoked */
	step(MSG_SYNC, SOP_WRLOCK, 0, 4, 0);
	while (lock.pumping)
		step(MSG_RESUME, 1, 0, HOME, 0);
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	asks(SOP_RDUNLOCK, 0, 1, 0, 0);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 1, 1), 0);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 2, 0), 0);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 63, 0), -EBADMSG);
	ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 63, 1), 0);
	ck_assert_uint_eq(lock.writer, RW_WRITER);
}

UNIT_TEST(other_kinds_have_no_leases)
{
	unsigned int kind;

	for (kind = 0; kind < SYNC_KINDS; kind++) {
		lock = (struct sync){ .kind = (uint8_t)kind & 7, .value = 2, .revoked = 2 };
		if (kind != SYNC_RWLOCK)
			ck_assert_int_eq(step(MSG_REVOKED, 0, 0, 1, 0), -EBADMSG);
	}
}

UNIT_TEST(a_place_has_one_lease)
{
	struct lease l = { 0 };

	ck_assert(!lease_enter(&l, 7) && !lease_leave(&l, 7));
	ck_assert_int_eq(lease_revoke(&l, 7), -EBADMSG);
	ck_assert(lease_ask(&l, 7, 100));
	ck_assert(!lease_ask(&l, 7, 101) && !lease_ask(&l, 8, 100));
	ck_assert(!lease_enter(&l, 7) && !lease_leave(&l, 7));
	lease_answered(&l, 8, 100, true);
	lease_answered(&l, 7, 101, true);
	ck_assert_uint_eq(l.state, LEASE_ASKED);
	lease_answered(&l, 7, 100, false);
	ck_assert(lease_ask(&l, 8, 102));
	lease_answered(&l, 8, 102, true);
	ck_assert(!lease_ask(&l, 8, 103));
	ck_assert(lease_enter(&l, 8) && !lease_enter(&l, 7) && !lease_leave(&l, 7));
	ck_assert_uint_eq(l.readers, 2);
	ck_assert(lease_leave(&l, 8) && lease_leave(&l, 8) && !lease_leave(&l, 8));
	l.readers = LEASE_READERS;
	ck_assert(!lease_enter(&l, 8)); /* more would not fit into the answer */
	ck_assert_int_eq(lease_revoke(&l, 7), -EBADMSG);
	ck_assert_int_eq(lease_revoke(&l, 8), LEASE_READERS);
	ck_assert_int_eq(lease_revoke(&l, 8), -EBADMSG);
	ck_assert(!lease_enter(&l, 8));
}

/* Revoked before its answer has come: the home counts the thread. */
UNIT_TEST(a_lease_that_has_not_come_has_one_reader)
{
	struct lease l = { 0 };

	lease_ask(&l, 7, 100);
	ck_assert_int_eq(lease_revoke(&l, 7), 1);
	lease_ask(&l, 7, 100 + 256);
	lease_answered(&l, 7, 100, true); /* late */
	ck_assert_uint_eq(l.state, LEASE_ASKED);
	ck_assert(!lease_enter(&l, 7));
	lease_answered(&l, 7, 100 + 256, true);
	ck_assert_int_eq(lease_revoke(&l, 7), 1);
}

UNIT_SUITE("lease")
