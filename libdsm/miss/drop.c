// SPDX-License-Identifier: BSD-2-Clause
/* drop.c - see drop.h. */
#include "miss/drop.h"

#include "fault/fault.h"
#include "job/job.h"
#include "miss/block.h"
#include "miss/run.h"
#include "miss/span.h"
#include "miss/step.h"

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
	struct span held;
	size_t at, from = off; /* [from, at) is dropped, and not closed yet */
	unsigned int dropped = n;

	span_lock(&held, off, block, n);
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
	span_unlock(&held);
	return dropped;
}

bool drop_release(uint32_t object)
{
	const struct msg about = { .object = object, .src = job.node, .dst = job.node };
	struct core_host h = run_host();

	return core_page_event(&h, PE_DROP, &about, NULL) == CORE_DROPPED;
}
