/* SPDX-License-Identifier: BSD-2-Clause */
/* catch.h - the handlers of SIGBUS and SIGSEGV. (A file signal.h would hide that of the C
 * library.) */
#ifndef FAULT_CATCH_H
#define FAULT_CATCH_H

#include <stdbool.h>

enum fault_answer {
	FAULT_SERVED,  /* the access can be tried again */
	FAULT_REFUSED, /* it cannot be served */
	FAULT_NOWHERE  /* there is no memory: SIGSEGV, whatever the kernel sent */
};

/* Catch SIGBUS and SIGSEGV at addresses in the table of ranges (range.h), and call fn in the
 * faulting thread with all signals blocked; fn may block. Accesses that fn does not serve, and
 * signals of other addresses, go to the previous handlers. Call once until fault_uncatch(). -errno
 * of sigaction(2). */
int fault_catch(enum fault_answer (*fn)(void *addr, bool write));
/* Call fn in the faulting thread for accesses at other addresses that raise SIGSEGV. It may access
 * shared memory and block. True: the access can be tried again. Any thread; once. */
void fault_elsewhere(bool (*fn)(void *addr, bool write));
/* Restore the previous handlers. The caller ensures that no thread is in fn. */
void fault_uncatch(void);
/* From now on, handle faults on the alternate signal stack of threads that have one (threads with
 * shared stacks). */
void fault_alternate_stack(void);

/* Called in fn: is a signal pending that the interrupted code has not blocked? Then fn should
 * return: the signal is delivered before the access is repeated. False outside fn. */
bool fault_signal_waits(void);
/* Is this thread in fn? Any thread; does not block. */
bool fault_handling(void);
/* The same where fn cannot return: deliver pending signals that end the process now. */
void fault_end_if_signalled(void);

#endif
