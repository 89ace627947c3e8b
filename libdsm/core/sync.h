/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * sync.h - synchronisation objects that live at their home: reader-writer locks, semaphores, condition queues, atomics.
 *
 * One request, one reply. Waiters queue first come first served; what frees several of them at once (the end of a
 * writer, a broadcast, a post of n) answers one and asks to be stepped again by ACT_RESUME, so that lists stay bounded.
 * A request that may only try (TRY*) is answered at once. It fails also if others wait: it overtakes nobody.
 * (A mutex is of this kind too, but its queue is its holders': lock.h.)
 */
#ifndef CORE_SYNC_H
#define CORE_SYNC_H

#include "core/action.h"
#include "core/queue.h"

enum sync_kind { SYNC_NONE = 0, SYNC_MUTEX, SYNC_RWLOCK, SYNC_COND, SYNC_SEM, SYNC_ATOMIC, SYNC_BARRIER, SYNC_KINDS };

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
	SOP_BROADCAST, /* condition */
	SOP_CANCEL, /* after "in line" only: take this request out: -ETIMEDOUT; -EALREADY: its answer is on its way, too */
	SOP_LOAD, /* semaphore, atomic */
	SOP_STORE,
	SOP_ADD,
	SOP_EXCHANGE,
	SOP_CAS, /* atomic; CAS: value expected, value2 new */
	SYNC_OPS
};

#define SYNC_INDEX_MAX 0xffffffu /* an object is named by its place in its home's table, from 1 on, and a generation */

struct sync {
	uint32_t gen : 24;    /* of the place in the table (core/objects.h): stale handles are refused */
	uint32_t kind : 7;    /* enum sync_kind */
	uint32_t pumping : 1; /* ACT_RESUME is out; mutex: MSG_RECALL is */
	uint32_t tail;        /* waiters; mutex: the record that was asked; no object: the next free place */
	uint32_t readers; /* rwlock: that hold it; cond: waiters that a broadcast has still to wake; mutex: see below */
	uint32_t writer;  /* rwlock: 1 held for writing */
	uint64_t value;   /* semaphore, atomic; mutex: last in line, node << 32 | hold record, + 1 */
	/* mutex: a question to the last in line is out, for a request that waits for its answer */
	uint16_t asked;     /* the node of the record in `tail` */
	uint16_t who, slot; /* the request's; its hold record is in `readers` */
	uint16_t destroys;  /* it is SOP_DESTROY, not MSG_TRYLOCK */
};
CORE_ASSERT_SIZE(struct sync, 32);

/* May it have to stand in line? */
static inline bool sync_waits(uint8_t op)
{
	return op == SOP_RDLOCK || op == SOP_WRLOCK || op == SOP_WAIT || op == SOP_ENQUEUE;
}

/* Is it answered twice, when it is in line and when its turn has come? */
static inline bool sync_twice(uint8_t op, uint8_t flags)
{
	return op == SOP_ENQUEUE || (sync_waits(op) && flags & MSGF_TIMED);
}

struct sync_ctx {
	uint16_t me;
	struct qpool queue;
};

/* MSG_SYNC, with req_node the requester (core/dispatch.h has checked the generation), or MSG_RESUME. 0 or -EBADMSG. */
int sync_step(const struct sync_ctx *ctx, struct sync *s, const struct msg *m, struct actions *out);

/* May it be destroyed? */
bool sync_idle(const struct sync *s);

const char *sync_kind_name(unsigned int kind);
const char *sync_op_name(unsigned int op);
const char *sync_rule_name(unsigned int kind, unsigned int op);

#endif
