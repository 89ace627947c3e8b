// SPDX-License-Identifier: BSD-2-Clause
/* threads.c - threads: their start, end, names, attributes, keys, thread-local variables. */
#define _GNU_SOURCE
#include "cases.h"

#include <limits.h>
#include <sched.h>
#include <semaphore.h>

/* ---- create, join, detach, exit -------------------------------------------------------------- */

CASE(create_join, EACH)
{
	pthread_t thread;
	void *got = NULL;

	say_error(pthread_create(&thread, NULL, give_back, result));
	say_error(pthread_join(thread, &got));
	say("%d", got == result);
}

CASE(join_self, EACH)
{
	say_error(pthread_join(pthread_self(), NULL));
}

CASE(join_detached, EACH)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	say_error(pthread_create(&thread, &attr, sleep_on, NULL));
	say_error(pthread_join(thread, NULL));
	say_error(pthread_detach(thread));
	pthread_attr_destroy(&attr);
}

CASE(detach, EACH)
{
	pthread_t thread = start(sleep_on, NULL);

	say_error(pthread_detach(thread));
	say_error(pthread_detach(thread));
	say_error(pthread_join(thread, NULL));
}

CASE(join_timed, EACH)
{
	pthread_t thread = start(sleep_on, NULL);
	struct timespec soon = after_ms(CLOCK_REALTIME, 20), late;
	void *got = NULL;

	say_error(pthread_tryjoin_np(thread, &got));
	say_error(pthread_timedjoin_np(thread, &got, &soon));
	soon = after_ms(CLOCK_MONOTONIC, 20);
	say_error(pthread_clockjoin_np(thread, &got, CLOCK_MONOTONIC, &soon));
	pthread_cancel(thread);
	late = after_ms(CLOCK_REALTIME, 20000);
	say_error(pthread_timedjoin_np(thread, &got, &late));
	say("%d", got == PTHREAD_CANCELED);
}

static void *exit_deep(void *arg)
{
	pthread_cleanup_push(say_text_of, "cleaned");
	pthread_exit(arg);
	pthread_cleanup_pop(0);
}

CASE(thread_exit, EACH)
{
	say("%d", apart(exit_deep, result) == result);
}

static void *clean_in_order(void *arg)
{
	pthread_cleanup_push(say_text_of, "outer");
	pthread_cleanup_push(say_text_of, "middle");
	pthread_cleanup_push(say_text_of, "inner");
	pthread_cleanup_pop(1);
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(1);
	return arg;
}

CASE(cleanup, EACH)
{
	clean_in_order(NULL);
	apart(clean_in_order, NULL);
}

static void *say_later(void *arg)
{
	wait_ms(50);
	say("last thread");
	said();
	return arg;
}

CASE(exit_of_main, ALONE)
{
	start(say_later, NULL);
	pthread_exit(NULL);
}

static pthread_t of_main;

static void *join_main(void *arg)
{
	say_error(pthread_join(of_main, NULL));
	said();
	return arg;
}

CASE(join_of_main, ALONE)
{
	of_main = pthread_self();
	start(join_main, NULL);
	pthread_exit(NULL);
}

static void *self_equal(void *arg)
{
	const pthread_t self = pthread_self();

	*(int *)arg = !!pthread_equal(self, pthread_self());
	return (void *)self;
}

CASE(self, EACH)
{
	int same = 0;
	pthread_t thread = start(self_equal, &same), told = (pthread_t)ended(thread);

	say("%d", same);
	say("%d", pthread_equal(thread, told) != 0);
	say("%d", pthread_equal(told, pthread_self()) != 0);
}

/* ---- attributes ------------------------------------------------------------------------------ */

CASE(attributes, EACH)
{
	struct sched_param param = { 0 };
	pthread_attr_t attr;
	size_t size;
	int n;

	say_error(pthread_attr_init(&attr));
	pthread_attr_getdetachstate(&attr, &n);
	say("%d", n == PTHREAD_CREATE_JOINABLE);
	say_error(pthread_attr_setdetachstate(&attr, 99));
	pthread_attr_getguardsize(&attr, &size);
	say("%zu", size);
	say_error(pthread_attr_setguardsize(&attr, 12288));
	pthread_attr_getguardsize(&attr, &size);
	say("%zu", size);
	say_error(pthread_attr_setstacksize(&attr, 1));
	say_error(pthread_attr_setstacksize(&attr, 1 << 20));
	pthread_attr_getstacksize(&attr, &size);
	say("%zu", size);
	say_error(pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED));
	pthread_attr_getinheritsched(&attr, &n);
	say("%d", n == PTHREAD_EXPLICIT_SCHED);
	say_error(pthread_attr_setschedpolicy(&attr, 77));
	say_error(pthread_attr_setschedpolicy(&attr, SCHED_OTHER));
	pthread_attr_getschedpolicy(&attr, &n);
	say("%d", n == SCHED_OTHER);
	say_error(pthread_attr_setschedparam(&attr, &param));
	say_error(pthread_attr_getschedparam(&attr, &param));
	say_error(pthread_attr_setscope(&attr, PTHREAD_SCOPE_PROCESS));
	say_error(pthread_attr_setscope(&attr, PTHREAD_SCOPE_SYSTEM));
	pthread_attr_getscope(&attr, &n);
	say("%d", n == PTHREAD_SCOPE_SYSTEM);
	say_error(pthread_attr_destroy(&attr));
}

static void *say_stack(void *arg)
{
	pthread_attr_t attr;
	void *base;
	size_t size, guard;
	int state;

	say_error(pthread_getattr_np(pthread_self(), &attr));
	pthread_attr_getstack(&attr, &base, &size);
	pthread_attr_getguardsize(&attr, &guard);
	pthread_attr_getdetachstate(&attr, &state);
	say("%zu %zu %d %d", size, guard, state,
	    (char *)&attr > (char *)base && (char *)&attr < (char *)base + size);
	pthread_attr_destroy(&attr);
	return arg;
}

CASE(stack_size, EACH)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	err = pthread_create(&thread, &attr, say_stack, NULL);
	ended(thread);
	say_error(err);
	pthread_attr_destroy(&attr);
}

CASE(stack_own, EACH)
{
	const size_t size = 1 << 18;
	pthread_attr_t attr;
	pthread_t thread;
	void *stack = NULL;
	int err;

	if (posix_memalign(&stack, 65536, size))
		abort();
	pthread_attr_init(&attr);
	say_error(pthread_attr_setstack(&attr, stack, size));
	err = pthread_create(&thread, &attr, say_stack, NULL);
	ended(thread);
	say_error(err);
	pthread_attr_destroy(&attr);
	free(stack);
}

CASE(stack_default, EACH)
{
	pthread_attr_t before, attr;
	size_t size;

	say_error(pthread_getattr_default_np(&before));
	pthread_getattr_default_np(&attr);
	pthread_attr_setstacksize(&attr, 9 << 20);
	say_error(pthread_setattr_default_np(&attr));
	apart(say_stack, NULL);
	say_error(pthread_getattr_default_np(&attr));
	pthread_attr_getstacksize(&attr, &size);
	say("%zu", size);
	say_error(pthread_setattr_default_np(&before));
}

CASE(attr_sigmask, EACH)
{
	pthread_attr_t attr;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_attr_init(&attr);
	say_error(pthread_attr_setsigmask_np(&attr, &set));
	pthread_attr_destroy(&attr);
}

CASE(attr_affinity, EACH)
{
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	pthread_attr_init(&attr);
	say_error(pthread_attr_setaffinity_np(&attr, sizeof(set), &set));
	say_error(pthread_create(&thread, &attr, give_back, NULL));
	ended(thread);
	pthread_attr_destroy(&attr);
}

CASE(concurrency, 0)
{
	say_error(pthread_setconcurrency(3));
	say("%d", pthread_getconcurrency());
	say_error(pthread_setconcurrency(-1));
	say_error(pthread_setconcurrency(0));
}

/* ---- what others do to a thread -------------------------------------------------------------- */

CASE(names, EACH)
{
	pthread_t thread = start(sleep_on, NULL);
	char name[16];

	say_error(pthread_setname_np(thread, "worker"));
	say_error(pthread_getname_np(thread, name, sizeof(name)));
	say("%s", name);
	say_error(pthread_setname_np(thread, "a name that is too long"));
	say_error(pthread_getname_np(thread, name, 2));
	cancel_and_join(thread);
}

CASE(name_of_self, EACH)
{
	char name[16] = "", before[16];

	pthread_getname_np(pthread_self(), before, sizeof(before));
	say_error(pthread_setname_np(pthread_self(), "itself"));
	say_error(pthread_getname_np(pthread_self(), name, sizeof(name)));
	say("%s", name);
	pthread_setname_np(pthread_self(), before);
}

CASE(scheduling, EACH)
{
	pthread_t thread = start(sleep_on, NULL);
	struct sched_param param;
	int policy = -1;

	say_error(pthread_getschedparam(thread, &policy, &param));
	say("%d %d", policy == SCHED_OTHER, param.sched_priority);
	say_error(pthread_setschedparam(thread, SCHED_OTHER, &param));
	say_error(pthread_setschedparam(thread, 77, &param));
	say_error(pthread_setschedprio(thread, 0));
	say_error(pthread_setschedprio(thread, 99));
	cancel_and_join(thread);
}

CASE(affinity, EACH)
{
	pthread_t thread = start(sleep_on, NULL);
	cpu_set_t all, one;

	say_error(pthread_getaffinity_np(thread, sizeof(all), &all));
	CPU_ZERO(&one);
	say_error(pthread_setaffinity_np(thread, sizeof(one), &one));
	CPU_SET(sched_getcpu(), &one);
	say_error(pthread_setaffinity_np(thread, sizeof(one), &one));
	say_error(pthread_getaffinity_np(thread, sizeof(one), &one));
	say("%d", CPU_COUNT(&one));
	say_error(pthread_setaffinity_np(thread, sizeof(all), &all));
	cancel_and_join(thread);
}

static void *clock_of(void *arg)
{
	struct timespec t;
	clockid_t clock;
	const int err = pthread_getcpuclockid(*(pthread_t *)arg, &clock);

	say_error(err);
	say_call(err ? 0 : clock_gettime(clock, &t));
	return NULL;
}

CASE(cpu_clock_of_self, EACH)
{
	pthread_t thread = pthread_self();

	clock_of(&thread);
}

/* Alone: which rank a thread is on follows from those before it. */
CASE(cpu_clock, ALONE)
{
	pthread_t threads[3];
	int i;

	for (i = 0; i < 3; i++)
		threads[i] = start(sleep_on, NULL);
	for (i = 0; i < 3; i++)
		clock_of(&threads[i]);
	for (i = 0; i < 3; i++)
		cancel_and_join(threads[i]);
}

CASE(kill_thread, EACH)
{
	pthread_t thread = start(sleep_on, NULL);

	say_error(pthread_kill(thread, 0));
	say_error(pthread_kill(thread, 12345));
	cancel_and_join(thread);
}

static sem_t may_go;

static void *wait_and_end(void *arg)
{
	sem_wait(&may_go);
	return arg;
}

/* A thread that has ended, and was not joined. */
CASE(kill_ended, EACH)
{
	pthread_t thread;

	sem_init(&may_go, 0, 0);
	thread = start(wait_and_end, NULL);
	sem_post(&may_go);
	wait_ms(100);
	say_error(pthread_kill(thread, SIGUSR1));
	say_error(pthread_cancel(thread));
	say("%d", ended(thread) == NULL);
}

/* ---- once, keys ------------------------------------------------------------------------------ */

static pthread_once_t once_control = PTHREAD_ONCE_INIT, once_again = PTHREAD_ONCE_INIT;
static int once_runs, again_runs;

static void count_once(void)
{
	wait_ms(10);
	once_runs++;
}

static void *call_once_of(void *arg)
{
	const int err = pthread_once(&once_control, count_once);

	say("%d", err ? -err : once_runs); /* one word: three threads say theirs at once */
	return arg;
}

CASE(once, 0)
{
	pthread_t threads[3];
	int i;

	for (i = 0; i < 3; i++)
		threads[i] = start(call_once_of, NULL);
	for (i = 0; i < 3; i++)
		ended(threads[i]);
}

static void cancelled_once(void)
{
	if (!again_runs++) {
		pthread_cancel(pthread_self());
		pthread_testcancel();
	}
}

static void *call_again(void *arg)
{
	say_error(pthread_once(&once_again, cancelled_once));
	say("%d", again_runs);
	return arg;
}

CASE(once_cancelled, 0)
{
	say("%d", apart(call_again, NULL) == PTHREAD_CANCELED);
	apart(call_again, NULL);
	apart(call_again, NULL);
}

static pthread_key_t key;
static int destroyed;

static void destroy_value(void *value)
{
	destroyed++;
	if (value == &destroyed)
		pthread_setspecific(key, value);
}

static void *use_key(void *arg)
{
	say("%d", pthread_getspecific(key) == NULL);
	say_error(pthread_setspecific(key, arg));
	say("%d", pthread_getspecific(key) == arg);
	return NULL;
}

CASE(keys, 0)
{
	say_error(pthread_key_create(&key, destroy_value));
	pthread_setspecific(key, &key);
	apart(use_key, &running);
	apart(use_key, &running);
	say("%d", destroyed);
	destroyed = 0;
	apart(use_key, &destroyed); /* it comes back in each round */
	say("%d", destroyed);
	say("%d", pthread_getspecific(key) == &key);
	say_error(pthread_key_delete(key));
	say_error(pthread_key_delete(key));
	say_error(pthread_setspecific(key, NULL));
}

CASE(keys_all, EACH)
{
	static pthread_key_t all[PTHREAD_KEYS_MAX + 1];
	int i, n = 0;

	while (n <= PTHREAD_KEYS_MAX && !pthread_key_create(&all[n], NULL))
		n++;
	say("%d", n);
	for (i = 0; i < n; i++)
		pthread_key_delete(all[i]);
}

/* ---- errno, thread-local variables ----------------------------------------------------------- */

static __thread int local = 7;

static void *change_local(void *arg)
{
	errno = EDOM;
	say("%d", local++);
	return (void *)(intptr_t)(local + (arg != NULL));
}

CASE(thread_locals, 0)
{
	errno = ERANGE;
	local = 1;
	say("%d", (int)(intptr_t)apart(change_local, NULL));
	apart(change_local, NULL);
	say("%d", local);
	errno = ERANGE;
	apart(change_local, NULL);
	say("%s", error_name(errno));
	local = 7;
}

/* Of functions that return their error. */
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

CASE(errno_kept, EACH)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
	pthread_t thread, other;
	sem_t *sem = malloc(sizeof(*sem));
	const struct timespec past = { .tv_sec = 1 };

#define KEEPS(call)                                             \
	do {                                                    \
		errno = ERANGE;                                 \
		call;                                           \
		if (errno != ERANGE)                            \
			say("%s %s", #call, error_name(errno)); \
	} while (0)
	KEEPS(pthread_create(&thread, NULL, give_back, NULL));
	KEEPS(pthread_join(thread, NULL));
	other = start(sleep_on, NULL);
	KEEPS(pthread_tryjoin_np(other, NULL));
	KEEPS(pthread_kill(other, 0));
	KEEPS(pthread_cancel(other));
	KEEPS(pthread_detach(other));
	KEEPS(pthread_mutex_lock(&lock));
	KEEPS(pthread_mutex_trylock(&lock));
	KEEPS(pthread_mutex_timedlock(&lock, &past));
	KEEPS(pthread_cond_timedwait(&never, &lock, &past));
	KEEPS(pthread_cond_signal(&never));
	KEEPS(pthread_cond_broadcast(&never));
	KEEPS(pthread_mutex_unlock(&lock));
	KEEPS(pthread_rwlock_rdlock(&rw));
	KEEPS(pthread_rwlock_trywrlock(&rw));
	KEEPS(pthread_rwlock_timedwrlock(&rw, &past));
	KEEPS(pthread_rwlock_unlock(&rw));
	KEEPS(sem_init(sem, 0, 1));
	KEEPS(sem_wait(sem));
	KEEPS(sem_post(sem));
	KEEPS(sem_destroy(sem));
	KEEPS(pthread_key_create(&key, NULL));
	KEEPS(pthread_setspecific(key, &key));
	KEEPS(pthread_key_delete(key));
	KEEPS(pthread_once(&once_control, count_once));
	KEEPS(pthread_sigmask(SIG_BLOCK, NULL, NULL));
	KEEPS(free(sem));
}

CASE(many, EACH)
{
	enum { n = 100 };
	pthread_t threads[n];
	uintptr_t i, sum = 0;

	for (i = 0; i < n; i++)
		threads[i] = start(give_back, (void *)i);
	for (i = 0; i < n; i++)
		sum += (uintptr_t)ended(threads[i]);
	say("%zu", (size_t)sum);
}

CASE(yield, EACH)
{
	say_call(sched_yield());
}

static void before_fork(void)
{
}

CASE(atfork, EACH)
{
	say_error(pthread_atfork(before_fork, NULL, NULL));
}
