// SPDX-License-Identifier: BSD-2-Clause
/*
 * queue.c - a plain POSIX threads program: producers and consumers around a bounded queue of
 * pointers. What one thread allocates, another frees. Each consumer keeps a sum in thread-specific
 * data, which the key's destructor adds to the total.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROOM 8
#ifndef THREADS
#define THREADS 6 /* half of them produce */
#endif
#ifndef ITEMS
#define ITEMS 200 /* of a producer */
#endif
#define PRODUCERS (THREADS / 2)
#define CONSUMERS (THREADS / 2)

struct item {
	char name[32];
	int value;
};

static struct item *ring[ROOM];
static unsigned int head, tail;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t sums;
static long total, onces;

static void add_up(void *value)
{
	pthread_mutex_lock(&lock);
	total += *(long *)value;
	pthread_mutex_unlock(&lock);
	free(value);
}

static void prepare(void)
{
	onces++;
	pthread_key_create(&sums, add_up);
}

static void put(struct item *item)
{
	pthread_mutex_lock(&lock);
	while (head - tail == ROOM)
		pthread_cond_wait(&not_full, &lock);
	ring[head++ % ROOM] = item;
	pthread_cond_signal(&not_empty);
	pthread_mutex_unlock(&lock);
}

static struct item *get(void)
{
	struct item *item;

	pthread_mutex_lock(&lock);
	while (head == tail)
		pthread_cond_wait(&not_empty, &lock);
	item = ring[tail++ % ROOM];
	pthread_cond_broadcast(&not_full);
	pthread_mutex_unlock(&lock);
	return item;
}

static void *producer(void *arg)
{
	int i, *first = arg;

	for (i = 0; i < ITEMS; i++) {
		struct item *item = malloc(sizeof(*item));

		item->value = *first + i;
		snprintf(item->name, sizeof(item->name), "item %d", item->value);
		put(item);
	}
	return NULL;
}

static void *consumer(void *arg)
{
	struct item *item;
	char want[32];
	long *sum;

	pthread_once(&once, prepare);
	pthread_setspecific(sums, calloc(1, sizeof(long)));
	while ((item = get())) {
		snprintf(want, sizeof(want), "item %d", item->value);
		if (strcmp(item->name, want)) {
			printf("queue: \"%s\" is not \"%s\"\n", item->name, want);
			exit(1);
		}
		sum = pthread_getspecific(sums);
		*sum += item->value;
		free(item);
	}
	pthread_exit(arg);
}

/* Nobody signals: it has to end by itself. */
static int times_out(void)
{
	pthread_cond_t never = PTHREAD_COND_INITIALIZER;
	struct timespec t;
	int err;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_nsec += 20000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	pthread_mutex_lock(&lock);
	while ((err = pthread_cond_timedwait(&never, &lock, &t)) == 0)
		;
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&never);
	return err == ETIMEDOUT;
}

int main(void)
{
	pthread_t makers[PRODUCERS], takers[CONSUMERS];
	int firsts[PRODUCERS], i;
	void *back;

	for (i = 0; i < CONSUMERS; i++)
		pthread_create(&takers[i], NULL, consumer, &firsts[i]);
	for (i = 0; i < PRODUCERS; i++) {
		firsts[i] = i * 1000;
		pthread_create(&makers[i], NULL, producer, &firsts[i]);
	}
	for (i = 0; i < PRODUCERS; i++)
		pthread_join(makers[i], NULL);
	for (i = 0; i < CONSUMERS; i++)
		put(NULL);
	for (i = 0; i < CONSUMERS; i++) {
		pthread_join(takers[i], &back);
		if (back != &firsts[i])
			return 1;
	}
	printf("queue: %ld in all, prepared %ld time, %s\n", total, onces,
	       times_out() ? "timed out" : "never timed out");
	return 0;
}
