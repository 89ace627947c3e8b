// SPDX-License-Identifier: GPL-2.0
/*
 * table.c - tables of a rank that grow by chunks: states of blocks, slots beyond the first SLOTS,
 * hold records, synchronisation objects, barriers, and the places in line of requests for blocks
 * and for synchronisation objects.
 *
 * A chunk is allocated when it is first needed: in process context, or for a message in softirq
 * without waiting. If memory is short there, a worker allocates it. The chunk is published by
 * compare and exchange, it is charged, and it exists until the rank is freed; the states of a
 * region are freed with the region (host_forget()). A peer can make a rank allocate places in line
 * for each of its slots, the barriers that it can name, and, if the rank manages blocks, places for
 * the block slots of all ranks; nothing else.
 */
#include <linux/log2.h>
#include <linux/slab.h>

#include "table.h"
#include "../base/account.h"
#include "../base/pool.h"
#include "rank.h"
#include "region.h"
#include "slot.h"

static void *chunk(struct rank *r, void **at, size_t size, gfp_t gfp)
{
	void *have = smp_load_acquire(at), *made;

	if (have)
		return have;
	if (pool_test_refuses(gfp) || !account_charge(r->ctx, account_pages(size)))
		return smp_load_acquire(at);
	made = gfpflags_allow_blocking(gfp) ? kvzalloc(size, gfp)
					    : kzalloc(size, gfp | __GFP_NOWARN);
	/* a full barrier: zeros are seen before the pointer is */
	have = made ? cmpxchg(at, NULL, made) : NULL;
	if (made && !have)
		return made;
	kvfree(made);
	account_uncharge(r->ctx, account_pages(size));
	return have;
}

static void table_free_chunks(struct rank *r, void *table, size_t n, size_t size)
{
	void **chunks = table;
	size_t i;

	for (i = 0; chunks && i < n; i++)
		if (chunks[i]) {
			kvfree(chunks[i]);
			account_uncharge(r->ctx, account_pages(size));
		}
}

/* ---- slots ---------------------------------------------------------------------------------- */

#define SLOT_BYTES (SLOT_CHUNK * sizeof(struct slot))

int table_slot(struct rank *r, unsigned int i)
{
	struct slot **at = &r->slot_chunks[i / SLOT_CHUNK], *made;
	unsigned int k;

	if (smp_load_acquire(at))
		return 0;
	if (!account_charge(r->ctx, account_pages(SLOT_BYTES)))
		return -EDQUOT;
	made = pool_test_refuses(GFP_KERNEL) ? NULL : kvzalloc(SLOT_BYTES, GFP_CTX);
	for (k = 0; made && k < SLOT_CHUNK; k++)
		init_waitqueue_head(&made[k].wait);
	if (made && !cmpxchg(at, NULL, made))
		return 0;
	account_uncharge(r->ctx, account_pages(SLOT_BYTES));
	kvfree(made);
	return made ? 0 : -ENOMEM;
}

void table_wake(struct rank *r)
{
	unsigned int i, k;

	for (i = 0; i < ARRAY_SIZE(r->slot_chunks); i++) {
		struct slot *s = smp_load_acquire(&r->slot_chunks[i]);

		for (k = 0; s && k < SLOT_CHUNK; k++)
			wake_up_all(&s[k].wait);
	}
}

/* ---- hold records --------------------------------------------------------------------------- */

#define HOLD_BYTES (HOLD_CHUNK * sizeof(struct hold))

int table_hold(struct rank *r)
{
	unsigned long i;

	do {
		i = find_first_zero_bit(r->hold_used, HOLDS);
		if (i >= HOLDS)
			return -EAGAIN;
	} while (test_and_set_bit(i, r->hold_used));
	if (chunk(r, (void **)&r->holds[i / HOLD_CHUNK], HOLD_BYTES, GFP_CTX))
		return (int)i;
	clear_bit(i, r->hold_used);
	return -ENOMEM;
}

/* ---- states of blocks ------------------------------------------------------------------------ */

#define STATE_CHARGE ((long)(roundup_pow_of_two(sizeof(struct state)) >> PAGE_SHIFT))

struct state *table_state(struct rank *r, u32 page, gfp_t gfp)
{
	struct state **at = &r->states[page / CHUNK_PAGES], *new, *old = READ_ONCE(*at);

	if (likely(old))
		return old;
	if (pool_test_refuses(gfp) || !account_charge(r->ctx, STATE_CHARGE))
		return NULL;
	new = gfpflags_allow_blocking(gfp) ? kvzalloc(sizeof(*new), gfp)
					   : kzalloc(sizeof(*new), gfp | __GFP_NOWARN);
	old = new ? cmpxchg(at, NULL, new) : NULL;
	if (new && !old)
		return new;
	kvfree(new);
	account_uncharge(r->ctx, STATE_CHARGE);
	return old;
}

void table_free_state(struct rank *r, struct state *st)
{
	if (st)
		account_uncharge(r->ctx, STATE_CHARGE);
	kvfree(st);
}

/* ---- synchronisation objects ----------------------------------------------------------------- */

#define OBJECTS_CHARGE account_pages(OBJECT_CHUNK * sizeof(struct sync))

bool table_objects(struct rank *r, u32 index, gfp_t gfp)
{
	struct sync **at = &r->objects[index / OBJECT_CHUNK], *new;

	if (READ_ONCE(*at))
		return true;
	if (pool_test_refuses(gfp) || !account_charge(r->ctx, OBJECTS_CHARGE))
		return false;
	new = gfpflags_allow_blocking(gfp)
		? kvcalloc(OBJECT_CHUNK, sizeof(*new), gfp)
		: kcalloc(OBJECT_CHUNK, sizeof(*new), gfp | __GFP_NOWARN);
	if (new && !cmpxchg(at, NULL, new))
		return true;
	kvfree(new);
	account_uncharge(r->ctx, OBJECTS_CHARGE);
	return READ_ONCE(*at);
}

static void free_objects(struct rank *r, struct sync *chunk)
{
	if (chunk)
		account_uncharge(r->ctx, OBJECTS_CHARGE);
	kvfree(chunk);
}

/* ---- what a message needs -------------------------------------------------------------------- */

#define LINE_BYTES (QUEUE_CHUNK * sizeof(struct queue_entry))
#define BAR_BYTES (BAR_CHUNK * sizeof(struct bar))

bool table_ready(struct rank *r, const struct msg *m, gfp_t gfp)
{
	u32 node;

	switch (m->type) {
	case MSG_READ_REQ:
	case MSG_WRITE_REQ:
		if (m->req_node != m->src && !(m->flags & MSGF_FORWARDED))
			return true; /* the step refuses it */
		node = (u32)m->req_node * BLOCK_SLOTS + m->req_slot;
		return chunk(r, (void **)&r->nodes[node / QUEUE_CHUNK], LINE_BYTES, gfp);
	case MSG_ARRIVE:
		return m->object >= (u32)r->size * BARRIERS ||
			chunk(r, (void **)&r->bars[m->object / BAR_CHUNK], BAR_BYTES, gfp);
	case MSG_SYNC:
		if (!sync_waits(m->op))
			return true;
		node = (u32)m->src * ALL_SLOTS + m->req_slot;
		return chunk(r, (void **)&r->lines[node / QUEUE_CHUNK], LINE_BYTES, gfp);
	default: return true;
	}
}

bool table_line(struct rank *r, u16 slot)
{
	const u32 node = (u32)r->me * ALL_SLOTS + slot;

	return chunk(r, (void **)&r->lines[node / QUEUE_CHUNK], LINE_BYTES, GFP_CTX);
}

/* ---- all of them ----------------------------------------------------------------------------- */

int table_make(struct rank *r)
{
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		init_waitqueue_head(&r->slots[i].wait);
	r->slot_chunks[0] = r->slots;
	r->states = kvcalloc(r->ctx->pages / CHUNK_PAGES, sizeof(*r->states), GFP_CTX);
	r->objects = kvcalloc(OBJECTS / OBJECT_CHUNK, sizeof(*r->objects), GFP_CTX);
	r->nodes =
		kvcalloc((size_t)r->size * (BLOCK_SLOTS / QUEUE_CHUNK), sizeof(*r->nodes), GFP_CTX);
	r->lines =
		kvcalloc((size_t)r->size * (ALL_SLOTS / QUEUE_CHUNK), sizeof(*r->lines), GFP_CTX);
	r->bars = kvcalloc((size_t)r->size * (BARRIERS / BAR_CHUNK), sizeof(*r->bars), GFP_CTX);
	r->regions = kvcalloc(REGIONS, sizeof(*r->regions), GFP_CTX);
	return r->states && r->objects && r->nodes && r->lines && r->bars && r->regions ? 0
											: -ENOMEM;
}

size_t table_bytes(unsigned int size, size_t chunks)
{
	return chunks * sizeof(struct state *) + OBJECTS / OBJECT_CHUNK * sizeof(struct sync *) +
		REGIONS * sizeof(struct region *) +
		size *
		((BLOCK_SLOTS + ALL_SLOTS) / QUEUE_CHUNK * sizeof(struct queue_entry *) +
		 BARRIERS / BAR_CHUNK * sizeof(struct bar *));
}

void table_free(struct rank *r)
{
	unsigned int i;

	for (i = 0; r->states && i < r->ctx->pages / CHUNK_PAGES; i++)
		table_free_state(r, r->states[i]);
	for (i = 0; r->objects && i < OBJECTS / OBJECT_CHUNK; i++)
		free_objects(r, r->objects[i]);
	/* The first is r->slots. */
	table_free_chunks(r, r->slot_chunks + 1, ARRAY_SIZE(r->slot_chunks) - 1, SLOT_BYTES);
	table_free_chunks(r, r->holds, ARRAY_SIZE(r->holds), HOLD_BYTES);
	table_free_chunks(r, r->nodes, (size_t)r->size * (BLOCK_SLOTS / QUEUE_CHUNK), LINE_BYTES);
	table_free_chunks(r, r->lines, (size_t)r->size * (ALL_SLOTS / QUEUE_CHUNK), LINE_BYTES);
	table_free_chunks(r, r->bars, (size_t)r->size * (BARRIERS / BAR_CHUNK), BAR_BYTES);
	for (i = 0; r->regions && i < REGIONS; i++)
		region_free(r, r->regions[i]);
	kvfree(r->states);
	kvfree(r->objects);
	kvfree(r->nodes);
	kvfree(r->lines);
	kvfree(r->bars);
	kvfree(r->regions);
}
