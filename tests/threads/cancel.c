// SPDX-License-Identifier: BSD-2-Clause
/*
 * cancel.c - a plain POSIX threads program: threads that are cancelled, or end by pthread_exit(),
 * in all ways that POSIX specifies. Each records a line for each step, which main() prints. With an
 * argument: main() itself is cancelled (main), or cancellations and wake-ups cross (crossing; the C
 * library loses some).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER, quiet = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t pair;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static pthread_t main_thread, sleeper;
static sem_t none;
static char line[400];
static int ready, go_on; /* atomic */
static int onces, woken;

static int get(const int *n)
{
	return __atomic_load_n(n, __ATOMIC_SEQ_CST);
}

static void set(int *n, int value)
{
	__atomic_store_n(n, value, __ATOMIC_SEQ_CST);
}

static void note(const char *what)
{
	strcat(line, " ");
	strcat(line, what);
}

static void handler(void *what)
{
	note(what);
}

static void unlock(void *m)
{
	note(pthread_mutex_trylock(m) == EBUSY ? "locked" : "free");
	pthread_mutex_unlock(m);
}

static void destroy(void *value)
{
	note(value);
}

static void begin(void)
{
	pthread_setspecific(key, "destroyed");
	set(&ready, 1);
}

static void *in_cond(void *arg)
{
	pthread_cleanup_push(handler, "outer");
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, &lock);
	begin();
	for (;;)
		pthread_cond_wait(&never, &lock);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_timed_cond(void *arg)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 1000;
	pthread_mutex_lock(&lock);
	pthread_cleanup_push(unlock, &lock);
	begin();
	for (;;)
		pthread_cond_timedwait(&never, &lock, &t);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_sem(void *arg)
{
	pthread_cleanup_push(handler, "sem");
	begin();
	sem_wait(&none);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_join(void *arg)
{
	pthread_cleanup_push(handler, "join");
	begin();
	pthread_join(sleeper, NULL);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_sleep(void *arg)
{
	pthread_cleanup_push(handler, "sleep");
	begin();
	for (;;)
		sleep(1000);
	pthread_cleanup_pop(0);
	return arg;
}

static void *in_read(void *arg)
{
	int ends[2];
	char c;

	if (pipe(ends))
		return arg;
	pthread_cleanup_push(handler, "read");
	begin();
	while (read(ends[0], &c, 1) != 1)
		;
	pthread_cleanup_pop(0);
	return arg;
}

static int depth(int n)
{
	char local[5000];

	memset(local, n, sizeof(local));
	pthread_cleanup_push(handler, n % 2 ? "odd" : "even");
	if (n)
		depth(n - 1);
	else
		pthread_testcancel();
	pthread_cleanup_pop(0);
	return local[n];
}

static void *deep(void *arg)
{
	begin();
	while (!get(&go_on))
		sched_yield();
	depth(4);
	return arg;
}

static void *by_exit(void *arg)
{
	begin();
	pthread_cleanup_push(handler, "outer");
	pthread_cleanup_push(handler, "inner");
	pthread_cleanup_push(handler, "popped");
	pthread_cleanup_pop(1);
	pthread_exit(arg);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
}

static void *disabled(void *arg)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	note(was == PTHREAD_CANCEL_ENABLE ? "enabled" : "?");
	begin();
	while (!get(&go_on))
		usleep(1000);
	note("on");
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	note("?");
	return arg;
}

static void *asynchronous(void *arg)
{
	int was[2];

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &was[0]);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &was[1]);
	note(was[0] == PTHREAD_CANCEL_DEFERRED && was[1] == PTHREAD_CANCEL_ASYNCHRONOUS &&
			     pthread_setcanceltype(99, NULL) == EINVAL
		     ? "types"
		     : "?");
	begin();
	for (;;)
		usleep(1000);
	return arg;
}

/* Neither is a cancellation point: the thread goes on until it comes to one. */
static void *in_mutex(void *arg)
{
	begin();
	pthread_mutex_lock(&other);
	note("has it");
	pthread_mutex_unlock(&other);
	pthread_testcancel();
	note("?");
	return arg;
}

static void *in_barrier(void *arg)
{
	begin();
	pthread_barrier_wait(&pair);
	note("passed");
	pthread_testcancel();
	note("?");
	return arg;
}

static void *of_itself(void *arg)
{
	begin();
	pthread_cancel(pthread_self());
	note("still");
	pthread_testcancel();
	note("?");
	return arg;
}

static void do_once(void)
{
	note("begun");
	if (onces++ == 0)
		for (;;)
			sleep(1000);
	note("done");
}

static void *in_once(void *arg)
{
	begin();
	pthread_once(&once, do_once);
	return arg;
}

static void end(pthread_t t, const char *name)
{
	void *result = NULL;

	pthread_join(t, &result);
	printf("%s:%s %s\n", name, line,
	       result == PTHREAD_CANCELED ? "cancelled"
		       : result == line   ? "returned"
					  : "?");
	line[0] = 0;
	set(&ready, 0);
	set(&go_on, 0);
}

static pthread_t start(void *(*fn)(void *))
{
	pthread_t t;

	pthread_create(&t, NULL, fn, line);
	while (!get(&ready))
		usleep(1000);
	usleep(10000);
	return t;
}

static void cancel(void *(*fn)(void *), const char *name)
{
	const pthread_t t = start(fn);

	if (pthread_cancel(t))
		note("refused");
	set(&go_on, 1);
	end(t, name);
}

static void release(void *m)
{
	pthread_mutex_unlock(m);
}

static void *waiter(void *arg)
{
	int *which = arg;

	pthread_mutex_lock(&lock);
	pthread_cleanup_push(release, &lock);
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	while (!get(&go_on))
		pthread_cond_wait(&quiet, &lock);
	woken += *which;
	pthread_cleanup_pop(1);
	return arg;
}

static void *poster(void *arg)
{
	sem_wait(&none);
	__atomic_fetch_add(&woken, 1, __ATOMIC_SEQ_CST);
	return arg;
}

/* Signals and posts that cross cancellations: none is lost to a thread that was cancelled. */
static int crossing(void)
{
	enum { ROUNDS = 30, EACH = 4 };
	int one = 1, i, k, cancelled, posted = 0;
	pthread_t t[EACH];
	void *result;

	for (i = 0; i < ROUNDS; i++) {
		set(&ready, 0);
		set(&go_on, 0);
		for (k = 0; k < EACH; k++)
			pthread_create(&t[k], NULL, waiter, &one);
		while (get(&ready) < EACH)
			usleep(100);
		pthread_mutex_lock(&lock);
		set(&go_on, 1);
		pthread_cancel(t[i % EACH]);
		for (k = 1; k < EACH; k++)
			pthread_cond_signal(&quiet);
		pthread_mutex_unlock(&lock);
		pthread_join(t[i % EACH], &result);
		if (result != PTHREAD_CANCELED) /* woken before it was cancelled */
			pthread_cond_signal(&quiet);
		for (k = 1; k < EACH; k++)
			pthread_join(t[(i + k) % EACH], NULL);
	}
	woken = cancelled = 0;
	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < 2; k++)
			pthread_create(&t[k], NULL, poster, NULL);
		sem_post(&none);
		posted++;
		pthread_cancel(t[i % 2]);
		pthread_join(t[i % 2], &result);
		cancelled += result == PTHREAD_CANCELED;
		if (result == PTHREAD_CANCELED) { /* the post is for the other one */
			pthread_join(t[1 - i % 2], NULL);
			continue;
		}
		sem_post(&none);
		posted++;
		pthread_join(t[1 - i % 2], NULL);
	}
	printf("crossing: %d\n", woken == posted && cancelled + woken == 2 * ROUNDS);
	return 0;
}

/* It outlives main(), and knows when that has ended. */
static void *late(void *arg)
{
	pthread_join(main_thread, NULL);
	printf("%s\n", line);
	return arg;
}

static void *cancels_main(void *arg)
{
	pthread_cancel(main_thread);
	return arg;
}

static int be_cancelled(void)
{
	pthread_t t;

	main_thread = pthread_self();
	pthread_setspecific(key, "destroyed");
	pthread_create(&t, NULL, late, NULL);
	pthread_create(&t, NULL, cancels_main, NULL);
	pthread_cleanup_push(handler, "main");
	for (;;)
		pause();
	pthread_cleanup_pop(0);
	return 1;
}

int main(int argc, char **argv)
{
	pthread_t t;

	setvbuf(stdout, NULL, _IOLBF, 0);
	pthread_key_create(&key, destroy);
	sem_init(&none, 0, 0);
	if (argc > 1)
		return strcmp(argv[1], "main") ? crossing() : be_cancelled();
	pthread_barrier_init(&pair, NULL, 2);
	cancel(in_cond, "cond");
	cancel(in_timed_cond, "timed cond");
	cancel(in_sem, "sem");
	cancel(in_sleep, "sleep");
	cancel(in_read, "read");
	cancel(deep, "deep");
	cancel(disabled, "disabled");
	cancel(asynchronous, "asynchronous");
	cancel(of_itself, "of itself");
	cancel(in_once, "once");
	end(start(in_once), "once more");
	end(start(by_exit), "exit");
	sleeper = start(in_sleep);
	cancel(in_join, "join");
	pthread_cancel(sleeper);
	end(sleeper, "joined later");
	pthread_mutex_lock(&other);
	t = start(in_mutex);
	pthread_cancel(t);
	usleep(10000);
	pthread_mutex_unlock(&other);
	end(t, "mutex");
	t = start(in_barrier);
	pthread_cancel(t);
	usleep(10000);
	pthread_barrier_wait(&pair);
	end(t, "barrier");
	pthread_create(&t, NULL, poster, NULL);
	sem_post(&none);
	usleep(50000);
	printf("ended: %d\n", pthread_cancel(t));
	pthread_join(t, NULL);
	return 0;
}
