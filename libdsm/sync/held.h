/* SPDX-License-Identifier: BSD-2-Clause */
/* held.h - the locks that this thread holds, by handle. info is the hold record, or how an rwlock is held. Nothing blocks. */
#ifndef SYNC_HELD_H
#define SYNC_HELD_H

#include <stdint.h>

/* In dsm_init(). -EAGAIN. */
int held_start(void);
/* An index, good until the next held_add() or held_remove(); -1: it does not hold it. */
int held_find(uint64_t id);
uint32_t held_info(int index);
/* -EAGAIN: no memory; never after a held_remove() without one in between. */
int held_add(uint64_t id, uint32_t info);
void held_remove(int index);

#endif
