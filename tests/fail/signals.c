// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - shared memory where it may not be touched.
 *
 *   signals handler    by a signal handler that interrupted a libdsm call which does not sleep: the
 *                      process ends by SIGSEGV
 *   signals kept       by one that defers its signal there: allowed
 *   signals asleep     by a handler that interrupted one which sleeps: allowed
 *   signals between    by a handler that interrupted the program itself: allowed
 *   signals fork       by a child: it dies alone
 */
#include <dsm.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static volatile char *memory;
static volatile sig_atomic_t came;
#define AGAIN 5
static int again;

static void alarm_in(int us, int every)
{
	const struct itimerval t = { { 0, every }, { 0, us } };

	setitimer(ITIMER_REAL, &t, NULL);
}

static void touch(int sig)
{
	(void)sig;
	memory[4096 * (1 + came % 200)] = 1; /* a page that is not there yet */
	came++;
	if (again) {
		memory[0] = (char)came;
		if (came < AGAIN)
			alarm_in(50000, 0);
	}
}

/* The calls return at once: sooner or later, the handler interrupts one. */
static void busy(dsm_sem_t *s, dsm_sem_t *never)
{
	if (dsm_rank())
		MUST(dsm_sem_wait(never));
	alarm_in(1000, 1000);
	for (;;)
		MUST(dsm_sem_post(s, 1));
}

static volatile sig_atomic_t deferred;

static void touch_later(int sig, siginfo_t *info, void *context)
{
	if (dsm_signal_defer(sig, info, context))
		deferred++;
	else
		touch(sig);
}

/* The other rank takes the pages back all the time, so that the handler misses. */
static void kept(dsm_sem_t *s)
{
	struct sigaction sa = { .sa_sigaction = touch_later, .sa_flags = SA_SIGINFO | SA_RESTART };
	int i;

	if (dsm_rank() == 0) {
		sigaction(SIGALRM, &sa, NULL);
		alarm_in(1000, 1000);
		while (came < 200 || deferred < 20)
			MUST(dsm_sem_post(s, 1));
		alarm_in(0, 0);
		memory[0] = 1;
	} else {
		while (!memory[0]) {
			for (i = 1; i <= 200; i++)
				memory[4096 * i]++;
			usleep(1000);
		}
	}
	MUST(dsm_barrier());
}

static void asleep(dsm_sem_t *s)
{
	again = 1;
	if (dsm_rank() == 0) {
		alarm_in(200000, 0);
		MUST(dsm_sem_wait(s));
	} else if (dsm_rank() == 1) {
		while (memory[0] < AGAIN)
			usleep(10000);
		MUST(dsm_sem_post(s, 1));
	}
	MUST(dsm_barrier());
}

static int in_child(void)
{
	if (dsm_barrier() != -ECHILD)
		return 4;
	if (dsm_rank() != -ECHILD)
		return 5;
	memory[0] = 2; /* not there: the child ends by a signal */
	return 6;
}

static void with_child(void)
{
	int status, err;
	pid_t pid;

	memory[0] = 1;
	MUST(dsm_barrier());
	pid = fork();
	if (pid == 0)
		_exit(in_child());
	if (waitpid(pid, &status, 0) < 0 || !WIFSIGNALED(status)) {
		fprintf(stderr, "the child ended with status %#x\n", status);
		exit(2);
	}
	pid = fork();
	if (pid == 0)
		exit(0); /* with the handlers of exit() */
	waitpid(pid, &status, 0);
	err = status ? -ECHILD : 0;
	MUST(err);
	memory[0] = 1;
}

int main(int argc, char **argv)
{
	dsm_sem_t *s, never;

	if (argc != 2)
		return 2;
	memory = join("memory", 1 << 20);
	s = (dsm_sem_t *)(memory + 4096 * 201);
	if (dsm_rank() == 0)
		MUST(dsm_sem_init(s, 0));
	MUST(dsm_sem_init(&never, 0));
	MUST(dsm_barrier());
	signal(SIGALRM, touch);
	if (!strcmp(argv[1], "handler")) {
		busy(s, &never);
	} else if (!strcmp(argv[1], "kept")) {
		kept(s);
	} else if (!strcmp(argv[1], "asleep")) {
		asleep(s);
	} else if (!strcmp(argv[1], "between")) {
		alarm(1);
		while (!came)
			;
		MUST(dsm_barrier());
	} else {
		with_child();
	}
	MUST(dsm_finalize());
	return 0;
}
