/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meet.h - a barrier for a fixed number of threads.
 *
 * Between nodes it is that of POSIX, which libdsm-pthread.so carries out by messages. Within one
 * node threads share memory, and spin for a short time before they sleep.
 */
#ifndef OPENMP_MEET_H
#define OPENMP_MEET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct meet {
	pthread_barrier_t far; /* between nodes */
	unsigned int n;
	unsigned int spins;              /* constant */
	bool near;                       /* constant */
	uint32_t round, arrived, asleep; /* atomic */
	pthread_mutex_t lock;
	pthread_cond_t came; /* the next round */
};

/* How often a thread of n looks before it sleeps. 0: there are several nodes, or fewer
 * processors. */
unsigned int meet_spins(unsigned int n);
void meet_init(struct meet *m, unsigned int n);
void meet_wait(struct meet *m);
/* All threads have returned from it. */
void meet_destroy(struct meet *m);

#endif
