/* SPDX-License-Identifier: BSD-2-Clause */
/* work.h - what a thread has still to do for the protocol: messages for this node, blocks to be sent, and timers. */
#ifndef ENGINE_WORK_H
#define ENGINE_WORK_H

#include "engine/engine.h"

#define WORK_ITEMS 8192 /* room that a thread's queue has from the start; it grows by doubling */

struct item {
	struct msg m;
	uint8_t data; /* MSG_DATA whose block is still to be taken from m.src */
	uint8_t prot, from;
	uint8_t pad[5];
};

struct timer {
	uint32_t at, object;
};

/* A list that grows by mremap(2). */
struct timers {
	uint32_t n, room;
	struct timer *v;
};

struct work {
	uint32_t head, tail; /* of items; they run on, and the room is a power of two */
	uint32_t room;
	bool running;
	struct item *items; /* `first`, or a larger area until the queue is empty again */
	struct timers timers;
	struct item first[WORK_ITEMS];
	char buffer[BLOCK_MAX];
};

struct work *work_mine(void);                /* this thread's; ends the process where there is no memory */
struct item *work_push(const struct msg *m); /* queue a message for this node; valid until the next push */
bool work_pop(struct item *out);             /* false: nothing is queued */
/* PE_UNHOLD for a block at time `at`; earlier only where there is no memory to remember it. */
void work_timer(uint32_t object, uint32_t at);

/* A pipe for the fault backend's take(), empty; both ends -1 when there is none, which take() does without. */
const int *pipe_get(void);
void pipe_put(const int *pipe);

#endif
