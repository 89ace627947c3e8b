/* SPDX-License-Identifier: GPL-2.0 */
/* table.h - the tables of a rank, which are allocated piecewise on demand. */
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
	/*
	 * Moves of a block's write permission between ranks; counted at its home, under its stripe;
	 * read without lock.
	 */
	u32 transfers[CHUNK_PAGES];
	/* per kind: a message for the block waits for a worker; run.c */
	DECLARE_BITMAP(fetches[FETCHES], CHUNK_PAGES);
};

/*
 * NULL: this rank has never used that slot, so the index in a peer's message is wrong. The next two
 * functions are similar.
 */
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
	struct bar *c =
		i < (u32)r->size * BARRIERS ? smp_load_acquire(&r->bars[i / BAR_CHUNK]) : NULL;

	return c ? &c[i % BAR_CHUNK] : NULL;
}

int table_make(struct rank *r); /* -ENOMEM: the caller calls table_free(); sleeps */
/* Bytes that table_make() allocates for a job of `size` ranks and a window of `chunks`. */
size_t table_bytes(unsigned int size, size_t chunks);
void table_free(struct rank *r); /* sleeps */
/* allocate the chunk of a slot; sleeps. -ENOMEM, -EDQUOT */
int table_slot(struct rank *r, unsigned int i);
/* allocate the queue entry of a thread's slot; false: no memory; sleeps */
bool table_line(struct rank *r, u16 slot);
/* get a hold record; -EAGAIN: none is free; -ENOMEM; sleeps */
int table_hold(struct rank *r);
void table_wake(struct rank *r); /* wake all threads that wait in slots */
/*
 * Get or allocate the state of the 2 MiB around a page. NULL: no memory, or above the user's limit
 * (account_refused()).
 */
struct state *table_state(struct rank *r, u32 page, gfp_t gfp);
void table_free_state(struct rank *r, struct state *st); /* sleeps; st NULL: no effect */
/* allocate an entry of the table of objects */
bool table_objects(struct rank *r, u32 index, gfp_t gfp);
/* Allocate the table entry that a message needs. False: no memory in this context. */
bool table_ready(struct rank *r, const struct msg *m, gfp_t gfp);

#endif
