/* SPDX-License-Identifier: GPL-2.0 */
/* table.h - the tables of a rank, which grow with what is used of them. */
#ifndef KMOD_TABLE_H
#define KMOD_TABLE_H

#include "rank.h"

/* NULL: this rank has never used that slot. An index in a message of a peer is wrong then. The next two functions are alike. */
static inline struct slot *slot_at(struct rank *r, unsigned int i)
{
	struct slot *c = i < ALL_SLOTS ? smp_load_acquire(&r->slot_chunks[i / SLOT_CHUNK]) : NULL;

	return c ? &c[i % SLOT_CHUNK] : NULL;
}

static inline struct hold *hold_at(struct rank *r, u32 i)
{
	struct hold *c = i < HOLDS ? smp_load_acquire(&r->holds[i / HOLD_CHUNK]) : NULL;

	return c ? &c[i % HOLD_CHUNK] : NULL;
}

static inline struct bar *bar_at(struct rank *r, u32 i)
{
	struct bar *c = i < (u32)r->size * BARRIERS ? smp_load_acquire(&r->bars[i / BAR_CHUNK]) : NULL;

	return c ? &c[i % BAR_CHUNK] : NULL;
}

int table_make(struct rank *r);                 /* -ENOMEM: table_free() what there is; sleeps */
size_t table_bytes(unsigned int size);          /* what it makes for a job of so many ranks, besides struct rank */
void table_free(struct rank *r);                /* sleeps */
int table_slot(struct rank *r, unsigned int i); /* there is memory behind it from now on; sleeps. -ENOMEM, -EDQUOT */
bool table_line(struct rank *r, u16 slot);      /* a place in line for one of this rank's own threads; sleeps */
int table_hold(struct rank *r);                 /* a hold record; sleeps. -EAGAIN, -ENOMEM */
void table_wake(struct rank *r);                /* whoever waits in a slot */
/* Is there memory behind the place that a message needs? False: not now, in this context. */
bool table_ready(struct rank *r, const struct msg *m, gfp_t gfp);

#endif
