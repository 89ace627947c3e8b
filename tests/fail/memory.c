// SPDX-License-Identifier: BSD-2-Clause
/*
 * memory.c - asks for more memory than there is, and goes on.
 *
 *   memory regions    more than the space, more than the machine has, too many
 *   memory lazy       a region that is larger than the machine, and little used
 *   memory sizes      one region, opened with two sizes
 *   memory heap       until it is exhausted, twice
 *   memory maps       every second page of a region: more mappings than a process may have with
 *                     DSM_FAULT=mprotect
 *   memory pins       the same, while system calls use pages that are pinned
 */
#include <dsm.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static int me;

static void regions(void)
{
	dsm_region_t *r, *small;
	int i, n;

	expect(dsm_region_open("all", (size_t)1 << 50, NULL, &r), -ENOMEM, "a region of 1 PiB");
	expect(dsm_region_open("much", (size_t)3 << 40, NULL, &r), -ENOMEM, "a region of 3 TiB");
	for (n = 0; n < 100; n++) {
		char name[24];
		int err;

		snprintf(name, sizeof(name), "part %d", n);
		err = dsm_region_open(name, (size_t)128 << 20, NULL, &r);
		if (err == -ENOMEM)
			break;
		MUST(err);
		*((char *)dsm_region_base(r) + me * 4096) = 1;
	}
	printf("%d regions of 128 MiB\n", n);
	MUST(dsm_barrier());
	MUST(dsm_region_open("small", 1 << 20, NULL, &small));
	((char *)dsm_region_base(small))[me] = 1;
	MUST(dsm_barrier());
	for (i = 0; i < dsm_size(); i++)
		expect(((char *)dsm_region_base(small))[i], 1, "a small region after large ones");
}

static void lazy(void)
{
	const size_t size = (size_t)100 << 30;
	dsm_region_t *r;
	char *base;

	MUST(dsm_region_open("lazy", size, NULL, &r));
	base = dsm_region_base(r);
	if (me == 0)
		base[0] = base[size / 2] = base[size - 1] = 7;
	MUST(dsm_barrier());
	expect(base[0] + base[size / 2] + base[size - 1], 21, "three bytes of a large region");
	MUST(dsm_barrier());
	expect(dsm_region_open("more", (size_t)100 << 30, NULL, &r), -ENOMEM,
	       "another beyond the space");
}

static void sizes(void)
{
	struct dsm_region_options opt = { .block_size = 65536 };
	dsm_region_t *r;

	if (me == 0) {
		MUST(dsm_region_open("two sizes", 10000, NULL, &r));
		MUST(dsm_region_open("two blocks", 10000, NULL, &r));
	}
	MUST(dsm_barrier());
	if (me == 1) {
		expect(dsm_region_open("two sizes", 20000, NULL, &r), -EEXIST,
		       "the region with another size");
		expect(dsm_region_open("two blocks", 10000, &opt, &r), -EEXIST,
		       "the region with other blocks");
		expect(dsm_region_create("two sizes", 30000, NULL, &r), -EEXIST,
		       "a region of that name");
		expect(dsm_region_create("two sizes", 10000, NULL, &r), -EEXIST, "the same region");
		MUST(dsm_region_open("two sizes", 10000, NULL, &r));
		expect(dsm_region_open("two sizes", 40000, NULL, &r), -EALREADY,
		       "it again, with another size");
		expect(dsm_region_open("two sizes", 10000, NULL, &r), -EALREADY, "it again");
	}
	MUST(dsm_barrier());
}

/*
 * How much each of several ranks gets that exhaust the heap at once is chance. So one after the
 * other.
 */
static void heap_alone(void)
{
	enum { EACH = 1 << 20, MOST = 4096 };
	static char *p[MOST];
	int round, n, first = 0;

	for (round = 0; round < 2; round++) {
		for (n = 0; n < MOST && (p[n] = dsm_malloc(EACH)); n++)
			p[n][0] = p[n][EACH - 1] = (char)n;
		if (n == MOST || errno != ENOMEM || n < 2)
			expect(n, -1, "allocations before the heap was exhausted");
		expect(dsm_malloc(EACH) != NULL, 0, "an allocation from an exhausted heap");
		if (round == 0)
			first = n;
		else if (n < first * 9 / 10)
			expect(n, first, "allocations the second time");
		while (n-- > 0) {
			expect(p[n][0], (char)n, "the first byte of an allocation");
			expect(p[n][EACH - 1], (char)n, "the last byte of an allocation");
			MUST(dsm_free(p[n]));
		}
	}
}

static void heap(void)
{
	int turn;

	for (turn = 0; turn < dsm_size(); turn++) {
		if (turn == me)
			heap_alone();
		MUST(dsm_barrier());
	}
}

static void maps(void)
{
	const size_t pages = 40000;
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	volatile char *base;
	dsm_region_t *r;
	size_t i;

	MUST(dsm_region_open("maps", 2 * pages * 4096, &opt, &r));
	base = dsm_region_base(r);
	for (i = 0; me == 0 && i < pages; i++)
		base[2 * i * 4096] = (char)(i % 127);
	for (i = 0; me == 0 && i < pages; i++)
		expect(base[2 * i * 4096], (char)(i % 127),
		       "a page after the last mapping was used up");
	MUST(dsm_barrier());
	for (i = 0; i < pages; i += 97)
		expect(base[2 * i * 4096], (char)(i % 127), "a page of rank 0");
	MUST(dsm_barrier());
}

/* Read the pipe's bytes into a page that is pinned, and out of one. */
static void through(const int *fds, volatile char *to, volatile char *from)
{
	char text[64] = "", back[64] = "";

	snprintf(text, sizeof(text), "to %p", (void *)to);
	expect((int)write(fds[1], text, sizeof(text)), (int)sizeof(text),
	       "write of private memory");
	expect((int)read(fds[0], (void *)to, sizeof(text)), (int)sizeof(text),
	       "read into a pinned page");
	expect(memcmp((void *)to, text, sizeof(text)), 0, "what a read brought into a pinned page");
	expect((int)write(fds[1], (void *)from, sizeof(back)), (int)sizeof(back),
	       "write from a pinned page");
	expect((int)read(fds[0], back, sizeof(back)), (int)sizeof(back),
	       "read into private memory");
	expect(memcmp((void *)from, back, sizeof(back)), 0, "what a write took from a pinned page");
}

static void pins(void)
{
	const size_t pages = 40000, each = 1999;
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	volatile char *base;
	dsm_region_t *r;
	int fds[2];
	size_t i, k;

	MUST(dsm_region_open("pins", 2 * pages * 4096, &opt, &r));
	base = dsm_region_base(r);
	if (pipe(fds))
		exit(2);
	for (i = 0; me == 0 && i < pages; i += each) {
		MUST(dsm_pin((void *)(base + 2 * i * 4096), 4096, DSM_WRITE));
		MUST(dsm_pin((void *)(base + 2 * i * 4096), 4096, DSM_READ));
		MUST(dsm_unpin((void *)(base + 2 * i * 4096), 4096));
		MUST(dsm_pin((void *)(base + 2 * (i + 1) * 4096), 4096, DSM_READ));
	}
	for (i = 0; me == 0 && i < pages; i++) {
		if (i % each > 1)
			base[2 * i * 4096] = (char)(i % 127);
		for (k = 0; i > 30000 && i % 100 == 0 && k < pages; k += each)
			through(fds, base + 2 * k * 4096, base + 2 * (k + 1) * 4096);
	}
	for (i = 0; me == 0 && i < pages; i += each) {
		MUST(dsm_unpin((void *)(base + 2 * i * 4096), 4096));
		MUST(dsm_unpin((void *)(base + 2 * (i + 1) * 4096), 4096));
	}
	MUST(dsm_barrier());
	for (i = 0; i < pages; i += 97)
		expect(i % each > 1 ? base[2 * i * 4096] : (char)(i % 127), (char)(i % 127),
		       "a page of rank 0");
	MUST(dsm_barrier());
}

static void together(void)
{
	const size_t pages = 40000, few = 500;
	struct dsm_region_options opt = { .home = DSM_HOME_FIXED, .home_rank = 0 };
	volatile char *base;
	dsm_region_t *r;
	size_t from, i;
	int turn;

	MUST(dsm_region_open("together", 2 * pages * 4096, &opt, &r));
	base = dsm_region_base(r);
	for (from = 0; from < pages; from += few) {
		for (turn = 0; turn < 4; turn++) {
			for (i = from; me == turn % 2 && i < from + few; i++) {
				void *page = (void *)(base + 2 * i * 4096);

				MUST(turn < 2 ? dsm_pin(page, 4096, DSM_READ)
					      : dsm_unpin(page, 4096));
			}
			MUST(dsm_barrier());
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	MUST(dsm_init(NULL));
	me = dsm_rank();
	if (!strcmp(argv[1], "regions"))
		regions();
	else if (!strcmp(argv[1], "lazy"))
		lazy();
	else if (!strcmp(argv[1], "sizes"))
		sizes();
	else if (!strcmp(argv[1], "heap"))
		heap();
	else if (!strcmp(argv[1], "maps"))
		maps();
	else if (!strcmp(argv[1], "pins"))
		pins();
	else if (!strcmp(argv[1], "together"))
		together();
	MUST(dsm_finalize());
	return 0;
}
