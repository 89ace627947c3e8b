// SPDX-License-Identifier: BSD-2-Clause
/*
 * tables.c - how many objects a rank may have at once: locks that one thread holds, locks that it
 * keeps, barriers, regions. No number is small or fixed, and the last object costs as much as the
 * first.
 */
#include "common.h"

static uint64_t regions = 1200, locks = 2300, barriers = 32768, kept = 2000;

static struct board {
	dsm_barrier_t made[64];
} * board;
static dsm_mutex_t *shared; /* for the mutexes that ranks keep */

static void meet(void)
{
	MUST(dsm_barrier());
}

static void part_locks(void)
{
	dsm_mutex_t *m = calloc(locks, sizeof(*m));
	dsm_rwlock_t l[100];
	uint64_t i;

	REQUIRE(m, "no memory");
	for (i = 0; i < locks; i++) {
		MUST(dsm_mutex_init(&m[i]));
		MUST(dsm_mutex_lock(&m[i]));
		EXPECT(dsm_mutex_lock(&m[i]), -EDEADLK);
		if (i < 100) {
			MUST(dsm_rwlock_init(&l[i]));
			MUST(i % 2 ? dsm_rwlock_rdlock(&l[i]) : dsm_rwlock_wrlock(&l[i]));
		}
	}
	/* Release every second one in the order of taking, the others in reverse. */
	for (i = 0; i < locks; i += 2)
		MUST(dsm_mutex_unlock(&m[i]));
	for (i = 100; i-- > 0;) {
		MUST(dsm_rwlock_unlock(&l[i]));
		EXPECT(dsm_rwlock_unlock(&l[i]), -EPERM);
		MUST(dsm_rwlock_destroy(&l[i]));
	}
	for (i = locks; i-- > 0;) {
		if (i % 2)
			MUST(dsm_mutex_unlock(&m[i]));
		EXPECT(dsm_mutex_unlock(&m[i]), -EPERM);
		MUST(dsm_mutex_destroy(&m[i]));
	}
	free(m);
}

/*
 * The last rank takes all mutexes, then the first one does. Each mutex given back in between must
 * be free.
 */
static void part_kept(void)
{
	const int last = test_size - 1;
	uint64_t i;

	for (i = 0; !test_rank && i < kept; i++)
		MUST(dsm_mutex_init(&shared[i]));
	meet();
	for (i = 0; test_rank == last && i < 2 * kept; i++) {
		MUST(dsm_mutex_lock(&shared[i % kept]));
		MUST(dsm_mutex_unlock(&shared[i % kept]));
	}
	meet();
	for (i = 0; !test_rank && i < kept; i++) {
		if (i % 2)
			MUST(dsm_mutex_lock(&shared[i]));
		else
			MUST(dsm_mutex_trylock(&shared[i]));
		MUST(dsm_mutex_unlock(&shared[i]));
	}
	meet();
	for (i = 0; test_rank == last && i < kept; i++)
		MUST(dsm_mutex_destroy(&shared[i]));
	meet();
}

static void part_barriers(void)
{
	dsm_barrier_t *mine = calloc(barriers, sizeof(*mine)), last;
	uint64_t i;
	int r;

	REQUIRE(mine, "no memory");
	for (i = 0; i < barriers; i++)
		MUST(dsm_barrier_init(&mine[i], NULL, 0, 1));
	/* The last barrier of each rank has the highest number: all ranks wait there. */
	for (r = 0; r < test_size && r < 64; r++) {
		if (test_rank == r)
			board->made[r] = mine[barriers - 1];
		meet();
		last = board->made[r];
		MUST(dsm_barrier_wait(&last));
		meet();
	}
	for (i = 0; i < barriers; i++)
		MUST(dsm_barrier_destroy(&mine[i]));
	free(mine);
}

static void name_of(uint64_t i, char *name)
{
	snprintf(name, DSM_NAME_MAX, "crowd-%lu", i);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *v, uint64_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

/* Each rank opens all regions; rank i % size writes to region i, and all read it. */
static void part_regions(void)
{
	dsm_region_t **all = calloc(regions, sizeof(dsm_region_t *));
	uint64_t *took = calloc(regions, sizeof(*took)), i, first, last;
	char name[DSM_NAME_MAX];

	REQUIRE(all && took, "no memory");
	for (i = 0; i < regions; i++) {
		name_of(i, name);
		took[i] = test_ns();
		MUST(dsm_region_open(name, 4096, NULL, &all[i]));
		took[i] = test_ns() - took[i];
		if (i % (uint64_t)test_size == (uint64_t)test_rank)
			store(dsm_region_base(all[i]), i + 1);
	}
	/*
	 * Opening must not search existing regions: the last tenth must not cost more than the
	 * first.
	 */
	first = median(took, regions / 10);
	last = median(took + regions - regions / 10, regions / 10);
	REQUIRE(last < 4 * first + 200000,
		"one of the first %lu regions took %lu ns, one of the last as many %lu ns",
		regions / 10, first, last);
	meet();
	for (i = 0; i < regions; i++) {
		struct dsm_region_info info;

		REQUIRE(load(dsm_region_base(all[i])) == i + 1, "region %lu has %lu", i,
			load(dsm_region_base(all[i])));
		if (i % 97 == 0)
			MUST(dsm_region_query(dsm_region_base(all[i]), &info));
	}
	meet();
	for (i = 0; i < regions; i++) {
		MUST(dsm_region_detach(all[i]));
	}
	meet();
	for (i = (uint64_t)test_rank; i < regions; i += (uint64_t)test_size) {
		name_of(i, name);
		MUST(dsm_region_destroy(name));
	}
	meet();
	free(all);
	free(took);
}

int main(int argc, char **argv)
{
	const struct test_option options[] = {
		{ "regions", "N", "regions at once", &regions },
		{ "locks", "N", "locks that one thread holds", &locks },
		{ "kept", "N", "locks that a rank takes and keeps", &kept },
		{ "barriers", "N", "barriers of each rank", &barriers },
	};
	static const struct test_part parts[] = { { "locks", part_locks },
						  { "kept locks", part_kept },
						  { "barriers", part_barriers },
						  { "regions", part_regions } };

	test_start(argc, argv, "More of everything than small tables have room for.", options,
		   sizeof(options) / sizeof(options[0]));
	shared = test_region("kept", kept * sizeof(*shared), 4096, DSM_HOME_FIRST_TOUCH, 0);
	board = test_region("tables", sizeof(*board), 4096, DSM_HOME_FIRST_TOUCH, 0);
	test_parts(parts, sizeof(parts) / sizeof(parts[0]));
	return test_end();
}
