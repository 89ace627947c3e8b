/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tasks.C - an ANL program: threads count primes. A task is a range of numbers; a large one becomes two, and idle threads wait on a
 * condition. At the end the threads add up in turn, each after the pause of the one before it. Arguments: threads, numbers.
 */
#include <stdio.h>

struct task {
	struct task *next;
	long from, to;
};

/* Before the environment, static, and zero is valid. */
static LOCKDEC(queue_lock)
static CONDVARDEC(changed);

MAIN_ENV

#define SMALL 500

struct turn {
	PAUSEDEC(come)
	long sum;
};

static struct task *queue;
static long open_tasks, splits, ids, threads;
static struct turn *turns;
LOCKDEC(id_lock)

static void put(long from, long to)
{
	struct task *t = G_MALLOC(sizeof(*t));

	t->from = from;
	t->to = to;
	LOCK(queue_lock)
	t->next = queue;
	queue = t;
	open_tasks++;
	CONDVARSIGNAL(changed);
	UNLOCK(queue_lock)
}

static struct task *get(void)
{
	struct task *t;

	LOCK(queue_lock);
	while (!queue && open_tasks) {
		CONDVARWAIT(changed, queue_lock)
	}
	t = queue;
	if (t)
		queue = t->next;
	UNLOCK(queue_lock);
	return t;
}

static void done(struct task *t, long more)
{
	G_FREE(t, sizeof(*t));
	LOCK(queue_lock);
	splits += more;
	if (!--open_tasks) {
		CONDVARBCAST(changed)
	}
	UNLOCK(queue_lock);
}

static int is_prime(long n)
{
	long i;

	for (i = 2; i * i <= n; i++)
		if (n % i == 0)
			return 0;
	return n > 1;
}

static void *worker(void *arg)
{
	struct task *t;
	long me, i, found = 0;

	LOCK(id_lock)
	me = ids++;
	UNLOCK(id_lock)
	while ((t = get())) {
		if (t->to - t->from > SMALL) {
			long middle = (t->from + t->to) / 2;

			put(t->from, middle);
			put(middle, t->to);
			done(t, 1);
			continue;
		}
		for (i = t->from; i < t->to; i++)
			found += is_prime(i);
		done(t, 0);
	}
	WAITPAUSE(turns[me].come)
	CLEARPAUSE(turns[me].come)
	turns[me + 1].sum = turns[me].sum + found;
	SETPAUSE(turns[me + 1].come)
	return arg;
}

int main(int argc, char **argv)
{
	long i, numbers = argc > 2 ? atol(argv[2]) : 20000;

	MAIN_INITENV(,)
	threads = argc > 1 ? atol(argv[1]) : 1;
	turns = (struct turn *)NU_MALLOC((threads + 1) * sizeof(struct turn), 0);
	LOCKINIT(id_lock)
	for (i = 0; i <= threads; i++) {
		PAUSEINIT(turns[i].come)
		turns[i].sum = 0;
	}
	put(0, numbers);
	SETPAUSE(turns[0].come);
	for (i = 1; i < threads; i++) {
		CREATE(worker)
	}
	worker(NULL);
	WAIT_FOR_END(threads - 1)
	WAITPAUSE(turns[threads].come);
	printf("tasks: %ld primes below %ld, %ld splits, %ld threads\n", turns[threads].sum, numbers, splits, ids);
	MAIN_END;
}
