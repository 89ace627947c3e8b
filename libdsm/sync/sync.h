/* SPDX-License-Identifier: BSD-2-Clause */
/* sync.h - what the synchronisation calls share: handles, requests to an object's home, and what a thread holds. */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include "api/api.h"
#include "core/objects.h"
#include "engine/job.h"
#include "engine/stall.h"

/* A handle: generation (24 bits), kind (4), home (12), index (24). Zero is none. name: core/objects.h, object_name(). */
static inline uint64_t handle_make(enum sync_kind kind, uint16_t home, uint64_t name)
{
	return name >> 24 << 40 | (uint64_t)kind << 36 | (uint64_t)home << 24 | (name & SYNC_INDEX_MAX);
}

static inline uint16_t handle_home(uint64_t id)
{
	return id >> 24 & 0xfff;
}

static inline enum sync_kind handle_kind(uint64_t id)
{
	return (enum sync_kind)(id >> 36 & 0xf);
}

static inline uint64_t handle_name(uint64_t id)
{
	return id >> 40 << 24 | (id & SYNC_INDEX_MAX);
}

/* As messages have it: without the upper part of the generation. */
static inline uint32_t handle_object(uint64_t id)
{
	return (uint32_t)handle_name(id);
}

/* A request of this rank for the object of a handle. */
static inline struct msg handle_ask(uint64_t id, uint8_t type, uint8_t op)
{
	struct msg m = { .type = type, .op = op, .src = job.node, .dst = handle_home(id) };

	object_address(&m, handle_name(id));
	return m;
}

/* What this thread is about to wait for, for stall.c. */
static inline void about_object(uint64_t id)
{
	about(ABOUT_OBJECT, handle_home(id), handle_object(id));
	wait_about.sync = (uint8_t)handle_kind(id);
}

/* The same of a barrier. */
void about_barrier(uint32_t object, uint64_t mask, uint32_t threads);

/* 0, or -EINVAL: no handle of this kind; -ENOTCONN, -ECHILD. */
int handle_check(uint64_t id, enum sync_kind kind);

struct sync_request {
	uint64_t value, value2; /* value2: compare-exchange only */
	uint64_t ns;            /* 0: wait for ever; semaphores: cancel then */
	uint64_t old;           /* what the reply brought */
	bool waited;            /* the answer was not there at once */
};

/* Ask the object's home and wait for the answer's status. */
int sync_ask(uint64_t id, enum sync_op op, struct sync_request *q);
/* After the first answer of a request that is answered twice ("in line", then its turn): 0, or -ETIMEDOUT after ns (0: none).
 * A cancellation point. */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns);
/* Of a thread that is cancelled: take its request back. 0, or 1: what it asked for has come all the same. */
int sync_take_back(struct msg *m, uint32_t seq, bool in_line);
int sync_make(enum sync_kind kind, uint64_t value, int rank, uint64_t *id); /* at that rank's node; -1: this one's */
int sync_unmake(uint64_t *id, enum sync_kind kind);

/* held.c: what this thread holds, locks by handle. info is the hold record, or how an rwlock is held. An index is good until
 * the next held_add() or held_remove(). */
int held_start(void);
int held_find(uint64_t id);               /* index, or -1 */
int held_add(uint64_t id, uint32_t info); /* -EAGAIN: no memory; never after a held_remove() without one in between */
uint32_t held_info(int index);
void held_remove(int index);

/* kept.c: locks that this rank keeps, as nobody else has asked for them. ask: a request for the lock, of this rank. */
int64_t kept_take(const struct msg *ask); /* the lock is this thread's now: its hold record; -1: it is not kept here */
int64_t
kept_join(const struct msg
		  *ask); /* in line behind a thread of this node: that thread's hold record; -1: nobody is there */
void kept_note(const struct msg *ask,
	       uint32_t hold); /* it is held in this record, and will be found there when it is kept */
void kept_give_some(void);     /* records run short */

/* barrier.c: a thread of this rank arrives, with a value that is combined (op: engine/reduce.h), and gets the result. */
int barrier_arrive(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);

/* Members of sync_process (sync/host.h). */
int object_ask(uint64_t id, enum sync_op op, struct sync_request *q);
int lock_acquire(uint64_t id, uint8_t type);
int lock_release(uint32_t hold);
int lock_wait(uint64_t cond, uint64_t mutex, uint64_t ns);
int barrier_meet(uint32_t object, uint64_t mask, uint32_t threads, uint8_t op, uint64_t *value);
int barrier_end(uint32_t object);

/* A wait is over that took so long. */
void sync_count_wait(enum dsm_latency what, uint64_t ns);
void sync_count_ask(enum sync_op op, uint64_t ns); /* of a request to an object's home */

#endif
