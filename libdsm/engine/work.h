/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * work.h - what a thread has still to do for the protocol: messages for this node, copies to be closed, and timers.
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

#define WORK_CLOSINGS \
	64 /* copies that are closed together, at most: the first one's answer waits for the steps of the others */

enum work_kind {
	WORK_STEP,    /* deliver the message */
	WORK_COPY,    /* send it with the block, which may stay as it is */
	WORK_DROP,    /* close the block, then send it */
	WORK_LOWER,   /* write-protect the block, then send it with the block */
	WORK_TAKE_RO, /* send it with the block, which is closed and was to be read */
	WORK_TAKE_RW, /* the same, was to be written */
	WORK_PASS     /* a lock has come to a thread that has given up: slot and status of the message */
};

struct item {
	struct msg m;
	uint32_t kind; /* enum work_kind */
	uint32_t pad;
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
	bool more;          /* the transport may have more at hand: closings wait for it */
	struct item *items; /* `first`, or a larger area until the queue is empty again */
	struct timers timers;
	uint32_t closings;                  /* used by run_work() alone, as the buffer is */
	struct item closing[WORK_CLOSINGS]; /* by kind, then by block */
	struct item first[WORK_ITEMS];
	char buffer[BLOCK_MAX];
};

/* Before any other thread uses the engine, and after all have ceased to. -EAGAIN. */
int work_start(void);
void work_stop(void);

/* For a thread that is yet to be created, which takes it before it uses the engine; or released, if it was not taken. NULL: no
 * memory. */
struct work *work_reserve(void);
void work_take(struct work *w);
void work_release(struct work *w);
/* This thread's; ends the process where there is no memory, and none was reserved. */
struct work *work_mine(void);
void work_push(enum work_kind kind, const struct msg *m);
/* False: nothing is queued. */
bool work_pop(struct item *out);

/* Set an item aside that closes a copy. There must be room. */
void work_closing(const struct item *it);
/* How many of the n closings from it on are of neighbouring blocks and one kind, so that one call can carry them out. */
unsigned int work_run(const struct item *it, unsigned int n);

/* PE_REPLAY for a block at time `at`; earlier only where there is no memory to remember it. */
void work_timer(uint32_t object, uint32_t at);
/* What is due of this thread's; true: more will be. hand_over: it goes back to the program, and gives the rest to the service
 * thread. Empties the queue, unless nothing was due. */
bool work_timers(bool hand_over);
/* Have timers been handed over? Any thread. */
bool work_late_waits(void);
/* The service thread: timers handed over. true: more will be. */
bool work_late(void);

/* A pipe for the fault backend's take(), empty; both ends -1 when there is none, which take() does without. */
const int *pipe_get(void);
void pipe_put(const int *pipe);

#endif
