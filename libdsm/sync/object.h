/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * object.h - requests to the homes of synchronisation objects. Called by any thread of the program,
 * outside the runtime. All functions block except sync_count_wait() and sync_count_ask().
 */
#ifndef SYNC_OBJECT_H
#define SYNC_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/sync.h"
#include "dsm.h"

struct sync_request {
	uint64_t value, value2; /* value2: only for compare-exchange */
	uint64_t ns;            /* time limit of semaphores and reader-writer locks; 0: none */
	/*
	 * SOP_WAIT: *stop is set by a signal handler of this thread, to end it: -EINTR. NULL: none
	 * does
	 */
	const uint32_t *stop;
	uint64_t old; /* the value in the reply */
	bool waited;  /* the answer was not available at once */
};

/* Send a request to the object's home, and return the status in the answer (core/sync.h), or
 * -ETIMEDOUT. The handle is of the right kind. SOP_WAIT is a cancellation point if the process is
 * the host. -EAGAIN: too many requests that may have to wait. */
int sync_ask(uint64_t id, enum sync_op op, struct sync_request *q);
/* The member of sync_process (host.h). */
int object_ask(uint64_t id, enum sync_op op, struct sync_request *q);

/*
 * Create an object at the node of a rank (-1: this node); *id: its handle. -EINVAL: no such rank;
 * -ENOSPC; as job_ready().
 */
int sync_make(enum sync_kind kind, uint64_t value, int rank, uint64_t *id);
/*
 * Destroy an object, and set *id to HANDLE_GONE. -EINVAL: no such object; -EBUSY: it is in use; as
 * handle_check().
 */
int sync_unmake(uint64_t *id, enum sync_kind kind);
/*
 * Read the handle at *at to *id, and check it (handle_check()). If it is zero and in shared memory,
 * create the object first.
 */
int sync_handle(uint64_t *at, enum sync_kind kind, uint64_t *id);

/*
 * Sleep before a request is repeated after -EINPROGRESS: the home asks for one thread at a time
 * whether a mutex is idle. *us: 0 for the first call. Each sleep is twice as long as the one
 * before, because the answer may take long.
 */
void sync_again(unsigned int *us);

/* Count a wait and its latency of ns. */
void sync_count_wait(enum dsm_latency what, uint64_t ns);
void sync_count_ask(enum sync_op op, uint64_t ns); /* the same for a request to an object's home */

#endif
