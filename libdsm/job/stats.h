/* SPDX-License-Identifier: BSD-2-Clause */
/* stats.h - counters in control segments, summed on demand. Any thread; nothing blocks. */
#ifndef JOB_STATS_H
#define JOB_STATS_H

#include <stdint.h>

#include "dsm.h"

/*
 * Add a wait of ns to the counters of its kind: number, sum, maximum, and DSM_LAT_BUCKETS buckets
 * by powers of two.
 */
void stats_latency(uint64_t *count_, uint64_t *sum, uint64_t *max, uint64_t *buckets, uint64_t ns);

/*
 * The answer of CALL_VECTORS: the completion vectors that a rank's transport and the kernel helper
 * use.
 */
#define STATS_VECTORS 44

struct stats_vectors {
	uint32_t n, pad;
	struct stats_vector {
		char class[16], device[32];
		int32_t vector;
		uint32_t pad;
		uint64_t events, completions;
		/* completions that the kernel helper handled in softirq or ksoftirqd */
		uint64_t softirq;
	} rows[STATS_VECTORS];
};

void stats_vectors(struct stats_vectors *out); /* those of this rank */

/*
 * The answer of CALL_LANES: the kinds of connections of a rank's transport, and what it has sent
 * over them.
 */
#define STATS_LANES 8

struct stats_lanes {
	uint32_t n, pad;
	struct stats_lane {
		char name[16];
		uint64_t connections, messages, bytes;
	} rows[STATS_LANES];
};

void stats_lanes(struct stats_lanes *out); /* those of this rank */

/*
 * Serve CALL_STATS: the counters of a rank of this node for a region, or with CTL_REGIONS for all
 * regions and the rank. 0.
 */
int stats_serve(uint16_t rank, uint32_t region, struct dsm_stats *out);

/* A block of a home with many transfers. */
struct hot {
	uint64_t off, bytes, transfers;
};
/*
 * Serve CALL_HOT: list up to n of this node's hottest blocks, the hottest first. Their number, or
 * -errno; -EINVAL: n < 1.
 */
int stats_hot_serve(struct hot *out, int n);

#endif
