/* SPDX-License-Identifier: BSD-2-Clause */
/* sharing.h - which memory misses are of, for the report. */
#ifndef API_SHARING_H
#define API_SHARING_H

#include "dsm.h"

/* Misses of a region, or of allocations with the same name and site. */
struct sharing_row {
	struct dsm_hot_block of; /* of several, the first */
	unsigned int objects;
	uint64_t misses, repeated;
};

/* At most n rows, those with the most misses first. Returns how many, or -errno of call_rank(). Blocks for the other ranks. */
int sharing_rows(struct sharing_row *rows, int n);

#endif
