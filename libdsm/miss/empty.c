// SPDX-License-Identifier: BSD-2-Clause
/* empty.c - see empty.h. */
#include "miss/empty.h"

#include "fault/fault.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/usage.h"
#include "miss/block.h"
#include "miss/discard.h"
#include "miss/run.h"
#include "miss/span.h"
#include "miss/step.h"

#define TIGHT_PART 4 /* above the bound less this part of it, frames go with their units */

/*
 * Under the stripe. What is to be sent has to be read before. Marks of a block that has no frame,
 * or is not this node's alone, are removed: the hand need not look again.
 */
static bool may_be_emptied(size_t at, size_t block)
{
	const struct copy *p = block_copy(at);

	if (!discard_is_marked(at, block))
		return false;
	if (p->state != PG_WRITE || discard_is_empty(at)) {
		discard_forget(at, block);
		return false;
	}
	return !p->pins_read && !p->pins_write && !p->held && !step_any_leaves(block_id(at, block));
}

static void empty_blocks(size_t from, size_t to, size_t block)
{
	size_t at;
	int err;

	if (from == to)
		return;
	err = job.fault->shut(from, to - from);
	if (err)
		run_protect_failed(err);
	count(&run_stats_of(block_id(from, block))->protect_calls, 1);
	for (at = from; at < to; at += block)
		discard_emptied(at, block);
}

/* n neighbours, as for drop_blocks(). Returns how many bytes have gone. */
static uint64_t empty_run(size_t off, size_t block, unsigned int n)
{
	const size_t end = off + n * block;
	struct span held;
	size_t at, from = off;
	uint64_t bytes = n * block;

	span_lock(&held, off, block, n);
	for (at = off; at < end; at += block)
		if (!may_be_emptied(at, block)) {
			empty_blocks(from, at, block);
			from = at + block;
			bytes -= block;
		}
	empty_blocks(from, end, block);
	span_unlock(&held);
	count(&job.mine->stats.evicted_clean, bytes / block);
	return bytes;
}

/* The end of the run of blocks from `at` on that are marked, as long as one may be. */
static size_t end_of_marked(size_t at, size_t block, size_t end)
{
	const size_t most = SPAN_MOST * block < BLOCK_MAX ? SPAN_MOST * block : BLOCK_MAX;
	size_t to = at;

	while (to < end && to - at < most && discard_is_marked(to, block))
		to += block;
	return to;
}

uint64_t empty_unit(size_t unit, size_t block, uint64_t want)
{
	uint64_t got = 0;
	size_t at, to;

	for (at = unit; at < unit + UNIT_BYTES && got<want; at = to> at ? to : at + block) {
		to = end_of_marked(at, block, unit + UNIT_BYTES);
		if (to == at)
			continue;
		discard_publish(at, to - at);
		got += empty_run(at, block, (unsigned int)((to - at) / block));
		discard_publish(0, 0);
	}
	return got;
}

/* Nobody allocates there: nothing has to be published. */
static void empty_all(size_t off, size_t end)
{
	size_t unit, at, to;

	for (unit = off; unit < end; unit += UNIT_BYTES) {
		const struct region_homes *known = region_known(unit);
		const size_t block = known ? known->block_size : BLOCK_MAX;

		for (at = unit; known && at<unit + UNIT_BYTES; at = to> at ? to : at + block) {
			to = end_of_marked(at, block, unit + UNIT_BYTES);
			if (to > at)
				empty_run(at, block, (unsigned int)((to - at) / block));
		}
	}
}

void empty_units(size_t off, size_t len)
{
	if (discard_any() && usage_bounded() > job.set.memory - job.set.memory / TIGHT_PART) {
		engine_enter();
		empty_all(off, off + len);
		engine_leave();
	}
	discard_unmark(off, len);
}
