/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slot.h - pending requests, and waiting for their answers. The functions sleep unless their
 * comment says otherwise. slot_at() in table.h finds a slot by its number.
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
 *   AHEAD_SLOTS     SLOTS         blocks that return to their home: these must not wait behind pinned blocks
 *   SLOTS           BRIEF_END     requests that are answered at once
 *   BRIEF_END       BLOCK_SLOTS   requests that may be queued; also blocks, if the first SYNC_SLOTS are in use
 *   BLOCK_SLOTS     ALL_SLOTS     requests that may be queued, but no blocks
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

/* A pending request. seq counts its answers. */
struct slot {
	wait_queue_head_t wait;
	u32 seq;
	u32 object;
	u64 value;
	s16 status;
	/* no thread waits (a prefetch, a killed thread); the answer frees the slot */
	u8 nobody;
	u8 want;      /* requested protection */
	bool over;    /* its last answer has come */
	bool granted; /* an answer had status 0 */
	/* identifies the requester; never dereferenced; NULL: a worker */
	const struct mm_struct *mm;
	u64 ask; /* core/ask.h */
};

enum slot_kind { SLOT_BLOCK, SLOT_BRIEF, SLOT_LASTING };
/* Wait for a free slot. -EINTR: killed; -ERESTARTNOINTR: a signal, unless killable; -EAGAIN: no
 * lasting slot is free; -EIO: the rank is stopped; -ENOMEM, -EDQUOT */
int slot_get(struct rank *r, enum slot_kind kind, bool killable);
/* a SLOT_BLOCK; sleeps only for memory. -EAGAIN: none is free; -ENOMEM, -EDQUOT */
int slot_now(struct rank *r);
/* A slot for a prefetch, or (back) for a block that returns to its home. -EAGAIN: none is free.
 * Does not sleep. */
int slot_try(struct rank *r, u32 object, bool back);
void slot_put(struct rank *r, unsigned int slot);
/* A block has arrived: answer the thread that waits for it. False: no thread waits, and nothing was
 * done; the caller confirms the block and completes the slot. */
bool slot_granted(struct rank *r, unsigned int slot, s16 status, u64 value);
/* An answer has arrived; more follow unless `last`. slot_granted(), slot_complete() and
 * slot_answered() do not sleep. */
void slot_complete(struct rank *r, unsigned int slot, s16 status, u64 value);
void slot_answered(struct rank *r, unsigned int slot, s16 status, u64 value, bool last);
/* Wait at most ns (0: no limit) for n answers after seq. -ETIMEDOUT; -EIO: the rank is stopped;
 * -EINTR: killed; -ERESTARTNOINTR: a signal, unless killable. After an error the answer is still
 * due. */
int slot_wait(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable);
/*
 * The two parts of slot_wait(): poll for spin_us, true if the answers have arrived; then sleep.
 * locked: the caller holds its mmap_lock, and polling ends when another thread waits for that; or
 * NULL.
 */
bool slot_spin(struct rank *r, unsigned int slot, u32 seq, u32 n, struct mm_struct *locked);
int slot_sleep(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable);
bool slot_answered_by(const struct slot *s, u32 seq, u32 n); /* have n answers after seq arrived? */
/* the result of a call interrupted by a signal: -EINTR if killed, else -ERESTARTNOINTR */
int signal_err(void);
/* stop waiting; false: the answer has arrived */
bool slot_abandon(struct rank *r, unsigned int slot, u32 seq);
/* The same if several answers may be due. False: the last has arrived. */
bool slot_leave(struct rank *r, unsigned int slot);

#endif
