// SPDX-License-Identifier: BSD-2-Clause
/*
 * crowd_kinds.c - every call that may wait for another thread, what it waits for, and how it is
 * released.
 */
#include "crowd.h"

#define HOUR 3600000000000u
#define FEW 8u
#define ROOM (8ul << 20) /* contiguous memory of the heap */

static void make_sem(int i, unsigned n)
{
	(void)n;
	MUST(dsm_sem_init(&board->of[i].sem, 0));
}
static void wait_sem(int i)
{
	MUST(dsm_sem_wait(&board->of[i].sem));
}
static void wait_sem_timed(int i)
{
	MUST(dsm_sem_timedwait(&board->of[i].sem, HOUR));
}
static void free_sem(int i)
{
	MUST(dsm_sem_destroy(&board->of[i].sem));
}
static void post_sem(int i, unsigned n)
{
	touch();
	if (!test_rank)
		MUST(dsm_sem_post(&board->of[i].sem, n * (unsigned)test_size));
}

static void make_mutex(int i, unsigned n)
{
	(void)n;
	MUST(dsm_mutex_init(&board->of[i].mutex));
	MUST(dsm_mutex_lock(&board->of[i].mutex));
}
static void wait_mutex(int i)
{
	MUST(dsm_mutex_lock(&board->of[i].mutex));
	MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void wait_mutex_timed(int i)
{
	MUST(dsm_mutex_timedlock(&board->of[i].mutex, HOUR));
	MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void leave_mutex(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void free_mutex(int i)
{
	MUST(dsm_mutex_destroy(&board->of[i].mutex));
}

static void make_rwlock(int i, unsigned n)
{
	(void)n;
	MUST(dsm_rwlock_init(&board->of[i].rwlock));
	MUST(dsm_rwlock_wrlock(&board->of[i].rwlock));
}
static void wait_read(int i)
{
	MUST(dsm_rwlock_rdlock(&board->of[i].rwlock));
	MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void wait_write(int i)
{
	MUST(dsm_rwlock_wrlock(&board->of[i].rwlock));
	MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void wait_read_timed(int i)
{
	MUST(dsm_rwlock_timedrdlock(&board->of[i].rwlock, HOUR));
	MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void wait_write_timed(int i)
{
	MUST(dsm_rwlock_timedwrlock(&board->of[i].rwlock, HOUR));
	MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void leave_rwlock(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		MUST(dsm_rwlock_unlock(&board->of[i].rwlock));
}
static void free_rwlock(int i)
{
	MUST(dsm_rwlock_destroy(&board->of[i].rwlock));
}

static void make_cond(int i, unsigned n)
{
	(void)n;
	MUST(dsm_mutex_init(&board->of[i].mutex));
	MUST(dsm_cond_init(&board->of[i].cond));
	store(&board->of[i].go, 0);
}
static void in_cond(int i, uint64_t ns)
{
	dsm_cond_t c = board->of[i].cond;
	dsm_mutex_t m = board->of[i].mutex;

	MUST(dsm_mutex_lock(&m));
	while (!load(&board->of[i].go))
		MUST(ns ? dsm_cond_timedwait(&c, &m, ns) : dsm_cond_wait(&c, &m));
	MUST(dsm_mutex_unlock(&m));
}
static void wait_cond(int i)
{
	in_cond(i, 0);
}
static void wait_cond_timed(int i)
{
	in_cond(i, HOUR);
}
static void signal_cond(int i, unsigned n)
{
	(void)n;
	touch();
	if (test_rank != test_size - 1)
		return;
	MUST(dsm_mutex_lock(&board->of[i].mutex));
	store(&board->of[i].go, 1);
	MUST(dsm_cond_broadcast(&board->of[i].cond));
	MUST(dsm_mutex_unlock(&board->of[i].mutex));
}
static void free_cond(int i)
{
	MUST(dsm_cond_destroy(&board->of[i].cond));
	MUST(dsm_mutex_destroy(&board->of[i].mutex));
}

static void make_barrier(int i, unsigned n)
{
	MUST(dsm_barrier_init(&board->of[i].barrier, NULL, 0, n + 1));
}
static void wait_barrier(int i)
{
	dsm_barrier_t b = board->of[i].barrier;

	MUST(dsm_barrier_wait(&b));
}
static void come(int i, unsigned n)
{
	(void)n;
	touch();
	wait_barrier(i);
}
static void free_barrier(int i)
{
	MUST(dsm_barrier_destroy(&board->of[i].barrier));
}

static void make_meeting(int i, unsigned n)
{
	store(&board->of[i].come, n * (uint64_t)test_size + 1);
}
static void wait_meeting(int i)
{
	int first = dsm_barrier_meet(&board->of[i].meeting, (unsigned)load(&board->of[i].come));

	REQUIRE(first == 0 || first == 1, "dsm_barrier_meet: %d", first);
}
static void come_to_meeting(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		wait_meeting(i);
}
static void leave_meeting(int i)
{
	(void)i; /* the next barrier of the same number of threads uses it, too */
}

static void *wait_to_be_joined(void *arg)
{
	wait_sem((int)(intptr_t)arg);
	return NULL;
}
static dsm_thread_t spawn_waiting(int i)
{
	const struct dsm_thread_options small = { .stack_size = STACK };
	dsm_thread_t t;

	MUST(dsm_spawn(&t, test_rank, &small, wait_to_be_joined, (void *)(intptr_t)i));
	return t;
}
static void wait_join(int i)
{
	MUST(dsm_join(spawn_waiting(i), NULL));
}
static void wait_join_timed(int i)
{
	MUST(dsm_timedjoin(spawn_waiting(i), HOUR, NULL));
}

static void make_pin(int i, unsigned n)
{
	(void)n;
	MUST(dsm_pin(&pinned[i * 512], 8, DSM_WRITE));
}
static void wait_pin(int i)
{
	(void)load(&pinned[i * 512]);
}
static void drop_pin(int i, unsigned n)
{
	(void)n;
	touch();
	if (!test_rank)
		MUST(dsm_unpin(&pinned[i * 512], 8));
}
static void wait_acquire(int i)
{
	MUST(dsm_acquire(&pinned[i * 512], 8, DSM_READ));
}
static void wait_to_pin(int i)
{
	int err;

	while ((err = dsm_pin(&pinned[i * 512], 8, DSM_READ)) == -EAGAIN)
		test_nap(1000000); /* at most 255 pins at a time */
	MUST(err);
	MUST(dsm_unpin(&pinned[i * 512], 8));
}
static void wait_to_place(int i)
{
	int err;

	while ((err = dsm_place(&pinned[i * 512], 8, (test_rank + 1) % test_size)) == -EBUSY)
		test_nap(1000000); /* two seconds of asking have passed, or this rank has the pin */
	MUST(err);
}
/* The region's first contents are in the pinned block. */
static void wait_open(int i)
{
	const struct dsm_region_options opt = { .contents = &pinned[i * 512], .contents_size = 8 };
	static unsigned opened;
	dsm_region_t *r;
	char name[64];

	snprintf(name, sizeof(name), "crowd-%d-%u", test_rank,
		 __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED));
	MUST(dsm_region_open(name, 4096, &opt, &r));
	MUST(dsm_region_destroy(name));
	MUST(dsm_region_detach(r));
}
static uint64_t *many(int i)
{
	return &pinned[(2 + (unsigned)i * MANY) * 512];
}
static void make_pins(int i, unsigned n)
{
	MUST(dsm_pin(many(i), (n < MANY ? n : MANY) * 4096u, DSM_WRITE));
}
static void wait_pins(int i)
{
	uint64_t *mine = many(i) + __atomic_fetch_add(&turn[i], 1, __ATOMIC_RELAXED) % MANY * 512;

	MUST(dsm_prefetch(mine, 8, DSM_READ));
	(void)load(mine);
}
static void drop_pins(int i, unsigned n)
{
	touch();
	turn[i] = 0;
	if (!test_rank)
		MUST(dsm_unpin(many(i), (n < MANY ? n : MANY) * 4096u));
}
static void free_pin(int i)
{
	(void)i;
}

/*
 * Heap memory kept by rank 0. The rest has no free run of that size, but room for small allocations
 * of every rank.
 */
static struct {
	void *room[512];
	unsigned n;
} kept[2];

static void make_full(int i, unsigned n)
{
	void *p;

	(void)n;
	while (kept[i].n < 512 && (p = dsm_malloc(ROOM)))
		kept[i].room[kept[i].n++] = p;
	REQUIRE(kept[i].n < 512, "the heap has no limit");
}
static void wait_room(int i)
{
	void *p;

	(void)i;
	while (!(p = dsm_malloc(ROOM))) {
		REQUIRE(errno == ENOMEM, "dsm_malloc: %m");
		test_nap(5000000);
	}
	MUST(dsm_free(p));
}
static void give_room(int i, unsigned n)
{
	/* if the crowd has taken all, a newcomer gets some of that */
	const int from = kept[i].n ? i : 1 - i;
	const unsigned left = kept[i].n || !kept[from].n ? 0 : kept[from].n - 1;

	(void)n;
	touch();
	while (!test_rank && kept[from].n > left)
		MUST(dsm_free(kept[from].room[--kept[from].n]));
}

/* clang-format off */
const struct kind kinds[] = {
	{ "dsm_sem_wait", make_sem, wait_sem, post_sem, free_sem, false, false, 0 },
	{ "dsm_sem_timedwait", make_sem, wait_sem_timed, post_sem, free_sem, false, false, 0 },
	{ "dsm_mutex_lock", make_mutex, wait_mutex, leave_mutex, free_mutex, false, false, 0 },
	{ "dsm_mutex_timedlock", make_mutex, wait_mutex_timed, leave_mutex, free_mutex, false, false, 0 },
	{ "dsm_rwlock_rdlock", make_rwlock, wait_read, leave_rwlock, free_rwlock, false, false, 0 },
	{ "dsm_rwlock_wrlock", make_rwlock, wait_write, leave_rwlock, free_rwlock, false, false, 0 },
	{ "dsm_rwlock_timedrdlock", make_rwlock, wait_read_timed, leave_rwlock, free_rwlock, false, false, 0 },
	{ "dsm_rwlock_timedwrlock", make_rwlock, wait_write_timed, leave_rwlock, free_rwlock, false, false, 0 },
	{ "dsm_cond_wait", make_cond, wait_cond, signal_cond, free_cond, false, false, 0 },
	{ "dsm_cond_timedwait", make_cond, wait_cond_timed, signal_cond, free_cond, false, false, 0 },
	{ "dsm_barrier_wait", make_barrier, wait_barrier, come, free_barrier, false, false, 0 },
	{ "dsm_barrier_meet", make_meeting, wait_meeting, come_to_meeting, leave_meeting, false, false, 0 },
	{ "dsm_join", make_sem, wait_join, post_sem, free_sem, false, false, 0 },
	{ "dsm_timedjoin", make_sem, wait_join_timed, post_sem, free_sem, false, false, 0 },
	{ "a read of a pinned block", make_pin, wait_pin, drop_pin, free_pin, false, false, 0 },
	{ "dsm_acquire of a pinned block", make_pin, wait_acquire, drop_pin, free_pin, false, false, 0 },
	{ "dsm_pin of a pinned block", make_pin, wait_to_pin, drop_pin, free_pin, false, false, 0 },
	{ "dsm_place of a pinned block", make_pin, wait_to_place, drop_pin, free_pin, false, true, FEW },
	{ "dsm_region_open with contents in a pinned block", make_pin, wait_open, drop_pin, free_pin, false, false, FEW },
	{ "dsm_malloc without room", make_full, wait_room, give_room, free_pin, false, false, FEW },
	{ "reads of many pinned blocks", make_pins, wait_pins, drop_pins, free_pin, true, false, 0 },
};
/* clang-format on */
const size_t kinds_n = sizeof(kinds) / sizeof(kinds[0]);
