// SPDX-License-Identifier: BSD-2-Clause
/* cancel.c - cancellation: its states and types, its points, what it leaves behind. */
#define _GNU_SOURCE
#include "cases.h"

#include <poll.h>
#include <semaphore.h>
#include <sys/select.h>
#include <sys/socket.h>

static pthread_barrier_t met;
static int pipe_ends[2], pair[2];

static void *cancel_off(void *arg)
{
	int before, type;

	say_error(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
	say("%d", before == PTHREAD_CANCEL_ENABLE);
	say_error(pthread_setcancelstate(99, NULL));
	say_error(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type));
	say("%d", type == PTHREAD_CANCEL_DEFERRED);
	say_error(pthread_setcanceltype(99, NULL));
	pthread_barrier_wait(&met);
	pthread_barrier_wait(&met);
	pthread_testcancel();
	say("not yet");
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	say("never");
	return arg;
}

CASE(cancel_state, EACH)
{
	pthread_t thread;

	pthread_barrier_init(&met, NULL, 2);
	thread = start(cancel_off, NULL);
	pthread_barrier_wait(&met);
	say_error(pthread_cancel(thread));
	pthread_barrier_wait(&met);
	say("%d", ended(thread) == PTHREAD_CANCELED);
	pthread_barrier_destroy(&met);
}

static volatile int spins;

static void *spin_async(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		spins = spins + 1;
	return arg;
}

CASE(cancel_async, 0)
{
	pthread_t threads[3];
	int i;

	for (i = 0; i < 3; i++)
		threads[i] = start(spin_async, NULL);
	for (i = 0; i < 3; i++)
		cancel_and_join(threads[i]);
}

static void *cancel_itself(void *arg)
{
	pthread_cleanup_push(say_text_of, "cleaned");
	say_error(pthread_cancel(pthread_self()));
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return arg;
}

CASE(cancel_self, EACH)
{
	say("%d", apart(cancel_itself, NULL) == PTHREAD_CANCELED);
}

static pthread_mutex_t cancel_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

static void in_cond_wait(void)
{
	pthread_mutex_lock(&cancel_lock);
	pthread_cleanup_push(unlock, &cancel_lock);
	pthread_cond_wait(&never, &cancel_lock);
	pthread_cleanup_pop(1);
}

static void in_cond_timedwait(void)
{
	const struct timespec late = after_ms(CLOCK_REALTIME, 30000);

	pthread_mutex_lock(&cancel_lock);
	pthread_cleanup_push(unlock, &cancel_lock);
	pthread_cond_timedwait(&never, &cancel_lock, &late);
	pthread_cleanup_pop(1);
}

static void in_sem_wait(void)
{
	sem_wait(&empty);
}

static void in_sem_timedwait(void)
{
	const struct timespec late = after_ms(CLOCK_REALTIME, 30000);

	sem_timedwait(&empty, &late);
}

static void in_join(void)
{
	pthread_t thread = start(sleep_on, NULL);

	pthread_join(thread, NULL);
}

static void in_read(void)
{
	char c;

	if (read(pipe_ends[0], &c, 1))
		say("read");
}

static void in_recv(void)
{
	char c;

	if (recv(pair[0], &c, 1, 0))
		say("received");
}

static void in_poll(void)
{
	struct pollfd p = { .fd = pipe_ends[0], .events = POLLIN };

	poll(&p, 1, -1);
}

static void in_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipe_ends[0], &set);
	select(pipe_ends[0] + 1, &set, NULL, NULL, NULL);
}

static void in_nanosleep(void)
{
	wait_ms(30000);
}

static void in_sleep(void)
{
	sleep(30);
}

static void in_pause(void)
{
	pause();
}

static void in_sigwait(void)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigwait(&set, &got);
}

static void in_sigsuspend(void)
{
	sigset_t set;

	sigfillset(&set);
	sigsuspend(&set);
}

static void in_sigtimedwait(void)
{
	const struct timespec late = { .tv_sec = 30 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigtimedwait(&set, NULL, &late);
}

static void in_system(void)
{
	if (system("exec sleep 5"))
		say("ended");
}

static const struct {
	const char *name;
	void (*wait)(void);
} points[] = { { "cond_wait", in_cond_wait },
	       { "cond_timedwait", in_cond_timedwait },
	       { "sem_wait", in_sem_wait },
	       { "sem_timedwait", in_sem_timedwait },
	       { "join", in_join },
	       { "read", in_read },
	       { "recv", in_recv },
	       { "poll", in_poll },
	       { "select", in_select },
	       { "nanosleep", in_nanosleep },
	       { "sleep", in_sleep },
	       { "pause", in_pause },
	       { "sigwait", in_sigwait },
	       { "sigsuspend", in_sigsuspend },
	       { "sigtimedwait", in_sigtimedwait } };

static void *wait_at_point(void *arg)
{
	((void (*)(void))arg)();
	say("returned");
	return NULL;
}

static void cancel_at(void (*wait)(void))
{
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++)
		threads[i] = start(wait_at_point, (void *)wait);
	wait_ms(20);
	for (i = 0; i < 2; i++)
		cancel_and_join(threads[i]);
}

CASE(cancel_points, 0)
{
	size_t i;

	if (pipe(pipe_ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		abort();
	sem_init(&empty, 0, 0);
	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		say("%s", points[i].name);
		cancel_at(points[i].wait);
	}
	for (i = 0; i < 2; i++) {
		close(pipe_ends[i]);
		close(pair[i]);
	}
}

CASE(cancel_system, 0)
{
	cancel_at(in_system);
	say_call(system("exit 3"));
}
