/* SPDX-License-Identifier: BSD-2-Clause */
/* catch.h - the handlers of SIGBUS and SIGSEGV. (A file signal.h would hide that of the C library.) */
#ifndef FAULT_CATCH_H
#define FAULT_CATCH_H

#include <stdbool.h>

enum fault_answer {
	FAULT_SERVED,  /* the access can be tried again */
	FAULT_REFUSED, /* it cannot be served */
	FAULT_NOWHERE  /* there is no memory: SIGSEGV, whatever the kernel sent */
};

/* Catch SIGBUS and SIGSEGV of addresses in the table of ranges (range.h) and ask fn, in the thread that faulted, with all signals
 * blocked; fn may block. What it does not serve, and signals of other addresses, go to the handlers that were there before. Once
 * until fault_uncatch(). -errno of sigaction(). */
int fault_catch(enum fault_answer (*fn)(void *addr, bool write));
/* Restore the handlers that were there before. No thread is in fn. */
void fault_uncatch(void);
/* From now on handle faults on the alternate signal stack of threads that have one: those on shared stacks. */
void fault_alternate_stack(void);

/* In fn, whose thread has all signals blocked: does a signal wait that the interrupted code has not blocked? Then fn had better
 * return: the signal is delivered before the access is repeated. False outside fn. */
bool fault_signal_waits(void);
/* Is this thread in fn? Any thread; does not block. */
bool fault_handling(void);
/* The same where fn cannot return: a signal that ends the process does so now. */
void fault_end_if_told(void);

#endif
