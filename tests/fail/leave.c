// SPDX-License-Identifier: BSD-2-Clause
/*
 * leave.c - rank 1 leaves the job in a way that no other test has, while the others wait for it.
 *
 *   leave exec          by executing another program, which lives on
 *   leave exec-child    the same, with a child made by fork() that lives on, too
 *   leave exec-thread   the same, by a second thread
 *   leave thread        main() leaves by pthread_exit(), no other thread is there
 *   leave thread-last   the same; another thread of the program ends last
 *   leave exit-thread   a second thread calls exit() while main() waits
 *   leave quick         _exit()
 *   leave daemon        daemon(): the parent ends
 *
 * Rank 1 does something else, and stays:
 *   leave stay-child    children by fork() and exec, vfork(), posix_spawn(), system() come and go,
 *                       and one stays
 *   leave stay-thread   main() leaves by pthread_exit(); another thread goes on to dsm_finalize()
 *   leave stay-early    the same; it is the last of many that blocked all signals before dsm_init()
 */
#include <dsm.h>

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common.h"

#define EARLY 200

extern char **environ;
static volatile long *memory;
static const char *how;
static dsm_sem_t never;
static pthread_t early[EARLY];
static sem_t go[EARLY];

static void say_when(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	printf("left %ld\n", t.tv_sec * 1000 + t.tv_nsec / 1000000);
	fflush(stdout);
}

static void execute(void)
{
	execl("/bin/sleep", "sleep", "3", (char *)NULL);
	exit(2);
}

static void *by_thread(void *arg)
{
	usleep(200000);
	if (!strcmp(how, "exec-thread"))
		execute();
	if (!strcmp(how, "exit-thread"))
		exit(5);
	memory[512]++;
	(void)arg;
	return NULL;
}

static void *go_on(void *arg)
{
	(void)arg;
	usleep(600000);
	memory[512]++;
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return NULL;
}

static void thread(void *(*fn)(void *))
{
	pthread_t t;

	pthread_create(&t, NULL, fn, NULL);
	pthread_detach(t);
}

/* The last has something to do at rank 1; the others end when they may. */
static void *begin_early(void *arg)
{
	sigset_t all;

	sem_wait(arg);
	sigfillset(&all);
	pthread_sigmask(SIG_UNBLOCK, &all, NULL); /* it may miss */
	return arg == &go[EARLY - 1] && dsm_rank() == 1 ? go_on(NULL) : NULL;
}

static void threads_early(void)
{
	sigset_t all, old;
	int i;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 0; i < EARLY; i++)
		if (sem_init(&go[i], 0, 0) || pthread_create(&early[i], NULL, begin_early, &go[i]))
			exit(2);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void let_early(void)
{
	int i;

	for (i = 0; i < EARLY - 1; i++) {
		sem_post(&go[i]);
		pthread_join(early[i], NULL);
	}
	pthread_detach(early[i]);
	sem_post(&go[i]);
}

static void leave(void)
{
	say_when();
	if (!strcmp(how, "exec")) {
		execute();
	} else if (!strcmp(how, "exec-child")) {
		if (fork() == 0) {
			sleep(3);
			_exit(0);
		}
		execute();
	} else if (!strcmp(how, "thread")) {
		pthread_exit(NULL);
	} else if (!strcmp(how, "thread-last")) {
		thread(by_thread);
		pthread_exit(NULL);
	} else if (!strcmp(how, "exec-thread") || !strcmp(how, "exit-thread")) {
		thread(by_thread);
		MUST(dsm_sem_init(&never, 0));
		MUST(dsm_sem_wait(&never));
	} else if (!strcmp(how, "quick")) {
		_exit(5);
	} else if (!strcmp(how, "daemon")) {
		if (daemon(1, 1))
			exit(2);
		sleep(1);
		_exit(0);
	}
}

static void children(void)
{
	char *const argv[] = { "sleep", "0.1", NULL };
	volatile int i;
	int status;
	pid_t pid;

	for (i = 0; i < 3; i++) {
		if (system("true"))
			exit(2);
		pid = fork();
		if (pid == 0)
			execv("/bin/sleep", argv);
		waitpid(pid, &status, 0);
		pid = vfork();
		if (pid == 0) {
			execv("/bin/sleep", argv);
			_exit(1);
		}
		waitpid(pid, &status, 0);
		if (posix_spawn(&pid, "/bin/sleep", NULL, NULL, argv, environ))
			exit(2);
		waitpid(pid, &status, 0);
		memory[512]++;
	}
	if (fork() == 0) {
		sleep(1);
		_exit(0);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	how = argv[1];
	if (!strcmp(how, "stay-early"))
		threads_early();
	memory = join("memory", 1 << 20);
	memory[0]++;
	MUST(dsm_barrier());
	if (!strcmp(how, "stay-early"))
		let_early();
	if (dsm_size() == 1) /* the same as "thread", in a job of one */
		pthread_exit(NULL);
	if (dsm_rank() == 1 && !strcmp(how, "stay-thread"))
		thread(go_on);
	if (dsm_rank() == 1 && (!strcmp(how, "stay-thread") || !strcmp(how, "stay-early")))
		pthread_exit(NULL);
	if (dsm_rank() == 1 && !strcmp(how, "stay-child"))
		children();
	else if (dsm_rank() == 1)
		leave();
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}
