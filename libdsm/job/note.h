/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * note.h - notes of what the threads of this process wait for. Any thread inside the runtime may
 * call these functions, also in the fault handler. None blocks.
 */
#ifndef JOB_NOTE_H
#define JOB_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/ctl.h"

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

/* What this thread is about to wait for. The function that sets it resets it. */
extern __thread struct wait_about wait_about __attribute__((tls_model("initial-exec")));
extern __thread struct wait_label wait_label __attribute__((tls_model("initial-exec")));

static inline void note_about(enum about kind, uint16_t home, uint32_t object)
{
	wait_about = (struct wait_about){ .kind = (uint8_t)kind, .home = home, .object = object };
}

static inline void about_none(void)
{
	wait_about.kind = ABOUT_CALL;
	wait_about.object = wait_about.home = 0;
}

/*
 * Set a label for the waits of a call, unless its caller has set one. Returns whether it was set,
 * for label_end().
 */
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

/* This thread's waits are not noted: it reports those of others. */
extern __thread bool note_quiet __attribute__((tls_model("initial-exec")));

/* The length of a wait that is reported. */
uint64_t note_limit_ns(void);

/*
 * Record that this thread goes to sleep at `now`, for a block, or if block is 0, for what
 * note_about() has set. Returns the number of its note, or -1 if it is not recorded. lasting: the
 * wait ends only when another thread of the program acts, without a timeout.
 */
int note_begin(uint32_t block, bool lasting, uint64_t now);
void note_end(int note);

/* Shorten a sleep of ns so that the thread is awake when a report is due. */
uint64_t note_nap(uint64_t since, uint64_t now, uint64_t ns);

/* CALL_STALLS: list what the threads of a rank of this node wait for, and the locks they hold.
 * Returns the number of rows. Does not block. */
unsigned int note_list(uint16_t rank, struct stall_row *out, unsigned int most);

#endif
