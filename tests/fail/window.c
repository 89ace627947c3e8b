// SPDX-License-Identifier: BSD-2-Clause
/*
 * window.c - where the shared memory ends.
 *
 *   window probe     reads and writes on both sides of every edge; its own handler of SIGSEGV, set
 *                    before dsm_init(), is called for those that must fail, and for no other
 *   window WHERE     one write that must end the process by SIGSEGV: past, gap, detached, heap
 */
#include <dsm.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../access.h"
#include "common.h"

#define K 1024ul
#define UNIT (2048 * K)
#define PAGE 4096ul

static int me, size;

static void require(int ok, const char *what, size_t n)
{
	if (ok)
		return;
	fprintf(stderr, "rank %d: %s (%zu)\n", me, what, n);
	exit(2);
}

static void on_bus(int sig)
{
	(void)sig;
	abort();
}

static dsm_region_t *open_region(const char *name, size_t bytes, size_t block, char **base)
{
	struct dsm_region_options opt = { .block_size = block, .home = DSM_HOME_FIXED };
	dsm_region_t *r;

	MUST(dsm_region_open(name, bytes, &opt, &r));
	*base = dsm_region_base(r);
	return r;
}

static void edges(char *base, size_t bytes)
{
	const size_t usable = (bytes + PAGE - 1) / PAGE * PAGE;
	int write;

	for (write = 0; write < 2; write++) {
		require(!access_fails(base, write), "the first byte cannot be used", bytes);
		require(!access_fails(base + bytes - 1, write), "the last byte cannot be used",
			bytes);
		require(!access_fails(base + usable - 1, write),
			"the rest of the last page cannot be used", bytes);
		if (usable == UNIT)
			continue;
		require(access_fails(base + usable, write), "the page behind the end can be used",
			write);
		require(usable + PAGE >= UNIT || access_fails(base + usable + PAGE, write),
			"the second page behind the end can be used", write);
		require(access_fails(base + UNIT - 1, write),
			"the last byte of the unit can be used", write);
	}
}

/* All ranks write and read by turns: the last block comes and goes across the edge. */
static void move(char *base, size_t bytes)
{
	int turn;
	size_t i;

	for (turn = 0; turn < 12; turn++) {
		if (turn % size == me)
			memset(base, 'a' + turn % 26, bytes);
		MUST(dsm_barrier());
		for (i = 0; i < bytes; i++)
			require(base[i] == 'a' + turn % 26, "a byte is not what was written", i);
		MUST(dsm_barrier());
	}
}

/* A rank that has detached keeps what it is the home of, and may not touch it. */
static void come_back(int rank)
{
	dsm_region_t *r;
	char *base;

	r = open_region("come back", 70000, 16 * K, &base);
	if (me == 0)
		memset(base, 'x', 70000);
	MUST(dsm_barrier());
	require(base[69999] == 'x', "the byte written first", 0);
	MUST(dsm_barrier());
	if (me == rank) {
		MUST(dsm_region_detach(r));
		require(access_fails(base, 0) && access_fails(base + 69999, 1),
			"a detached region can be used", 0);
	}
	MUST(dsm_barrier());
	if (me == (rank + 1) % size && me != rank)
		memset(base, 'y', 40000);
	MUST(dsm_barrier());
	if (me == rank) {
		MUST(dsm_region_attach("come back", &r));
		require(size == 1 || base[39999] == 'y', "a byte written meanwhile", 0);
		require(size == 1 || base[69999] == 'x', "a byte written before", 0);
		base[69999] = 'z'; /* others may have a copy: they must lose it */
		edges(base, 70000);
	}
	MUST(dsm_barrier());
	require(size == 1 || base[69998] == 'x', "the last byte but one", 0);
	require(size == 1 || base[69999] != 'x',
		"the last byte, after it was written by a rank that had come back", 0);
	MUST(dsm_barrier());
	MUST(dsm_region_detach(r));
	MUST(dsm_barrier());
	if (me == 0)
		dsm_region_destroy("come back");
	MUST(dsm_barrier());
}

static char *heap_end(void)
{
	struct dsm_region_info info;
	void *p = dsm_malloc(64);

	require(p != NULL, "no heap", 0);
	MUST(dsm_region_query(p, &info));
	MUST(dsm_free(p));
	return (char *)info.base + info.size;
}

static void probe(void)
{
	static const size_t sizes[] = { 1, 10000, 16 * 4096, 70000, UNIT - 1, UNIT };
	static const size_t blocks[] = { 4 * K, 64 * K, 2048 * K };
	unsigned int i, k;

	require(access_fails(heap_end(), 0) && access_fails(heap_end(), 1), "the heap has no end",
		0);
	require(!access_fails(heap_end() - 1, 0), "the end of the heap cannot be read", 0);
	MUST(dsm_barrier());
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		for (k = 0; k < sizeof(blocks) / sizeof(blocks[0]); k++) {
			char name[32], *base;
			dsm_region_t *r;

			snprintf(name, sizeof(name), "%zu by %zu", sizes[i], blocks[k]);
			r = open_region(name, sizes[i], blocks[k], &base);
			require(dsm_prefetch(base, sizes[i], DSM_READ) == 0,
				"prefetching all of it", i);
			require(dsm_prefetch(base, UNIT + 1, DSM_READ) < 0,
				"prefetching more than all of it", i);
			MUST(dsm_barrier());
			edges(base, sizes[i]);
			MUST(dsm_barrier());
			move(base, sizes[i]);
			MUST(dsm_region_detach(r));
			require(access_fails(base, 0) && access_fails(base, 1),
				"a detached region can be used", sizes[i]);
			MUST(dsm_barrier());
		}
	for (i = 0; i < 2; i++)
		come_back((int)i % size);
}

static void die(const char *where)
{
	dsm_region_t *r;
	char *base;

	r = open_region("short", 10000, 64 * K, &base);
	MUST(dsm_barrier());
	if (me)
		for (;;)
			MUST(dsm_barrier());
	if (!strcmp(where, "past"))
		base[12288] = 1;
	if (!strcmp(where, "gap"))
		base[3 * UNIT] = 1;
	if (!strcmp(where, "heap"))
		base[-1] = *(base - UNIT) = 1;
	MUST(dsm_region_detach(r));
	base[100] = 1;
	exit(3);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "probe")) {
		signal(SIGSEGV, access_trap);
		signal(SIGBUS, on_bus);
	}
	MUST(dsm_init(NULL));
	me = dsm_rank();
	size = dsm_size();
	if (!strcmp(argv[1], "probe"))
		probe();
	else
		die(argv[1]);
	MUST(dsm_finalize());
	return 0;
}
