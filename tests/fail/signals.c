// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - shared memory where it may not be touched.
 *
 *   signals handler    by a signal handler that interrupted a libdsm call: the process ends by SIGSEGV
 *   signals between    by a handler that interrupted the program itself: allowed
 *   signals fork       by a child: it dies alone
 */
#include <dsm.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static volatile char *memory;
static volatile sig_atomic_t came;
static int again;

static void touch(int sig)
{
	(void)sig;
	memory[4096 * (1 + came % 200)] = 1; /* a page that is not there yet */
	came++;
	if (again) /* it may have come before the call */
		alarm(1);
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
	dsm_sem_t s;

	if (argc != 2)
		return 2;
	memory = join("memory", 1 << 20);
	MUST(dsm_sem_init(&s, 0));
	MUST(dsm_barrier());
	signal(SIGALRM, touch);
	if (!strcmp(argv[1], "handler")) {
		again = 1;
		if (dsm_rank() == 0)
			alarm(1);
		MUST(dsm_sem_wait(&s));
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
