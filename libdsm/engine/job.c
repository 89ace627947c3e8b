// SPDX-License-Identifier: BSD-2-Clause
/* job.c - the job, and whether this process may use it. */
#include "engine/job.h"

#include <errno.h>

#include "util/futex.h"
#include "util/sys.h"

struct job job = { .epoll = -1 };

void job_await_quit(void)
{
	while (__atomic_load_n(&job.quits, __ATOMIC_ACQUIRE))
		sys_pause();
}

void job_await_loss(void)
{
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_LOST)
		for (;;)
			futex_wait(&job.state, CTL_LOST, 1000000000u); /* another thread is ending the process */
}

int job_ready(void)
{
	if (__builtin_expect(job.forked, 0))
		return -ECHILD;
	if (__builtin_expect(__atomic_load_n(&job.state, __ATOMIC_RELAXED) == CTL_RUNNING, 1))
		return 0;
	job_await_quit();
	job_await_loss();
	return -ENOTCONN;
}

bool job_runs(void)
{
	return __atomic_load_n(&job.state, __ATOMIC_RELAXED) == CTL_RUNNING && !job.forked;
}

void job_ring(uint16_t rank)
{
	uint64_t one = 1;

	if (sys_write(rank_info(rank)->doorbell, &one, sizeof(one)) < 0)
		one = 0; /* it is full: the thread is awake already */
}
