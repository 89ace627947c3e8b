/* SPDX-License-Identifier: BSD-2-Clause */
/* sharing.h - attributes misses to memory, for the report. */
#ifndef API_SHARING_H
#define API_SHARING_H

#include "dsm.h"

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
