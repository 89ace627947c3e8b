/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - the report, and the names of blocks in it. */
#ifndef API_STATS_H
#define API_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "dsm.h"

/* Print the statistics of the job to stderr, as set by DSM_STATS. Called at the end, on rank 0;
 * blocks for the other ranks. */
void stats_report(void);
/* Find the owner of the memory of the block at an offset into the window. Blocks for the rank that
 * allocated it. b is unchanged outside regions. */
void stats_name_block(struct dsm_hot_block *b, size_t off);

/* usage.c: prints the memory of all nodes by kind, for the report. */

/*
 * Blocks for the other ranks. json: the rows of an array, one for each node; else lines of the
 * table, sums over all nodes.
 */
void usage_print(FILE *f, bool json);

/* sharing.c: attributes misses to memory, for the report. */

/* Misses of a region, or of allocations with the same name and site. */
struct sharing_row {
	struct dsm_hot_block of; /* the first of several */
	unsigned int objects;
	uint64_t misses, repeated;
};

/* Get at most n rows, those with the most misses first. What they leave out is added up in rest:
 * its misses, and the number of objects, which is a lower bound. Returns the number of rows, or
 * -errno of call_rank(), -ENOMEM. Blocks for the other ranks. */
int sharing_rows(struct sharing_row *rows, int n, struct sharing_row *rest);

#endif
