/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - the report, and what a block is called in it. */
#ifndef API_STATS_H
#define API_STATS_H

#include <stddef.h>

#include "dsm.h"

/* Print the statistics of the job on stderr, as DSM_STATS says. At the end, on rank 0; blocks for the other ranks. */
void stats_report(void);
/* Whose memory the block at an offset into the window is. Blocks for the rank that allocated it. b is unchanged where no
 * region is. */
void stats_name_block(struct dsm_hot_block *b, size_t off);

#endif
