/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sync.h - synchronisation objects that live at their home: reader-writer locks, semaphores,
 * condition queues, atomics.
 *
 * Each request has one reply. Waiters queue in FIFO order. An event that releases several waiters
 * (a writer's unlock, a broadcast, a post of n) answers one and emits ACT_RESUME to be stepped
 * again, so that action lists stay bounded. TRY* requests are answered at once, or, TRYWRLOCK, when
 * leases are returned. They also fail if others wait: they overtake no waiter. (A mutex is stored
 * in struct sync too, but its queue is distributed over its holders: lock.h.)
 *
 * A reader-writer lock that is mostly read gives its readers' nodes *leases* (lease.h): their
 * threads lock it for reading without a message. Who wants to write revokes all leases. A node
 * answers at once with the number of its threads that hold the lock, which from then on are readers
 * like others. One of them may be faster than that answer, so the number of readers may be below
 * zero while answers are due.
 */
#ifndef CORE_SYNC_H
#define CORE_SYNC_H

#include "core/action.h"
#include "core/queue.h"

enum sync_kind {
	SYNC_NONE = 0,
	SYNC_MUTEX,
	SYNC_RWLOCK,
	SYNC_COND,
	SYNC_SEM,
	SYNC_ATOMIC,
	SYNC_BARRIER,
	SYNC_KINDS
};

enum sync_op {
	SOP_CREATE = 0, /* value: initial; aux: kind */
	SOP_DESTROY,
	SOP_RDLOCK,
	SOP_WRLOCK,
	SOP_TRYRDLOCK,
	SOP_TRYWRLOCK,
	SOP_RDUNLOCK,
	SOP_WRUNLOCK, /* reader-writer lock */
	SOP_WAIT,
	SOP_TRYWAIT,
	SOP_POST, /* semaphore; POST: value */
	SOP_ENQUEUE,
	SOP_SIGNAL,
	/* condition; value of the reply to both: SYNC_FOUND; 0: nobody waits */
	SOP_BROADCAST,
	/*
	 * only after the reply "queued": remove it. -ETIMEDOUT: removed; -EALREADY: its answer
	 * follows
	 */
	SOP_CANCEL,
	SOP_LOAD, /* semaphore, atomic */
	SOP_STORE,
	SOP_ADD,
	SOP_EXCHANGE,
	SOP_CAS, /* atomic; CAS: value is the expected value, value2 the new one */
	/*
	 * condition: wait until `value` threads have come. The last of them gets SYNC_LAST as the
	 * value of its reply, the others 0. (One that is cancelled meanwhile may not learn it.)
	 */
	SOP_MEET,
	SYNC_OPS
};
/* 1 is that a request is in line */
#define SYNC_LAST 2u
#define SYNC_FOUND 2u
#define SYNC_LEASED 3u /* of RDLOCK: the node has a lease, by which the thread has the lock */

/* an object's name is its place in its home's table, from 1 on, and a generation */
#define SYNC_INDEX_MAX 0xffffffu

struct sync {
	/* of the place in the table (core/objects.h): stale handles are refused */
	uint32_t gen : 24;
	uint32_t kind : 7;    /* enum sync_kind */
	uint32_t pumping : 1; /* ACT_RESUME is outstanding; mutex: MSG_RECALL is */
	/* waiters; mutex: the recalled hold record; no object: the next free place */
	uint32_t tail;
	/* rwlock: readers without a lease; cond: waiters still to wake; mutex: see below */
	uint32_t readers;
	uint32_t writer; /* rwlock: RW_* */
	/*
	 * semaphore, atomic; cond: see SOP_MEET; mutex: tail of the queue, node << 32 | hold
	 * record, + 1; rwlock: nodes that have a lease, a bit for each of the first 64
	 */
	uint64_t value;
	union {
		/* mutex: while MSG_RECALL is outstanding, the request that waits for its answer */
		struct {
			uint16_t asked;     /* the node of the record in `tail` */
			uint16_t who, slot; /* the requester; its hold record is in `readers` */
			uint16_t destroys;  /* the request is SOP_DESTROY, not MSG_TRYLOCK */
		};
		uint64_t revoked; /* rwlock: those of `value` that MSG_REVOKE was sent to */
	};
};
CORE_ASSERT_SIZE(struct sync, 32);

/* `writer` of a reader-writer lock */
#define RW_WRITER 1u  /* held for writing */
#define RW_RECALLS 2u /* all leases are revoked, and none is granted before all are returned */
#define RW_ENDS 4u    /* a DESTROY comes again: no lease is granted before */
#define RW_READ 8u    /* counts reads since the last writer, up to LEASE_AFTER */
#define LEASE_AFTER 2u

/* May the request have to queue? */
static inline bool sync_waits(uint8_t op)
{
	return op == SOP_RDLOCK || op == SOP_WRLOCK || op == SOP_WAIT || op == SOP_ENQUEUE ||
		op == SOP_MEET;
}

/*
 * Does the request tell others of what its thread has stored? The others ask, and their answers
 * tell (core/wire.h).
 */
static inline bool sync_releases(uint8_t op)
{
	return op == SOP_RDUNLOCK || op == SOP_WRUNLOCK || op == SOP_POST || op == SOP_SIGNAL ||
		op == SOP_BROADCAST || op == SOP_STORE || op == SOP_ADD || op == SOP_EXCHANGE ||
		op == SOP_CAS || op == SOP_MEET;
}

/* Does the request get two answers, one when it is queued and one when it is granted? */
static inline bool sync_twice(uint8_t op, uint8_t flags)
{
	return op == SOP_ENQUEUE || (sync_waits(op) && flags & MSGF_TIMED);
}

struct sync_ctx {
	uint16_t me;
	bool leases; /* nodes may have leases */
	struct qpool queue;
};

/*
 * Step an object with MSG_SYNC, MSG_REVOKED or MSG_RESUME. req_node is the requester: dispatch has
 * checked the generation. 0 or -EBADMSG.
 */
int sync_step(const struct sync_ctx *ctx, struct sync *s, const struct msg *m, struct actions *out);

/* May the object be destroyed? */
bool sync_idle(const struct sync *s);
/*
 * Will it be idle soon, without another request? All that waited for a condition have been woken,
 * and some of them are still to be answered; or nobody is known to hold a reader-writer lock, but
 * nodes have leases.
 */
bool sync_is_ending(const struct sync_ctx *ctx, const struct sync *s);
/*
 * The object is not destroyed. If it is ending, its leases are revoked, and none is granted before
 * the next attempt.
 */
void sync_stays(const struct sync_ctx *ctx, struct sync *s, uint32_t object, struct actions *out);

const char *sync_kind_name(unsigned int kind);
const char *sync_op_name(unsigned int op);
const char *sync_rule_name(unsigned int kind, unsigned int op);

#endif
