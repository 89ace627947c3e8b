/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * linger.h - when the service thread leaves the transport unarmed, and polls it by itself now and then. Pure.
 *
 * A transport that cannot tell that a thread polls it (net.h) makes an event for each message that comes while it is armed. So it wakes
 * the service thread for answers, which their waiters have taken by then: with each it takes a processor, perhaps the waiter's.
 * After some wakes in vain, the transport therefore stays unarmed as long as waits follow each other. Once the service thread finds
 * a message itself, which has waited for it, it arms the transport again.
 */
#ifndef ENGINE_LINGER_H
#define ENGINE_LINGER_H

#include <stdbool.h>

#define LINGER_VAIN 4   /* wakes, in a row */
#define LINGER_NS 50000 /* between two polls: about what waking a thread takes */

struct linger {
	unsigned int vain;
};

/* Before going to sleep. Since the last time: came: messages; woken: by the transport; waits: a thread has waited, or does now. True:
 * do not arm. */
static inline bool linger_on(struct linger *l, bool came, bool woken, bool waits)
{
	if (came)
		l->vain = 0;
	else if (woken && l->vain < LINGER_VAIN)
		l->vain++;
	return waits && l->vain == LINGER_VAIN;
}

#endif
