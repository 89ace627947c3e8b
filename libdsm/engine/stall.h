/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall.h - who waits where, when a wait lasts long.
 *
 * By any thread inside the runtime, also in the fault handler. Only a report blocks: for the answers of other nodes, where the
 * thread may wait for them.
 */
#ifndef ENGINE_STALL_H
#define ENGINE_STALL_H

#include <stdint.h>

#include "engine/ctl.h"

#define STALL_ROWS 100 /* of one rank */

struct stall_row {
	struct wait_about about;
	uint64_t age_ms;
	uint16_t rank;
	uint8_t pad[6];
};
_Static_assert(STALL_ROWS * sizeof(struct stall_row) <= 4096, "they fit in an answer");

/* What this thread is about to wait for; whoever sets it sets it back to none. */
extern __thread struct wait_about wait_about __attribute__((tls_model("initial-exec")));

static inline void about(enum about kind, uint16_t home, uint32_t object)
{
	wait_about = (struct wait_about){ .kind = (uint8_t)kind, .home = home, .object = object };
}

static inline void about_none(void)
{
	wait_about.kind = ABOUT_CALL;
	wait_about.object = wait_about.home = 0;
}

/* This thread goes to sleep at `now`, for a block or, 0, for what it has said: the number of its note, or -1: there is none. */
int stall_begin(uint32_t block, uint64_t now);
void stall_end(int note);

/* A waiter since then: report if it is time. */
void stall_look(uint64_t since, uint64_t now);
/* How long to sleep, of ns, to be awake when a report is due. */
uint64_t stall_nap(uint64_t since, uint64_t now, uint64_t ns);
/* The service thread, for waits in the kernel helper; asks the ranks of this node only, which takes no message. */
void stall_look_kernel(void);

/* CALL_STALLS: what the threads of a rank of this node wait for, and the locks they hold; how many rows. Does not block. */
unsigned int stall_serve(uint16_t rank, struct stall_row *out, unsigned int most);

#endif
