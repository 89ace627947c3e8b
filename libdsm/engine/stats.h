/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - counters in control segments, added up on demand. Any thread; nothing blocks. */
#ifndef ENGINE_STATS_H
#define ENGINE_STATS_H

#include <stdint.h>

#include "dsm.h"

/* A wait of so long, in the counters of its kind: how many, their sum, the longest, and DSM_LAT_BUCKETS by powers of two. */
void stats_latency(uint64_t *count_, uint64_t *sum, uint64_t *max, uint64_t *buckets, uint64_t ns);

/* What CALL_VECTORS answers: the completion vectors that a rank's transport and the kernel helper use. */
#define STATS_VECTORS 44

struct stats_vectors {
	uint32_t n, pad;
	struct stats_vector {
		char class[16], device[32];
		int32_t vector;
		uint32_t pad;
		uint64_t events, completions;
		uint64_t softirq; /* completions that the kernel helper handled there */
	} rows[STATS_VECTORS];
};

void stats_vectors(struct stats_vectors *out); /* this rank's */

/* What CALL_LANES answers: the kinds of connections that a rank's transport has, and what it has sent over them. */
#define STATS_LANES 8

struct stats_lanes {
	uint32_t n, pad;
	struct stats_lane {
		char name[16];
		uint64_t connections, messages, bytes;
	} rows[STATS_LANES];
};

void stats_lanes(struct stats_lanes *out); /* this rank's */

/* CALL_STATS: what a rank of this node has counted, of a region, or (CTL_REGIONS) of all and itself. 0. */
int stats_serve(uint16_t rank, uint32_t region, struct dsm_stats *out);

/* The hottest blocks of a home. */
struct hot {
	uint64_t off, bytes, transfers;
};
/* CALL_HOT: up to n of this node's, the hottest first. How many, or -errno; -EINVAL: n is none. */
int stats_hot_serve(struct hot *out, int n);

#endif
