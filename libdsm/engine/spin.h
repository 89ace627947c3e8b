/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - how long a waiter polls before it sleeps. Pure.
 *
 * Going to sleep and being woken costs more than most answers take, so a fixed limit is worst where answers come just after
 * it: each wait then pays for the polling and for the sleep. The limit is the setting, or twice the mean of the waits that
 * this thread has seen, where that is more, up to SPIN_TIMES the setting. Where the mean itself is longer than that, polling is
 * hopeless. It is not where only twice the mean is longer: two nodes that both sleep while they wait for each other see waits of a
 * few wake-ups each, and whichever polls for so long finds that the other answers.
 *
 * Where waits end in sleep nevertheless, polling was wasted on them. It may even be the reason for their length: a polling
 * thread keeps the processor from the thread that is to answer. So the limit is halved for each such wait in a row after the first few, and an
 * answer that comes in time takes one halving back. One wait in SPIN_PROBE polls to the whole limit, to see whether things
 * have changed.
 */
#ifndef ENGINE_SPIN_H
#define ENGINE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_TIMES 8u
#define SPIN_WEIGHT 4   /* of the past against one wait: a change of habit counts after as many */
#define SPIN_FORGIVEN 3 /* waits in a row that end in sleep, and change nothing */
#define SPIN_HALVINGS 6 /* at most: what is left of the usual limits takes less time than a system call */
#define SPIN_PROBE 32
#define SPIN_YIELD 64         /* polls between two calls of sched_yield(2): some microseconds */
#define SPIN_SWITCHED_NS 3000 /* it takes so long only if another thread has run */
#define SPIN_CROWDED 3        /* such calls in a row: once, it may have been an interrupt */

/* The waits of one kind that a thread has seen; zero is the start. */
struct spin {
	uint64_t mean;  /* ns */
	uint32_t waits; /* it runs over */
	uint32_t slept; /* in a row; to SPIN_FORGIVEN + SPIN_HALVINGS */
};

/* Without what polling in vain has taught. */
static inline uint64_t spin_whole(const struct spin *s, uint64_t set)
{
	const uint64_t twice = 2 * s->mean, most = SPIN_TIMES * set;

	if (twice <= set || s->mean > most)
		return set;
	return twice < most ? twice : most;
}

static inline uint64_t spin_limit(const struct spin *s, uint64_t set)
{
	const uint64_t whole = spin_whole(s, set);

	if (s->slept <= SPIN_FORGIVEN || s->waits % SPIN_PROBE == 0)
		return whole;
	return whole >> (s->slept - SPIN_FORGIVEN);
}

/* One has ended; slept: or should have, as another thread needed the processor. A very long one counts as one that is clearly
 * too long, so that it is forgotten as soon. */
static inline void spin_saw(struct spin *s, uint64_t ns, uint64_t set, bool slept)
{
	const uint64_t most = 2 * SPIN_TIMES * set, counted = ns < most ? ns : most;
	const bool probe = s->waits++ % SPIN_PROBE == 0;

	s->mean = s->mean ? (s->mean * (SPIN_WEIGHT - 1) + counted) / SPIN_WEIGHT : counted;
	if (slept)
		s->slept += s->slept < SPIN_FORGIVEN + SPIN_HALVINGS;
	else if (s->slept <= SPIN_FORGIVEN || probe)
		s->slept = 0;
	else
		s->slept--;
}

#endif
