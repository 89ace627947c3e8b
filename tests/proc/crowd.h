/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.h - shared by the files of crowd: objects that threads wait for, the table of kinds of
 * waits (crowd_kinds.c), and the table of calls that always complete (crowd_calls.c).
 */
#ifndef PROC_CROWD_H
#define PROC_CROWD_H

#include "common.h"

#define STACK (256u << 10) /* stack of each waiting thread */
#define MANY 2500u

struct board {
	struct objects {
		dsm_mutex_t mutex;
		dsm_rwlock_t rwlock;
		dsm_cond_t cond;
		dsm_sem_t sem;
		dsm_barrier_t barrier;
		dsm_barrier_t meeting; /* of `come` threads; zero at first */
		uint64_t come, go;
	} of[2]; /* for the crowd, and for the newcomer */
	dsm_mutex_t counter_lock;
	uint64_t counter;
};

/* In shared memory. */
extern struct board *board;
extern uint64_t *words;  /* one block that all ranks write, then one per rank */
extern uint64_t *pinned; /* one block for each of the two, then MANY blocks for each */

extern unsigned turn[2]; /* index of the pinned block for this rank's next thread */

struct kind {
	const char *name;
	void (*make)(int i, unsigned n); /* called by rank 0, for n threads per rank */
	void (*wait)(int i);
	/* called by one thread per rank; on rank 0 by the one that called make() */
	void (*release)(int i, unsigned n);
	void (*unmake)(int i); /* called by rank 0 */
	/* pins so many blocks that the node has no request slot left */
	bool prefetches;
	bool gives_up; /* may fail while pinned blocks are prefetched */
	/* threads per rank, at most: they ask continuously, or make regions; 0: any number */
	unsigned most;
};

struct call {
	const char *name;
	void (*fn)(void);
	bool together; /* all ranks make the call */
	bool gives_up; /* may fail while pinned blocks are prefetched */
};

extern const struct kind kinds[];
extern const struct call calls[];
extern const size_t kinds_n, calls_n;

/* Write and read a block that other ranks also write and read now. */
void touch(void);

#endif
