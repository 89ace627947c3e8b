// SPDX-License-Identifier: BSD-2-Clause
/* host.c - the process as the host of synchronisation, and the choice of that host's table. */
#include "sync/host.h"

#include "job/host_ops.h"
#include "job/job.h"
#include "sync/barrier.h"
#include "sync/held.h"
#include "sync/object.h"

const struct sync_ops sync_process = {
	.ask = object_ask,
	.acquire = lock_acquire,
	.release = lock_release,
	.wait = lock_wait,
	.arrive = barrier_meet,
	.end = barrier_end,
};

const struct sync_ops *sync_host(void)
{
	static const struct sync_ops *const all[] = {
		[HOST_LIBRARY] = &sync_process, [HOST_KERNEL] = &sync_kernel
	};

	return all[job.host->kind];
}

int sync_start(void)
{
	barrier_start();
	return held_start();
}
