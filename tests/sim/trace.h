/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace.h - recordings of applications: the accesses, synchronisations and computing times of each
 * rank.
 *
 * The recorder (record/record.c) writes two files per rank, each with a header and the events in
 * program order: RANK.accesses has no times, RANK.times no accesses. Both have all other events in
 * the same order. A block is named by its first page. An access is recorded if it is the first one
 * of its kind to its block since the rank last synchronised: later ones can miss again only if
 * another rank takes the block away meanwhile, and such misses are not recorded.
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
	TR_BARRIER, /* all ranks: barriers, reductions, broadcasts */
	TR_MUTEX,   /* what: a mutex; from now on this rank is its home */
	TR_LOCK,    /* what: mutex */
	TR_UNLOCK,
	/*
	 * what: first page; count: pages of a block; ns: number of pages, no time. Only from rank 0
	 */
	TR_REGION,
	TR_BEGIN, /* begin and end of the timed part. Only from rank 0 */
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
