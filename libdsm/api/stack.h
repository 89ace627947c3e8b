/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h - functions of threads on shared and private stacks. A thread has a private stack of at least STACK_OWN bytes, which the
 * runtime uses, and perhaps a shared one, which its function uses.
 */
#ifndef API_STACK_H
#define API_STACK_H

#include <stdbool.h>

#define STACK_SIGNALS (192u << 10) /* what a miss needs, transports included, several times over */
#define STACK_CALLS (256u << 10)   /* for dsm_call() */
#define STACK_OWN (STACK_SIGNALS + STACK_CALLS + (128u << 10))

struct record;

/* Run the record's function by this thread, on the record's stack, until it returns, ends the thread, or is cancelled: r->result
 * says with what. True: it has not returned, and the thread must end. */
bool stack_run(struct record *r);
/* What this thread runs; NULL: nothing, as dsm_spawn() and dsm_run() have not made it. Never blocks. */
struct record *stack_record(void);
/* For stray_guard, in the fault handler: a thread has touched a guard page at addr. Prints whose stack has overflowed. */
void stack_overflow(const char *addr);

#endif
