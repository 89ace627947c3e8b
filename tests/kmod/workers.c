// SPDX-License-Identifier: BSD-2-Clause
/*
 * workers.c - dsm.ko while the kernel cannot create workers. Completions are handled in a worker.
 * Blocks are placed at a rank that has none of their frames, and allocates frames and their keys in
 * workers, which wait for completions. If one rescuer had to do both, and the waiting work came
 * first, both would wait forever.
 *
 * Runs in a guest with the module loaded and a soft RDMA device; for a moment the guest cannot
 * create threads.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 2u
#define THREADS 24u /* more than there are idle workers */
#define WINDOW ((uint64_t)THREADS * DSM_UNIT_PAGES * PAGE)
#define THREADS_MAX "/proc/sys/kernel/threads-max"

static struct {
	_Atomic unsigned int waiting, go, placed, failed, stop;
} * sums;
static int dev;

static void wait_for(const _Atomic unsigned int *n)
{
	while (!atomic_load(n))
		usleep(1000);
}

static void *place(void *arg)
{
	uint32_t page = (uint32_t)(uintptr_t)arg * DSM_UNIT_PAGES;
	struct dsm_ioc_range r = { .op = DSM_RANGE_PLACE, .page = page, .pages = 1, .write = 1 };
	int failed;

	JOB_BASE[page * PAGE] = 1;
	atomic_fetch_add(&sums->waiting, 1);
	wait_for(&sums->go);
	/* EBUSY: the rank that it is placed at is about to take the block. */
	while ((failed = ioctl(dev, DSM_IOC_RANGE, &r)) && errno == EBUSY &&
	       !atomic_load(&sums->stop))
		usleep(1000);
	if (failed) {
		perror("workers: PLACE");
		atomic_fetch_add(&sums->failed, 1);
	}
	atomic_fetch_add(&sums->placed, 1);
	return NULL;
}

static void rank_process(struct job *j, unsigned int rank)
{
	pthread_t threads[THREADS];
	unsigned int t;

	dev = job_join(j, rank);
	if (dev < 0)
		_exit(3);
	for (t = 0; !rank && t < THREADS; t++)
		if (pthread_create(&threads[t], NULL, place, (void *)(uintptr_t)t))
			_exit(4);
	for (t = 0; !rank && t < THREADS; t++)
		pthread_join(threads[t], NULL);
	wait_for(&sums->stop);
	_exit(0);
}

/* Set the limit. Returns the old limit, or -1. */
static long limit_threads(long limit)
{
	FILE *f = fopen(THREADS_MAX, "r+");
	long before = -1;

	if (f && fscanf(f, "%ld", &before) == 1) {
		rewind(f);
		if (fprintf(f, "%ld\n", limit) < 0)
			before = -1;
	}
	if (f && fclose(f))
		before = -1;
	return before;
}

int main(int argc, char **argv)
{
	pid_t pids[RANKS];
	unsigned int i;
	struct job *j;
	double began;
	long limit;
	bool ok;

	no_arguments(argc, argv, "dsm.ko when no worker can be made");
	module_needed();
	sums = shared_memory(sizeof(*sums));
	j = job_new();
	job_set(j, RANKS, true);
	j->mode = DSM_MODE_WORKQUEUE;
	j->window = WINDOW;
	j->pages = THREADS * DSM_UNIT_PAGES;
	j->home = DSM_REGION_FIXED;
	for (i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i);
	}
	ok = reached(&sums->waiting, THREADS);
	limit = limit_threads(20); /* the kernel accepts no smaller limit; more threads exist */
	atomic_store(&sums->go, 1);
	began = now_s();
	while (ok && atomic_load(&sums->placed) < THREADS && now_s() - began < patience(20))
		usleep(10000);
	printf("%u of %u blocks placed in %.1f s without new workers, %u failed\n",
	       atomic_load(&sums->placed), THREADS, now_s() - began, atomic_load(&sums->failed));
	ok = ok && limit > 0 && atomic_load(&sums->placed) == THREADS &&
		!atomic_load(&sums->failed);
	if (limit > 0)
		limit_threads(limit);
	atomic_store(&sums->stop, 1);
	ok = job_reap(pids, RANKS, 60) && ok;
	return nothing_left(20) && ok ? 0 : 1;
}
