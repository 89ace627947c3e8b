// SPDX-License-Identifier: BSD-2-Clause
/*
 * cancel.c - threads that are cancelled in the runtime: it ends what it does first, and leaves
 * nothing behind.
 *
 *   cancel acting     a thread with a cancellation pending misses blocks and calls everything: none
 *                     of it ends the thread
 *   cancel waiting    threads that wait in dsm_sem_wait(), dsm_cond_wait() and dsm_join() end soon;
 *                     what they waited for is not lost
 *   cancel limits     the same where calls sleep: the heap is full, blocks are pinned, a rank's
 *                     ring of freed memory is full
 *   cancel abort      a thread with a cancellation pending ends the job: it does not unwind
 *   cancel not        dsm_mutex_lock(), dsm_rwlock_*lock() and dsm_barrier_wait() are no
 *                     cancellation points
 */
#include <dsm.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define BLOCKS 64
#define ROUNDS 10

static volatile long *memory;
static int me;
static dsm_mutex_t mutex;
static dsm_cond_t cond;
static dsm_sem_t sem, gate;
static dsm_rwlock_t rwlock;
static dsm_barrier_t pair;
static dsm_atomic_t number;
static volatile int reached, cleaned, woken, tokens;
static dsm_thread_t spawned;

static volatile long *block(int i)
{
	return memory + i * 512;
}

static void misses(void)
{
	int i;

	for (i = 0; i < BLOCKS; i++) {
		(*block(i))++;
		reached++;
	}
}

static void *nothing(void *arg)
{
	return arg;
}

static void calls(void)
{
	struct dsm_hot_block hot;
	struct dsm_stats st;
	dsm_region_t *r;
	uint64_t old;
	char name[32];
	void *p;

	snprintf(name, sizeof(name), "of rank %d", me);
	MUST(dsm_mutex_lock(&mutex));
	MUST(dsm_mutex_unlock(&mutex));
	MUST(dsm_rwlock_wrlock(&rwlock));
	MUST(dsm_rwlock_unlock(&rwlock));
	MUST(dsm_sem_post(&sem, 1));
	MUST(dsm_sem_trywait(&sem));
	MUST(dsm_cond_signal(&cond));
	MUST(dsm_atomic_fetch_add(&number, 1, &old));
	MUST(dsm_region_open(name, 1 << 20, NULL, &r));
	*(volatile char *)dsm_region_base(r) = 1;
	MUST(dsm_region_detach(r));
	MUST(dsm_region_destroy(name));
	MUST(dsm_prefetch((void *)memory, BLOCKS * 4096, DSM_READ));
	MUST(dsm_acquire((void *)memory, BLOCKS * 4096, DSM_WRITE));
	MUST(dsm_pin((void *)memory, 4096, DSM_READ));
	MUST(dsm_unpin((void *)memory, 4096));
	MUST(dsm_release((void *)memory, BLOCKS * 4096));
	MUST(dsm_stats_get(me, NULL, &st));
	p = dsm_malloc(100);
	check(p != NULL, "dsm_malloc");
	MUST(dsm_free(p));
	MUST(dsm_bind_thread(0));
	MUST(dsm_bind_thread(-1));
	MUST(dsm_run(NULL, nothing, NULL, NULL));
	MUST(dsm_stats_hot(&hot, 1));
	reached++;
}

static void *cancelled(void *arg)
{
	void (*what)(void) = *(void (**)(void))arg;

	pthread_cancel(pthread_self());
	what();
	pthread_testcancel();
	check(0, "a cancellation that was pending is lost");
	return NULL;
}

static void acting(void)
{
	void (*const what[])(void) = { misses, calls };
	int round, i, want;
	pthread_t t;
	void *end;

	for (round = 0; round < 20; round++)
		for (i = 0; i < 2; i++) {
			reached = 0;
			want = i ? 1 : BLOCKS;
			pthread_create(&t, NULL, cancelled, (void *)&what[i]);
			pthread_join(t, &end);
			check(end == PTHREAD_CANCELED, "a thread was not cancelled");
			check(reached == want, "a thread was cancelled inside the runtime");
		}
	MUST(dsm_barrier());
	for (i = 0; i < BLOCKS; i++)
		check(*block(i) <= 20l * dsm_size() && *block(i) >= 20, "a count is wrong");
}

/* what() in a thread that is cancelled, and not before all of it is done. */
static void whole(void (*what)(void), int want)
{
	pthread_t t;
	void *end;

	reached = 0;
	pthread_create(&t, NULL, cancelled, (void *)&what);
	pthread_join(t, &end);
	check(end == PTHREAD_CANCELED, "a thread was not cancelled");
	check(reached == want, "a thread was cancelled at a limit");
}

#define HEAP (64ul << 20)
#define FREES 4096 /* more than a rank's ring has room for */

/* All ranks look for what the others can give back, and only one at a time may. */
static void find_none(void)
{
	check(!dsm_malloc(HEAP * 5 / 8), "there is room for more than the heap has left");
	reached++;
}

static void full_heap(void)
{
	void *half = me ? NULL : dsm_malloc(HEAP / 2);
	int i;

	check(me || half, "half of the heap is not to be had");
	for (i = 0; i < ROUNDS; i++) {
		MUST(dsm_barrier());
		whole(find_none, 1);
		find_none(); /* no lock is left behind */
	}
	MUST(dsm_barrier());
	MUST(dsm_free(half));
	MUST(dsm_barrier());
}

static void free_all(void)
{
	void *const *list = (void *)memory;
	int i;

	for (i = 0; i < FREES; i++) {
		MUST(dsm_free(list[i]));
		reached++;
	}
}

/* Rank 0's ring overflows. */
static void full_ring(void)
{
	void **list = (void *)memory;
	int i;

	for (i = 0; me == 0 && i < FREES; i++) {
		list[i] = dsm_malloc(16);
		check(list[i] != NULL, "dsm_malloc");
	}
	MUST(dsm_barrier());
	if (me == 1)
		whole(free_all, FREES);
	MUST(dsm_barrier());
}

static void place_pinned(void)
{
	MUST(dsm_place((void *)memory, 4096, me));
	reached++;
}

/* Of memory that others have used. */
static void malloc_on(void)
{
	void *p = dsm_malloc_on(dsm_node(), 16 << 12);

	check(p != NULL || errno == EBUSY, "dsm_malloc_on");
	MUST(dsm_free(p));
	reached++;
}

static void placing(void)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		if (me == 0)
			MUST(dsm_pin((void *)memory, 4096, DSM_WRITE));
		MUST(dsm_barrier());
		if (me == 0) {
			char *p = dsm_malloc(16 << 12);

			usleep(20000);
			check(p != NULL, "dsm_malloc");
			memset(p, 1, 16 << 12);
			MUST(dsm_free(p));
			MUST(dsm_unpin((void *)memory, 4096));
		} else if (me == 1) {
			whole(place_pinned, 1);
			whole(malloc_on, 1);
		}
		MUST(dsm_barrier());
	}
}

static void limits(void)
{
	full_heap();
	full_ring();
	placing();
}

static void unwound(void *arg)
{
	(void)arg;
	fprintf(stderr, "unwound\n");
}

static void *aborting(void *arg)
{
	pthread_cleanup_push(unwound, NULL);
	pthread_cancel(pthread_self());
	dsm_abort(3, "on purpose");
	pthread_cleanup_pop(0);
	return arg;
}

static void end_job(void)
{
	pthread_t t;

	MUST(dsm_barrier());
	if (me == 1) {
		pthread_create(&t, NULL, aborting, NULL);
		pthread_join(t, NULL);
	}
	MUST(dsm_barrier());
}

static void clean(void *arg)
{
	(void)arg;
	MUST(dsm_mutex_unlock(&mutex)); /* dsm_cond_wait() has locked it again */
	__atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *wait_sem(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&reached, 1, __ATOMIC_RELAXED);
	MUST(dsm_sem_wait(&sem));
	/* a thread that is cancelled as it returns counts, too */
	__atomic_fetch_add(&woken, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void *wait_sem_timed(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&reached, 1, __ATOMIC_RELAXED);
	MUST(dsm_sem_timedwait(&sem, 1000000000000));
	return NULL;
}

static void *wait_cond(void *arg)
{
	MUST(dsm_mutex_lock(&mutex));
	pthread_cleanup_push(clean, NULL);
	__atomic_fetch_add(&reached, 1, __ATOMIC_RELAXED);
	while (!arg)
		MUST(dsm_cond_wait(&cond, &mutex));
	pthread_cleanup_pop(1);
	return NULL;
}

static void *wait_cond_timed(void *arg)
{
	MUST(dsm_mutex_lock(&mutex));
	pthread_cleanup_push(clean, NULL);
	__atomic_fetch_add(&reached, 1, __ATOMIC_RELAXED);
	while (!arg)
		MUST(dsm_cond_timedwait(&cond, &mutex, 1000000000000));
	pthread_cleanup_pop(1);
	return NULL;
}

/*
 * *arg: it has one. The status of a thread that is cancelled as it returns does not tell (glibc
 * 2.36).
 */
static void *wait_token(void *arg)
{
	MUST(dsm_mutex_lock(&mutex));
	pthread_cleanup_push(clean, NULL);
	while (!tokens)
		MUST(dsm_cond_wait(&cond, &mutex));
	tokens--;
	*(int *)arg = 1;
	pthread_cleanup_pop(1);
	return NULL;
}

static void *wait_join(void *arg)
{
	__atomic_fetch_add(&reached, 1, __ATOMIC_RELAXED);
	MUST(dsm_join(spawned, NULL));
	return arg;
}

static void *wait_gate(void *arg)
{
	MUST(dsm_sem_wait(&gate));
	return arg;
}

static void cancel_waiter(void *(*how)(void *), int delay_us)
{
	long began;
	pthread_t t;
	void *end;

	reached = 0;
	pthread_create(&t, NULL, how, NULL);
	while (!__atomic_load_n(&reached, __ATOMIC_RELAXED))
		usleep(100);
	usleep((useconds_t)delay_us);
	began = now_ms();
	pthread_cancel(t);
	pthread_join(t, &end);
	check(end == PTHREAD_CANCELED, "a waiter was not cancelled");
	check(now_ms() - began < 2000, "a waiter took long to end");
}

/* A thread that somebody was cancelled in waiting for is still there to join. */
static void joining(void)
{
	void *end;
	int i;

	for (i = 0; i < 2; i++) {
		MUST(dsm_spawn(&spawned, me, NULL, wait_gate, (void *)memory));
		cancel_waiter(wait_join, i * 20000);
		MUST(dsm_barrier());
		MUST(dsm_sem_post(&gate, 1));
		MUST(dsm_join(spawned, &end));
		check(end == (void *)memory, "a thread was joined by one that was cancelled");
		MUST(dsm_barrier());
	}
}

static void waiting(void)
{
	void *(*const how[])(void *) = { wait_sem, wait_sem_timed, wait_cond, wait_cond_timed };
	int i;

	for (i = 0; i < 16; i++)
		cancel_waiter(how[i % 4], i * 200);
	check(cleaned == 8, "dsm_cond_wait() did not come back with its mutex");
	joining();
	MUST(dsm_barrier());
	/* Nobody is in line any more, so the post is for later waiters. */
	MUST(dsm_sem_post(&sem, 1));
	MUST(dsm_barrier());
	MUST(dsm_sem_wait(&sem));
	MUST(dsm_barrier());
	check(dsm_sem_trywait(&sem) == -EAGAIN,
	      "a semaphore was counted up by a waiter that was cancelled");
	MUST(dsm_barrier());
}

#define CROSSING 30 /* threads at once */

/* Posts that cross the cancellations: each post wakes one waiter, or stays. */
static void crossing_posts(void)
{
	pthread_t t[CROSSING];
	int i, left = 0;

	woken = 0;
	for (i = 0; i < CROSSING; i++)
		pthread_create(&t[i], NULL, wait_sem, NULL);
	for (i = 0; i < CROSSING; i++) {
		if (i % 2)
			MUST(dsm_sem_post(&sem, 1));
		pthread_cancel(t[i]);
	}
	for (i = 0; i < CROSSING; i++)
		pthread_join(t[i], NULL);
	while (!dsm_sem_trywait(&sem))
		left++;
	if (woken + left != CROSSING / 2)
		fprintf(stderr, "%d woken, %d left\n", woken, left);
	check(woken + left == CROSSING / 2, "posts were lost, or woke two");
}

static void give_token(void)
{
	MUST(dsm_mutex_lock(&mutex));
	tokens++;
	MUST(dsm_cond_signal(&cond));
	MUST(dsm_mutex_unlock(&mutex));
}

/*
 * Signals that cross the cancellations: a token for each of those who are not cancelled, and a
 * signal for each token.
 */
static void crossing_signals(void)
{
	int has[CROSSING] = { 0 }, i;
	pthread_t t[CROSSING];

	for (i = 0; i < CROSSING; i++)
		pthread_create(&t[i], NULL, wait_token, &has[i]);
	for (i = 0; i < CROSSING; i++)
		if (i % 2)
			give_token();
		else
			pthread_cancel(t[i]);
	for (i = 0; i < CROSSING; i += 2) {
		pthread_join(t[i], NULL);
		if (has[i])
			give_token(); /* another's */
	}
	for (i = 1; i < CROSSING; i += 2)
		pthread_join(t[i], NULL);
	check(!tokens, "a signal woke two");
}

/* By one rank after the other: what they wait for lives at rank 0. */
static void crossing(void)
{
	int round;

	for (round = 0; round < ROUNDS; round++) {
		if (round % dsm_size() == me) {
			crossing_posts();
			crossing_signals();
		}
		MUST(dsm_barrier());
	}
}

static void *lock_mutex(void *arg)
{
	(void)arg;
	reached++;
	MUST(dsm_mutex_lock(&mutex));
	MUST(dsm_mutex_unlock(&mutex));
	return NULL;
}

static void *lock_rwlock(void *arg)
{
	(void)arg;
	reached++;
	MUST(dsm_rwlock_wrlock(&rwlock));
	MUST(dsm_rwlock_unlock(&rwlock));
	return NULL;
}

static void *read_rwlock(void *arg)
{
	(void)arg;
	reached++;
	MUST(dsm_rwlock_rdlock(&rwlock));
	MUST(dsm_rwlock_unlock(&rwlock));
	return NULL;
}

static void *lock_rwlock_timed(void *arg)
{
	(void)arg;
	reached++;
	MUST(dsm_rwlock_timedwrlock(&rwlock, 1000000000000));
	MUST(dsm_rwlock_unlock(&rwlock));
	return NULL;
}

static void *wait_barrier(void *arg)
{
	(void)arg;
	reached++;
	MUST(dsm_barrier_wait(&pair));
	return NULL;
}

static void not_a_point(void *(*how)(void *), void (*release)(void))
{
	pthread_t t;
	void *end;

	reached = 0;
	pthread_create(&t, NULL, how, NULL);
	while (!reached)
		usleep(100);
	usleep(50000);
	pthread_cancel(t);
	usleep(150000);
	check(pthread_tryjoin_np(t, &end) == EBUSY, "a thread was cancelled where it must not");
	release();
	pthread_join(t, &end);
	check(end != PTHREAD_CANCELED,
	      "a thread was cancelled in a call that is no cancellation point");
}

static void free_mutex(void)
{
	MUST(dsm_mutex_unlock(&mutex));
}

static void free_rwlock(void)
{
	MUST(dsm_rwlock_unlock(&rwlock));
}

static void free_barrier(void)
{
	MUST(dsm_barrier_wait(&pair));
}

static void not_points(void)
{
	int r;

	for (r = 0; r < dsm_size(); r++) {
		if (r == me) {
			int self = me;

			MUST(dsm_mutex_lock(&mutex));
			not_a_point(lock_mutex, free_mutex);
			MUST(dsm_rwlock_wrlock(&rwlock));
			not_a_point(lock_rwlock, free_rwlock);
			MUST(dsm_rwlock_wrlock(&rwlock));
			not_a_point(read_rwlock, free_rwlock);
			MUST(dsm_rwlock_wrlock(&rwlock));
			not_a_point(lock_rwlock_timed, free_rwlock);
			MUST(dsm_barrier_init(&pair, &self, 1, 2));
			not_a_point(wait_barrier, free_barrier);
			MUST(dsm_barrier_destroy(&pair));
		}
		MUST(dsm_barrier());
	}
}

static void share(void)
{
	struct handles {
		dsm_mutex_t mutex;
		dsm_cond_t cond;
		dsm_sem_t sem, gate;
		dsm_rwlock_t rwlock;
		dsm_atomic_t number;
	} *h = (void *)(memory + BLOCKS * 512);

	if (me == 0) {
		MUST(dsm_mutex_init(&mutex));
		MUST(dsm_cond_init(&cond));
		MUST(dsm_sem_init(&sem, 0));
		MUST(dsm_sem_init(&gate, 0));
		MUST(dsm_rwlock_init(&rwlock));
		MUST(dsm_atomic_init(&number, 0, 0));
		*h = (struct handles){ mutex, cond, sem, gate, rwlock, number };
	}
	MUST(dsm_barrier());
	mutex = h->mutex;
	cond = h->cond;
	sem = h->sem;
	gate = h->gate;
	rwlock = h->rwlock;
	number = h->number;
	MUST(dsm_barrier());
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	memory = join("memory", (BLOCKS + 1) * 4096);
	me = dsm_rank();
	share();
	if (!strcmp(argv[1], "acting")) {
		acting();
	} else if (!strcmp(argv[1], "waiting")) {
		waiting();
		crossing();
	} else if (!strcmp(argv[1], "limits")) {
		limits();
	} else if (!strcmp(argv[1], "abort")) {
		end_job();
	} else {
		not_points();
	}
	MUST(dsm_finalize());
	return 0;
}
