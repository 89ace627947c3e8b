// SPDX-License-Identifier: BSD-2-Clause
/*
 * region.c - calls about regions that fail, or that wait for long.
 *
 *   region contents    its creator has no mapping left for a region with contents: the name is free again, also for those who wait
 */
#include <dsm.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common.h"

#define SIZE 10000 /* no multiple of what a region takes of the window: it needs mappings of its own */

static int me;
static dsm_sem_t *gate; /* shared */

static void expect(int got, int want, const char *what)
{
	if (got == want)
		return;
	fprintf(stderr, "rank %d: %s: %d (%s) instead of %d\n", me, what, got, dsm_strerror(got), want);
	exit(2);
}

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

static dsm_region_t *open_filled(int *err)
{
	static char text[SIZE];
	const struct dsm_region_options opt = { .contents = text, .contents_size = sizeof(text) };
	dsm_region_t *r = NULL;

	memset(text, 'x', sizeof(text));
	*err = dsm_region_open("filled", SIZE, &opt, &r);
	return r;
}

/* Rank 1 has no mappings, again and again; the others open it at the same time. */
static void contents(void)
{
	dsm_region_t *r;
	char *range;
	size_t size;
	int err, i;

	for (i = 0; me == 1 && i < 5; i++) {
		size = use_up_maps(&range);
		open_filled(&err);
		munmap(range, size);
		expect(err, -ENOMEM, "a region without mappings");
		if (i == 0)
			MUST(dsm_sem_post(gate, (unsigned int)dsm_size() - 1));
	}
	if (me != 1)
		MUST(dsm_sem_wait(gate)); /* it has failed once: the name is to be had */
	r = open_filled(&err);
	expect(err, 0, "the region after another rank had failed");
	check(*(char *)dsm_region_base(r) == 'x', "there are no contents");
	MUST(dsm_barrier());
	MUST(dsm_region_detach(r));
	MUST(dsm_barrier());
	if (me == 0)
		MUST(dsm_region_destroy("filled"));
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
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}
