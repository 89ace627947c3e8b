// SPDX-License-Identifier: BSD-2-Clause
/*
 * actions.c - a plain POSIX threads program whose threads set actions of signals for one another,
 * and send signals to one another: an action is the process's, whichever thread sets it, and a
 * signal comes to the thread that it was sent to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "steps.h"

#define THREADS 3
#define SIGNALS 20

static pthread_t threads[THREADS];
static int handled[THREADS + 1], values[THREADS + 1]; /* main() is the last one */
static sem_t got, ends;
static __thread int me = THREADS;
static __thread sigjmp_buf away;

static void on_signal(int sig)
{
	handled[me] += sig == SIGUSR1;
	check("the thread",
	      pthread_equal(pthread_self(), me < THREADS ? threads[me] : pthread_self()));
	sem_post(&got);
}

static void on_value(int sig, siginfo_t *info, void *context)
{
	(void)context;
	check("siginfo", sig == SIGRTMIN + 3 && info->si_code == SI_QUEUE);
	values[me] += info->si_value.sival_int;
	sem_post(&got);
}

static void leave(int sig)
{
	siglongjmp(away, sig);
}

static void *wait_for_it(void *arg)
{
	me = (int)(long)arg;
	sem_post(&got);
	while (sem_wait(&ends))
		check("sem_wait", errno == EINTR);
	return arg;
}

/* main() sends, and the others sleep. */
static void send_all(void)
{
	struct sigaction sa = { .sa_sigaction = on_value, .sa_flags = SA_SIGINFO | SA_RESTART };
	int i, n;

	signal(SIGUSR1, on_signal); /* the others run */
	sigaction(SIGRTMIN + 3, &sa, NULL);
	for (n = 0; n < SIGNALS; n++)
		for (i = 0; i < THREADS; i++) {
			const union sigval v = { .sival_int = n };

			check("pthread_kill()", !pthread_kill(threads[i], SIGUSR1));
			while (sem_wait(&got))
				;
			check("pthread_sigqueue()", !pthread_sigqueue(threads[i], SIGRTMIN + 3, v));
			while (sem_wait(&got))
				;
		}
	for (i = 0; i < THREADS; i++)
		printf("thread %d: %d signals, sum %d\n", i, handled[i], values[i]);
	check("signal 0", !pthread_kill(threads[0], 0));
	check("no signal", pthread_kill(threads[0], 1000) == EINVAL);
}

static void ask_all(void)
{
	struct sched_param param;
	cpu_set_t set, own;
	int i, policy;

	for (i = 0; i < THREADS; i++) {
		check("policy",
		      !pthread_getschedparam(threads[i], &policy, &param) && policy == SCHED_OTHER);
		check("set policy", !pthread_setschedparam(threads[i], SCHED_BATCH, &param));
		check("new policy",
		      !pthread_getschedparam(threads[i], &policy, &param) && policy == SCHED_BATCH);
		check("priority", !pthread_setschedprio(threads[i], 0));
		check("processors",
		      !pthread_getaffinity_np(threads[i], sizeof(set), &set) &&
			      CPU_COUNT(&set) > 0);
		check("set processors", !pthread_setaffinity_np(threads[i], sizeof(set), &set));
		check("the same",
		      !pthread_getaffinity_np(threads[i], sizeof(own), &own) &&
			      CPU_EQUAL(&set, &own));
	}
}

/* Whoever sets it, the others have it. */
static void *set_actions(void *arg)
{
	check("what main() has set", signal(SIGUSR1, SIG_IGN) == on_signal);
	check("mine", signal(SIGUSR2, on_signal) == SIG_DFL && signal(SIGFPE, leave) == SIG_DFL);
	sysv_signal(SIGHUP, on_signal);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	siginterrupt(SIGWINCH, 1);
#pragma GCC diagnostic pop
	signal(SIGPIPE, SIG_IGN);
	return arg;
}

static void *use_actions(void *arg)
{
	struct sigaction now;
	volatile int times = 0;
	int fds[2];

	raise(SIGUSR1); /* is ignored */
	raise(SIGUSR2);
	while (sem_wait(&got))
		;
	while (times < 3)
		if (sigsetjmp(away, 1))
			times++;
		else
			raise(SIGFPE);
	check("SIGPIPE",
	      !pipe(fds) && !close(fds[0]) && write(fds[1], "x", 1) == -1 && errno == EPIPE &&
		      !close(fds[1]));
	signal(SIGWINCH, on_signal);
	check("siginterrupt()", !sigaction(SIGWINCH, NULL, &now) && !(now.sa_flags & SA_RESTART));
	return arg;
}

/* The handler is called once in all. */
static void *use_once(void *arg)
{
	struct sigaction now;

	check("before",
	      !sigaction(SIGHUP, NULL, &now) && (now.sa_handler == on_signal) == (arg != NULL));
	if (!arg)
		return arg;
	raise(SIGHUP);
	while (sem_wait(&got))
		;
	check("behind", !sigaction(SIGHUP, NULL, &now) && now.sa_handler == SIG_DFL);
	return arg;
}

int main(void)
{
	long i;

	sem_init(&got, 0, 0);
	sem_init(&ends, 0, 0);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, wait_for_it, (void *)i);
	for (i = 0; i < THREADS; i++)
		sem_wait(&got);
	send_all();
	ask_all();
	for (i = 0; i < THREADS; i++)
		sem_post(&ends);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	in_thread(set_actions, NULL);
	for (i = 0; i < THREADS; i++)
		in_thread(use_actions, NULL);
	for (i = 0; i < THREADS; i++)
		in_thread(use_once, i ? NULL : &i);
	use_actions(NULL);
	printf("main(): %d\n", handled[THREADS]);
	return conclude();
}
