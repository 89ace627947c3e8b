/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * map.h - several ranks of a node map one copy of a page: which mappings a change of the node's state has to change, too.
 *
 * The node's state of a page bounds what every mapping may allow: no access, reads, everything. A mapping may lag behind,
 * never run ahead. Lowering a page first lowers the mappings that may allow more than the new state; then the contents
 * may leave. Raising a page opens the mapping of the rank that waits; the others follow when they are used.
 *
 * A page has one word for it, zero at the start: its state, and for each rank a bit that says whether its mapping is *loose*,
 * that is, may be open. What that means depends on how mappings are opened:
 *
 *   MAP_SHOWN  The kernel maps by itself what is in the memory object, and lets it be written unless the mapping has a
 *              write-protect marker there (userfaultfd). Loose: there may be no marker. All are at the start, and after the
 *              page has left the object: a read that is on its way through the kernel meanwhile takes the marker away.
 *   MAP_ASKED  A mapping allows nothing until its own process has opened it (mprotect). Loose: it was opened. None is at the
 *              start.
 *
 * A step is taken with the page's lock held until its changes are carried out, so that they come in the order of the states.
 */
#ifndef CORE_MAP_H
#define CORE_MAP_H

#include "core/action.h"

enum map_kind { MAP_SHOWN, MAP_ASKED, MAP_KINDS };

enum map_event {
	MAP_FILL_RO,  /* contents come: closed -> read-only */
	MAP_FILL_RW,  /* closed -> read-write */
	MAP_RAISE,    /* read-only -> read-write */
	MAP_LOWER,    /* read-write -> read-only; then contents may leave */
	MAP_SHUT,     /* contents leave: anything -> closed */
	MAP_AGAIN_RO, /* a rank wants to read, or to write, what the node was open for when it looked */
	MAP_AGAIN_RW,
	MAP_EVENTS
};

/* Ranks of a node share bits when there are more. */
#define MAP_BITS 62

struct map {
	uint64_t word;
};
CORE_ASSERT_SIZE(struct map, 8);

struct map_todo {
	uint64_t down; /* see map_has(): mappings that are to allow no more than `to`, before contents come or leave */
	uint16_t except; /* but this rank's */
	uint8_t to;      /* enum prot */
	uint8_t open;    /* enum prot that the asker's mapping is to have afterwards; PROT_CLOSED: as it is */
};

#define MAP_NOBODY 0xffff

static inline uint64_t map_bit(uint16_t rank)
{
	return 1ULL << (rank % MAP_BITS);
}

/* Is a rank's mapping one of `down`? */
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

/* `who`: the rank for whose sake it happens (MAP_LOWER, MAP_SHUT: not looked at). *todo: what to do for this page; several pages
 * are changed at once by the union of their `down`. */
void map_step(enum map_kind kind, struct map *m, enum map_event ev, uint16_t who, struct map_todo *todo);

/* MAP_SHOWN: how far a rank's mapping of a page may be opened before the rank touches it, without a step: as far as the kernel
 * itself would. */
enum prot map_shown(const struct map *m, uint16_t who);

/* MAP_SHOWN: all mappings but who's have got a marker, whatever the page's state: a marker in time spares one later. */
void map_marked(struct map *m, uint16_t who);

#endif
