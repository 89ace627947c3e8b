/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slot.h - request slots and hold records of this node.
 *
 * Any thread of any rank of the node may call all of this, also in the fault handler. Only slot_get() blocks. A slot belongs
 * to the request that it was taken for until slot_put(); its count of completions (seq) runs on through all its requests.
 */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

enum slot_kind { SLOT_BLOCK, SLOT_AHEAD, SLOT_BACK, SLOT_BRIEF, SLOT_LASTING };

/* SLOT_BLOCK, _BRIEF or _LASTING, inside the runtime. Waits for one where all are in use; SLOT_LASTING: -EAGAIN then. -EINTR:
 * as wait_word(). */
int slot_get(enum slot_kind kind);
/* For an answer that no thread waits for: SLOT_AHEAD or _BACK, of a block; SLOT_BRIEF, of a call. -EAGAIN. */
int slot_try_prefetch(uint32_t object, enum slot_kind kind);
void slot_put(uint16_t slot);

bool slot_is_prefetch(uint16_t slot);
bool slot_is_block(uint16_t slot);              /* is it, while in use, for a block? */
bool slot_any_prefetch(size_t off, size_t end); /* is one in use for a block of that range? */
/* Which one, and its slot_seq() as it was then or before; -1: none. It completes before it is free, so wait_slot() may be
 * called. */
int slot_find_prefetch(size_t off, size_t end, uint32_t *seq);
uint32_t slot_object(void *arg, uint16_t slot); /* the block that was asked for in a slot; net_config.object */

uint32_t slot_seq(uint16_t slot); /* its completions */
/* An answer: whoever waits for it is woken. */
void slot_complete(uint16_t slot, int16_t status, uint64_t value);
bool slot_waited(const struct msg *m); /* does a thread of its receiver wait for it? net_config.waited */

/* The answer has come, and is about to be told. False: nobody waits. */
bool slot_woken(uint16_t slot);
/* The thread that waits for a block in a slot of this rank goes away; whoever brings the answer gives the slot back. False: the
 * answer has come, stay for it. */
bool slot_leave(uint16_t slot);

/* The thread that waits for a lock in a slot of SLOT_LASTING gives up. Whoever brings the lock to this hold record releases it,
 * and gives the slot back. False: an answer has come, stay for it. */
bool slot_quit(uint16_t slot, uint32_t hold);
bool slot_has_quit(uint16_t slot);
/* The thread has taken an answer, and is about to ask for another in the same slot. */
void slot_expect(uint16_t slot);

/* A hold record, or -EAGAIN: all are in use. */
int64_t hold_take(void);
void hold_give(uint32_t index);

#endif
