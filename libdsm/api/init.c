// SPDX-License-Identifier: BSD-2-Clause
/* init.c - start and end of a process's part in a job. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/hints.h"
#include "api/init.h"
#include "api/region.h"
#include "api/stats.h"
#include "heap/heap.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/rendezvous.h"
#include "miss/work.h"
#include "start/start.h"
#include "sync/held.h"
#include "sync/host.h"
#include "util/log.h"
#include "watch/deadlock.h"

static bool started;

static void in_child(void)
{
	job.forked = true;
	log_release();
	held_forked();
	rendezvous_forked();
}

/*
 * Leaving main() or calling exit() without dsm_finalize() is a failure for the other ranks: report
 * it at once.
 */
static void at_exit(void)
{
	if (job.forked || job.size == 1)
		return;
	job_await_loss(); /* ends with the job's status, not the program's */
	if (__atomic_load_n(&job.state, __ATOMIC_ACQUIRE) == CTL_RUNNING)
		log_line("exits without dsm_finalize(); the other ranks will consider it lost");
}

/*
 * Before it starts a job, dsmrun has the library check what each rank would refuse: DSMRUN_RANKS is
 * the number of ranks, DSMRUN_PROGRAM a program with threads that becomes several ranks, and with
 * DSMRUN_HERE=1 the ranks have this process's limits.
 */
static int init_check(const struct settings *set)
{
	const char *ranks = getenv("DSMRUN_RANKS"), *program = getenv("DSMRUN_PROGRAM"),
		   *here = getenv("DSMRUN_HERE");
	int err = ranks ? engine_check(set, atoi(ranks), here && !strcmp(here, "1")) : 0;

	return err || !program ? err : globals_check_file(program);
}

static int init_begin(const struct dsm_config *cfg)
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
		exit(init_check(&set) ? 2 : 0);
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
	int before = engine_keep(), err = init_begin(cfg);

	engine_let(before);
	return err;
}

/* The steps that all ranks take before they leave the job. */
static int init_settle(void)
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

static int init_end(void)
{
	int err;

	adopt_end();
	err = init_settle();
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
	err = init_settle();
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
	err = init_end();
	engine_let(before);
	return err;
}
