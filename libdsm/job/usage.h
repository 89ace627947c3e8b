/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * usage.h - the memory of a node by kind, now and at most.
 *
 * Nothing is counted where memory is allocated: the kernel knows what the memory objects and the
 * process have. With DSM_STATS the service thread looks once a second, and whoever gives memory
 * back looks before; without it nobody looks but CALL_MEMORY, and the service thread at page tables
 * if memory is bounded.
 */
#ifndef JOB_USAGE_H
#define JOB_USAGE_H

#include <stdbool.h>
#include <stdint.h>

enum usage_kind {
	/* of a node */
	USAGE_FRAMES = 0, /* contents of blocks; in a job of one rank its window */
	/* page states, directory, counters of misses, what the fault backend knows of each page */
	USAGE_STATES,
	/* requests that wait: for blocks, for objects of synchronisation, for service threads;
	 * these objects */
	USAGE_QUEUES,
	/* the rest of the control segment: slots, hold records, regions, units of the heap */
	USAGE_TABLES,
	USAGE_STAGE, /* contents that wait for acknowledgements */
	USAGE_TWINS, /* copies of the release blocks that the node writes */
	USAGE_OF_NODE,
	/* of each rank */
	/* buffers of the transport into which other nodes write blocks */
	USAGE_LANDING = USAGE_OF_NODE,
	USAGE_PAGE_TABLES,
	/* everything else: of the program, the libraries, the transport, the launcher */
	USAGE_PRIVATE,
	USAGE_RESIDENT, /* what the process has mapped of all kinds: no kind of its own */
	USAGE_KINDS
};

/* The answer of CALL_MEMORY, in bytes: of the rank, and if it is the first of its node, of the
 * node. */
struct stats_memory {
	uint64_t limit; /* what its host and its cgroup allow (util/limits.h) */
	uint64_t bound; /* DSM_MEMORY, or the default; 0: none */
	uint64_t now[USAGE_KINDS], most[USAGE_KINDS];
	/* 1: private memory was not looked at closely, because that would take long */
	uint32_t rough;
	uint32_t pad;
};

/* The frames of this node, in bytes. Any thread, also in the fault handler. */
uint64_t usage_frames(void);
/* What DSM_MEMORY bounds: the frames, the control segment with states, queues, tables and twins,
 * and the page tables of all ranks for these: those that the service threads have counted, and an
 * estimate for what has come since. As above. */
uint64_t usage_bounded(void);

/* For the service thread, which calls it often, and at least in such a time (ns): count page tables
 * for usage_bounded(), and look, for the counts of "at most". */
uint64_t usage_period(void);
void usage_tick(uint64_t now);

/* The counts of "at most" are only for DSM_STATS. usage_leaving(): look before frames and states
 * are given back. Any thread. */
bool usage_watches(void);
void usage_leaving(void);

/* Serve CALL_MEMORY, in the rank's own process. Takes milliseconds: tens for a process of
 * gigabytes. */
void usage_serve(struct stats_memory *out);

#endif
