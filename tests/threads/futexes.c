// SPDX-License-Identifier: BSD-2-Clause
/*
 * futexes.c - a plain program: the futexes of the kernel, by syscall(2), on global variables, on
 * memory of malloc(), and on a stack: the results of each call, time limits by each clock, signals,
 * and words that many threads use as locks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

enum { WAITERS = 4, LOCKERS = 5, TIMES = 200, ROUNDS = 200 };

static const char *error_of(long result)
{
	switch (result < 0 ? errno : 0) {
	case 0: return "0";
	case EAGAIN: return "EAGAIN";
	case ETIMEDOUT: return "ETIMEDOUT";
	case EINTR: return "EINTR";
	case EINVAL: return "EINVAL";
	case ENOSYS: return "ENOSYS";
	default: return strerror(errno);
	}
}

static long wait_word(uint32_t *word, int op, uint32_t seen, const struct timespec *limit,
		      uint32_t bits)
{
	return syscall(SYS_futex, word, op, seen, limit, NULL, bits);
}

/* As programs call it: arguments that it does not have are what the registers hold. */
static long wake_word(uint32_t *word, int n)
{
	return syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n);
}

static long ms_since(const struct timespec *begun)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (t.tv_sec - begun->tv_sec) * 1000 + (t.tv_nsec - begun->tv_nsec) / 1000000;
}

/* ---- one thread ------------------------------------------------------------------------------ */

static uint32_t global;

static void limits(const char *name, uint32_t *word)
{
	const struct {
		int op;
		clockid_t clock; /* of an absolute time; -1: relative */
	} rows[] = { { FUTEX_WAIT_PRIVATE, -1 },
		     { FUTEX_WAIT, -1 },
		     { FUTEX_WAIT_BITSET_PRIVATE, CLOCK_MONOTONIC },
		     { FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, CLOCK_REALTIME } };
	struct timespec never = { .tv_nsec = 1000000000 }, begun, limit;
	unsigned int i;

	*word = 5;
	printf("%s:", name);
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		limit = rows[i].clock < 0 ? (struct timespec){ .tv_nsec = 60000000 }
					  : after_ms(rows[i].clock, 60);
		clock_gettime(CLOCK_MONOTONIC, &begun);
		printf(" %s",
		       error_of(wait_word(word, rows[i].op, 5, &limit, FUTEX_BITSET_MATCH_ANY)));
		printf("%s", ms_since(&begun) >= 59 ? "" : " too early");
		printf(" %s",
		       error_of(wait_word(word, rows[i].op, 4, &limit, FUTEX_BITSET_MATCH_ANY)));
	}
	limit = (struct timespec){ .tv_sec = 1 };
	printf(" past %s", error_of(wait_word(word, FUTEX_WAIT_BITSET_PRIVATE, 5, &limit, 1)));
	printf(" no time %s", error_of(wait_word(word, FUTEX_WAIT_PRIVATE, 5, &never, 0)));
	never = (struct timespec){ .tv_sec = -1 };
	printf(" %s", error_of(wait_word(word, FUTEX_WAIT_PRIVATE, 5, &never, 0)));
	printf(" no bits %s", error_of(wait_word(word, FUTEX_WAIT_BITSET_PRIVATE, 5, NULL, 0)));
	printf(" %s",
	       error_of(syscall(SYS_futex, word, FUTEX_WAKE_BITSET_PRIVATE, 1, NULL, NULL, 0)));
	printf(" odd %s",
	       error_of(wait_word((uint32_t *)((char *)word + 2), FUTEX_WAIT_PRIVATE, 5, NULL, 0)));
	printf(" no such %s", error_of(syscall(SYS_futex, word, 99, 0, NULL, NULL, 0)));
	printf(" nobody %ld\n", wake_word(word, INT_MAX));
}

/* ---- sleepers -------------------------------------------------------------------------------- */

static struct {
	uint32_t word, other, asleep, woken, late;
} * crowd;
static useconds_t settle = 200000;

static void *sleeper(void *arg)
{
	const uint32_t bits = arg ? 1u << (uintptr_t)arg : FUTEX_BITSET_MATCH_ANY;

	__atomic_fetch_add(&crowd->asleep, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&crowd->word, __ATOMIC_SEQ_CST) == 0)
		if (!wait_word(&crowd->word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, bits)) {
			__atomic_fetch_add(&crowd->woken, 1, __ATOMIC_SEQ_CST);
			return arg;
		}
	__atomic_fetch_add(&crowd->late, 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* Once the word has changed, a thread that does not sleep yet never will: it is late. */
static void start(pthread_t *t, int n, bool with_bits)
{
	int i;

	memset(crowd, 0, sizeof(*crowd));
	for (i = 0; i < n; i++)
		pthread_create(&t[i], NULL, sleeper, with_bits ? (void *)(uintptr_t)(i + 1) : NULL);
	while (__atomic_load_n(&crowd->asleep, __ATOMIC_SEQ_CST) < (uint32_t)n)
		usleep(1000);
	usleep(settle);
	__atomic_store_n(&crowd->word, 1, __ATOMIC_SEQ_CST);
}

/* Whether all have slept. If not, the next ones have more time for it. */
static bool finish(pthread_t *t, int n)
{
	wake_word(&crowd->word, INT_MAX);
	while (n--)
		pthread_join(t[n], NULL);
	if (crowd->late)
		settle *= 2;
	return !crowd->late;
}

static uint32_t woken(uint32_t at_least)
{
	int i;

	for (i = 0; i < 5000 && __atomic_load_n(&crowd->woken, __ATOMIC_SEQ_CST) < at_least; i++)
		usleep(1000);
	usleep(50000);
	return __atomic_load_n(&crowd->woken, __ATOMIC_SEQ_CST);
}

static void wakes(void)
{
	pthread_t t[WAITERS];
	const char *other_value;
	long n[3], rest;
	uint32_t awake[2];

	do {
		start(t, WAITERS, false);
		n[0] = wake_word(&crowd->word, 1);
		awake[0] = woken(1);
		n[1] = wake_word(&crowd->word, 2);
		awake[1] = woken(3);
		n[2] = wake_word(&crowd->word, INT_MAX);
	} while (!finish(t, WAITERS));
	printf("wakes: %ld of %d, %u awake, then %ld, %u awake, the rest %ld,", n[0], WAITERS,
	       awake[0], n[1], awake[1], n[2]);
	printf(" nobody %ld\n", wake_word(&crowd->word, INT_MAX));

	do {
		start(t, WAITERS, true);
		n[0] = syscall(SYS_futex, &crowd->word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, NULL,
			       NULL, 1u << 2 | 1u << 4);
		awake[0] = woken(2);
	} while (!finish(t, WAITERS));
	printf("bits: %ld of %d, %u awake\n", n[0], WAITERS, awake[0]);

	do {
		start(t, WAITERS, false);
		n[0] = syscall(SYS_futex, &crowd->word, FUTEX_CMP_REQUEUE_PRIVATE, 1, INT_MAX,
			       &crowd->other, 9);
		other_value = error_of(n[0]);
		n[0] = syscall(SYS_futex, &crowd->word, FUTEX_CMP_REQUEUE_PRIVATE, 1, INT_MAX,
			       &crowd->other, 1);
		rest = wake_word(&crowd->word, INT_MAX);
		wake_word(&crowd->other, INT_MAX);
	} while (!finish(t, WAITERS));
	printf("requeue: %s, %ld, left behind %ld, %u awake\n", other_value, n[0], rest,
	       crowd->woken);
}

/* ---- a signal -------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void handler(int sig)
{
	(void)sig;
	signals++;
}

static void *interrupted(void *result)
{
	const struct itimerspec soon = { .it_value = { .tv_nsec = 200000000 } };
	struct sigevent to_me = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM };
	const struct sigaction act = { .sa_handler = handler };
	struct timespec limit = { .tv_sec = 20 };
	uint32_t here = 3;
	timer_t timer;

	sigaction(SIGALRM, &act, NULL);
	to_me._sigev_un._tid = gettid();
	if (timer_create(CLOCK_MONOTONIC, &to_me, &timer) || timer_settime(timer, 0, &soon, NULL))
		perror("timer");
	*(const char **)result = error_of(wait_word(&here, FUTEX_WAIT_PRIVATE, 3, &limit, 0));
	return NULL;
}

/* ---- locks, and a ball ----------------------------------------------------------------------- */

static struct {
	uint32_t word, pad[2000], ball;
	long count;
} court;

static void lock_word(uint32_t *l)
{
	uint32_t seen = 0;

	if (__atomic_compare_exchange_n(l, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(l, 2, __ATOMIC_ACQUIRE))
		wait_word(l, FUTEX_WAIT_PRIVATE, 2, NULL, 0);
}

static void unlock_word(uint32_t *l)
{
	if (__atomic_exchange_n(l, 0, __ATOMIC_RELEASE) == 2)
		wake_word(l, 1);
}

static void *locker(void *arg)
{
	int i;

	for (i = 0; i < TIMES; i++) {
		lock_word(&court.word);
		court.count++;
		unlock_word(&court.word);
	}
	return arg;
}

/* The ball goes round; one wake that is lost ends the game. */
static void *player(void *arg)
{
	const uint32_t me = (uint32_t)(uintptr_t)arg;
	uint32_t seen;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		while ((seen = __atomic_load_n(&court.ball, __ATOMIC_SEQ_CST)) % LOCKERS != me)
			wait_word(&court.ball, FUTEX_WAIT_PRIVATE, seen, NULL, 0);
		__atomic_store_n(&court.ball, seen + 1, __ATOMIC_SEQ_CST);
		wake_word(&court.ball, INT_MAX);
	}
	return arg;
}

int main(void)
{
	pthread_t t[LOCKERS];
	const char *result;
	uint32_t local;

	crowd = malloc(sizeof(*crowd));
	limits("global", &global);
	limits("malloc", &crowd->word);
	limits("stack", &local);
	wakes();
	pthread_create(&t[0], NULL, interrupted, &result);
	pthread_join(t[0], NULL);
	printf("signal: %s\n", result);
	in_threads(LOCKERS, locker);
	in_threads(LOCKERS, player);
	printf("locks: %ld, ball: %u\n", court.count, court.ball);
	free(crowd);
	return 0;
}
