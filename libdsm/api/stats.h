/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - the report, and the names of blocks in it. */
#ifndef API_STATS_H
#define API_STATS_H

#include <stddef.h>

#include "dsm.h"

/* Print the statistics of the job to stderr, as set by DSM_STATS. Called at the end, on rank 0;
 * blocks for the other ranks. */
void stats_report(void);
/* Find the owner of the memory of the block at an offset into the window. Blocks for the rank that
 * allocated it. b is unchanged outside regions. */
void stats_name_block(struct dsm_hot_block *b, size_t off);

#endif
