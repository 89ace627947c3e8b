/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.h - how much memory the host and the cgroups of this process allow. */
#ifndef UTIL_LIMITS_H
#define UTIL_LIMITS_H

#include <stdint.h>

struct memory_limit {
	/* The memory of the host, or the least limit of the process's cgroup and its ancestors; 0:
	 * not known. */
	uint64_t bytes;
	/* Names the cgroup that has this limit, alike in all processes of the host; 0: the host's
	 * memory. */
	uint64_t group;
};

/* Read the limit. root: before the names of files, "" but in tests. Any thread; blocks for files of
 * the kernel only. Cgroups above those that the process can see are not known. */
void limits_memory(const char *root, struct memory_limit *out);

#endif
