/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * crowd.h - what the files of crowd share: the objects that threads wait at, the table of kinds of waits (crowd_kinds.c) and that
 * of calls that always complete (crowd_calls.c).
 */
#ifndef PROC_CROWD_H
#define PROC_CROWD_H

#include "common.h"

#define STACK (256u << 10) /* of each thread that waits */
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
	} of[2]; /* of the crowd, of the thread that comes to it */
	dsm_mutex_t counter_lock;
	uint64_t counter;
};

/* In shared memory. */
extern struct board *board;
extern uint64_t *words;  /* one block that all ranks write, then one of each rank */
extern uint64_t *pinned; /* one block for each of the two, then MANY for each */

extern unsigned turn[2]; /* which of the pinned blocks the next thread of this rank takes */

struct kind {
	const char *name;
	void (*make)(int i, unsigned n); /* by rank 0, for n threads of each rank */
	void (*wait)(int i);
	void (*release)(int i, unsigned n); /* by one thread of each rank; rank 0: the one that called make() */
	void (*unmake)(int i);              /* by rank 0 */
	bool prefetches;                    /* so many pinned blocks that the node has no request left */
	bool gives_up;                      /* as some calls, while they are prefetched */
	unsigned most; /* threads of each rank: they ask again and again, or make regions; 0: any number */
};

struct call {
	const char *name;
	void (*fn)(void);
	bool together; /* all ranks make it */
	bool gives_up; /* while pinned blocks are prefetched so */
};

extern const struct kind kinds[];
extern const struct call calls[];
extern const size_t kinds_n, calls_n;

/* Write and read a block that other ranks write and read at this moment. */
void touch(void);

#endif
