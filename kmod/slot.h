/* SPDX-License-Identifier: GPL-2.0 */
/* slot.h - requests under way, and waiting for their answers. All sleep but what says otherwise. */
#ifndef KMOD_SLOT_H
#define KMOD_SLOT_H

#include "rank.h"

enum slot_kind { SLOT_BLOCK, SLOT_BRIEF, SLOT_LASTING };
/* -EINTR: killed; unless killable, -ERESTARTNOINTR for a signal; -EAGAIN: too many lasting ones; -EIO, -ENOMEM, -EDQUOT */
int slot_get(struct rank *r, enum slot_kind kind, bool killable);
int slot_now(struct rank *r); /* of SLOT_BLOCK; waits for memory only. -EAGAIN, -ENOMEM, -EDQUOT */
/* For a prefetch, or a block that is given back. -EAGAIN; does not sleep */
int slot_try(struct rank *r, u32 object, bool back);
void slot_put(struct rank *r, unsigned int slot);
/* An answer has come; others follow unless it is the last. Neither sleeps. */
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
