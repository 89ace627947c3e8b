/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall.h - who waits where, when a wait lasts long.
 *
 * By any thread inside the runtime, also in the fault handler. Only a report blocks: for the answers of other nodes, outside the
 * fault handler.
 */
#ifndef ENGINE_STALL_H
#define ENGINE_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/ctl.h"

#define STALL_ROWS 73 /* of one rank */

struct stall_row {
	struct wait_about about;
	struct wait_label label;
	uint32_t age_ms;
	uint32_t tid;
	uint16_t rank;
	uint8_t pad[6];
};
_Static_assert(STALL_ROWS * sizeof(struct stall_row) <= 4096, "they fit in an answer");

/* What this thread is about to wait for; whoever sets it sets it back to none. */
extern __thread struct wait_about wait_about __attribute__((tls_model("initial-exec")));
extern __thread struct wait_label wait_label __attribute__((tls_model("initial-exec")));

static inline void about(enum about kind, uint16_t home, uint32_t object)
{
	wait_about = (struct wait_about){ .kind = (uint8_t)kind, .home = home, .object = object };
}

static inline void about_none(void)
{
	wait_about.kind = ABOUT_CALL;
	wait_about.object = wait_about.home = 0;
}

/* A label for the waits of a call, unless its caller has set one: whether it was set, for label_end(). */
static inline bool label_begin(enum dsm_wait what, const void *object)
{
	if (wait_label.what)
		return false;
	wait_label = (struct wait_label){ .what = (uint8_t)what, .object = (uintptr_t)object };
	return true;
}

static inline void label_end(bool set)
{
	if (set)
		wait_label.what = DSM_WAIT_NONE;
}

/*
 * This thread goes to sleep at `now`, for a block or, 0, for what it has said: the number of its note, or -1: there is none.
 * lasting: until another thread of the program does something, without a limit of time.
 */
int stall_begin(uint32_t block, bool lasting, uint64_t now);
void stall_end(int note);

/* This thread's waits are nobody's, from here on. */
void stall_keep_quiet(void);

/* A waiter since then: report if it is time. */
void stall_check(uint64_t since, uint64_t now);
/* How long to sleep, of ns, to be awake when a report is due. */
uint64_t stall_nap(uint64_t since, uint64_t now, uint64_t ns);
/* The service thread: start the thread that asks and reports, if a wait in the fault handler or in the kernel helper is due. The
 * second checks those in the kernel helper. Neither blocks. */
void stall_ask(void);
void stall_check_kernel(void);

/* CALL_STALLS: what the threads of a rank of this node wait for, and the locks they hold; how many rows. Does not block. */
unsigned int stall_serve(uint16_t rank, struct stall_row *out, unsigned int most);

/* "mutex 0x4040a0": what a thread waits for, as reports have it. */
void stall_object(const struct stall_row *row, char *buf, size_t size);
/* Do they name the same object of the library? */
bool stall_same(const struct wait_about *a, const struct wait_about *b);

#endif
