/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * quota.h - shared by the files of quota: attacks by messages of a peer (quota_messages.c), and by
 * calls of a process (quota_processes.c). Each returns whether it has failed, as it must.
 */
#ifndef KMOD_QUOTA_H
#define KMOD_QUOTA_H

#include "common.h"

#define LIMIT (8ul << 20)
#define BIG (32ull << 30) /* a window of 16,384 times 2 MiB */
#define FREE (8ul << 20)  /* free memory of a context, not counted as locked */

/* Pages charged to all contexts. */
static inline long charged(void)
{
	return (long)counter("charged");
}

bool quota_states(void);
bool quota_lines(void);
bool quota_blocks(void);
bool quota_barriers(void);
bool quota_keys(void);
bool quota_transactions(void);
bool quota_timers(void);
bool quota_frames(void);
bool quota_foreign(void);
bool quota_homes(void);

bool quota_regions(void);
bool quota_cgroup(void);
bool quota_contexts(void);
bool quota_pollers(void);

#endif
