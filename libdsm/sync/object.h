/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * object.h - requests to the homes of synchronisation objects. By any thread of the program, outside the runtime; all of it
 * blocks but the counting.
 */
#ifndef SYNC_OBJECT_H
#define SYNC_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/sync.h"
#include "dsm.h"

struct sync_request {
	uint64_t value, value2; /* value2: compare-exchange only */
	uint64_t ns;            /* 0: wait for ever; semaphores and reader-writer locks: give up then */
	uint64_t old;           /* what the reply brought */
	bool waited;            /* the answer was not there at once */
};

/* Ask the object's home, of whose kind the handle is, and wait for the answer's status (core/sync.h), or -ETIMEDOUT. SOP_WAIT is a
 * cancellation point with the process as the host. -EAGAIN: too many requests that may have to wait. */
int sync_ask(uint64_t id, enum sync_op op, struct sync_request *q);
/* object_ask: the member of sync_process (host.h). */
int object_ask(uint64_t id, enum sync_op op, struct sync_request *q);

/* *id: the handle of a new object at that rank's node; -1: this one's. -EINVAL, -ENOSPC. */
int sync_make(enum sync_kind kind, uint64_t value, int rank, uint64_t *id);
/* -EINVAL, -EBUSY; *id is HANDLE_GONE if it is gone. */
int sync_unmake(uint64_t *id, enum sync_kind kind);
/* *id: the handle at *at, and as handle_check(). Zero in shared memory is an object that has not been used: it is made. */
int sync_handle(uint64_t *at, enum sync_kind kind, uint64_t *id);

/*
 * Whether a mutex is idle is asked for one thread at a time: before asking again, after -EINPROGRESS. *us: 0 at first; each
 * pause is twice as long as the one before, as the answer may be far.
 */
void sync_again(unsigned int *us);

/* A wait is over that took so long. */
void sync_count_wait(enum dsm_latency what, uint64_t ns);
void sync_count_ask(enum sync_op op, uint64_t ns); /* of a request to an object's home */

#endif
