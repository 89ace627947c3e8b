/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - how long a waiter polls before it sleeps. Pure.
 *
 * Going to sleep and being woken costs more than most answers take, so a fixed limit is worst where answers come just after
 * it: each wait then pays for the polling and for the sleep. The limit is the setting, or twice the mean of the waits that
 * this thread has seen, where that is more, up to SPIN_TIMES the setting. Where waits last longer than that, polling
 * would be wasted on nearly all of them, and the limit is the setting again.
 */
#ifndef ENGINE_SPIN_H
#define ENGINE_SPIN_H

#include <stdint.h>

#define SPIN_TIMES 8u
#define SPIN_WEIGHT 4 /* of the past against one wait: a change of habit counts after as many */

/* The waits of one kind that a thread has seen; zero is the start. */
struct spin {
	uint64_t mean; /* ns */
};

static inline uint64_t spin_limit(const struct spin *s, uint64_t set)
{
	const uint64_t twice = 2 * s->mean;

	return twice <= set || twice > SPIN_TIMES * set ? set : twice;
}

/* One has ended. A very long one counts as one that is clearly too long, so that it is forgotten as soon. */
static inline void spin_saw(struct spin *s, uint64_t ns, uint64_t set)
{
	const uint64_t most = 2 * SPIN_TIMES * set, counted = ns < most ? ns : most;

	s->mean = s->mean ? (s->mean * (SPIN_WEIGHT - 1) + counted) / SPIN_WEIGHT : counted;
}

#endif
