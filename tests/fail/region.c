// SPDX-License-Identifier: BSD-2-Clause
/*
 * region.c - calls about regions that fail, or that wait for long.
 *
 *   region contents    its creator has no mapping left for a region with contents: the name is free
 *                      again, also for waiting ranks
 *   region leaving     it detaches while a request is under way for a block that another rank has
 *                      pinned: calls about other regions go on, the thread sleeps, and the wait is
 *                      reported
 *   region stale       a handle is refused when its region has gone, and another has its place; or
 *                      it has come again
 */
#include <dsm.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

/* no multiple of what a region takes of the window: it needs mappings of its own */
#define SIZE 10000

static int me;
static dsm_sem_t *gate; /* shared */

/* Every second page of a range has its own mapping: until there are no more. */
static size_t use_up_maps(char **range)
{
	const size_t size = (size_t)1 << 30;
	size_t at;

	*range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(*range != MAP_FAILED, "no address space");
	for (at = 4096; at < size && !mprotect(*range + at, 4096, PROT_READ); at += 8192)
		;
	check(at < size && errno == ENOMEM, "there is no limit of mappings");
	return size;
}

static dsm_region_t *open_filled(const char *name, int *err)
{
	static char text[SIZE];
	const struct dsm_region_options opt = { .contents = text, .contents_size = sizeof(text) };
	dsm_region_t *r = NULL;

	memset(text, 'x', sizeof(text));
	*err = dsm_region_open(name, SIZE, &opt, &r);
	return r;
}

/*
 * A transport maps memory to make a connection, and UCX to send the first long message. Do both
 * before rank 1 uses up its mappings: in a node of several ranks, rank 1 may not have communicated
 * with another node yet.
 */
static void connect_all(void)
{
	struct dsm_stats stats;
	dsm_region_t *r;
	int err, i;

	for (i = 0; i < dsm_size(); i++)
		MUST(dsm_stats_get(i, NULL, &stats));
	if (me != 1)
		MUST(dsm_barrier()); /* until rank 1 has created it */
	r = open_filled("first", &err);
	if (me == 1)
		MUST(dsm_barrier());
	expect(err, 0, "the first region");
	check(*(char *)dsm_region_base(r) == 'x', "there are no contents");
	MUST(dsm_barrier());
	MUST(dsm_region_detach(r));
	MUST(dsm_barrier());
	if (me == 1)
		MUST(dsm_region_destroy("first"));
	MUST(dsm_barrier());
}

/* Rank 1 has no mappings, again and again; the others open it at the same time. */
static void contents(void)
{
	dsm_region_t *r;
	char *range;
	size_t size;
	int err, i;

	connect_all();
	for (i = 0; me == 1 && i < 5; i++) {
		size = use_up_maps(&range);
		open_filled("filled", &err);
		munmap(range, size);
		expect(err, -ENOMEM, "a region without mappings");
		if (i == 0)
			MUST(dsm_sem_post(gate, (unsigned int)dsm_size() - 1));
	}
	if (me != 1)
		MUST(dsm_sem_wait(gate)); /* it has failed once: the name is to be had */
	r = open_filled("filled", &err);
	expect(err, 0, "the region after another rank had failed");
	check(*(char *)dsm_region_base(r) == 'x', "there are no contents");
	MUST(dsm_barrier());
	MUST(dsm_region_detach(r));
	MUST(dsm_barrier());
	if (me == 0)
		MUST(dsm_region_destroy("filled"));
}

static dsm_region_t *leaving;
static volatile int left, detacher;

static void *detach(void *arg)
{
	struct timespec t;

	detacher = gettid();
	MUST(dsm_region_detach(leaving));
	left = 1;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	*(long *)arg = t.tv_sec * 1000 + t.tv_nsec / 1000000;
	return NULL;
}

/* What another thread does meanwhile. */
static void go_on(long until)
{
	dsm_region_t *other;
	char name[32];
	long began;
	int i;

	expect(dsm_region_detach(leaving), -EINVAL, "another thread's detach of the same region");
	for (i = 0; now_ms() < until; i++) {
		snprintf(name, sizeof(name), "other %d", i % 3);
		began = now_ms();
		MUST(dsm_region_open(name, SIZE, NULL, &other));
		*(volatile char *)dsm_region_base(other) = 1;
		MUST(dsm_region_detach(other));
		MUST(dsm_region_destroy(name));
		check(now_ms() - began < 1000, "a call about another region took long");
		usleep(20000);
	}
}

/* The last rank detaches, which is of another node than rank 0, which has a block pinned. */
static void detaching(void)
{
	const int last = dsm_size() - 1;
	const long wait_ms = 2500;
	pthread_t t;
	long cpu;
	char *p;

	MUST(dsm_region_open("leaving", 16 * 4096, NULL, &leaving));
	p = dsm_region_base(leaving);
	if (me == 0)
		MUST(dsm_pin(p, 4096, DSM_WRITE));
	MUST(dsm_barrier());
	if (me == last) {
		MUST(dsm_prefetch(p, 4096, DSM_READ));
		pthread_create(&t, NULL, detach, &cpu);
		while (!detacher)
			usleep(1000);
		await_state(detacher, 'S'); /* in the call */
		go_on(now_ms() + wait_ms);
		check(!left, "it has left while the block was pinned");
		MUST(dsm_sem_post(gate, 1));
		pthread_join(t, NULL);
		check(cpu < wait_ms / 5, "a thread that waits used a processor");
	} else if (me == 0) {
		MUST(dsm_sem_wait(gate));
		*p = 7;
		MUST(dsm_unpin(p, 4096));
	}
	MUST(dsm_barrier());
	check(me == last || *p == 7, "contents are lost");
}

static void refused(dsm_region_t *r, const char *what)
{
	struct dsm_stats st;

	expect(dsm_region_detach(r), -EINVAL, what);
	expect(dsm_region_disown(r), -EINVAL, what);
	check(!dsm_region_base(r) && !dsm_region_size(r), what);
	expect(r ? dsm_stats_get(me, r, &st) : -EINVAL, -EINVAL, what);
}

static void stale(void)
{
	dsm_region_t *first, *second, *again;
	struct dsm_stats st;
	long local;
	char *p;
	int i;

	MUST(dsm_region_open("first", SIZE, NULL, &first));
	p = dsm_region_base(first);
	MUST(dsm_barrier());
	if (me == 0)
		MUST(dsm_region_destroy("first"));
	MUST(dsm_region_detach(first));
	refused(first, "a handle after its region had gone");
	MUST(dsm_barrier());
	MUST(dsm_region_open("second", SIZE, NULL, &second));
	check(dsm_region_base(second) == p, "the second region is not in the place of the first");
	refused(first, "a handle whose region's place another has");
	MUST(dsm_stats_get(me, second, &st));
	for (i = 0; i < 10; i++) {
		again = second;
		MUST(dsm_region_detach(again));
		MUST(dsm_region_open("second", SIZE, NULL, &second));
		refused(again, "a handle of an earlier attachment");
		check(dsm_region_base(second) == p && dsm_region_size(second) == SIZE,
		      "a new handle is none");
	}
	refused(NULL, "no handle");
	refused((dsm_region_t *)(void *)&local, "an address");
	refused((dsm_region_t *)(uintptr_t)-1, "all bits");
	MUST(dsm_region_detach(second));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	gate = join("gate", 4096);
	me = dsm_rank();
	if (me == 0)
		MUST(dsm_sem_init(gate, 0));
	MUST(dsm_barrier());
	if (!strcmp(argv[1], "contents"))
		contents();
	else if (!strcmp(argv[1], "leaving"))
		detaching();
	else if (!strcmp(argv[1], "stale"))
		stale();
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}
