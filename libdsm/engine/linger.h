/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * linger.h - when the service thread leaves the transport unarmed, and polls it by itself now and then. Pure.
 *
 * A transport that cannot tell that a thread polls it (net.h) makes an event for each message that comes while it is armed. So it wakes
 * the service thread for answers, which their waiters have taken by then: with each it takes a processor, perhaps the waiter's.
 * After some wakes in vain, the transport therefore stays unarmed as long as waits follow each other. Once the service thread finds
 * a message that no polling thread would have taken, it arms the transport again.
 */
#ifndef ENGINE_LINGER_H
#define ENGINE_LINGER_H

#include <stdbool.h>

#define LINGER_VAIN 4      /* wakes, in a row */
#define LINGER_NS 50000    /* between two polls: about what waking a thread takes */
#define LINGER_POLLS 16    /* in vain at one pace, in a row */
#define LINGER_DOUBLINGS 3 /* of the pace, at most: a message that no waiter takes has to wait that long, once */

struct linger {
	unsigned int vain;  /* wakes */
	unsigned int polls; /* in vain since then */
};

/*
 * Before going to sleep. Since the last time: came: messages that nobody else would have taken; woken: by the transport; waits: a
 * thread has waited, or does now. How long until the next poll, in ns; 0: arm.
 */
static inline unsigned int linger_for(struct linger *l, bool came, bool woken, bool waits)
{
	if (came)
		l->vain = 0;
	else if (woken && l->vain < LINGER_VAIN)
		l->vain++;
	if (!waits || l->vain < LINGER_VAIN) {
		l->polls = 0;
		return 0;
	}
	if (l->polls < LINGER_POLLS * LINGER_DOUBLINGS)
		l->polls++;
	return LINGER_NS << l->polls / LINGER_POLLS;
}

#endif
