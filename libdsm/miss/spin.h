/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spin.h - how long a waiter polls before it sleeps. Pure.
 *
 * Sleeping and waking cost more than most answers take. A fixed limit is worst if answers come just
 * after it: each wait then pays for the polling and for the sleep. The limit is the larger of the
 * setting and twice the mean of the waits that this thread has seen, up to SPIN_TIMES the setting.
 * If the mean itself exceeds that, polling is useless and the limit is the setting. If only twice
 * the mean exceeds it, polling still helps: two nodes that both sleep while they wait for each
 * other see waits of a few wake-ups each, and one that polls that long gets its answer.
 *
 * Polling is wasted on waits that end in sleep. It may even cause their length: a polling thread
 * keeps the processor from the thread that must answer. So after the first few, each consecutive
 * wait of this kind halves the limit, and an answer in time reverts one halving. One wait in
 * SPIN_PROBE polls to the full limit, to detect a change.
 */
#ifndef MISS_SPIN_H
#define MISS_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPIN_TIMES 8u
/* weight of the past: the mean follows a change within about as many waits */
#define SPIN_WEIGHT 4
#define SPIN_FORGIVEN 3 /* consecutive waits that end in sleep without an effect on the limit */
/* at most: the rest of the usual limits takes less time than a system call */
#define SPIN_HALVINGS 6
#define SPIN_PROBE 32
#define SPIN_YIELD 64         /* polls between two calls of sched_yield(2): some microseconds */
#define SPIN_SWITCHED_NS 3000 /* sched_yield() takes so long only if another thread has run */
#define SPIN_CROWDED 3        /* consecutive calls of this kind: a single one may be an interrupt */

/* The waits of one kind that a thread has seen. Initially zero. */
struct spin {
	uint64_t mean;  /* ns */
	uint32_t waits; /* wraps around */
	uint32_t slept; /* consecutive; up to SPIN_FORGIVEN + SPIN_HALVINGS */
};

/* The limit before halvings. */
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

/* Record a wait that has ended. slept: it ended in sleep, or should have, because another thread
 * needed the processor. The length is capped, so that a very long wait is forgotten as soon as
 * other long ones. */
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
