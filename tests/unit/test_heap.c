// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_heap.c - one rank's part of the shared heap, used by one thread and by other processes:
 * children made by fork() act as the other ranks.
 */
#include "heap/ring.h"
#include "heap_range.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static void wait_ok(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: status %#x", status);
}

/* ---- one thread ------------------------------------------------------------------------------ */

UNIT_CASE(one_thread, start)

UNIT_TEST(allocator_never_touches_the_range)
{
	static void *p[20000];
	uint64_t x = 88172645463325252u;

	protect(PROT_NONE);
	for (int round = 0; round < 5; round++) {
		int n = 0;

		while (n < 20000 && (p[n] = take(random_size(&x, 4 * MB))))
			n++;
		ck_assert_int_gt(n, 100);
		for (int i = 0; i < n; i++)
			give(p[i]);
	}
	/* Zeroing must not touch memory that the program has never had. */
	p[0] = heap_alloc(false, 56 * MB, 0, false, NULL, NULL);
	ck_assert_ptr_nonnull(p[0]);
	heap_stop();
}

static size_t unused_of(const char *p, size_t size)
{
	size_t page, n = 0;

	for (page = (size_t)(p - range) / 4096; page <= (size_t)(p + size - 1 - range) / 4096;
	     page++)
		n += unused[page];
	return n;
}

/* The source is told before another thread may get the pages, and before this one has them. */
UNIT_TEST(source_knows_which_pages_are_free)
{
	static char *p[2000];
	static size_t size[2000];
	uint64_t x = 88172645463325252u;
	uint32_t at, n, trimmed = 0;
	int i, round;

	for (round = 0; round < 40000; round++) {
		i = (int)(next_random(&x) % 2000);
		if (p[i]) {
			ck_assert_uint_eq(unused_of(p[i], size[i]), 0);
			give(p[i]);
			if (size[i] >= 4096)
				ck_assert_uint_eq(unused_of(p[i], size[i]),
						  (size[i] + 4095) / 4096);
			p[i] = NULL;
		} else {
			size[i] = 1 + next_random(&x) % (round % 100 ? 30000 : 5 * MB);
			p[i] = heap_alloc(false, size[i], 0, false, NULL, NULL);
		}
	}
	for (i = 0; i < 2000; i++)
		if (p[i])
			give(p[i]);
	trimmed = (uint32_t)left;
	heap_trim_begin();
	while ((n = heap_trim(false, &at))) {
		trimmed += n;
		ck_assert_uint_eq(unused_of(range + at * 2 * MB, n * 2 * MB), n * 512);
	}
	ck_assert_uint_gt(trimmed, 0);
	ck_assert_uint_eq(left, trimmed);
}

UNIT_TEST(fresh_pages_are_not_zeroed_again)
{
	char *p;

	protect(PROT_NONE);
	p = heap_alloc(false, 20 * MB, 0, true, NULL, NULL);
	ck_assert_ptr_nonnull(p);
	protect(PROT_READ | PROT_WRITE);
	ck_assert(all(p, 0, 20 * MB));
}

UNIT_TEST(reused_memory_is_zeroed)
{
	static const size_t sizes[] = { 1,    16,   100,   511,   3584,  3585,   4095,   4096,
					4097, 9000, 14336, 14337, 70000, 3 * MB, 20 * MB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = sizes[i], count = n < 10000 ? 100 : 2;
		unsigned char *p[100];

		for (int round = 0; round < 3; round++) {
			for (size_t k = 0; k < count; k++) {
				p[k] = heap_alloc(false, n, 0, true, NULL, NULL);
				ck_assert_ptr_nonnull(p[k]);
				ck_assert_msg(all(p[k], 0, n), "size %zu, round %d", n, round);
				memset(p[k], 0xa5, n);
			}
			for (size_t k = 0; k < count; k++)
				give(p[k]);
		}
	}
	/* Use the same pages again, in other sizes. */
	for (size_t n = 1; n < 4 * MB; n = n * 3 + 1) {
		void *p = heap_alloc(false, n, 0, true, NULL, NULL);

		ck_assert(all(p, 0, n));
		memset(p, 1, n);
		give(p);
	}
}

/* It may have been empty before: the program has not written its page then. */
UNIT_TEST(freed_objects_are_used_again_for_any_size_of_their_class)
{
	char *p = take(0), *q;
	bool seen = false;

	give(p);
	q = take(16);
	ck_assert_ptr_eq(q, p);
	memset(q, 0xff, 16);
	give(q);
	q = heap_alloc(false, 9, 0, true, NULL, NULL);
	ck_assert_ptr_eq(q, p);
	ck_assert(all(q, 0, 9));
	memset(q, 0xff, 16);
	give(q);
	ck_assert_int_eq(heap_free(shared, q), -EINVAL);
	q = take(17);
	ck_assert_ptr_ne(q, p);
	give(q);
	heap_trim_begin(); /* no thread keeps it */
	while ((q = heap_alloc(false, 4096, 0, true, NULL, NULL))) {
		ck_assert(all(q, 0, 4096));
		seen |= q <= p && p < q + 4096;
	}
	ck_assert(seen);
}

UNIT_TEST(alignment_is_kept)
{
	static const size_t sizes[] = { 0, 1, 100, 4096, 5000, 100000, 3 * MB };

	for (size_t align = 1; align <= 2 * MB; align *= 2) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			char *p = heap_alloc(false, sizes[i], align, false, NULL, NULL);

			ck_assert_msg(p, "size %zu align %zu", sizes[i], align);
			ck_assert_uint_eq((uintptr_t)p % align, 0);
			ck_assert_uint_eq((uintptr_t)p % 16, 0);
			if (sizes[i] >= 4096)
				ck_assert_uint_eq((uintptr_t)p % 4096, 0);
			memset(p, 1, sizes[i]);
			give(p);
		}
	}
	for (size_t n = 4096; n < 100000; n += 777)
		ck_assert_uint_eq((uintptr_t)take(n) % 4096, 0);
	errno = 0;
	ck_assert_ptr_null(heap_alloc(false, 100, 24, false, NULL, NULL));
	ck_assert_int_eq(errno, EINVAL);
	errno = 0;
	ck_assert_ptr_null(heap_alloc(false, 100, 4 * MB, false, NULL, NULL));
	ck_assert_int_eq(errno, EINVAL);
}

UNIT_TEST(empty_allocations_are_distinct)
{
	char *p[100];

	for (int i = 0; i < 100; i++) {
		p[i] = take(0);
		ck_assert_ptr_nonnull(p[i]);
		for (int k = 0; k < i; k++)
			ck_assert_ptr_ne(p[i], p[k]);
	}
	for (int i = 0; i < 100; i++)
		give(p[i]);
}

UNIT_TEST(wrong_addresses_are_refused)
{
	char *p = take(100), *big = take(10 * MB);
	int local;

	ck_assert_int_eq(heap_free(shared, NULL), -EINVAL);
	ck_assert_int_eq(heap_free(shared, &local), -EINVAL);
	ck_assert_int_eq(heap_free(shared, range - 16), -EINVAL);
	ck_assert_int_eq(heap_free(shared, range + SIZE), -EINVAL);
	ck_assert_int_eq(heap_free(shared, p + 1), -EINVAL);
	ck_assert_int_eq(heap_free(shared, p + 16), -EINVAL);
	ck_assert_int_eq(heap_free(shared, big + 4096), -EINVAL);
	ck_assert_int_eq(heap_free(shared, range + SIZE - 16), -EINVAL);
	ck_assert_int_eq(heap_free(shared, p), 0);
	ck_assert_int_eq(heap_free(shared, p), -EINVAL);
	ck_assert_int_eq(heap_free(shared, big), 0);
	ck_assert_int_eq(heap_free(shared, big), -EINVAL);
}

UNIT_TEST(exhausted_heap_recovers)
{
	static void *p[SIZE / 4096];
	static const size_t sizes[] = { 5000,  64,      1 * MB, 200,    8 * MB,
					40000, 56 * MB, 16,     5 * MB, 48 * MB };

	errno = 0;
	ck_assert_ptr_null(take(SIZE + 1));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_ptr_null(take(SIZE_MAX));
	ck_assert_ptr_null(take(SIZE_MAX / 2 + 1));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t n = 0, step = sizes[i] < 4096 ? 4096 / (sizes[i] + 1) : 1;

		/*
		 * Of the many small objects, every step-th is in the table; the others are linked.
		 */
		void *chain = NULL, **q;

		for (;;) {
			errno = 0;
			q = take(sizes[i]);
			if (!q)
				break;
			if (step > 1) {
				*q = chain;
				chain = q;
			} else {
				p[n] = q;
			}
			n++;
		}
		ck_assert_int_eq(errno, ENOMEM);
		ck_assert_msg(n * sizes[i] > SIZE / 2, "%zu of size %zu", n, sizes[i]);
		if (sizes[i] == MB)
			ck_assert_uint_ge(n, 60);
		while (step > 1 && chain) {
			q = chain;
			chain = *q;
			give(q);
		}
		while (step == 1 && n)
			give(p[--n]);
	}
	heap_drain();
	ck_assert_uint_eq(shared->live_bytes, 0);
}

UNIT_TEST(churn_does_not_eat_the_heap)
{
	enum { SLOTS = 4000 };
	static struct {
		unsigned char *p;
		size_t n;
	} slot[SLOTS];
	uint64_t x = 1234567;
	unsigned failed = 0;

	for (int i = 0; i < 400000; i++) {
		unsigned k = next_random(&x) % SLOTS;

		if (slot[k].p) {
			size_t n = slot[k].n;

			if (n)
				ck_assert(slot[k].p[0] == (unsigned char)k &&
					  slot[k].p[n - 1] == (unsigned char)k);
			give(slot[k].p);
			slot[k].p = NULL;
		} else {
			slot[k].n = random_size(&x, 300000);
			slot[k].p = take(slot[k].n);
			if (!slot[k].p) {
				failed++;
			} else if (slot[k].n) {
				slot[k].p[0] = (unsigned char)k;
				slot[k].p[slot[k].n - 1] = (unsigned char)k;
			}
		}
	}
	ck_assert_uint_eq(failed, 0); /* about 15 MiB of 64 MiB are live */
	for (unsigned k = 0; k < SLOTS; k++)
		if (slot[k].p)
			give(slot[k].p);
	slot[0].p = take(56 * MB);
	ck_assert_ptr_nonnull(slot[0].p);
}

#define OFFERED 64u

static void *offered[OFFERED];
static volatile sig_atomic_t handled;

/* A handler that misses waits, and serves the frees of other nodes meanwhile. */
static void serve_frees(int sig)
{
	unsigned int i;
	void *p;

	(void)sig;
	handled++;
	for (i = 0; i < OFFERED; i++) {
		p = __atomic_exchange_n(&offered[i], NULL, __ATOMIC_ACQ_REL);
		if (p && heap_free(shared, p)) /* the ring is full */
			__atomic_store_n(&offered[i], p, __ATOMIC_RELEASE);
	}
}

UNIT_TEST(signal_handlers_may_serve_frees)
{
	static unsigned char *p[400];
	const struct itimerval often = { .it_interval.tv_usec = 20, .it_value.tv_usec = 20 },
			       never = { 0 };
	uint64_t x = 88172645463325252u, rounds = 0;
	static size_t n[400];
	unsigned int i, o;

	handled = 0;
	signal(SIGALRM, serve_frees);
	ck_assert_int_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (; handled < 20000; rounds++) {
		i = (unsigned int)(next_random(&x) % 400);
		o = (unsigned int)(next_random(&x) % OFFERED);
		if (p[i]) {
			ck_assert(p[i][0] == (i & 0xff) && p[i][n[i] - 1] == (i & 0xff));
			if (rounds % 2 || __atomic_load_n(&offered[o], __ATOMIC_ACQUIRE))
				give(p[i]);
			else
				__atomic_store_n(&offered[o], p[i], __ATOMIC_RELEASE);
			p[i] = NULL;
		} else {
			n[i] = random_size(&x, 20000) + 1;
			p[i] = take(n[i]);
			ck_assert_ptr_nonnull(p[i]);
			p[i][0] = p[i][n[i] - 1] = (unsigned char)i;
		}
	}
	ck_assert_int_eq(setitimer(ITIMER_REAL, &never, NULL), 0);
	for (i = 0; i < 400; i++)
		if (p[i])
			give(p[i]);
	serve_frees(0);
	heap_drain();
	ck_assert_uint_eq(shared->live_bytes, 0);
	ck_assert_uint_gt(shared->remote_frees, 0); /* some came within a call */
	ck_assert_ptr_nonnull(take(56 * MB));
}

UNIT_TEST(statistics_count)
{
	void *a = take(100), *b = take(10000);

	heap_drain();
	ck_assert_uint_eq(shared->allocations, 2);
	ck_assert_uint_ge(shared->live_bytes, 10100);
	give(a);
	give(b);
	heap_drain();
	ck_assert_uint_eq(shared->frees, 2);
	ck_assert_uint_eq(shared->remote_frees, 0);
	ck_assert_uint_eq(shared->live_bytes, 0);
}

UNIT_TEST(stopped_heap_gives_nothing)
{
	void *p = take(100);

	heap_stop();
	ck_assert_ptr_null(take(100));
	ck_assert_int_eq(heap_find(p, &(struct heap_object){ 0 }), -ENOENT);
	ck_assert_int_eq(heap_drain(), 0);
}

/* ---- other processes ------------------------------------------------------------------------- */

UNIT_CASE(processes, start)

UNIT_TEST(child_frees_what_the_parent_allocated)
{
	enum { N = 1000 };
	void *p[N], *big;
	pid_t pid;

	for (int i = 0; i < N; i++)
		p[i] = take((size_t)i * 17);
	pid = fork();
	if (pid == 0) {
		if (take(10) || heap_drain())
			_exit(2);
		for (int i = 0; i < N; i++)
			if (heap_free(shared, p[i]) || heap_free(shared, p[i]) != -EINVAL)
				_exit(1);
		_exit(heap_free(shared, (char *)p[0] + 8) == -EINVAL ? 0 : 3);
	}
	wait_ok(pid);
	ck_assert(heap_wants_drain(shared));
	ck_assert_int_eq(heap_free(shared, p[5]), -EINVAL);
	ck_assert_int_eq(heap_drain(), N);
	ck_assert_int_eq(heap_drain(), 0);
	ck_assert(!heap_wants_drain(shared));
	ck_assert_uint_eq(shared->frees, N);
	ck_assert_uint_eq(shared->remote_frees, N);
	ck_assert_uint_eq(shared->live_bytes, 0);
	big = take(56 * MB);
	ck_assert_ptr_nonnull(big);
}

UNIT_TEST(full_ring_says_so_and_changes_nothing)
{
	void *p[HEAP_RING + 1];
	pid_t pid;

	for (int i = 0; i <= HEAP_RING; i++)
		p[i] = take(32);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < HEAP_RING; i++)
			if (heap_free(shared, p[i]))
				_exit(1);
		_exit(heap_free(shared, p[HEAP_RING]) == -EAGAIN ? 0 : 2);
	}
	wait_ok(pid);
	ck_assert_ptr_nonnull(take(1)); /* drains the mailbox */
	ck_assert_int_eq(heap_drain(), 0);
	give(p[HEAP_RING]);
}

UNIT_TEST(allocation_drains_when_memory_is_out)
{
	void *p = take(40 * MB);
	pid_t pid = fork();

	if (pid == 0)
		_exit(heap_free(shared, p) ? 1 : 0);
	wait_ok(pid);
	ck_assert_ptr_nonnull(take(50 * MB));
}

UNIT_TEST(lock_of_a_dead_process_stops_nobody)
{
	void *p = take(100), *q = take(100);
	pid_t pid;

	shared->lock = 1;
	pid = fork();
	if (pid == 0) {
		struct timespec a, b;
		int r;

		clock_gettime(CLOCK_MONOTONIC, &a);
		r = heap_free(shared, p);
		clock_gettime(CLOCK_MONOTONIC, &b);
		_exit(r != -EAGAIN ? 1 : b.tv_sec - a.tv_sec > 5 ? 2 : 0);
	}
	wait_ok(pid);
	give(p);
	ck_assert_ptr_nonnull(take(100));
	ck_assert_int_eq(heap_drain(), 0);
	give(q);
}

UNIT_TEST(lock_is_handed_on_to_a_waiter)
{
	void *p = take(100);
	pid_t pid;

	shared->lock = 1;
	pid = fork();
	if (pid == 0)
		_exit(heap_free(shared, p) ? 1 : 0);
	usleep(100000);
	__atomic_store_n(&shared->lock, 0, __ATOMIC_RELEASE);
	wait_ok(pid);
	ck_assert_int_eq(heap_drain(), 1);
}

UNIT_TEST(killed_children_leave_a_working_heap)
{
	void *p[HEAP_RING];

	for (int round = 0; round < 20; round++) {
		pid_t pid;

		for (int i = 0; i < HEAP_RING; i++)
			p[i] = take(48);
		pid = fork();
		if (pid == 0) {
			for (int i = 0; i < HEAP_RING; i++)
				heap_free(shared, p[i]);
			_exit(0);
		}
		usleep((useconds_t)round * 20);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		heap_drain();
		for (int i = 0; i < HEAP_RING; i++)
			heap_free(shared, p[i]);
	}
	ck_assert_ptr_nonnull(take(1000));
}

UNIT_TEST(damaged_ring_is_survived)
{
	void *p = take(100);

	shared->ring[shared->tail++ % HEAP_RING] = 12345;
	shared->ring[shared->tail++ % HEAP_RING] = (uintptr_t)p; /* the object is still live */
	shared->ring[shared->tail++ % HEAP_RING] = (uintptr_t)range + SIZE;
	ck_assert_int_eq(heap_drain(), 0);
	shared->tail += 5 * HEAP_RING;
	ck_assert_int_eq(heap_drain(), 0);
	give(p);
	ck_assert_ptr_nonnull(take(100));
}

/*
 * Children and the owner's threads run at once: children free what the owner puts into mailboxes.
 */
UNIT_TEST(children_free_while_the_owner_allocates)
{
	enum { BOXES = 64, ROUNDS = 30000 };
	void **box = mmap(NULL, BOXES * sizeof(*box), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid[3];
	uint64_t x = 99;

	for (int c = 0; c < 3; c++) {
		pid[c] = fork();
		if (pid[c])
			continue;
		for (int i = 0;; i = (i + 1) % BOXES) {
			void *p = __atomic_exchange_n(&box[i], NULL, __ATOMIC_ACQ_REL);
			int r = 0;

			if (p == (void *)1)
				_exit(0);
			while (p && (r = heap_free(shared, p)) == -EAGAIN)
				sched_yield();
			if (r)
				_exit(1);
		}
	}
	for (int i = 0; i < ROUNDS;) {
		void **b = &box[next_random(&x) % BOXES], *p;

		if (__atomic_load_n(b, __ATOMIC_RELAXED)) {
			heap_drain();
			continue;
		}
		p = take(random_size(&x, 100000));
		ck_assert_ptr_nonnull(p);
		__atomic_store_n(b, p, __ATOMIC_RELEASE);
		i++;
	}
	while (shared->frees < ROUNDS)
		heap_drain();
	for (int c = 0; c < 3; c++)
		__atomic_store_n(&box[c], (void *)1, __ATOMIC_RELEASE);
	for (int c = 0; c < 3; c++)
		wait_ok(pid[c]);
	heap_drain();
	ck_assert_uint_eq(shared->remote_frees, ROUNDS);
	ck_assert_uint_eq(shared->live_bytes, 0);
}

static void start_in_parts(void)
{
	start_split(SIZE / 2, false);
}

static bool is_upper(const void *p)
{
	return (const char *)p >= (const char *)range + SIZE / 2;
}

UNIT_CASE(parts, start_in_parts)

/*
 * Memory of all sizes, freed and allocated again: each allocation lies in its part, whole, and
 * belongs to nobody else.
 */
UNIT_TEST(parts_share_no_page)
{
	static struct {
		unsigned char *at;
		size_t size;
	} have[200];
	uint64_t x = 1;
	size_t i, k;

	for (i = 0; i < 20000; i++) {
		k = next_random(&x) % 200;
		if (have[k].at) {
			ck_assert_uint_eq(have[k].at[0], k);
			ck_assert_uint_eq(have[k].at[have[k].size - 1], k);
			give(have[k].at);
		}
		have[k].size = 1 + next_random(&x) % (i % 100 ? 60000 : 5 * MB);
		have[k].at = heap_alloc(k % 2, have[k].size, 0, false, NULL, NULL);
		if (!have[k].at)
			continue;
		ck_assert_int_eq(is_upper(have[k].at), k % 2);
		ck_assert_int_eq(is_upper(have[k].at + have[k].size - 1), k % 2);
		have[k].at[0] = have[k].at[have[k].size - 1] = (unsigned char)k;
	}
}

/* One part is full: the other one does not help. What is freed of it is of that part again. */
UNIT_TEST(full_part_is_full)
{
	void *p = heap_alloc(true, SIZE / 2, 0, false, NULL, NULL), *q;

	ck_assert_ptr_nonnull(p);
	ck_assert_ptr_null(heap_alloc(true, 100, 0, false, NULL, NULL));
	ck_assert_ptr_null(heap_alloc(true, 6 * MB, 0, false, NULL, NULL));
	q = heap_alloc(false, SIZE / 2, 0, false, NULL, NULL);
	ck_assert_ptr_nonnull(q);
	ck_assert_ptr_null(heap_alloc(false, 100, 0, false, NULL, NULL));
	give(p);
	ck_assert_ptr_null(heap_alloc(false, 100, 0, false, NULL, NULL));
	ck_assert(is_upper(heap_alloc(true, 100, 0, false, NULL, NULL)));
}

/* Once for what has come back, however it came, and for the upper part alone. */
UNIT_TEST(memory_that_comes_back_is_settled_before_it_is_used)
{
	void *p = heap_alloc(true, 100, 0, false, NULL, NULL);
	pid_t pid = fork();

	ck_assert_uint_eq(settled, 0);
	if (!pid)
		_exit(!!heap_free(shared, p));
	wait_ok(pid);
	ck_assert_ptr_nonnull(heap_alloc(false, 100, 0, false, NULL, NULL));
	ck_assert_uint_eq(settled, 0);
	ck_assert_ptr_eq(heap_alloc(true, 100, 0, false, NULL, NULL), p);
	ck_assert_uint_eq(settled, 1);
	ck_assert_ptr_nonnull(heap_alloc(true, 100, 0, false, NULL, NULL));
	ck_assert_uint_eq(settled, 1);
	heap_comes_back();
	ck_assert_ptr_nonnull(heap_alloc(true, 100, 0, false, NULL, NULL));
	ck_assert_ptr_nonnull(heap_alloc(true, 100, 0, false, NULL, NULL));
	ck_assert_uint_eq(settled, 2);
}

/* The owner completes its stores before it gives the upper part back. */
UNIT_TEST(each_part_is_trimmed_by_itself)
{
	uint32_t at;

	give(heap_alloc(true, 100000, 0, false, NULL, NULL));
	heap_trim_begin();
	ck_assert_uint_eq(heap_trim(false, &at), 0);
	give(heap_alloc(false, 100000, 0, false, NULL, NULL));
	heap_trim_begin();
	ck_assert_uint_gt(heap_trim(false, &at), 0);
	ck_assert_uint_lt(at, SIZE / 2 / (2 * MB));
	ck_assert_uint_eq(heap_trim(false, &at), 0);
	ck_assert_uint_gt(heap_trim(true, &at), 0);
	ck_assert_uint_ge(at, SIZE / 2 / (2 * MB));
	ck_assert_uint_eq(heap_trim(true, &at), 0);
}

UNIT_SUITE("heap", .seconds = 120)
