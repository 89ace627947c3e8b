/* SPDX-License-Identifier: BSD-2-Clause */
/* sync.h - what the synchronisation calls share: handles, requests to an object's home, and what a thread holds. */
#ifndef SYNC_SYNC_H
#define SYNC_SYNC_H

#include <dsm_uapi.h>

#include "api/api.h"

/* A handle: generation, kind, home, index. Zero is none. */
static inline uint64_t handle_make(enum sync_kind kind, uint16_t home, uint32_t object)
{
	return (uint64_t)(object >> 16) << 48 | (uint64_t)kind << 40 | (uint64_t)home << 16 | (object & 0xffff);
}

static inline uint16_t handle_home(uint64_t id)
{
	return (uint16_t)(id >> 16);
}

static inline uint32_t handle_object(uint64_t id)
{
	return (uint32_t)(id >> 48 << 16 | (id & 0xffff));
}

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
/* After the first answer of a request that is answered twice ("in line", then its turn): 0, or -ETIMEDOUT after ns. */
int sync_turn(struct msg *m, uint32_t seq, uint64_t ns);
int sync_make(enum sync_kind kind, uint64_t value, int home, uint64_t *id); /* home -1: this rank */
int sync_unmake(uint64_t *id, enum sync_kind kind);

/* What this thread holds: locks by handle. info is the hold record, or how an rwlock is held. */
int held_find(uint64_t id);                 /* index, or -1 */
int held_add(uint64_t id, uint32_t info);   /* -EAGAIN: this thread holds 64 locks */
uint32_t held_info(int index);
void held_remove(int index);

void sync_count_wait(enum dsm_latency what, uint64_t ns);

#endif
