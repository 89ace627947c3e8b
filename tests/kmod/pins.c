// SPDX-License-Identifier: BSD-2-Clause
/*
 * pins.c - ranks of one kernel pin the same block for writing, one after the other, again and again: each gets it, and nobody
 * loses what another has written while it had the block pinned.
 *
 *   --vector V   ranks of several kernels, as far as they know: messages take RDMA, to queues on completion vector V
 *
 * Runs in a guest with the module loaded.
 */
#include "tests/kmod/common.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 3u
#define TIMES 100u

static struct job *j;
static struct {
	_Atomic unsigned int done, ended, seen;
} * all;

static bool pin(int fd, bool on)
{
	struct dsm_ioc_range r = { .op = on ? DSM_RANGE_PIN : DSM_RANGE_UNPIN, .pages = 1, .write = 1 };

	return !ioctl(fd, DSM_IOC_RANGE, &r);
}

/* A rank that has gone takes with it what others want to see. */
static void all_come(_Atomic unsigned int *place)
{
	atomic_fetch_add(place, 1);
	while (atomic_load(place) < RANKS)
		usleep(1000);
}

static void rank_process(unsigned int rank)
{
	volatile unsigned int *word = (volatile unsigned int *)JOB_BASE;
	int fd = job_join(j, rank);
	unsigned int i;

	for (i = 0; fd >= 0 && i < TIMES && pin(fd, true); i++) {
		unsigned int seen = *word;

		if (i % 10 == 0)
			usleep(1000); /* the others have come to ask */
		*word = seen + 1;
		if (!pin(fd, false))
			break;
		atomic_fetch_add(&all->done, 1);
	}
	all_come(&all->ended);
	if (fd >= 0 && *word != RANKS * TIMES)
		atomic_store(&all->done, 0);
	all_come(&all->seen);
	_exit(0);
}

int main(int argc, char **argv)
{
	const bool rdma = argc == 3 && !strcmp(argv[1], "--vector");
	pid_t pids[RANKS];
	unsigned int i;
	bool ok;

	if (!module_loaded()) {
		fprintf(stderr, "pins: dsm.ko is not loaded\n");
		return 77;
	}
	if (argc > 1 && !rdma)
		return 2;
	j = job_new();
	all = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return 2;
	job_set(j, RANKS, rdma);
	if (rdma)
		j->vector = (int16_t)atoi(argv[2]);
	j->home = DSM_REGION_CYCLIC;
	for (i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(i);
	}
	ok = job_reap(pids, RANKS, 60);
	for (i = 0; i < RANKS && !ok; i++)
		kill(pids[i], SIGKILL);
	printf("%u of %u pins\n", atomic_load(&all->done), RANKS * TIMES);
	return ok && nothing_left(20) && atomic_load(&all->done) == RANKS * TIMES ? 0 : 1;
}
