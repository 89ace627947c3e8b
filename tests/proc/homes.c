// SPDX-License-Identifier: BSD-2-Clause
/*
 * homes.c - where DSM_HOME puts the homes of blocks of which the program says nothing: in regions,
 * in the heap, in memory that was adopted. Two nodes. Rank 0 writes all blocks, the last rank reads
 * them, and rank 0 writes again. If rank 0's node is the home of a block, this takes one message of
 * it, which takes the reader's copy away; else two, to the home.
 */
#include "common.h"

#include <sys/mman.h>

#define PAGE 4096ul
#define PAGES 128ul
#define RUN 16 /* pages of 64 KiB */
#define PLACE 0x2fff00000000ul
#define MESSAGES 16u /* at most, of what else goes on */

static int last;

/*
 * What is tested: pages, the place of the first among the runs that are dealt out, and whether the
 * program has chosen rank 0.
 */
struct memory {
	const char *what;
	uint64_t *p;
	size_t pages, first;
	bool chosen;
};

/* Is the last rank's node the home? */
static bool is_far(const struct memory *m, size_t page)
{
	const char *how = getenv("DSM_HOME");

	if (!how || !strcmp(how, "first") || m->chosen)
		return false;
	return strcmp(how, "blocked") ? (m->first + page) / RUN % 2 : page >= m->pages / 2;
}

static uint64_t messages(void)
{
	return test_stats(NULL).messages_out;
}

/* All pages whose home is expected at the other node (far), or at rank 0's. */
static void write_all(const struct memory *m, bool far, uint64_t value)
{
	size_t i;

	for (i = 0; i < m->pages; i++)
		if (is_far(m, i) == far)
			store(&m->p[i * 512], value + i);
}

static void check(const struct memory *m)
{
	uint64_t n[2] = { 0, 0 }, took[2] = { 0, 0 };
	size_t i;
	int far;

	for (far = 0; far < 2 && !test_rank; far++)
		write_all(m, far, 7);
	MUST(dsm_barrier());
	for (i = 0; i < m->pages && test_rank == last; i++)
		REQUIRE(load(&m->p[i * 512]) == 7 + i, "page %zu of %s has %lu", i, m->what,
			load(&m->p[i * 512]));
	for (i = 0; i < m->pages; i++)
		n[is_far(m, i)]++;
	MUST(dsm_barrier());
	for (far = 0; far < 2 && !test_rank; far++) {
		took[far] = messages();
		write_all(m, far, 8);
		took[far] = messages() - took[far];
		REQUIRE(took[far] >= n[far] * (far + 1u) &&
				took[far] <= n[far] * (far + 1u) + MESSAGES,
			"%s: %lu messages for %lu pages with a %s home", m->what, took[far], n[far],
			far ? "far" : "near");
	}
	test_say("  %s: %lu messages for %lu pages at home, %lu for %lu others", m->what, took[0],
		 n[0], took[1], n[1]);
	MUST(dsm_barrier());
}

static void part_regions(void)
{
	check(&(struct memory){ "a region",
				test_region("homes", PAGES * PAGE, PAGE, DSM_HOME_FIRST_TOUCH, 0),
				PAGES, 0, false });
	check(&(struct memory){ "a chosen home",
				test_region("chosen", PAGES * PAGE, PAGE, DSM_HOME_FIXED, 0), PAGES,
				0, true });
}

/* Memory of rank 0's; *shared has its address. */
static void check_heap(const char *what, uint64_t **shared, uint64_t *mine, size_t pages,
		       bool chosen)
{
	if (!test_rank) {
		REQUIRE(mine && !((uintptr_t)mine % PAGE), "an allocation at %p", (void *)mine);
		*shared = mine;
	}
	MUST(dsm_barrier());
	check(&(struct memory){ what, *shared, pages, (uintptr_t)*shared / PAGE, chosen });
	if (!test_rank)
		MUST(dsm_free(*shared));
	MUST(dsm_barrier());
}

/* The second and the third allocation are in memory that has been used, with other homes. */
static void part_heap(void)
{
	uint64_t **shared = test_region("heap", sizeof(*shared), PAGE, DSM_HOME_FIXED, 0);

	check_heap("the heap", shared, test_rank ? NULL : dsm_malloc(2 * PAGES * PAGE), 2 * PAGES,
		   false);
	check_heap("used memory", shared, test_rank ? NULL : dsm_calloc(PAGES, PAGE), PAGES, false);
	check_heap("dsm_malloc_on()", shared, test_rank ? NULL : dsm_malloc_on(0, PAGES * PAGE),
		   PAGES, true);
}

static void part_adopted(void)
{
	dsm_region_t *r;
	char *p = mmap((void *)PLACE, PAGES * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	REQUIRE(p == (char *)PLACE, "the test's place is taken");
	MUST(dsm_region_adopt(p, PAGES * PAGE, NULL, &r));
	check(&(struct memory){ "adopted memory", (uint64_t *)p, PAGES, 0, false });
	MUST(dsm_region_disown(r));
	munmap(p, PAGES * PAGE);
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = { { "regions", part_regions },
						  { "heap", part_heap },
						  { "adopted", part_adopted } };

	setenv("DSM_READAHEAD", "0", 1); /* nothing is requested but what is written */
	test_start(argc, argv, "Where DSM_HOME puts the homes of blocks.", NULL, 0);
	REQUIRE(dsm_nodes() == 2, "two nodes are needed");
	last = test_size - 1;
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
