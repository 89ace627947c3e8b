/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * entries.h - the lists of core/release.h, in the order of their blocks: an entry is the page of a
 * release block plus 1, and 0 ends a list. The caller has taken the list.
 */
#ifndef MISS_ENTRIES_H
#define MISS_ENTRIES_H

#include <stddef.h>
#include <stdint.h>

#include "core/release.h"

#define ENTRIES_SORTED 256 /* those of a list that are stepped in the order of their blocks */

struct entries {
	unsigned int n;
	uint32_t v[ENTRIES_SORTED];
};

/* What follows an entry, in the list of open blocks, and in that of notices. */
uint32_t entry_next_open(const struct rel *p);
uint32_t entry_next_notice(const struct rel *p);

/* Sort the next entries of a list. Returns the one behind them. */
uint32_t entries_sort(struct entries *s, uint32_t entry, uint32_t (*next)(const struct rel *));
/* How many of n sorted entries, from the first on, are neighbours of one unit; at most
 * SPAN_MOST. */
unsigned int entries_neighbours(const uint32_t *v, unsigned int n);
/* The offset of its block. */
size_t entry_off(uint32_t entry);

#endif
