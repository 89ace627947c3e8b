/* SPDX-License-Identifier: BSD-2-Clause */
/* record.h - threads as all ranks see them. Any thread of the program; all functions access shared
 * memory, and may block for it. */
#ifndef API_RECORD_H
#define API_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dsm.h"

#define RECORD_STACK (2ul << 20) /* the size of a stack for which none was asked */
#define RECORD_NAME 16u          /* bytes of a name, as the kernel has them */

enum { RECORD_RUNS, RECORD_DETACHED, RECORD_ENDED };

/* In shared memory: at the top of the stack, or separate if the stack is private or the
 * program's. */
struct record {
	void *(*fn)(void *);
	void *arg, *result;
	dsm_sem_t done;
	uint32_t state; /* atomic */
	int32_t rank;
	void *memory;      /* the allocation of this record, freed at the end */
	void *apart;       /* that of the stack if it is another one, freed as well; or NULL */
	char *stack, *top; /* the shared one, without guard; NULL: it is private */
	/* of the stack, and below it; size includes a record at the top of the stack */
	size_t size, guard;
	uint32_t masked; /* it begins with signals blocked */
	uint32_t called; /* named by another rank: the kernel does not have the name; atomic */
	/* the creator's floating-point control words, which clone(2) would pass on */
	uint32_t mxcsr;
	uint16_t x87;
	uint64_t mark; /* that this is a record (record_of()); 0 once it is released */
	char name[RECORD_NAME];
};

/* Create a record for fn(arg) with the caller's name, and the stack requested by opt (may be NULL).
 * program: the stack is memory as dsm_malloc_program() returns it. The caller sets rank and state.
 * -EINVAL: the stack is too small, or not in shared memory. -EAGAIN: no memory. Errors of
 * dsm_sem_init(). */
int record_make(const struct dsm_thread_options *opt, bool program, void *(*fn)(void *), void *arg,
		struct record **out);
/* The record of a thread that has been created, and neither joined nor freed after its end; NULL:
 * there is none. */
struct record *record_of(dsm_thread_t t);
/* Free a record with its stack. No thread may use it. */
void record_release(struct record *r);
/* End the thread's record: the joining thread owns it from now on; a detached thread's record is
 * freed. */
void record_end(struct record *r);

/*
 * stack.c: runs thread functions on shared or private stacks. Each thread has a private stack of at
 * least STACK_OWN bytes for the runtime, and optionally a shared one for its function.
 */

#define STACK_SIGNALS (192u << 10) /* what a miss needs, transports included, several times over */
#define STACK_CALLS (256u << 10)   /* for dsm_call() */
#define STACK_OWN (STACK_SIGNALS + STACK_CALLS + (128u << 10))

/* Run the record's function in this thread, on the record's stack, until it returns, exits the
 * thread or is cancelled. r->result gets its result. True: it did not return, and the thread must
 * end. */
bool stack_run(struct record *r);
/* Return the record that this thread runs; NULL: dsm_spawn() or dsm_run() did not create the
 * thread. Never blocks. */
struct record *stack_record(void);
/* For bad_access_guard, in the fault handler: report a stack overflow after an access to a guard
 * page at addr. Prints whose stack it is. */
void stack_overflow(const char *addr);

#endif
