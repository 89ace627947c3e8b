/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * map.h - several ranks of a node map one copy of a page. This computes which mappings a change of
 * the node's state must change.
 *
 * The node's state of a page limits the access of every mapping: none, read-only, read-write. A
 * mapping may allow less than the state, never more. Lowering a page first lowers the mappings that
 * may allow more than the new state; then the contents may leave. Raising a page opens the mapping
 * of the rank that waits. The other mappings are opened when they are used.
 *
 * A page has one word, initially zero: its state, and a bit for each rank that is set if the rank's
 * mapping is *loose*, that is, may be open. The meaning depends on how mappings are opened:
 *
 *   MAP_SHOWN  The kernel maps the pages of the memory object by itself. A mapping allows writes
 *              unless it has a write-protect marker there (userfaultfd). Loose: there may be no
 *              marker. All mappings are loose at the start, and after the page has left the object:
 *              a concurrent read in the kernel may remove the marker.
 *   MAP_ASKED  A mapping allows no access until its process has opened it (mprotect). Loose: it was
 *              opened. No mapping is loose at the start.
 *
 * The page's lock is held from the step until its changes are carried out, so that changes have the
 * order of the states.
 */
#ifndef CORE_MAP_H
#define CORE_MAP_H

#include "core/action.h"

enum map_kind { MAP_SHOWN, MAP_ASKED, MAP_KINDS };

enum map_event {
	MAP_FILL_RO, /* contents arrive: closed -> read-only */
	MAP_FILL_RW, /* closed -> read-write */
	MAP_RAISE,   /* read-only -> read-write */
	MAP_LOWER,   /* read-write -> read-only; then contents may leave */
	MAP_SHUT,    /* contents leave: anything -> closed */
	/* a rank wants to read (_RO) or write (_RW) a page, after the node's state allowed it */
	MAP_AGAIN_RO,
	MAP_AGAIN_RW,
	MAP_EVENTS
};

/* With more ranks on a node, ranks share bits. */
#define MAP_BITS 62

struct map {
	uint64_t word;
};
CORE_ASSERT_SIZE(struct map, 8);

struct map_todo {
	/* mappings to lower to `to`, before contents arrive or leave; see map_has() */
	uint64_t down;
	uint16_t except; /* except this rank's */
	uint8_t to;      /* enum prot */
	/* enum prot to give the requester's mapping afterwards; PROT_CLOSED: leave it unchanged */
	uint8_t open;
};

#define MAP_NOBODY 0xffff

static inline uint64_t map_bit(uint16_t rank)
{
	return 1ULL << (rank % MAP_BITS);
}

/* Must this rank's mapping be lowered? */
static inline bool map_has(const struct map_todo *t, uint16_t rank)
{
	return rank != t->except && (t->down & map_bit(rank));
}

static inline enum prot map_state(const struct map *m)
{
	return (enum prot)(m->word >> MAP_BITS);
}

/* Bits of the ranks whose mappings are loose. */
uint64_t map_loose(enum map_kind kind, const struct map *m);

/* Step a page. who: the requesting rank (ignored by MAP_LOWER and MAP_SHUT). *todo: the changes for
 * this page. Several pages may be changed at once by the union of their `down`. */
void map_step(enum map_kind kind, struct map *m, enum map_event ev, uint16_t who,
	      struct map_todo *todo);

/* MAP_SHOWN: the access to which a rank's mapping may be opened in advance, without a step. The
 * kernel itself would grant the same. */
enum prot map_shown(const struct map *m, uint16_t who);

/* MAP_SHOWN: note that all mappings except who's have a marker. In any state of the page: an early
 * marker saves one later. */
void map_marked(struct map *m, uint16_t who);

#endif
