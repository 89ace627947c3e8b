// SPDX-License-Identifier: BSD-2-Clause
/* ctl.c - the layout of a control segment. */
#include "job/ctl.h"

#include "heap/heap.h"
#include "heap/units.h"

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static size_t ctl_place(size_t *at, size_t bytes)
{
	size_t here = *at;

	*at = whole_pages(here + bytes);
	return here;
}

void ctl_layout(struct ctl_layout *l, const struct ctl_shape *of)
{
	size_t pages = of->space >> PAGE_SHIFT, at = 0;

	ctl_place(&at, sizeof(struct ctl));
	l->ranks = ctl_place(&at, of->ranks * sizeof(struct rank_ctl));
	l->bars = ctl_place(&at, (size_t)of->size * CTL_BARRIERS * sizeof(struct bar));
	l->objects = ctl_place(&at, (size_t)CTL_OBJECTS * sizeof(struct sync));
	l->nodes = ctl_place(
		&at, (size_t)of->nodes * ctl_block_slots(of->nodes) * sizeof(struct queue_entry));
	l->lines = ctl_place(&at, (size_t)of->nodes * CTL_ALL_SLOTS * sizeof(struct queue_entry));
	l->calls = ctl_place(&at, (size_t)of->nodes * CTL_CALLS * sizeof(struct due_call));
	l->pages = ctl_place(&at, pages * sizeof(struct copy));
	l->dirs = ctl_place(&at, pages * sizeof(struct dir));
	l->transfers = ctl_place(&at, pages * sizeof(uint32_t));
	l->sharing = ctl_place(&at, pages * sizeof(struct sharing_page));
	l->chunks = ctl_place(&at, pages / FOOTPRINT_PAGES * sizeof(struct footprint));
	l->recent = ctl_place(&at, pages * sizeof(uint8_t));
	l->kept = ctl_place(&at, of->space / BLOCK_MAX * sizeof(uint8_t));
	l->rels = ctl_place(&at, pages * sizeof(struct rel));
	l->twin_of = ctl_place(&at, pages * sizeof(uint32_t));
	l->twin_next = ctl_place(&at, pages * sizeof(uint32_t));
	l->peers = ctl_place(&at, of->nodes * sizeof(struct closing_peer));
	l->held = ctl_place(&at, CTL_HELD * sizeof(struct closing_held));
	l->stage = ctl_place(&at, CTL_BLOCK_END * BLOCK_MAX);
	l->va_units = ctl_place(&at, of->space / BLOCK_MAX * sizeof(struct va_alloc_unit));
	l->members = ctl_place(&at, (size_t)of->nodes * CTL_REGIONS * sizeof(uint16_t));
	l->mapped = ctl_place(&at, of->space / BLOCK_MAX * sizeof(uint16_t));
	l->regions = ctl_place(&at, of->space / BLOCK_MAX * sizeof(uint16_t));
	l->priorities = ctl_place(&at, of->space / BLOCK_MAX * sizeof(uint8_t));
	l->heap_each = whole_pages(sizeof(struct heap_shared));
	l->heap = ctl_place(&at, of->ranks * l->heap_each);
	l->live = ctl_place(&at, heap_live_size(of->heap));
	l->marked = ctl_place(&at, of->heap / PAGE_BYTES / 8);
	l->empty = ctl_place(&at, of->heap / PAGE_BYTES / 8);
	l->units = ctl_place(&at, units_size(of->heap));
	l->fault = ctl_place(&at, of->fault);
	l->total = at;
	l->stage_last = ctl_place(&at, (size_t)(CTL_ALL_SLOTS - CTL_BRIEF_END) * BLOCK_MAX);
	l->twins = ctl_place(&at, of->space);
	l->file = at;
}
