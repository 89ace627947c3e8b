// SPDX-License-Identifier: BSD-2-Clause
/* ctl.c - the layout of a control segment. */
#include "engine/ctl.h"

#include "engine/sharing.h"
#include "heap/heap.h"
#include "heap/units.h"

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static size_t place(size_t *at, size_t bytes)
{
	size_t here = *at;

	*at = whole_pages(here + bytes);
	return here;
}

void ctl_layout(struct ctl_layout *l, const struct ctl_shape *of)
{
	size_t pages = of->space >> PAGE_SHIFT, at = 0;

	place(&at, sizeof(struct ctl));
	l->ranks = place(&at, of->ranks * sizeof(struct rank_ctl));
	l->bars = place(&at, (size_t)of->size * CTL_BARRIERS * sizeof(struct bar));
	l->objects = place(&at, (size_t)CTL_OBJECTS * sizeof(struct sync));
	l->nodes = place(&at, (size_t)of->nodes * ctl_block_slots(of->nodes) * sizeof(struct queue_entry));
	l->lines = place(&at, (size_t)of->nodes * CTL_ALL_SLOTS * sizeof(struct queue_entry));
	l->calls = place(&at, (size_t)of->nodes * CTL_CALLS * sizeof(struct due_call));
	l->pages = place(&at, pages * sizeof(struct copy));
	l->dirs = place(&at, pages * sizeof(struct dir));
	l->transfers = place(&at, pages * sizeof(uint32_t));
	l->sharing = place(&at, pages * sizeof(struct sharing_page));
	l->stage = place(&at, CTL_BLOCK_END * BLOCK_MAX);
	l->room = place(&at, of->space / BLOCK_MAX * sizeof(struct room_unit));
	l->members = place(&at, (size_t)of->nodes * CTL_REGIONS * sizeof(uint16_t));
	l->mapped = place(&at, of->space / BLOCK_MAX * sizeof(uint16_t));
	l->regions = place(&at, of->space / BLOCK_MAX * sizeof(uint16_t));
	l->priorities = place(&at, of->space / BLOCK_MAX * sizeof(uint8_t));
	l->heap_each = whole_pages(sizeof(struct heap_shared));
	l->heap = place(&at, of->ranks * l->heap_each);
	l->live = place(&at, heap_live_size(of->heap));
	l->units = place(&at, units_size(of->heap));
	l->fault = place(&at, of->fault);
	l->total = at;
	l->stage_last = place(&at, (size_t)(CTL_ALL_SLOTS - CTL_BRIEF_END) * BLOCK_MAX);
	l->file = at;
}
