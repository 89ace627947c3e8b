// SPDX-License-Identifier: BSD-2-Clause
/* release_end.c - see release_end.h. */
#include "miss/release_end.h"

#include "job/inside.h"
#include "job/memory.h"
#include "miss/block.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/work.h"
#include "util/log.h"

/*
 * A copy is dropped as by a notice. True: there are some. Those that are on their way come first: a
 * notice would have them requested once more, again and again.
 */
static bool drop_all(const struct dsm_region *r)
{
	const struct region_homes *known = &job.me->homes[r->id];
	const size_t end = r->off + r->bytes;
	bool any = false;
	size_t at;

	for (at = memory_next_rel(r->off, end); at < end;
	     at = memory_next_rel(at + PAGE_BYTES, end))
		if (!release_is_home(known, at) && !release_copy_is(known, at, REL_NONE)) {
			if (!release_comes(known, at))
				rel_notice(&job.me->rel_lists, job.mem.rels,
					   (uint32_t)(at >> PAGE_SHIFT));
			any = true;
		}
	return any;
}

/* Another rank of the node may attach again meanwhile: then copies may stay, but what this rank has
 * stored is sent all the same. */
void release_leave(const struct dsm_region *r)
{
	engine_enter();
	while (drop_all(r) && !__atomic_load_n(&job.me->users[r->id], __ATOMIC_SEQ_CST)) {
		release_acquire_now();
		block_help();
	}
	release_close_now();
	work_timers(true);
	engine_leave();
}

static void blame_early(size_t off, uint16_t node)
{
	struct core_host h = run_host();

	log_line(
		"node %d used block %#x as one with release consistency, and its region is sequential",
		node, block_id(off, PAGE_BYTES));
	engine_enter();
	h.ops->blame(&h, node);
	engine_leave();
}

void release_enter(const struct dsm_region *r)
{
	const size_t end = r->off + r->bytes;
	uint16_t early;
	size_t at;

	if (r->consistency || !releases_used())
		return;
	for (at = memory_next_rel(r->off, end); at < end;
	     at = memory_next_rel(at + PAGE_BYTES, end)) {
		early = __atomic_exchange_n(&job.mem.rels[at >> PAGE_SHIFT].early, 0,
					    __ATOMIC_SEQ_CST);
		if (early)
			blame_early(at, (uint16_t)(early - 1));
	}
}

/* Copies that are on their way end by themselves. */
static bool is_quiet(size_t off)
{
	const struct rel *p = &job.mem.rels[off >> PAGE_SHIFT];
	const struct region_homes *known = region_known(off);
	const uint8_t state = __atomic_load_n(&p->state, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&p->listed, __ATOMIC_ACQUIRE) ||
	    __atomic_load_n(&p->noticed, __ATOMIC_ACQUIRE))
		return false;
	if (!known || release_is_home(known, off))
		return state != RELH_OPEN && state != RELH_LENT;
	/* A home that moved has kept a copy, and maybe nobody is left who would note it. */
	if (state == REL_CLEAN || state == REL_OPEN)
		rel_notice(&job.me->rel_lists, job.mem.rels, (uint32_t)(off >> PAGE_SHIFT));
	return state == REL_NONE;
}

bool release_quiet(size_t off, size_t end)
{
	const struct closing *n = &job.me->closing;
	bool quiet = n->phase == CLOSING_IDLE && !n->first && !n->applying;
	size_t at;

	if (!releases_used())
		return true;
	for (at = memory_next_rel(off, end); at < end && quiet;
	     at = memory_next_rel(at + PAGE_BYTES, end))
		quiet = is_quiet(at);
	if (quiet)
		return true;
	release_close_always();
	release_try_acquire();
	return false;
}
