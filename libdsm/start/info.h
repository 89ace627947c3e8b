/* SPDX-License-Identifier: BSD-2-Clause */
/* info.h - what a rank publishes through the launcher before ranks are connected. At the start, in
 * the only thread. */
#ifndef START_INFO_H
#define START_INFO_H

#include <stdint.h>

#include "job/host_ops.h"
#include "util/limits.h"

/* What must be the same on all ranks. */
struct start_settings {
	uint64_t space, heap, homes, home_run, release, trust, libraries, quantum_ms;
};

struct start_info {
	uint64_t magic, abi, key, host;
	struct start_settings settings;
	uint32_t places; /* ranges that are free for the window (window.h) */
	int32_t pid;
	uint32_t no_uffd; /* it catches faults by mprotect(2) */
	uint32_t group;   /* most ranks per node that it requests; 0: all ranks of its host */
	uint32_t hosted;  /* kind of its core's host */
	uint32_t pad;
	struct memory_limit memory; /* of its cgroup, or of its host */
	uint64_t bound;             /* DSM_MEMORY; 0: not set */
	/* the job's key, from rank 0; nodes authenticate each other with it */
	uint8_t host_key[HOST_KEY];
	/* ends the name of this rank's socket (rendezvous.c). That of rank 0 names things of the
	 * job */
	uint64_t token[2];
};

/* Fill in this rank's data, with a key in case it is rank 0. Reserves the ranges in `places`
 * (window.h). -EIO: no random numbers. */
int start_info_make(struct start_info *info);
/* The name of a setting that must be the same on all ranks, and is not; NULL: there is none. */
const char *start_settings_differ(const struct start_settings *a, const struct start_settings *b);
/* Read what all ranks have published, and compare what must agree. 0, or -EPROTO after a
 * message. */
int start_info_read_all(struct start_info *infos);
/* Most ranks per node: the smallest number that a rank requests. 0: no rank requests one. */
uint16_t start_info_group(const struct start_info *infos);
/* When the nodes are known: the first rank of a node prints if another rank of the node has another
 * limit of memory. Memory that the node shares is charged to the cgroup whose process touches it
 * first, so the node would end at the least limit, or beyond it. */
void start_info_compare_limits(const struct start_info *infos);
/* The same: ranks of one node must have the same DSM_MEMORY. 0, or -EPROTO after a message, on all
 * ranks of the job. */
int start_info_compare_bounds(const struct start_info *infos);
/* The bound of this node's memory if DSM_MEMORY is not set, in bytes: its part of what its host and
 * its cgroups allow, less a reserve. 0: that is not known. */
uint64_t start_info_bound(const struct start_info *infos);
/* The ranges for the window that are free in all ranks. */
uint32_t start_info_places(const struct start_info *infos);

#endif
