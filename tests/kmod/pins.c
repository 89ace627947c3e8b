// SPDX-License-Identifier: BSD-2-Clause
/*
 * pins.c - ranks of one kernel pin the same block for writing, one after the other, again and
 * again: each gets its turns, and no rank loses what another has written while it had the block
 * pinned. The same if each rank has threads whose pins overlap; a thread that has pinned the block
 * before does not wait for the others.
 *
 * A thread waits to pin the first of two blocks whose region has a table of owners. Another thread
 * of its process removes the region, and makes the kernel allocate tables of that size with ranks
 * that do not exist. The pin must fail, and nothing may stay pinned.
 *
 *   --vector V [CPU]   pretend that the ranks are on several kernels: messages take RDMA, to queues
 *                      on completion vector V, which are handled on that processor (default: the
 *                      vector's); only the first part
 *
 * Runs in a guest with the module loaded.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS 3u
#define TIMES 100u
#define REGION_PAGES 512u

static struct job *j;
static struct {
	_Atomic unsigned int done, ended, seen, failed, turns[RANKS], tid, removed;
} * all;

static bool pin_as(int fd, unsigned int op, unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .pages = 1, .write = write };

	return !ioctl(fd, DSM_IOC_RANGE, &r);
}

static bool pin(int fd, bool on)
{
	return on ? pin_as(fd, DSM_RANGE_PIN, DSM_PIN_WRITE | DSM_PIN_TURNS)
		  : pin_as(fd, DSM_RANGE_UNPIN, 1);
}

/* Wait for all ranks before exit: a rank that exits takes its blocks along. */
static void rank_process(unsigned int rank)
{
	volatile unsigned int *word = (volatile unsigned int *)JOB_BASE;
	int fd = job_join(j, rank);
	unsigned int i;

	for (i = 0; fd >= 0 && i < TIMES && pin(fd, true); i++) {
		unsigned int seen = *word;

		if (i % 10 == 0)
			usleep(1000); /* time for the others to ask for the block */
		*word = seen + 1;
		if (!pin(fd, false))
			break;
		atomic_fetch_add(&all->done, 1);
	}
	all_here(&all->ended, RANKS);
	if (fd >= 0 && *word != RANKS * TIMES)
		atomic_store(&all->done, 0);
	all_here(&all->seen, RANKS);
	_exit(0);
}

/* ---- pins that overlap ---------------------------------------------------------------------- */

#define THREADS 2u
#define TURNS 20u
#define TOO_MANY (50 * TURNS)

static int rank_fd;
static unsigned int rank_me;

static bool everybody_has_had(unsigned int n)
{
	unsigned int i;

	for (i = 0; i < RANKS; i++)
		if (atomic_load(&all->turns[i]) < n)
			return false;
	return true;
}

static void *overlaps(void *arg)
{
	(void)arg;
	while (!everybody_has_had(TURNS) && !atomic_load(&all->failed)) {
		/* A thread's second pin must not wait: no other thread can release its first. */
		bool ok = pin(rank_fd, true) && pin_as(rank_fd, DSM_RANGE_PIN, DSM_PIN_WRITE);

		usleep(1000); /* time for the others to ask for the block */
		ok = ok && pin(rank_fd, false) && pin(rank_fd, false);
		if (!ok || atomic_fetch_add(&all->turns[rank_me], 1) >= TOO_MANY)
			atomic_store(&all->failed, 1);
	}
	return NULL;
}

static void overlapping_process(unsigned int rank)
{
	pthread_t threads[THREADS];
	unsigned int i;

	rank_me = rank;
	rank_fd = job_join(j, rank);
	for (i = 0; i < THREADS && rank_fd >= 0; i++)
		pthread_create(&threads[i], NULL, overlaps, NULL);
	for (i = 0; i < THREADS && rank_fd >= 0; i++)
		pthread_join(threads[i], NULL);
	all_here(&all->seen, RANKS);
	_exit(0);
}

/* ---- a region that goes --------------------------------------------------------------------- */

#define OWNERS 1024u
#define HOLDER 1u
#define TABLES 200u

static int region(int fd, unsigned int op, uint16_t owner)
{
	uint16_t owners[OWNERS];
	struct dsm_ioc_region g = { .op = op,
				    .page = REGION_PAGES,
				    .pages = REGION_PAGES,
				    .id = 1,
				    .home = DSM_REGION_PARTS,
				    .arg = 1,
				    .parts = OWNERS,
				    .owners = (uintptr_t)owners };
	unsigned int i;

	for (i = 0; i < OWNERS; i++)
		owners[i] = owner;
	return ioctl(fd, DSM_IOC_REGION, &g);
}

static int range_of_two(int fd, unsigned int op, unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .page = REGION_PAGES, .pages = 2, .write = write };

	return ioctl(fd, DSM_IOC_RANGE, &r) ? errno : 0;
}

static void expect(bool is, const char *what)
{
	if (is)
		return;
	printf("FAILED: %s\n", what);
	atomic_store(&all->failed, 1);
}

static void *pins_two(void *arg)
{
	(void)arg;
	atomic_store(&all->tid, (unsigned int)gettid());
	expect(range_of_two(rank_fd, DSM_RANGE_PIN, DSM_PIN_WRITE) == EINVAL,
	       "the pin fails when its region has gone");
	return NULL;
}

static void removes(void)
{
	pthread_t thread;
	unsigned int i;

	pthread_create(&thread, NULL, pins_two, NULL);
	until_asleep(&all->tid);
	expect(!region(rank_fd, DSM_REGION_REMOVE, HOLDER), "the region is removed");
	for (i = 0; i < TABLES; i++)
		expect(region(rank_fd, DSM_REGION_ADD, UINT16_MAX) && errno == EINVAL,
		       "owners that are no ranks");
	atomic_store(&all->removed, 1);
	pthread_join(thread, NULL);
	expect(!region(rank_fd, DSM_REGION_ADD, HOLDER), "the region is made again");
	expect(range_of_two(rank_fd, DSM_RANGE_UNPIN, 1), "nothing has stayed pinned");
	expect(!range_of_two(rank_fd, DSM_RANGE_PIN, DSM_PIN_WRITE), "the blocks can be pinned");
}

static void holds(void)
{
	double end = now_s() + patience(20);

	while (!atomic_load(&all->removed) && now_s() < end)
		usleep(1000);
	expect(!range_of_two(rank_fd, DSM_RANGE_UNPIN, 1), "the blocks are let go");
}

static void removing_process(unsigned int rank)
{
	rank_fd = job_join(j, rank);
	expect(rank_fd >= 0 && !region(rank_fd, DSM_REGION_ADD, HOLDER),
	       "a region whose blocks have owners");
	if (rank == HOLDER)
		expect(!range_of_two(rank_fd, DSM_RANGE_PIN, DSM_PIN_WRITE),
		       "the blocks are pinned");
	all_here(&all->ended, RANKS);
	if (rank == HOLDER)
		holds();
	else if (!rank)
		removes();
	all_here(&all->seen, RANKS);
	fflush(stdout);
	_exit(0);
}

/* ---- all ------------------------------------------------------------------------------------ */

/* where: a vector, and a processor or NULL. If `where` is NULL, the ranks share one kernel. */
static bool all_ranks(void (*process)(unsigned int), char **where)
{
	pid_t pids[RANKS];
	unsigned int i;
	bool ok;

	memset(all, 0, sizeof(*all));
	job_set(j, RANKS, where);
	if (where) {
		j->vector = (int16_t)atoi(where[0]);
		if (where[1])
			j->cpu = (int16_t)atoi(where[1]);
	}
	j->home = DSM_REGION_CYCLIC;
	j->pages = REGION_PAGES;
	fflush(stdout);
	for (i = 0; i < RANKS; i++) {
		pids[i] = fork();
		if (!pids[i])
			process(i);
	}
	ok = job_reap(pids, RANKS, 60);
	for (i = 0; i < RANKS && !ok; i++)
		kill(pids[i], SIGKILL);
	return nothing_left(20) && ok;
}

static bool in_turn(char **where)
{
	const bool ok = all_ranks(rank_process, where) && atomic_load(&all->done) == RANKS * TIMES;

	printf("%u of %u pins\n", atomic_load(&all->done), RANKS * TIMES);
	return ok;
}

static bool overlapping(void)
{
	const bool ok = all_ranks(overlapping_process, NULL) && !atomic_load(&all->failed) &&
		everybody_has_had(TURNS);

	printf("overlapping pins: %u, %u and %u turns\n", atomic_load(&all->turns[0]),
	       atomic_load(&all->turns[1]), atomic_load(&all->turns[2]));
	return ok;
}

static bool removed_meanwhile(void)
{
	const bool ok = all_ranks(removing_process, NULL) && !atomic_load(&all->failed);

	printf("a region that is removed while a thread waits: %s\n",
	       ok ? "the pin fails" : "FAILED");
	return ok;
}

int main(int argc, char **argv)
{
	const bool rdma = (argc == 3 || argc == 4) && !strcmp(argv[1], "--vector");
	bool ok;

	module_needed();
	if (argc > 1 && !rdma)
		return 2;
	j = job_new();
	all = shared_memory(PAGE);
	ok = in_turn(rdma ? &argv[2] : NULL);
	ok = ok && (rdma || (overlapping() && removed_meanwhile()));
	return ok ? 0 : 1;
}
