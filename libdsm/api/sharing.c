// SPDX-License-Identifier: BSD-2-Clause
/* sharing.c - the memory that misses occur in, and how many of them are repeated (engine/sharing.h): rows for the report. */
#include <string.h>

#include "api/sharing.h"
#include "api/stats.h"
#include "engine/call.h"
#include "engine/job.h"
#include "engine/sharing.h"
#include "fault/range.h"
#include "util/top.h"

#define BLOCKS 64 /* number of blocks with the most misses, from which the list of memory is made */

/* Collect each node's blocks with the most misses. A block's sum over all nodes may be more than its count here. */
static int find_blocks(struct sharing_sum all[BLOCKS])
{
	struct sharing_sum some[BLOCKS];
	struct top top = {
		.list = all, .size = sizeof(all[0]), .key = offsetof(struct sharing_sum, misses), .n = BLOCKS
	};
	const uint64_t whole[2] = { 0, 0 };
	int got, i;
	uint16_t n;

	for (n = 0; n < job.nodes; n++) {
		got = call_rank(job.first[n], CALL_SHARING, whole, sizeof(whole), some, sizeof(some));
		if (got < 0)
			return got;
		got /= (int)sizeof(some[0]);
		for (i = 0; i < got; i++)
			top_add(&top, &some[i]);
	}
	return (int)top.have;
}

/* Exact sums over all nodes. */
static int add_range(struct sharing_row *row, uint64_t off, uint64_t bytes)
{
	/* Misses of an earlier region may extend beyond the end of this one. */
	const uint64_t range[2] = { off, bytes < job.set.space - off ? bytes : job.set.space - off };
	struct sharing_sum one;
	uint16_t n;

	for (n = 0; n < job.nodes; n++) {
		int got = call_rank(job.first[n], CALL_SHARING, range, sizeof(range), &one, sizeof(one));

		if (got < 0)
			return got;
		if (got < (int)sizeof(one))
			continue;
		row->misses += one.misses;
		row->repeated += one.repeated;
	}
	return 0;
}

/* Allocations of one line of the program, or of one name, are one row. */
static bool together(const struct dsm_hot_block *a, const struct dsm_hot_block *b)
{
	if (!a->site[0] && !b->site[0])
		return a->object == b->object;
	return !strcmp(a->site, b->site) && !strcmp(a->name, b->name);
}

static void sort(struct sharing_row *rows, int n)
{
	int i, k;

	for (i = 1; i < n; i++) {
		const struct sharing_row one = rows[i];

		for (k = i; k > 0 && rows[k - 1].misses < one.misses; k--)
			rows[k] = rows[k - 1];
		rows[k] = one;
	}
}

/* The blocks that an object touches. If the object is the whole heap (nothing is allocated there), only the block. */
static struct sharing_sum blocks_of(const struct dsm_hot_block *b, size_t off)
{
	const struct dsm_region *r = region_at(off);
	size_t start, end;

	if (!r || (r->id == 0 && b->object_size == r->size) || !range_off(b->object, &start))
		return (struct sharing_sum){ .off = off, .bytes = b->size };
	end = (start + b->object_size + b->size - 1) / b->size * b->size;
	start = start / b->size * b->size;
	return (struct sharing_sum){ .off = start, .bytes = end - start };
}

static bool is_listed(const struct sharing_sum *ranges, int n, size_t off)
{
	int i;

	for (i = 0; i < n && (off < ranges[i].off || off >= ranges[i].off + ranges[i].bytes); i++)
		;
	return i < n;
}

int sharing_rows(struct sharing_row *rows, int n)
{
	struct sharing_sum blocks[BLOCKS], ranges[BLOCKS];
	int found = find_blocks(blocks), done = 0, have = 0, i, k, err;

	if (found < 0)
		return found;
	for (i = 0; i < found; i++) {
		struct dsm_hot_block b = { .size = PAGE_BYTES };

		if (is_listed(ranges, done, blocks[i].off))
			continue;
		stats_name_block(&b, blocks[i].off);
		ranges[done] = blocks_of(&b, blocks[i].off);
		for (k = 0; k < have && !together(&rows[k].of, &b); k++)
			;
		if (k == n)
			continue;
		if (k == have)
			rows[have++] = (struct sharing_row){ .of = b };
		rows[k].objects++;
		err = add_range(&rows[k], ranges[done].off, ranges[done].bytes);
		if (err)
			return err;
		done++;
	}
	sort(rows, have);
	return have;
}
