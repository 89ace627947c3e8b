// SPDX-License-Identifier: BSD-2-Clause
/*
 * maps.c - 100,000 pages, of which every second is writable and the others are read-only: more
 * changes of protection than a process may have mappings (vm.max_map_count, usually 65,530). Only
 * mprotect(2) makes mappings for them. Nothing may run out, and all pages must keep their contents.
 */
#include "common.h"

static uint64_t pages = 100000;

static unsigned long mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long n = 0;
	int c;

	REQUIRE(f, "/proc/self/maps: %m");
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static unsigned long limit(void)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
	unsigned long n = 0;

	if (f && fscanf(f, "%lu", &n) != 1)
		n = 0;
	if (f)
		fclose(f);
	return n;
}

int main(int argc, char **argv)
{
	const struct test_option options[] = { { "pages", "N", "how many", &pages } };
	uint64_t *p, i, me, round;
	char *base;

	test_start(argc, argv, "Very many alternate protections.", options, 1);
	base = test_region("maps", pages * 4096, 4096, DSM_HOME_FIRST_TOUCH, 0);
	me = (uint64_t)test_rank;
	for (round = 1; round <= 2; round++) {
		for (i = me; i < pages; i += (uint64_t)test_size)
			store((uint64_t *)(base + i * 4096), i * round);
		MUST(dsm_barrier());
		/*
		 * Read what other ranks wrote. Pages that this rank wrote last stay writable if the
		 * others leave them alone.
		 */
		for (i = 0; i < pages; i++) {
			p = (uint64_t *)(base + i * 4096);
			if ((i - me) % (uint64_t)test_size == 1 % (uint64_t)test_size)
				REQUIRE(load(p) == i * round, "page %lu holds %lu in round %lu", i,
					load(p), round);
		}
		MUST(dsm_barrier());
		for (i = me; i < pages; i += (uint64_t)test_size)
			store((uint64_t *)(base + i * 4096) + 1, i);
		for (i = me; i < pages; i += 997)
			(void)load((uint64_t *)(base + i * 4096) + 2);
		MUST(dsm_barrier());
	}
	test_say("  %lu pages, %lu mappings, at most %lu", pages, mappings(), limit());
	for (i = me * 7; i < pages; i += 31)
		REQUIRE(load((uint64_t *)(base + i * 4096)) == i * 2 &&
				load((uint64_t *)(base + i * 4096) + 1) == i,
			"page %lu", i);
	return test_end();
}
