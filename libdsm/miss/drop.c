// SPDX-License-Identifier: BSD-2-Clause
/* drop.c - see drop.h. */
#include "miss/drop.h"

#include "fault/fault.h"
#include "job/job.h"
#include "miss/block.h"
#include "miss/run.h"
#include "miss/step.h"
#include "util/futex.h"

/* In ascending order, so that threads that take several stripes do not wait for each other. */
static void each_stripe(const uint64_t *set, void (*fn)(uint32_t *))
{
	uint32_t w;
	uint64_t left;

	for (w = 0; w < CTL_STRIPES / 64; w++)
		for (left = set[w]; left; left &= left - 1)
			fn(&job.me->stripes[w * 64 + (uint32_t)__builtin_ctzll(left)]);
}

static bool drop(uint32_t object)
{
	const struct msg about = { .object = object, .src = job.node, .dst = job.node };
	struct copy *p = &job.mem.pages[block_page(object)];
	const struct page_ctx ctx = { .me = job.node, .nnodes = job.nodes };
	struct actions acts;
	struct core_host h;

	if (step_any_leaves(object))
		return false;
	if (page_step(&ctx, p, PE_DROP, &about, &acts))
		(h = run_host()).ops->damaged(&h, &about, PE_DROP, p->state);
	return acts.n;
}

static void close_dropped(size_t off, size_t end)
{
	int err;

	if (off == end)
		return;
	err = job.fault->shut(off, end - off);
	if (err)
		run_protect_failed(err);
	count(&run_stats_of(block_id(off, PAGE_BYTES))->protect_calls, 1);
}

unsigned int drop_blocks(size_t off, size_t block, unsigned int n)
{
	const size_t end = off + n * block;
	/* one bit each, as several blocks may share a stripe */
	uint64_t stripes[CTL_STRIPES / 64] = { 0 };
	size_t at, from = off; /* [from, at) is dropped, and not closed yet */
	unsigned int dropped = n;

	for (at = off; at < end; at += block) {
		/* block_stripe() */
		const uint32_t i = stripe_index(block_page(block_id(at, block)));

		stripes[i / 64] |= 1ull << i % 64;
	}
	each_stripe(stripes, word_lock);
	/*
	 * Close before the stripes are released: the next request for a block may already be on its
	 * way.
	 */
	for (at = off; at < end; at += block)
		if (!drop(block_id(at, block))) {
			close_dropped(from, at);
			from = at + block;
			dropped--;
		}
	close_dropped(from, end);
	each_stripe(stripes, word_unlock);
	return dropped;
}

bool drop_release(uint32_t object)
{
	const struct msg about = { .object = object, .src = job.node, .dst = job.node };
	struct core_host h = run_host();

	return core_page_event(&h, PE_DROP, &about, NULL) == CORE_DROPPED;
}
