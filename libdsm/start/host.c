// SPDX-License-Identifier: BSD-2-Clause
/*
 * host.c - the choice of the core's host; and the host in the process: the node's memory
 * (memory.c), stepped by any thread that needs a step (run.c).
 */
#include "start/host.h"

#include <errno.h>
#include <string.h>

#include "fault/fault.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/memory.h"
#include "job/usage.h"
#include "kernel/kernel.h"
#include "miss/block.h"
#include "miss/evict.h"
#include "miss/reclaim.h"
#include "miss/release_end.h"
#include "start/backend.h"

static int process_open(void)
{
	return backend_choose();
}

static void process_detach(const struct dsm_region *r)
{
	(void)r;
}

static int process_quiet(uint64_t off, uint64_t bytes)
{
	return memory_quiet(off, off + bytes) && release_quiet(off, off + bytes) && reclaim_idle()
		? 0
		: -EAGAIN;
}

static int process_purge(uint64_t off, uint64_t bytes)
{
	usage_leaving();
	memory_forget(off, bytes);
	return job.fault->shut(off, bytes);
}

/* Not in a handler that interrupted a thread that sleeps inside the runtime. */
static void make_room(void)
{
	if (reclaim_is_due() && !engine_depth)
		reclaim_frames(true);
}

static enum fault_answer process_fault(struct dsm_region *r, void *addr, bool write)
{
	const enum fault_answer answer = block_miss(r, addr, write);

	make_room();
	return answer;
}

#define AT_ONCE_PART 16 /* what comes without a look may exceed the bound by it */

/* A range may be larger than the memory of the node. */
static int process_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait)
{
	const size_t end = off + len,
		     step = job.set.memory && len > job.set.memory / AT_ONCE_PART ? BLOCK_MAX : len;
	int err = 0;

	for (; off < end && !err; off += step) {
		err = block_fetch(r, off, step < end - off ? step : end - off, access, wait);
		make_room();
	}
	return err;
}

static int process_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access)
{
	const int err = block_pin(r, off, len, access);

	make_room();
	return err;
}

const struct host_ops host_process = {
	.name = "user",
	.kind = HOST_LIBRARY,
	.regions = CTL_REGIONS,
	.barriers = CTL_BARRIERS,
	.doubles = true,
	.open = process_open,
	.attach = block_attach,
	.detach = process_detach,
	.leave = evict_region,
	.quiet = process_quiet,
	.purge = process_purge,
	.fault = process_fault,
	.fetch = process_fetch,
	.release = block_release,
	.pin = process_pin,
	.unpin = block_unpin,
	.place = block_place,
};

int host_choose(void)
{
	static const struct host_ops *const all[] = { &host_kernel, &host_process };
	int err = -ENOENT;
	unsigned int i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]) && err == -ENOENT; i++) {
		if (strcmp(job.set.backend, "auto") && strcmp(job.set.backend, all[i]->name))
			continue;
		job.host = all[i];
		err = job.host->open();
	}
	return err;
}

void host_close(void)
{
	if (job.host->close)
		job.host->close();
	job.host = &host_process;
}
