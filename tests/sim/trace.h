/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h - recorded runs of applications: what each rank accesses, where it synchronises, and how long it computes.
 *
 * The recorder (record/record.c) writes two files for each rank, a header and events in program order: RANK.accesses has
 * everything but times, RANK.times everything but accesses. Both have the other events in the same order.
 * A block is named by its first page. An access is recorded when it is the first one of its kind to its block since the rank
 * last synchronised: later ones may miss again only if another rank takes the block away meanwhile, and such misses are not
 * in the trace.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdint.h>

#define TRACE_MAGIC 0x31454341525444ull /* "DTRACE1" */

enum trace_kind {
	TR_READ = 1, /* what: block */
	TR_WRITE,
	TR_PREFETCH_R, /* what: first block; count: pages */
	TR_PREFETCH_W,
	TR_BARRIER, /* of all ranks: barriers, reductions, broadcasts */
	TR_MUTEX,   /* what: a mutex whose home is this rank from now on */
	TR_LOCK,    /* what: mutex */
	TR_UNLOCK,
	TR_REGION, /* what: first page; count: pages of a block; ns: pages, no time. By rank 0 */
	TR_BEGIN,  /* the timed part begins and ends. By rank 0 */
	TR_END,
	TR_KINDS
};

struct trace_header {
	uint64_t magic;
	uint32_t rank, ranks, pages, mutexes;
	uint64_t events;
};

struct trace_event {
	uint32_t kind : 8;
	uint32_t count : 24;
	uint32_t what;
	uint64_t ns; /* RANK.times: processor time since the last event */
};

#endif
