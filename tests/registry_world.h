/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry_world.h - the first node of a job of three, as far as calls about regions and units of
 * the heap need it: `job`, with memory of its own and a host that has nothing to do. For unit tests
 * and fuzzers.
 */
#ifndef TESTS_REGISTRY_WORLD_H
#define TESTS_REGISTRY_WORLD_H

#include <stdlib.h>
#include <string.h>

#include "calls/payload.h"
#include "calls/region.h"
#include "job/host_ops.h"
#include "job/job.h"

#define WORLD_RANKS 5
#define WORLD_NODES 3
#define WORLD_REGIONS 6 /* ids are below */
#define WORLD_SPACE ((size_t)64 << 20)
#define WORLD_HEAP ((size_t)16 << 20)

static unsigned int world_purges;

static inline int world_quiet(uint64_t off, uint64_t bytes)
{
	(void)off, (void)bytes;
	return 0;
}

static inline int world_purge(uint64_t off, uint64_t bytes)
{
	(void)off, (void)bytes;
	world_purges++;
	return 0;
}

static inline void world_make(void)
{
	static const struct host_ops host = { .regions = WORLD_REGIONS,
					      .quiet = world_quiet,
					      .purge = world_purge };
	static uint16_t node_of[WORLD_RANKS] = { 0, 0, 1, 2, 2 }, width[WORLD_NODES] = { 2, 1, 2 };
	static uint16_t first[WORLD_NODES] = { 0, 2, 3 }, pair[WORLD_NODES] = { 0, 2, 3 };

	job = (struct job){ .size = WORLD_RANKS,
			    .nodes = WORLD_NODES,
			    .locals = 2,
			    .node_of = node_of,
			    .width = width,
			    .first = first,
			    .pair = pair,
			    .set.space = WORLD_SPACE,
			    .heap = WORLD_HEAP,
			    .base = (char *)0x100000000000,
			    .host = &host };
	job.heap_shape = units_shape(WORLD_HEAP, WORLD_RANKS);
	job.me = calloc(1, sizeof(*job.me));
	job.mem.va_units = calloc(WORLD_SPACE / UNIT_BYTES, sizeof(*job.mem.va_units));
	job.mem.members = calloc(WORLD_NODES * CTL_REGIONS, sizeof(*job.mem.members));
	job.mem.mapped = calloc(WORLD_SPACE / UNIT_BYTES, sizeof(*job.mem.mapped));
	job.mem.priorities = calloc(WORLD_SPACE / UNIT_BYTES, sizeof(*job.mem.priorities));
	job.mem.regions = calloc(WORLD_SPACE / UNIT_BYTES, sizeof(*job.mem.regions));
	job.mem.units = calloc(1, units_size(WORLD_HEAP));
	if (!job.me || !job.mem.va_units || !job.mem.members || !job.mem.mapped ||
	    !job.mem.priorities || !job.mem.regions || !job.mem.units)
		abort();
	region_add_heap(&job.me->registry, WORLD_HEAP, 0);
}

/* As it was made. */
static inline void world_again(void)
{
	struct registry *g = &job.me->registry;
	unsigned int i;

	for (i = 0; i < WORLD_REGIONS; i++) {
		g->names[region_hash(g->regions[i].name)] = 0;
		g->regions[i] = (struct region_record){ 0 };
		g->next_id[i] = 0;
	}
	g->ids = (struct pool){ 0 };
	g->va = (struct va_alloc){ 0 };
	memset(job.mem.va_units, 0, WORLD_SPACE / UNIT_BYTES * sizeof(*job.mem.va_units));
	memset(job.mem.members, 0, WORLD_REGIONS * WORLD_NODES * sizeof(*job.mem.members));
	memset(job.mem.mapped, 0, WORLD_SPACE / UNIT_BYTES * sizeof(*job.mem.mapped));
	memset(job.mem.priorities, 0, WORLD_SPACE / UNIT_BYTES * sizeof(*job.mem.priorities));
	memset(job.mem.regions, 0, WORLD_SPACE / UNIT_BYTES * sizeof(*job.mem.regions));
	memset(job.mem.units, 0, units_size(WORLD_HEAP));
	region_add_heap(g, WORLD_HEAP, 0);
}

/* What it takes from a node. */
static inline struct payload_limits world_limits(uint16_t from)
{
	return (struct payload_limits){ .me = job.node,
					.from = from,
					.ranks = WORLD_RANKS,
					.nodes = WORLD_NODES,
					.node_of = job.node_of,
					.base = (uintptr_t)job.base,
					.space = WORLD_SPACE,
					.heap = WORLD_HEAP,
					.regions = CTL_REGIONS };
}

#endif
