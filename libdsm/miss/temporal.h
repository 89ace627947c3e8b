/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * temporal.h - temporal prefetching: the node learns the order in which its threads miss blocks. A
 * thread whose misses come in that order again fetches the next blocks ahead.
 *
 * Each block has a link, at its first page: the block that was missed after it. A thread's window
 * is the number of blocks that it fetches ahead at a miss. It grows while the thread's misses are
 * those that the links predict, and shrinks when they are not. Only a thread whose window is 0
 * changes links; others add to the last block of a chain.
 *
 * Any thread, also in the fault handler; nothing blocks. Links are read and written without a lock:
 * a race costs a prediction. They outlive regions: the caller checks what it is told.
 */
#ifndef MISS_TEMPORAL_H
#define MISS_TEMPORAL_H

#include <stdbool.h>
#include <stdint.h>

struct sharing_page;

#define TEMPORAL_LOOKS 4u /* links followed for each block of the window: the node may have some */

/* Of one thread. Zero-initialised: nothing is predicted. Pages are numbers in the window, + 1. */
struct temporal {
	uint32_t missed; /* the last miss */
	uint32_t tail;   /* the last predicted block; at first, the last miss */
	unsigned int window;
	unsigned int looks; /* links that may be followed until the next miss */
};

/* The thread has missed the block at `page`. most: limit of the window. */
void temporal_missed(struct temporal *t, struct sharing_page *pages, uint32_t page,
		     unsigned int most);
/*
 * Predict one more block. False: no link leads on, it leads back to the miss, or enough links were
 * followed.
 */
bool temporal_next(struct temporal *t, const struct sharing_page *pages, uint32_t *page);

#endif
