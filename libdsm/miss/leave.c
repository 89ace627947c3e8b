// SPDX-License-Identifier: BSD-2-Clause
/* leave.c - see leave.h. */
#include "miss/leave.h"

#include <string.h>

#include "fault/fault.h"
#include "fault/frames.h"
#include "job/job.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/sharing.h"
#include "miss/step.h"
#include "miss/twin.h"
#include "net/net.h"

/* The contents have been read, and are about to be sent. */
static void note_leaving(uint32_t object)
{
	struct region_stats *s = run_stats_of(object);

	step_left(object);
	count(&s->blocks_out, 1);
	count(&s->bytes_out, block_bytes(object));
}

/*
 * Send n blocks of one size to one node, whose contents are in this thread's buffer: a bundle's
 * messages go before them.
 */
static void send_blocks(struct core_host *h, struct work *w, const struct item *it, unsigned int n,
			size_t at)
{
	const size_t bytes = block_bytes(it->m.object), size = n * bytes, heads = n * sizeof(it->m);
	char *payload =
		/* contents that lie there were sent before */
		(char *)w + offsetof(struct work, buffer) + at - heads;
	struct msg head;
	unsigned int i;

	for (i = 0; i < n; i++) {
		note_leaving(it[i].m.object);
		memcpy(payload + i * sizeof(it->m), &it[i].m, sizeof(it->m));
	}
	head = bundle_head(&it->m, n);
	run_send_with(&head, payload, heads + size);
	for (i = 0; i < n; i++)
		core_block_sent(h, &it[i].m);
}

void leave_send_block(struct core_host *h, const struct msg *m, const void *contents)
{
	(void)h;
	note_leaving(m->object);
	run_send_with(m, contents, block_bytes(m->object));
}

/* Lower the mappings of n neighbouring blocks. If copies are sent, `to` then has their contents. */
static void close_run(const struct item *it, unsigned int n, char *to)
{
	const bool writable = it->kind == WORK_LOWER || it->kind == WORK_TAKE_RW;
	const size_t off = block_off(it->m.object), len = n * block_bytes(it->m.object);
	struct region_stats *s = run_stats_of(it->m.object);
	const int *pipe;
	unsigned int i;
	int err;

	if (it->kind == WORK_COPY) {
		err = frames_read(off, len, to);
		if (err)
			run_protect_failed(err);
		for (i = 0; releases_used() && i < n && release_is(off); i++)
			twin_read(it[i].m.object, to + i * PAGE_BYTES);
		return;
	}
	for (i = 0; i < n; i++)
		sharing_lost(it[i].m.object, writable);
	if (it->kind == WORK_DROP) {
		err = job.fault->shut(off, len);
	} else if (it->kind == WORK_LOWER) {
		err = job.fault->lower(off, len);
		if (!err)
			err = frames_read(off, len, to);
	} else {
		pipe = pipe_get();
		err = job.fault->take(off, len, to, writable, pipe);
		pipe_put(pipe);
	}
	if (err)
		run_protect_failed(err);
	count(it->kind == WORK_LOWER ? &s->downgrades : &s->invalidations, n);
	count(&s->protect_calls, 1);
}

_Static_assert(WIRE_PAGE == PAGE_BYTES, "the core and the host agree on the size of a page");
_Static_assert(BUNDLE_BYTES / PAGE_BYTES <= WIRE_BUNDLE_MAX, "bytes bound the blocks of a bundle");

/* How many of n blocks, from the first on, one bundle can carry. */
static unsigned int bundle_fits(const struct item *it, unsigned int n)
{
	const size_t bytes = block_bytes(it->m.object);
	unsigned int i;

	for (i = 1; i < n && job.netops->bundles_data && it->kind != WORK_DROP &&
	     it[i].m.dst == it->m.dst && (i + 1) * bytes <= BUNDLE_BYTES;
	     i++)
		;
	return i;
}

/* Send the answers for n blocks of one size and kind. The buffer has their contents. */
static void answer_run(struct core_host *h, struct work *w, const struct item *it, unsigned int n)
{
	const size_t bytes = block_bytes(it->m.object);
	unsigned int at, k;

	for (at = 0; at < n; at += k) {
		k = bundle_fits(&it[at], n - at);
		if (k > 1)
			send_blocks(h, w, &it[at], k, at * bytes);
		else
			core_lowered(h, &it[at].m,
				     it->kind == WORK_DROP ? NULL : w->buffer + at * bytes);
	}
}

/* May one bundle carry a run and, after its last block, another run? size: of both. */
static bool answers_with(const struct item *last, const struct item *next, size_t size)
{
	return job.netops->bundles_data && last->kind == next->kind && last->m.dst == next->m.dst &&
		block_bytes(last->m.object) == block_bytes(next->m.object) && size <= BUNDLE_BYTES;
}

/*
 * Neighbours are lowered in one call of the fault backend. A run fits into the buffer, because it
 * lies in one unit; several that are sent together have BUNDLE_BYTES.
 */
bool leave_close_all(struct core_host *h, struct work *w)
{
	const unsigned int all = w->closings;
	unsigned int at, end, n;

	for (at = 0; at < all; at = end) {
		const struct item *it = &w->closing[at];
		const size_t bytes = block_bytes(it->m.object);

		for (end = at; end < all; end += n) {
			const size_t before = (end - at) * bytes;

			n = work_run(&w->closing[end], all - end);
			if (end > at &&
			    !answers_with(&w->closing[end - 1], &w->closing[end],
					  before + n * bytes))
				break;
			close_run(&w->closing[end], n, w->buffer + before);
		}
		answer_run(h, w, it, end - at);
	}
	w->closings = 0;
	return all;
}
