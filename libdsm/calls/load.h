/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h - the number of threads of dsm_spawn() that each rank runs, and the rank with the
 * fewest. */
#ifndef CALLS_LOAD_H
#define CALLS_LOAD_H

#include <stdint.h>

/* The answer of CALL_LOAD. */
struct load {
	uint16_t rank, pad;
	uint32_t threads;
};

/* Add n, which may be negative, to the thread count of this rank. Any thread. */
void load_add(int32_t n);

/* The rank of this node with the fewest threads; among several, the next one from rank `first` on.
 * Does not block. */
struct load load_here(uint64_t first);

/* The same for any node, by a call if it is another node. Outside the runtime; blocks. The result
 * may change at any time. 0, or -errno of the call. */
int load_on(uint16_t node, uint16_t first, uint16_t *rank);

/* The same over all nodes. */
int load_least(uint16_t first, uint16_t *rank);

#endif
