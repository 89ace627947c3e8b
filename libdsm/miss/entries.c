// SPDX-License-Identifier: BSD-2-Clause
/* entries.c - see entries.h. */
#include "miss/entries.h"

#include <string.h>

#include "job/job.h"
#include "miss/span.h"

uint32_t entry_next_open(const struct rel *p)
{
	return __atomic_load_n(&p->next_open, __ATOMIC_RELAXED);
}

uint32_t entry_next_notice(const struct rel *p)
{
	return __atomic_load_n(&p->next_notice, __ATOMIC_RELAXED);
}

/*
 * The entries stay in the list, so nobody changes what follows them. Most have been added in
 * ascending order, and come in descending order.
 */
uint32_t entries_sort(struct entries *s, uint32_t entry, uint32_t (*next)(const struct rel *))
{
	uint32_t *const end = s->v + ENTRIES_SORTED, *from = end, *at;

	for (; entry && from > s->v; entry = next(&job.mem.rels[entry - 1])) {
		for (at = --from; at + 1 < end && at[1] < entry; at++)
			at[0] = at[1];
		*at = entry;
	}
	s->n = (unsigned int)(end - from);
	memmove(s->v, from, s->n * sizeof(*from));
	return entry;
}

/* A region ends with its unit. */
unsigned int entries_neighbours(const uint32_t *v, unsigned int n)
{
	unsigned int i;

	for (i = 1; i < n && i < SPAN_MOST && v[i] == v[0] + i && entry_off(v[i]) % UNIT_BYTES; i++)
		;
	return i;
}

size_t entry_off(uint32_t entry)
{
	return (size_t)(entry - 1) << PAGE_SHIFT;
}
