// SPDX-License-Identifier: BSD-2-Clause
/*
 * steal.c - a plain POSIX threads program: a pool that steals work. Tasks sort parts of an array;
 * each thread has a stack of tasks with a lock, and takes from the others' when its own is empty.
 * Detached helpers count the tasks meanwhile.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef THREADS
#define THREADS 4
#endif
#ifndef N
#define N 40000
#endif
#define SMALL 2000

struct task {
	struct task *next;
	int *from;
	size_t n;
};

static struct pool {
	pthread_spinlock_t lock;
	struct task *top;
} pools[THREADS];
static int *numbers;
static long open_tasks; /* atomic */
static pthread_attr_t detached;
static long helped, helpers;
static pthread_mutex_t help_lock = PTHREAD_MUTEX_INITIALIZER;

static void push(int me, int *from, size_t n)
{
	struct task *t = malloc(sizeof(*t));

	*t = (struct task){ .from = from, .n = n };
	__atomic_fetch_add(&open_tasks, 1, __ATOMIC_SEQ_CST);
	pthread_spin_lock(&pools[me].lock);
	t->next = pools[me].top;
	pools[me].top = t;
	pthread_spin_unlock(&pools[me].lock);
}

static struct task *pop(int from)
{
	struct task *t;

	pthread_spin_lock(&pools[from].lock);
	t = pools[from].top;
	if (t)
		pools[from].top = t->next;
	pthread_spin_unlock(&pools[from].lock);
	return t;
}

static int compare(const void *x, const void *y)
{
	return (*(const int *)x > *(const int *)y) - (*(const int *)x < *(const int *)y);
}

static void *helper(void *arg)
{
	pthread_mutex_lock(&help_lock);
	helped += (long)arg;
	helpers--;
	pthread_mutex_unlock(&help_lock);
	return NULL;
}

static void help(long n)
{
	pthread_t t;

	pthread_mutex_lock(&help_lock);
	helpers++;
	pthread_mutex_unlock(&help_lock);
	if (pthread_create(&t, &detached, helper, (void *)n))
		exit(3);
}

static void run(int me, const struct task *t)
{
	int pivot = t->from[t->n / 2];
	size_t i, less = 0, same = 0;
	int *copy;

	if (t->n <= SMALL) {
		qsort(t->from, t->n, sizeof(int), compare);
		help((long)t->n);
		return;
	}
	copy = malloc(t->n * sizeof(int));
	memcpy(copy, t->from, t->n * sizeof(int));
	for (i = 0; i < t->n; i++) {
		less += copy[i] < pivot;
		same += copy[i] == pivot;
	}
	for (size_t a = 0, b = less, c = less + same, k = 0; k < t->n; k++)
		t->from[copy[k] < pivot ? a++ : copy[k] == pivot ? b++ : c++] = copy[k];
	free(copy);
	push(me, t->from, less);
	push(me, t->from + less + same, t->n - less - same);
	help((long)same);
}

static void *worker(void *arg)
{
	const int me = (int)(long)arg;

	while (__atomic_load_n(&open_tasks, __ATOMIC_SEQ_CST)) {
		struct task *t = NULL;
		int i;

		for (i = 0; i < THREADS && !t; i++)
			t = pop((me + i) % THREADS);
		if (!t) {
			sched_yield();
			continue;
		}
		if (t->n)
			run(me, t);
		free(t);
		__atomic_fetch_sub(&open_tasks, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[THREADS];
	unsigned int seed = 3;
	long i, bad = 0;

	numbers = malloc(N * sizeof(int));
	for (i = 0; i < N; i++)
		numbers[i] = rand_r(&seed);
	for (i = 0; i < THREADS; i++)
		pthread_spin_init(&pools[i].lock, 0);
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	push(0, numbers, N);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, worker, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	pthread_mutex_lock(&help_lock);
	while (helpers) {
		pthread_mutex_unlock(&help_lock);
		usleep(1000);
		pthread_mutex_lock(&help_lock);
	}
	pthread_mutex_unlock(&help_lock);
	for (i = 1; i < N; i++)
		bad += numbers[i - 1] > numbers[i];
	printf("steal: %ld out of order, %ld helped\n", bad, helped);
	free(numbers);
	return bad != 0;
}
