// SPDX-License-Identifier: BSD-2-Clause
/*
 * window.c - the ends of regions, for every fault backend: accesses on both sides, with a signal
 * handler of this program. Blocks have one page, or extend beyond the end of the region.
 */
#include "common.h"

#include "../access.h"

#include <signal.h>

#define PAGE 4096ul
#define UNIT (2048 * 1024ul)

static void edges(char *base, size_t size)
{
	const size_t usable = (size + PAGE - 1) / PAGE * PAGE;
	int write;

	for (write = 0; write < 2; write++) {
		REQUIRE(!access_fails(base + size - 1, write),
			"the last byte of %zu cannot be used", size);
		REQUIRE(!access_fails(base + usable - 1, write),
			"the last page of %zu bytes cannot be used", size);
		if (usable == UNIT)
			continue;
		REQUIRE(access_fails(base + usable, write), "the page behind %zu bytes can be used",
			size);
		REQUIRE(access_fails(base + UNIT - PAGE, write),
			"the last page of the unit of %zu bytes can be used", size);
		REQUIRE(access_fails(base + UNIT - 1, write),
			"the last byte of the unit of %zu bytes can be used", size);
	}
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 1, 10000, UNIT - PAGE - 1, UNIT },
			    blocks[] = { PAGE, 16 * PAGE, UNIT };
	struct dsm_region_info info;
	unsigned int i, b, turn;
	char *base, *heap;

	signal(SIGSEGV, access_trap);
	test_start(argc, argv, "Where regions end.", NULL, 0);
	heap = dsm_malloc(64);
	REQUIRE(heap, "no heap");
	MUST(dsm_region_query(heap, &info));
	REQUIRE(access_fails((char *)info.base + info.size, true), "the heap has no end");
	MUST(dsm_free(heap));
	MUST(dsm_barrier());
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char name[48];

		for (b = 1; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
			snprintf(name, sizeof(name), "%zu bytes, blocks %zu", sizes[i], blocks[b]);
			edges(test_region(name, sizes[i], blocks[b], DSM_HOME_CYCLIC, 0), sizes[i]);
			MUST(dsm_barrier());
		}
		snprintf(name, sizeof(name), "%zu bytes", sizes[i]);
		base = test_region(name, sizes[i], blocks[0], DSM_HOME_CYCLIC, 0);
		edges(base, sizes[i]);
		MUST(dsm_barrier());
		for (turn = 0; turn < 8; turn++) {
			if (turn % (unsigned int)test_size == (unsigned int)test_rank)
				base[sizes[i] - 1] = (char)turn;
			MUST(dsm_barrier());
			REQUIRE(base[sizes[i] - 1] == (char)turn, "turn %u: the last byte is %d",
				turn, base[sizes[i] - 1]);
			MUST(dsm_barrier());
		}
	}
	REQUIRE(access_fails(base + 64 * UNIT, false), "there is memory between regions");
	return test_end();
}
