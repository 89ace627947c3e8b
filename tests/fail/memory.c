// SPDX-License-Identifier: BSD-2-Clause
/*
 * memory.c - asks for more memory than there is, and goes on.
 *
 *   memory regions    more than the space, more than the machine has, too many
 *   memory heap       until it is exhausted, twice
 *   memory maps       every second page of a region: more mappings than a process may have with DSM_FAULT=mprotect
 */
#include <dsm.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call) must(call, #call)

static int me;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "rank %d: %s: %d: %s\n", me, what, err, dsm_strerror(err));
	exit(2);
}

static void expect(int got, int want, const char *what)
{
	if (got == want)
		return;
	fprintf(stderr, "rank %d: %s: %d (%s) instead of %d\n", me, what, got, dsm_strerror(got), want);
	exit(2);
}

static void regions(void)
{
	dsm_region_t *r, *small;
	int i, n;

	expect(dsm_region_open("all", (size_t)1 << 50, NULL, &r), -ENOMEM, "a region of 1 PiB");
	expect(dsm_region_open("much", (size_t)3 << 40, NULL, &r), -ENOMEM, "a region of 3 TiB");
	for (n = 0; n < 100; n++) {
		char name[16];
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

static void heap(void)
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
		expect(base[2 * i * 4096], (char)(i % 127), "a page after the last mapping was used up");
	MUST(dsm_barrier());
	for (i = 0; i < pages; i += 97)
		expect(base[2 * i * 4096], (char)(i % 127), "a page of rank 0");
	MUST(dsm_barrier());
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	MUST(dsm_init(NULL));
	me = dsm_rank();
	if (!strcmp(argv[1], "regions"))
		regions();
	else if (!strcmp(argv[1], "heap"))
		heap();
	else if (!strcmp(argv[1], "maps"))
		maps();
	MUST(dsm_finalize());
	return 0;
}
