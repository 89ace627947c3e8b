// SPDX-License-Identifier: BSD-2-Clause
/*
 * adopt.c - existing memory becomes a region and private memory again. The memory is at a fixed
 * address, between two private pages that must stay unchanged.
 */
#include "common.h"

#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE 4096ul
#define PAGES 530ul /* more than a unit of 2 MiB */
#define WORDS (PAGES * PAGE / sizeof(uint64_t))
#define PLACE 0x140000000000ul /* outside of the shadow of address sanitizer */

static char *ground; /* the page before the memory */

static uint64_t *memory(void)
{
	return (uint64_t *)(ground + PAGE);
}

static void lay_ground(void)
{
	ground = mmap((void *)(PLACE - PAGE), (PAGES + 2) * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	REQUIRE(ground == (char *)PLACE - PAGE, "the test's place is taken");
	memset(ground, 0x40 + test_rank, PAGE);
	memset(ground + (PAGES + 1) * PAGE, 0x50 + test_rank, PAGE);
}

static void clear_ground(void)
{
	size_t i;

	for (i = 0; i < PAGE; i++)
		REQUIRE(ground[i] == 0x40 + test_rank &&
				ground[(PAGES + 1) * PAGE + i] == 0x50 + test_rank,
			"memory around what was adopted has changed");
	munmap(ground, (PAGES + 2) * PAGE);
}

/* Fill every third page with contents of this rank. */
static void fill(int rank)
{
	size_t i;

	for (i = 0; i < PAGES; i += 3)
		memory()[i * PAGE / 8] = i * 1000 + (uint64_t)rank + 1;
}

static void contents_are(int rank)
{
	size_t i;

	for (i = 0; i < PAGES; i++) {
		uint64_t got = memory()[i * PAGE / 8],
			 want = i % 3 ? 0 : i * 1000 + (uint64_t)rank + 1;

		REQUIRE(got == want, "page %zu has %lu, not %lu", i, got, want);
	}
}

static void contents(void)
{
	const int from = test_size - 1;
	const struct dsm_region_options opt = { .contents_rank = from, .block_size = PAGE };
	struct dsm_region_info info;
	dsm_region_t *r;

	lay_ground();
	fill(test_rank);
	MUST(dsm_region_adopt(memory(), PAGES * PAGE, &opt, &r));
	contents_are(from);
	REQUIRE(dsm_region_base(r) == memory() && dsm_region_size(r) == PAGES * PAGE,
		"the region is elsewhere");
	MUST(dsm_region_query(memory() + WORDS - 1, &info));
	REQUIRE(info.base == memory() && info.size == PAGES * PAGE && info.creator == from,
		"the query says %p", info.base);
	EXPECT(dsm_region_detach(r), -EINVAL);
	if (test_rank == 0)
		MUST(dsm_pin(memory(), PAGE, DSM_WRITE));
	EXPECT(dsm_region_disown(r), -EBUSY);
	if (test_rank == 0)
		MUST(dsm_unpin(memory(), PAGE));
	MUST(dsm_region_disown(r));
	contents_are(from);
	memory()[1] = (uint64_t)test_rank; /* the memory is private now */
	test_sync();
	REQUIRE(memory()[1] == (uint64_t)test_rank, "disowned memory is still shared");
	EXPECT(dsm_region_query(memory(), &info), -ENOENT);
	clear_ground();
}

/* All ranks add to a counter in every page, and each writes words side by side with the others. */
static void shares(void)
{
	const uint64_t rounds = 20;
	const size_t stride = 7;
	dsm_region_t *r;
	uint64_t k;
	size_t i;

	lay_ground();
	MUST(dsm_region_adopt(memory(), PAGES * PAGE, NULL, &r));
	for (k = 0; k < rounds; k++)
		for (i = 0; i < PAGES; i += stride)
			add(&memory()[i * PAGE / 8]);
	for (i = 0; i < PAGES; i += stride)
		store(&memory()[i * PAGE / 8 + 100 + (size_t)test_rank], i + (uint64_t)test_rank);
	test_sync();
	for (i = 0; i < PAGES; i += stride) {
		REQUIRE(see(&memory()[i * PAGE / 8]) == rounds * (uint64_t)test_size,
			"page %zu counts %lu", i, see(&memory()[i * PAGE / 8]));
		for (k = 0; k < (uint64_t)test_size; k++)
			REQUIRE(memory()[i * PAGE / 8 + 100 + k] == i + k,
				"page %zu, rank %lu: lost", i, k);
	}
	MUST(dsm_region_disown(r));
	REQUIRE(memory()[0] == rounds * (uint64_t)test_size, "disowned with %lu", memory()[0]);
	clear_ground();
}

/* Adopt several at a time, repeatedly: afterwards places and ranges must be free. */
static void again(void)
{
	dsm_region_t *r[4];
	int turn, i;

	lay_ground();
	for (turn = 0; turn < 10; turn++) {
		for (i = 0; i < 4; i++) {
			const struct dsm_region_options opt = { .contents_rank = i % test_size };

			memory()[(size_t)i * 64 * PAGE / 8] = (uint64_t)(100 * turn + test_rank);
			MUST(dsm_region_adopt(memory() + (size_t)i * 64 * PAGE / 8, 64 * PAGE, &opt,
					      &r[i]));
		}
		for (i = 3; i >= 0; i--) {
			REQUIRE(see(&memory()[(size_t)i * 64 * PAGE / 8]) ==
					(uint64_t)(100 * turn + i % test_size),
				"turn %d: region %d has %lu", turn, i,
				memory()[(size_t)i * 64 * PAGE / 8]);
			test_sync();
			MUST(dsm_region_disown(r[(i + turn) % 4]));
		}
	}
	clear_ground();
}

/* A sanitizer's allocator ends a process that has no address space left. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#else
/*
 * The last rank has no address space for a copy of the contents: the region stays as it is, and can
 * be disowned later.
 */
static void short_of_memory(void)
{
	struct rlimit before, none;
	dsm_region_t *r;

	lay_ground();
	fill(test_rank);
	MUST(dsm_region_adopt(memory(), PAGES * PAGE, NULL, &r));
	getrlimit(RLIMIT_AS, &before);
	none = before;
	none.rlim_cur = 1 << 20;
	test_sync();
	if (test_rank == test_size - 1)
		setrlimit(RLIMIT_AS, &none);
	EXPECT(dsm_region_disown(r), -ENOMEM);
	EXPECT(dsm_region_disown(r), -ENOMEM);
	setrlimit(RLIMIT_AS, &before);
	contents_are(0);
	test_sync();
	MUST(dsm_region_disown(r));
	EXPECT(dsm_region_disown(r), -EINVAL);
	contents_are(0);
	clear_ground();
}
#endif

static void refuses(void)
{
	const struct dsm_region_options rank = { .contents_rank = test_size },
					big = { .block_size = 1 << 20 },
					none = { .priority = (enum dsm_priority)(
							 DSM_PRIORITY_URGENT + 1) },
					other = { .priority = test_rank ? DSM_PRIORITY_LOW
									: DSM_PRIORITY_HIGH },
					high = { .priority = DSM_PRIORITY_HIGH };
	struct dsm_region_info info;
	dsm_region_t *r, *heap = NULL;
	char *shared;

	lay_ground();
	fill(test_rank);
	EXPECT(dsm_region_adopt((char *)memory() + 8, PAGE, NULL, &r), -EINVAL);
	EXPECT(dsm_region_adopt(memory(), PAGE + 8, NULL, &r), -EINVAL);
	EXPECT(dsm_region_adopt(memory(), 0, NULL, &r), -EINVAL);
	EXPECT(dsm_region_adopt(memory(), PAGE, &rank, &r), -EINVAL);
	EXPECT(dsm_region_adopt(memory(), PAGE, &big, &r), -EINVAL);
	EXPECT(dsm_region_adopt(memory(), PAGE, &none, &r), -EINVAL);
	EXPECT(dsm_region_adopt(ground + (PAGES + 2) * PAGE, 16 * PAGE, NULL, &r), -EFAULT);
	EXPECT(dsm_region_disown(heap), -EINVAL);
	if (test_size > 1) {
		EXPECT(dsm_region_adopt(memory(), (test_rank ? 2 : 1) * PAGE, NULL, &r), -EINVAL);
		EXPECT(dsm_region_adopt(memory(), PAGE, &other, &r), -EINVAL);
	}
	shared = test_region("taken", 4 * PAGE, PAGE, DSM_HOME_CYCLIC, 0);
	EXPECT(dsm_region_adopt(shared, 4 * PAGE, NULL, &r), -EEXIST);
	MUST(dsm_region_adopt(memory(), 4 * PAGE, &high, &r));
	MUST(dsm_region_query(memory(), &info));
	REQUIRE(info.priority == DSM_PRIORITY_HIGH, "priority %d", (int)info.priority);
	EXPECT(dsm_region_adopt(memory() + 2 * PAGE / 8, 4 * PAGE, NULL, &heap), -EEXIST);
	/* Failed calls must not change the memory. */
	REQUIRE(memory()[3 * PAGE / 8] == 3000u + 1 &&
			memory()[6 * PAGE / 8] == 6000u + 1 + (uint64_t)test_rank,
		"a failed call has changed the memory");
	MUST(dsm_region_disown(r));
	clear_ground();
}

int main(int argc, char **argv)
{
	static const struct test_part parts[] = {
		{ "contents", contents },
		{ "shares", shares },
		{ "again", again },
		{ "refuses", refuses },
#ifndef SANITIZED
		{ "short of memory", short_of_memory },
#endif
	};
	dsm_region_t *r;
	int status;

	test_start(argc, argv, "Memory that becomes a region, and the program's own again.", NULL,
		   0);
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	/* dsm_finalize() disowns this one. */
	lay_ground();
	fill(test_rank);
	MUST(dsm_region_adopt(memory(), PAGES * PAGE, NULL, &r));
	contents_are(0);
	status = test_end();
	contents_are(0);
	memset(memory(), 1, PAGES * PAGE);
	clear_ground();
	return status;
}
