# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# Part of tests/threads/run: semaphores, waits with a limit of time, and turns by a condition.

program timed <<'END'
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t sem, held, go;
static int readers;
static struct timespec after(clockid_t clock, long ms)
{
	struct timespec t;
	clock_gettime(clock, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}
static int value(void)
{
	int v = -1;
	return sem_getvalue(&sem, &v) ? -errno : v;
}
static void *post(void *arg)
{
	sem_post(&sem);
	printf("%d\n", value());
	return arg;
}
static void semaphores(void)
{
	struct timespec t = after(CLOCK_MONOTONIC, 50);
	pthread_t one;
	int err, i;
	sem_init(&sem, 0, 3);
	printf("values %d ", value());
	fflush(stdout);
	pthread_create(&one, NULL, post, NULL);
	pthread_join(one, NULL);
	for (i = 0; i < 4; i++)
		sem_wait(&sem);
	err = sem_clockwait(&sem, CLOCK_MONOTONIC, &t) ? errno : 0;
	printf("%d, %s\n", value(), err == ETIMEDOUT ? "timed out" : "no");
}
static void *hold(void *arg)
{
	pthread_rwlock_rdlock(&lock);
	sem_post(&held);
	while (sem_wait(&go))
		;
	pthread_rwlock_unlock(&lock);
	return arg;
}
/* It comes while a writer waits, and is to be let in when that one gives up. */
static void *read_it(void *arg)
{
	pthread_rwlock_rdlock(&lock);
	pthread_mutex_lock(&count_lock);
	readers++;
	pthread_mutex_unlock(&count_lock);
	pthread_rwlock_unlock(&lock);
	return arg;
}
static void locks(void)
{
	struct timespec t = after(CLOCK_REALTIME, 300);
	pthread_t one, two;
	int late, bad, shared, free_one;
	pthread_create(&one, NULL, hold, NULL);
	while (sem_wait(&held))
		;
	pthread_create(&two, NULL, read_it, NULL);
	late = pthread_rwlock_timedwrlock(&lock, &t);
	pthread_join(two, NULL);
	t = after(CLOCK_MONOTONIC, 100);
	shared = pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &t);
	if (!shared)
		pthread_rwlock_unlock(&lock);
	t.tv_nsec = 1000000000;
	bad = pthread_rwlock_timedrdlock(&lock, &t);
	sem_post(&go);
	pthread_join(one, NULL);
	t = after(CLOCK_REALTIME, 10000);
	free_one = pthread_rwlock_timedwrlock(&lock, &t);
	printf("locks %d %d %d %d %d\n", late == ETIMEDOUT, shared, bad == EINVAL, free_one, readers);
}
int main(int argc, char **argv)
{
	(void)argv;
	sem_init(&held, 0, 0);
	sem_init(&go, 0, 0);
	if (argc == 1)
		semaphores();
	else
		locks();
	return 0;
}
END
for way in one node two; do
	# shellcheck disable=SC2086
	says "semaphores: values, $way" $'values 3 4\n0, timed out' 0 "${run[@]}" ${ways[$way]} "$scratch/timed"
done
for way in one node two; do
	# shellcheck disable=SC2086
	says "locks with a limit of time, $way" "locks 1 0 1 0 1" 0 "${run[@]}" ${ways[$way]} "$scratch/timed" locks
done

# Threads of all ranks wait for a mutex with a limit of time: how much of a processor they use
# meanwhile, and how soon a hand-over arrives, the quickest of some: within 2 ms, or, on a busy
# host, twice the time of the quickest to a wait without a limit.
program patient <<'END'
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
enum { THREADS = 50, TURNS = 40, SECONDS = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static volatile long left[TURNS], came[TURNS], used;
static int late;
static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
static int lock_for(long seconds)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += seconds;
	return pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &t);
}
static long processor_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
static void *waits(void *arg)
{
	long before = processor_ms();
	int err = lock_for(SECONDS);
	__atomic_fetch_add(&used, processor_ms() - before, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&late, err == ETIMEDOUT, __ATOMIC_SEQ_CST);
	return arg;
}
static void *takes(void *arg)
{
	for (int i = 0; i < TURNS; i++) {
		pthread_barrier_wait(&all);
		if (i % 2 ? pthread_mutex_lock(&lock) : lock_for(60))
			break;
		came[i] = now();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&all);
	}
	return arg;
}
static void processor(void)
{
	pthread_t t[THREADS];
	pthread_mutex_lock(&lock);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, waits, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	pthread_mutex_unlock(&lock);
	if (late == THREADS && used < 100 * SECONDS)
		printf("%d waited\n", late);
	else
		printf("%d gave up, %ld ms of the processor\n", late, used);
}
static void hand_over(void)
{
	long best[2] = { 1000000000, 1000000000 }; /* with a limit, without */
	pthread_t one;
	pthread_barrier_init(&all, NULL, 2);
	pthread_create(&one, NULL, takes, NULL);
	for (int i = 0; i < TURNS; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&all);
		usleep(20000);
		left[i] = now();
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&all);
		if (came[i] - left[i] < best[i % 2])
			best[i % 2] = came[i] - left[i];
	}
	pthread_join(one, NULL);
	if (best[0] < 2000 || best[0] < 2 * best[1])
		printf("handed over at once\n");
	else
		printf("handed over after %ld us, without a limit after %ld us\n", best[0], best[1]);
}
int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "processor"))
		processor();
	else
		hand_over();
	return 0;
}
END
for way in node two mixed mprotect; do
	settings=()
	[[ $way != mprotect ]] || settings=(DSM_FAULT=mprotect)
	# shellcheck disable=SC2086
	says "waits with a limit: processor, $way" "50 waited" 0 \
		env "${settings[@]}" "${run[@]}" ${ways[$way]} "$scratch/patient" processor
	# shellcheck disable=SC2086
	says "waits with a limit: hand-over, $way" "handed over at once" 0 \
		env "${settings[@]}" "${run[@]}" ${ways[$way]} "$scratch/patient" hand-over
done

program relay <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
enum { THREADS = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static int turn, turns;
static void *runner(void *arg)
{
	const int me = (int)(long)arg;
	pthread_mutex_lock(&lock);
	while (turn < turns) {
		if (turn % THREADS == me) {
			turn++;
			pthread_cond_broadcast(&moved);
		} else {
			pthread_cond_wait(&moved, &lock);
		}
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}
int main(int argc, char **argv)
{
	pthread_t t[THREADS];
	turns = argc > 1 ? atoi(argv[1]) : 0;
	alarm(60); /* a wake-up that is lost is not repeated */
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, runner, (void *)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	printf("%d turns\n", turn);
	return 0;
}
END
says "turns by a condition" "9000 turns" 0 "${run[@]}" -n 3 "$scratch/relay" 9000
says "turns by a condition, three nodes" "300 turns" 0 "${run[@]}" -n 3 --nodes rank "$scratch/relay" 300
