// SPDX-License-Identifier: BSD-2-Clause
/*
 * async.c - a plain POSIX threads program: threads of the asynchronous cancellation type, which are
 * cancelled wherever they are. With an argument, the number of rounds. With a second one, threads
 * that call functions which POSIX does not allow them to call: no lock of the library is left taken
 * (the C library itself leaves some).
 */
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILLED (1u << 20)
#define AT_ONCE 3 /* more than ranks: one is on main()'s own */

static int began, cleaned, go_on; /* atomic */
static volatile long shared[4096];
static sem_t posted;

static void clean(void *arg)
{
	__atomic_fetch_add((int *)arg, 1, __ATOMIC_SEQ_CST);
}

static void begin(void)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	__atomic_fetch_add(&began, 1, __ATOMIC_SEQ_CST);
}

static void *in_registers(void *arg)
{
	pthread_cleanup_push(clean, &cleaned);
	begin();
	for (;;)
		__asm__ volatile("pause");
	pthread_cleanup_pop(0);
	return arg;
}

/* Others write the same blocks: most of its time, it waits for one. */
static void *in_memory(void *arg)
{
	unsigned int i;

	pthread_cleanup_push(clean, &cleaned);
	begin();
	for (i = 0;; i++)
		shared[i * 64 % 4096]++;
	pthread_cleanup_pop(0);
	return arg;
}

static int depth(int n)
{
	volatile char local[3000];

	memset((char *)local, n, sizeof(local));
	return n ? depth(n - 1) + local[n] : local[0];
}

static void *on_stack(void *arg)
{
	pthread_cleanup_push(clean, &cleaned);
	begin();
	for (;;)
		shared[0] = depth(30);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_turn(void *arg)
{
	pthread_cleanup_push(clean, &cleaned);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	begin();
	while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
		;
	__atomic_fetch_add(&go_on, 1, __ATOMIC_SEQ_CST); /* it was cancelled, and is here */
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	for (;;)
		;
	pthread_cleanup_pop(0);
	return arg;
}

static void *of_itself(void *arg)
{
	pthread_cleanup_push(clean, &cleaned);
	begin();
	pthread_cancel(pthread_self());
	__atomic_fetch_sub(&cleaned, 1, __ATOMIC_SEQ_CST); /* too late */
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return arg;
}

static void *deferred(void *arg)
{
	pthread_cleanup_push(clean, &cleaned);
	begin();
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	while (!__atomic_load_n(&go_on, __ATOMIC_SEQ_CST))
		;
	__atomic_fetch_add(&go_on, 1, __ATOMIC_SEQ_CST);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return arg;
}

/*
 * And works between its calls: a thread that is in the library all the time is not cancelled there.
 */
static void *in_library(void *arg)
{
	int i;

	pthread_cleanup_push(clean, &cleaned);
	begin();
	for (;;) {
		free(malloc(100));
		sem_post(&posted);
		sem_trywait(&posted);
		for (i = 0; i < 2000; i++)
			__asm__ volatile("pause");
	}
	pthread_cleanup_pop(0);
	return arg;
}

static int torn;                                             /* atomic */
static void *(*volatile fill)(void *, int, size_t) = memset; /* a call, for any compiler */

static void clean_filled(void *arg)
{
	const volatile char *room = arg;

	__atomic_fetch_add(&torn, room[0] != room[FILLED - 1], __ATOMIC_SEQ_CST);
	free(arg);
	clean(&cleaned);
}

/* Half of its time in one function of a library, which does its work to the end. */
static void *in_memset(void *arg)
{
	char *room = calloc(1, FILLED);
	int i, k;

	pthread_cleanup_push(clean_filled, room);
	begin();
	for (i = 0;; i++) {
		fill(room, i, FILLED);
		for (k = 0; k < 1000; k++)
			__asm__ volatile("pause");
	}
	pthread_cleanup_pop(0);
	return arg;
}

static void cancel(const char *name, void *(*fn)(void *), int rounds)
{
	int i, k, wrong = 0, went_on = 0;
	pthread_t t[AT_ONCE];
	void *result;

	cleaned = 0;
	for (i = 0; i < rounds; i++) {
		began = go_on = 0;
		for (k = 0; k < AT_ONCE; k++)
			pthread_create(&t[k], NULL, fn, NULL);
		while (__atomic_load_n(&began, __ATOMIC_SEQ_CST) < AT_ONCE)
			sched_yield();
		for (k = 0; k < AT_ONCE; k++)
			if (fn != of_itself)
				pthread_cancel(t[k]);
		__atomic_store_n(&go_on, 1, __ATOMIC_SEQ_CST);
		for (k = 0; k < AT_ONCE; k++) {
			pthread_join(t[k], &result);
			wrong += result != PTHREAD_CANCELED;
		}
		went_on += go_on - 1;
		free(malloc(100));
		sem_post(&posted);
		sem_wait(&posted);
	}
	printf("%s: %d not cancelled, %d without handler, %d did not go on\n", name, wrong,
	       rounds * AT_ONCE - cleaned, rounds * AT_ONCE - went_on);
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 20;

	sem_init(&posted, 0, 0);
	if (argc > 2) {
		cancel("in library", in_library, rounds);
		cancel("in memset()", in_memset, rounds);
		printf("%d torn\n", torn);
		return 0;
	}
	cancel("in registers", in_registers, rounds);
	cancel("in memory", in_memory, rounds);
	cancel("on stack", on_stack, rounds);
	cancel("in turn", in_turn, rounds);
	cancel("of itself", of_itself, rounds);
	cancel("deferred", deferred, rounds);
	return 0;
}
