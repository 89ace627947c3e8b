/* SPDX-License-Identifier: BSD-2-Clause */
/* load.h - how many threads of dsm_spawn() each rank runs, and which rank has fewest. */
#ifndef ENGINE_LOAD_H
#define ENGINE_LOAD_H

#include <stdint.h>

/* What CALL_LOAD answers. */
struct load {
	uint16_t rank, pad;
	uint32_t threads;
};

/* n threads more of this rank, or fewer. Any thread. */
void load_add(int32_t n);

/* The rank of this node with the fewest threads; of several, the one that comes first, counted from rank `first`. Does not block. */
struct load load_here(uint64_t first);

/* The same of any node, by a call to it if it is another one: outside the runtime, blocks. What it finds may change at any time.
 * 0, or -errno of the call. */
int load_on(uint16_t node, uint16_t first, uint16_t *rank);

/* The same of all nodes. */
int load_least(uint16_t first, uint16_t *rank);

#endif
