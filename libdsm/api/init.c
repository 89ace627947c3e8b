// SPDX-License-Identifier: BSD-2-Clause
/* init.c - start and end of a process's part in a job. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/config.h"
#include "api/heap.h"
#include "api/hints.h"
#include "api/region.h"
#include "api/spawn.h"
#include "api/stats.h"
#include "engine/deadlock.h"
#include "engine/inside.h"
#include "engine/job.h"
#include "engine/lost.h"
#include "engine/meet.h"
#include "engine/start.h"
#include "engine/work.h"
#include "fault/range.h"
#include "heap/heap.h"
#include "sync/held.h"
#include "sync/host.h"
#include "util/log.h"

static bool started;

static void in_child(void)
{
	job.forked = true;
	held_forked();
	meet_forked();
}

int api_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len)
{
	size_t from, to, block;
	int err = job_ready();

	if (err)
		return err;
	if (!range_off(addr, &from) || !size || from + size < from || from + size > job.set.space)
		return -EFAULT;
	to = from + size;
	*r = region_at(from);
	if (!*r || to > (*r)->off + region_usable(*r))
		return -EFAULT;
	block = (*r)->block_size;
	from = (*r)->off + (from - (*r)->off) / block * block;
	to = (*r)->off + (to - (*r)->off + block - 1) / block * block;
	*off = from;
	*len = to - from;
	return 0;
}

/* Leaving main() or calling exit() without dsm_finalize() is a failure for the other ranks: report it at once. */
static void at_exit(void)
{
	if (job.forked || job.size == 1)
		return;
	job_await_loss(); /* ends with the job's status, not the program's */
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_RUNNING)
		log_line("exits without dsm_finalize(); the other ranks will consider it lost");
}

static int begin(const struct dsm_config *cfg)
{
	const char *help = getenv("DSM_HELP");
	struct settings set;
	int err;

	if (started)
		return -EALREADY;
	err = config_read(cfg, &set);
	if (err)
		return err;
	if (help && !strcmp(help, "1")) {
		config_help();
		exit(0);
	}
	started = true;
	err = engine_start(&set);
	if (job.size && job.rank == 0)
		config_warn();
	if (!err)
		err = region_start();
	if (!err)
		err = heap_begin();
	if (!err)
		err = sync_start();
	spawn_start();
	if (err) {
		region_stop();
		heap_stop();
		engine_undo();
		return err;
	}
	pthread_atfork(NULL, NULL, in_child);
	atexit(at_exit);
	return dsm_barrier();
}

DSM_API int dsm_init(const struct dsm_config *cfg)
{
	int before = engine_keep(), err = begin(cfg);

	engine_let(before);
	return err;
}

/* The steps that all ranks take before they leave the job. */
static int settle(void)
{
	int err;

	deadlock_stop();
	heap_settle();
	err = dsm_barrier();
	if (err)
		return err;
	stats_report();
	spawn_settle();
	return dsm_barrier();
}

static int end(void)
{
	int err;

	adopt_end();
	err = settle();
	if (err)
		return err;
	pins_forget();
	region_stop();
	heap_stop();
	err = engine_stop();
	work_stop();
	return err;
}

DSM_API int dsm_quit(void)
{
	int err = job_ready(), before;

	if (err)
		return err;
	before = engine_keep();
	err = settle();
	if (!err)
		err = engine_quit();
	engine_let(before);
	return err;
}

DSM_API int dsm_finalize(void)
{
	int err = job_ready(), before;

	if (err)
		return err;
	before = engine_keep();
	err = end();
	engine_let(before);
	return err;
}

DSM_API int dsm_rank(void)
{
	int err = job_ready();

	return err ? err : job.rank;
}

DSM_API int dsm_size(void)
{
	int err = job_ready();

	return err ? err : job.size;
}

DSM_API int dsm_node(void)
{
	int err = job_ready();

	return err ? err : job.node;
}

DSM_API int dsm_nodes(void)
{
	int err = job_ready();

	return err ? err : job.nodes;
}

DSM_API int dsm_node_of(int rank)
{
	int err = job_ready();

	if (err)
		return err;
	return rank < 0 || rank >= job.size ? -EINVAL : node_of((uint16_t)rank);
}

DSM_API void dsm_abort(int status, const char *fmt, ...)
{
	char why[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof(why), fmt ? fmt : "dsm_abort", ap);
	va_end(ap);
	lost_abort(status > 0 && status < 256 ? status : 1, why);
}

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

DSM_API const char *dsm_version(void)
{
	return TEXT(DSM_VERSION_MAJOR) "." TEXT(DSM_VERSION_MINOR) "." TEXT(DSM_VERSION_PATCH);
}
