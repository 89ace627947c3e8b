/* SPDX-License-Identifier: GPL-2.0 */
/* table.h - the tables of a rank, which grow with what is used of them. */
#ifndef KMOD_TABLE_H
#define KMOD_TABLE_H

#include "core/dir.h"
#include "core/page.h"
#include "rank.h"
#include "run.h"

/* The protocol's state of 2 MiB of the window at this rank. */
struct state {
	struct copy copies[CHUNK_PAGES];
	struct dir dirs[CHUNK_PAGES];
	/* How often the write permission of a block has changed ranks; counted at its home, under its stripe, and read without. */
	u32 transfers[CHUNK_PAGES];
	DECLARE_BITMAP(fetches[FETCHES], CHUNK_PAGES); /* of each kind: one for this block waits for a worker; run.c */
};

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

int table_make(struct rank *r); /* -ENOMEM: table_free() what there is; sleeps */
/* What table_make() allocates for a job of `size` ranks and a window of `chunks`. */
size_t table_bytes(unsigned int size, size_t chunks);
void table_free(struct rank *r);                /* sleeps */
int table_slot(struct rank *r, unsigned int i); /* there is memory behind it from now on; sleeps. -ENOMEM, -EDQUOT */
bool table_line(struct rank *r, u16 slot);      /* a place in line for one of this rank's own threads; sleeps */
int table_hold(struct rank *r);                 /* a hold record; sleeps. -EAGAIN, -ENOMEM */
void table_wake(struct rank *r);                /* whoever waits in a slot */
/* The state of the 2 MiB around a page; NULL: no memory, or more than the user may lock (account_refused()). */
struct state *table_state(struct rank *r, u32 page, gfp_t gfp);
void table_free_state(struct rank *r, struct state *st);  /* sleeps; NULL: nothing */
bool table_objects(struct rank *r, u32 index, gfp_t gfp); /* memory behind a place of the table of objects */
/* Is there memory behind the place that a message needs? False: not now, in this context. */
bool table_ready(struct rank *r, const struct msg *m, gfp_t gfp);

#endif
