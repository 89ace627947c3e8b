/* SPDX-License-Identifier: GPL-2.0 */
/*
 * job.h - set the key of a job, and connect a rank to its peers: calls of the device, as in rank.h.
 */
#ifndef KMOD_JOB_H
#define KMOD_JOB_H

#include "rank.h"

long job_key(struct view *v, void *in, void __user *arg);
long job_connect(struct view *v, void *in, void __user *arg);

/*
 * For tests: count copies of the last key on the stack of this thread, or a key in memory that is
 * about to be freed.
 */
#ifdef DSM_TEST
void job_check_stack(void);
void job_check_wiped(const void *at, size_t size);
#else
static inline void job_check_stack(void)
{
}
static inline void job_check_wiped(const void *at, size_t size)
{
}
#endif

#endif
