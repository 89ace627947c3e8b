/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * linger.h - decides when the service thread leaves the transport unarmed and polls it periodically
 * instead. Pure functions.
 *
 * A transport that cannot tell that a thread polls it (net.h) raises an event for each message that
 * arrives while it is armed. So it wakes the service thread for answers that their waiters have
 * already taken. Each wake-up uses a processor, perhaps the waiter's. After some useless wake-ups,
 * the transport therefore stays unarmed while waits follow each other. When the service thread
 * finds a message that no polling thread would have taken, it arms the transport again.
 */
#ifndef WATCH_LINGER_H
#define WATCH_LINGER_H

#include <stdbool.h>

#define LINGER_VAIN 4   /* consecutive useless wake-ups */
#define LINGER_NS 50000 /* between two polls: about the time that waking a thread takes */
#define LINGER_POLLS 16 /* consecutive polls without a message before the interval doubles */
/* of the interval, at most: a message that no waiter takes waits that long, once */
#define LINGER_DOUBLINGS 3

struct linger {
	unsigned int vain;  /* useless wake-ups */
	unsigned int polls; /* polls without a message since then */
};

/*
 * Called before going to sleep. Returns the time in ns until the next poll; 0: arm the transport.
 * Since the last call: came: a message arrived that no other thread would have taken; woken: by the
 * transport; waits: a thread has waited, or waits now.
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
