/* SPDX-License-Identifier: BSD-2-Clause */
/* work.h - what a thread has still to do for the protocol: messages for ranks of this host, and timers. */
#ifndef ENGINE_WORK_H
#define ENGINE_WORK_H

#include "engine/engine.h"

#define WORK_ITEMS 8192 /* a prefetch is cut so that what it causes fits: block.c */
#define WORK_TIMERS 256
#define RUN_BLOCKS 64   /* blocks moved at once when neighbours travel together */

struct item {
	struct msg m;
	uint8_t data;  /* MSG_DATA whose block is still to be taken from m.src */
	uint8_t prot, from;
	uint8_t pad[5];
};

struct timer {
	uint32_t at, object;
	uint16_t rank;
};

struct work {
	uint32_t head, tail;
	uint32_t ntimers;
	bool running;
	int pipe[2];   /* for the fault backend's take() */
	struct timer timers[WORK_TIMERS];
	struct item items[WORK_ITEMS];
	struct actions batch[RUN_BLOCKS];
	char buffer[BLOCK_MAX];
};

struct work *work_mine(void);                  /* this thread's; ends the process where there is no memory */
struct item *work_push(const struct msg *m);   /* queue a message for a rank of this host */
void work_timer(uint16_t rank, uint32_t object, uint32_t at);

#endif
