/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slot.h - requests under way, and waiting for their answers. The functions sleep unless their comment says otherwise. slot_at()
 * in table.h finds a slot by its number.
 */
#ifndef KMOD_SLOT_H
#define KMOD_SLOT_H

#include <linux/wait.h>

#include "core/wire.h"
#include "dsm_uapi.h"

struct mm_struct;
struct rank;

/*
 * The slots of a rank, by number:
 *
 *   from            to            requests
 *   0               SYNC_SLOTS    blocks that threads wait for
 *   SYNC_SLOTS      AHEAD_SLOTS   prefetches
 *   AHEAD_SLOTS     SLOTS         blocks that are given back: these must not wait behind pinned blocks
 *   SLOTS           BRIEF_END     requests that are answered at once
 *   BRIEF_END       BLOCK_SLOTS   requests that may wait in line; also blocks, when the first SYNC_SLOTS are in use
 *   BLOCK_SLOTS     ALL_SLOTS     requests that may wait in line, and no blocks
 *
 * LATER_MAX and waiting_max, the bounds of what peers can queue here, grow with BLOCK_SLOTS.
 */
#define SYNC_SLOTS 896u
#define AHEAD_SLOTS 1008u
#define SLOTS 1024u /* 10 bits of KERNEL_BLOCK (core/word.h) */
#define BRIEF_END 2048u
#define BLOCK_SLOTS 16384u
#define ALL_SLOTS 65536u
#define SLOT_CHUNK SLOTS
static_assert(BLOCK_SLOTS * DSM_RANKS_MAX < 1u << 22); /* struct dir */

/* A request under way. seq counts its answers. */
struct slot {
	wait_queue_head_t wait;
	u32 seq;
	u32 object;
	u64 value;
	s16 status;
	u8 nobody;                  /* nobody waits: a prefetch, or its thread was killed; the answer frees the slot */
	u8 want;                    /* protection that was asked for */
	bool over;                  /* its last answer has come */
	bool granted;               /* an answer was no refusal */
	const struct mm_struct *mm; /* of who asks: a name, nothing else; NULL: a worker */
	u64 ask;                    /* core/ask.h */
};

enum slot_kind { SLOT_BLOCK, SLOT_BRIEF, SLOT_LASTING };
/* -EINTR: killed; unless killable, -ERESTARTNOINTR for a signal; -EAGAIN: too many lasting ones; -EIO, -ENOMEM, -EDQUOT */
int slot_get(struct rank *r, enum slot_kind kind, bool killable);
int slot_now(struct rank *r); /* of SLOT_BLOCK; waits for memory only. -EAGAIN, -ENOMEM, -EDQUOT */
/* For a prefetch, or a block that is given back. -EAGAIN; does not sleep */
int slot_try(struct rank *r, u32 object, bool back);
void slot_put(struct rank *r, unsigned int slot);
/* A block has arrived: answer the thread that waits for it. False: no thread waits, and nothing was done; the caller confirms the
 * block and completes the slot. */
bool slot_granted(struct rank *r, unsigned int slot, s16 status, u64 value);
/* An answer has come; others follow unless it is the last. None of these sleeps. */
void slot_complete(struct rank *r, unsigned int slot, s16 status, u64 value);
void slot_answered(struct rank *r, unsigned int slot, s16 status, u64 value, bool last);
/* 0, -ETIMEDOUT, -EINTR: killed, -EIO; unless killable, -ERESTARTNOINTR for a signal: the answer is still to come */
int slot_wait(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable);
/* The two parts of slot_wait(): whether the answer comes within spin_us, and the rest. */
bool slot_spin(struct rank *r, unsigned int slot, u32 seq, u32 n);
int slot_sleep(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable);
bool slot_answered_by(const struct slot *s, u32 seq, u32 n); /* n answers after seq */
int signal_err(void); /* what a call ends with that a signal has interrupted: -EINTR or -ERESTARTNOINTR */
bool slot_abandon(struct rank *r, unsigned int slot, u32 seq); /* its thread goes; false: the answer has come */
/* The same where several answers may be due; false: the last has come. */
bool slot_leave(struct rank *r, unsigned int slot);

#endif
