/* SPDX-License-Identifier: BSD-2-Clause */
/* record.h - threads as all ranks see them. Any thread of the program; all functions touch shared memory, and may block for it. */
#ifndef API_RECORD_H
#define API_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "dsm.h"

#define RECORD_STACK (2ul << 20) /* the size of a stack for which none was asked */
#define RECORD_NAME 16u          /* bytes of a name, as the kernel has them */

enum { RECORD_RUNS, RECORD_DETACHED, RECORD_ENDED };

/* In shared memory: at the top of the stack, or by itself where the stack is private or the program's. */
struct record {
	void *(*fn)(void *);
	void *arg, *result;
	dsm_sem_t done;
	uint32_t state; /* atomic */
	int32_t rank;
	void *memory;       /* what is freed at the end */
	char *stack, *top;  /* the shared one, without guard; NULL: it is private */
	size_t size, guard; /* of the stack, and below it; where the record is at its top, size includes that */
	uint32_t called;    /* by another rank: the kernel does not know the name; atomic */
	char name[RECORD_NAME];
};

/* One for fn(arg) with the caller's name, and the stack that opt (may be NULL) asks for. Rank and state are the caller's to set.
 * -EINVAL: a stack that is too small, or not in shared memory. -EAGAIN: no memory. Errors of dsm_sem_init(). */
int record_make(const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg, struct record **out);
/* Free it, with its stack. Nobody uses it. */
void record_release(struct record *r);
/* The thread has ended. Who joins the thread has its record from now on; where it is detached, it is freed here. */
void record_end(struct record *r);

#endif
