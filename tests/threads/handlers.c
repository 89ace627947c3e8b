// SPDX-License-Identifier: BSD-2-Clause
/*
 * handlers.c - a plain POSIX threads program whose signal handler touches the memory of all threads
 * while main() waits: for a mutex, a condition, a semaphore, a barrier, a thread. Another thread
 * writes to that memory all the time. When the handler has run often enough, the thread that main()
 * waits for lets it continue.
 */
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define TICKS 5

static struct {
	int ticks, taken;
	char text[4096];
} seen __attribute__((aligned(4096)));
static int over, turn;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t sem, ready;

static int load(int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

/* One alarm; the handler asks for the next. The first gives main() the time to fall asleep. */
static void alarm_in(int us)
{
	const struct itimerval t = { .it_value.tv_usec = us };

	setitimer(ITIMER_REAL, &t, NULL);
}

static void on_alarm(int sig)
{
	const int n = __atomic_add_fetch(&seen.ticks, 1, __ATOMIC_SEQ_CST);

	(void)sig;
	seen.text[n] = (char)('0' + n);
	if (n < TICKS)
		alarm_in(20000);
}

static void *take(void *arg)
{
	while (!load(&over)) {
		__atomic_fetch_add(&seen.taken, 1, __ATOMIC_SEQ_CST);
		usleep(1000);
	}
	return arg;
}

static void await_ticks(void)
{
	while (load(&seen.ticks) < TICKS)
		usleep(5000);
}

static void *let_go(void *arg)
{
	pthread_mutex_lock(&held);
	sem_post(&ready);
	await_ticks();
	pthread_mutex_unlock(&held);
	sem_wait(&ready);
	await_ticks();
	pthread_mutex_lock(&lock);
	turn = 1;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&lock);
	sem_wait(&ready);
	await_ticks();
	sem_post(&sem);
	sem_wait(&ready);
	await_ticks();
	pthread_barrier_wait(&barrier);
	sem_wait(&ready);
	await_ticks();
	return arg;
}

static void begin(void)
{
	memset(seen.text, '-', TICKS + 1);
	__atomic_store_n(&seen.ticks, 0, __ATOMIC_SEQ_CST);
	alarm_in(200000);
}

static void end(const char *what)
{
	printf("%s: %.*s\n", what, TICKS, seen.text + 1);
}

int main(void)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	pthread_t taker, other;

	sigaction(SIGALRM, &sa, NULL);
	pthread_barrier_init(&barrier, NULL, 2);
	sem_init(&sem, 0, 0);
	sem_init(&ready, 0, 0);
	pthread_create(&taker, NULL, take, NULL);
	pthread_create(&other, NULL, let_go, NULL);

	sem_wait(&ready);
	begin();
	pthread_mutex_lock(&held);
	end("mutex");
	pthread_mutex_unlock(&held);
	begin();
	sem_post(&ready);
	pthread_mutex_lock(&lock);
	while (!turn)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	end("condition");
	begin();
	sem_post(&ready);
	while (sem_wait(&sem))
		;
	end("semaphore");
	begin();
	sem_post(&ready);
	pthread_barrier_wait(&barrier);
	end("barrier");
	begin();
	sem_post(&ready);
	pthread_join(other, NULL);
	end("thread");
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	pthread_join(taker, NULL);
	return 0;
}
