/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * slot.h - request slots and hold records of this node.
 *
 * Any thread of any rank of the node may call these functions, also in the fault handler. Only
 * slot_get() blocks. A slot belongs to one request from allocation until slot_put(). Its count of
 * completions (seq) is not reset between requests.
 */
#ifndef MISS_SLOT_H
#define MISS_SLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

enum slot_kind { SLOT_BLOCK, SLOT_AHEAD, SLOT_BACK, SLOT_BRIEF, SLOT_LASTING };

/* Allocate a slot: SLOT_BLOCK, _BRIEF or _LASTING. Inside the runtime. If all are in use, wait for
 * one; SLOT_LASTING returns -EAGAIN instead. -EINTR: as wait_word(). */
int slot_get(enum slot_kind kind);
/* Allocate a slot for an answer that no thread waits for: SLOT_AHEAD or _BACK for a block,
 * SLOT_BRIEF for a call. -EAGAIN: all are in use. */
int slot_try_prefetch(uint32_t object, enum slot_kind kind);
void slot_put(uint16_t slot);

bool slot_is_used(uint16_t slot); /* one of those below CTL_BLOCK_END */
bool slot_is_prefetch(uint16_t slot);
bool slot_is_block(uint16_t slot);              /* is this slot, which is in use, for a block? */
bool slot_any_prefetch(size_t off, size_t end); /* is a slot in use for a block of that range? */
/* Return such a slot, and in *seq a slot_seq() not newer than the lookup; -1: none. A slot
 * completes before it is freed, so wait_slot() may be called. */
int slot_find_prefetch(size_t off, size_t end, uint32_t *seq);
/* the block requested in a slot; net_config.object */
uint32_t slot_object(void *arg, uint16_t slot);

uint32_t slot_seq(uint16_t slot); /* its completions */
/* Store an answer and wake the threads that wait for it. */
void slot_complete(uint16_t slot, int16_t status, uint64_t value);
/* does a thread of its receiver wait for it? net_config.waited */
bool slot_waited(const struct msg *m);

/* Mark the answer as arrived, before slot_complete(). False: no thread waits for it. */
bool slot_woken(uint16_t slot);
/* Stop waiting for a block in a slot of this rank. The thread that brings the answer then frees the
 * slot. False: the answer has arrived, keep waiting. */
bool slot_leave(uint16_t slot);

/* Stop waiting for a lock in a slot of SLOT_LASTING. The thread that brings the lock to this hold
 * record then releases it and frees the slot. False: an answer has arrived, keep waiting. */
bool slot_quit(uint16_t slot, uint32_t hold);
bool slot_has_quit(uint16_t slot);
/* Prepare the slot for another request, after its thread has read an answer. */
void slot_expect(uint16_t slot);

/* Allocate a hold record. -EAGAIN: all are in use. */
int64_t hold_take(void);
void hold_give(uint32_t index);

#endif
