/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * work.h - what a thread has still to do for the protocol: messages for this node, blocks to be sent, and timers.
 *
 * By any thread for itself, inside the runtime, also in the fault handler, without a stripe; nothing waits for another rank.
 */
#ifndef ENGINE_WORK_H
#define ENGINE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"
#include "engine/ctl.h"

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

/* Before any other thread uses the engine, and after all have ceased to. -EAGAIN. */
int work_start(void);
void work_stop(void);

/* This thread's; ends the process where there is no memory. */
struct work *work_mine(void);
/* Queue a message for this node; valid until the next push. */
struct item *work_push(const struct msg *m);
/* False: nothing is queued. */
bool work_pop(struct item *out);

/* PE_UNHOLD for a block at time `at`; earlier only where there is no memory to remember it. */
void work_timer(uint32_t object, uint32_t at);
/* What is due of this thread's; true: more will be. hand_over: it goes back to the program, and gives the rest to the service
 * thread. Empties the queue, unless nothing was due. */
bool work_timers(bool hand_over);
/* The service thread: timers handed over. true: more will be. */
bool work_late(void);

/* A pipe for the fault backend's take(), empty; both ends -1 when there is none, which take() does without. */
const int *pipe_get(void);
void pipe_put(const int *pipe);

#endif
