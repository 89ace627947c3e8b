// SPDX-License-Identifier: BSD-2-Clause
/*
 * sharing.c - the memory that misses occur in, and how many of them are repeated (miss/sharing.h):
 * rows for the report.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/stats.h"
#include "calls/call.h"
#include "job/job.h"
#include "miss/sharing.h"
#include "fault/range.h"
#include "util/clock.h"

#define ASKED 64 /* blocks in a call */
#define ROWS 512 /* allocations of different lines, and variables, that are told apart */
/* then the rest of the blocks stays without a name: each may take a round trip */
#define NAMING_MS 2000

struct blocks {
	struct sharing_sum *list;
	size_t n, room;
};

static int append(struct blocks *b, const struct sharing_sum *more, size_t n)
{
	if (b->n + n > b->room) {
		size_t room = 2 * b->room + n;
		void *list = realloc(b->list, room * sizeof(*b->list));

		if (!list)
			return -ENOMEM;
		b->list = list;
		b->room = room;
	}
	memcpy(b->list + b->n, more, n * sizeof(*more));
	b->n += n;
	return 0;
}

/* Collect the blocks of a node. */
static int ask_node(struct blocks *b, uint16_t node)
{
	struct sharing_sum some[ASKED];
	uint64_t range[2] = { 0, 0 };
	int got, err;

	do {
		got = call_rank(job.first[node], CALL_SHARING, range, sizeof(range), some,
				sizeof(some));
		if (got < 0)
			return got;
		got /= (int)sizeof(some[0]);
		err = append(b, some, (size_t)got);
		if (err)
			return err;
		if (got)
			range[0] = some[got - 1].off + PAGE_BYTES;
	} while (got == ASKED);
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const uint64_t x = ((const struct sharing_sum *)a)->off,
		       y = ((const struct sharing_sum *)b)->off;

	return x < y ? -1 : x > y;
}

static int by_misses(const void *a, const void *b)
{
	const uint64_t x = ((const struct sharing_row *)a)->misses,
		       y = ((const struct sharing_row *)b)->misses;

	return x > y ? -1 : x < y;
}

/* The blocks of all nodes, each once, in the order of their offsets. */
static int find_blocks(struct blocks *b)
{
	size_t i, k = 0;
	uint16_t node;
	int err;

	for (node = 0; node < job.nodes; node++) {
		err = ask_node(b, node);
		if (err)
			return err;
	}
	qsort(b->list, b->n, sizeof(b->list[0]), by_offset);
	for (i = 1; i < b->n; i++) {
		if (b->list[i].off != b->list[k].off) {
			b->list[++k] = b->list[i];
			continue;
		}
		b->list[k].misses += b->list[i].misses;
		b->list[k].repeated += b->list[i].repeated;
	}
	b->n = b->n ? k + 1 : 0;
	return 0;
}

/* Allocations of one line of the program, or of one name, are one row. */
static bool together(const struct dsm_hot_block *a, const struct dsm_hot_block *b)
{
	if (!a->site[0] && !b->site[0])
		return a->object == b->object;
	return !strcmp(a->site, b->site) && !strcmp(a->name, b->name);
}

/*
 * The end of the blocks that an object touches. If the object is the whole heap (nothing is
 * allocated there), of the one block.
 */
static size_t end_of(const struct dsm_hot_block *b, size_t off)
{
	const struct dsm_region *r = region_at(off);
	size_t start;

	if (!r || (r->off < job.heap && b->object_size == r->size) || !range_off(b->object, &start))
		return off + b->size;
	return (start + b->object_size + b->size - 1) / b->size * b->size;
}

/* The row of an object; NULL: there are too many. */
static struct sharing_row *row_of(struct sharing_row *rows, int *n, const struct dsm_hot_block *b)
{
	int k;

	for (k = 0; k < *n && !together(&rows[k].of, b); k++)
		;
	if (k == ROWS)
		return NULL;
	if (k == *n)
		rows[(*n)++] = (struct sharing_row){ .of = *b };
	rows[k].objects++;
	return &rows[k];
}

/* Add each block to the row of the first object in it. Returns the number of rows. */
static int add_up(const struct blocks *b, struct sharing_row *rows, struct sharing_row *rest)
{
	const uint64_t until = clock_ms() + NAMING_MS;
	struct sharing_row *row = NULL;
	size_t i, end = 0;
	int n = 0;

	for (i = 0; i < b->n; i++) {
		struct dsm_hot_block of = { .size = PAGE_BYTES };

		if (b->list[i].off >= end) {
			row = NULL;
			if (clock_ms() < until) {
				stats_name_block(&of, b->list[i].off);
				row = row_of(rows, &n, &of);
			}
			end = row ? end_of(&of, b->list[i].off) : b->list[i].off + PAGE_BYTES;
		}
		if (!row)
			rest->objects++;
		(row ? row : rest)->misses += b->list[i].misses;
		(row ? row : rest)->repeated += b->list[i].repeated;
	}
	return n;
}

int sharing_rows(struct sharing_row *rows, int n, struct sharing_row *rest)
{
	struct sharing_row *all = calloc(ROWS, sizeof(*all));
	struct blocks b = { 0 };
	int found = all ? find_blocks(&b) : -ENOMEM, i;

	*rest = (struct sharing_row){ 0 };
	if (found)
		goto out;
	found = add_up(&b, all, rest);
	qsort(all, (size_t)found, sizeof(*all), by_misses);
	for (i = n; i < found; i++) {
		rest->objects += all[i].objects;
		rest->misses += all[i].misses;
		rest->repeated += all[i].repeated;
	}
	found = found < n ? found : n;
	memcpy(rows, all, (size_t)found * sizeof(*rows));
out:
	free(b.list);
	free(all);
	return found;
}
