/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h - runs thread functions on shared or private stacks. Each thread has a private stack of
 * at least STACK_OWN bytes for the runtime, and optionally a shared one for its function.
 */
#ifndef API_STACK_H
#define API_STACK_H

#include <stdbool.h>

#define STACK_SIGNALS (192u << 10) /* what a miss needs, transports included, several times over */
#define STACK_CALLS (256u << 10)   /* for dsm_call() */
#define STACK_OWN (STACK_SIGNALS + STACK_CALLS + (128u << 10))

struct record;

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
