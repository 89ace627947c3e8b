// SPDX-License-Identifier: BSD-2-Clause
/* ctl.c - where things are in a control segment. */
#include "engine/ctl.h"

#include "heap/heap.h"

static size_t place(size_t *at, size_t bytes)
{
	size_t here = *at;

	*at = (here + bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	return here;
}

void ctl_layout(struct ctl_layout *l, uint16_t size, size_t space, size_t heap_part)
{
	size_t pages = space >> PAGE_SHIFT, at = 0;

	place(&at, sizeof(struct ctl));
	l->bars = place(&at, (size_t)size * CTL_BARRIERS * sizeof(struct bar));
	l->nodes = place(&at, (size_t)size * CTL_SLOTS * sizeof(struct qnode));
	l->pages = place(&at, pages * sizeof(struct copy));
	l->dirs = place(&at, pages * sizeof(struct dir));
	l->moves = place(&at, pages * sizeof(uint32_t));
	l->stage = place(&at, CTL_SLOTS * BLOCK_MAX);
	l->heap = place(&at, heap_shared_size(heap_part));
	l->total = at;
}
