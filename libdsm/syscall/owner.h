/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - calls that rank 0 makes for threads of other ranks. Each such thread has a thread of
 * its own there: so a call may wait, a stream may be locked from one call to the next, and calls of
 * one thread keep their order.
 */
#ifndef SYSCALL_OWNER_H
#define SYSCALL_OWNER_H

#include "wrap.h"

#include <stdio.h>

#include "interpose/files.h"

#define OWNER_WORDS 7

enum owner_way {
	OWNER_RUNS,
	OWNER_WAITS, /* a cancellation point: the call at rank 0 is cancelled as well */
	/* the same, and each handler that interrupts it ends it; others only one without
	 * SA_RESTART */
	OWNER_POLLS
};

/* Run fn with these words at rank 0; it has the same address there. On the private stack
 * (dsm_call()), outside of libdsm. errno goes there and comes back. Blocks as fn does. A handler
 * that interrupts this thread interrupts the call at rank 0. */
long owner_call(void *fn, const long word[OWNER_WORDS], enum owner_way way);
/* The same, of a call on a stream of rank 0 (NULL: of none): the flags that it leaves there are
 * stored in what this rank has at its address. */
long owner_call_on(void *fn, const long word[OWNER_WORDS], enum owner_way way, FILE *stream);
/* At rank 0, once, and at the other ranks as well: reserve the signal that interrupts calls. */
void owner_start(void);

/* The same for a function of four words, from any stack. */
long owner_words(void *fn, long a, long b, long c, long d);
/* The same for a function that is a cancellation point. */
long owner_wait(void *fn, long a, long b, long c, long d);

#endif
