// SPDX-License-Identifier: BSD-2-Clause
/*
 * faults.c - a plain POSIX threads program that changes the actions of SIGSEGV and SIGBUS by each
 * function that does, also to SIG_IGN and SIG_DFL. After each change, two threads touch the same
 * pages in turn. Then its handlers get real faults, as those of any program.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "steps.h"

#define PAGES 8
#define CHANGES 23

static unsigned char pages[PAGES][4096] __attribute__((aligned(4096)));
static pthread_barrier_t turn;
static sigjmp_buf away;
static volatile int came, seen_mask; /* how often a handler ran; which signals were blocked in it */
static volatile char *volatile nowhere;

static void touch(void)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		pages[i][0]++;
}

/* Each thread has all pages once. */
static void exchange(void)
{
	pthread_barrier_wait(&turn);
	touch();
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
}

static void *other(void *arg)
{
	int i;

	for (i = 0; i < CHANGES; i++) {
		pthread_barrier_wait(&turn);
		pthread_barrier_wait(&turn);
		touch();
		pthread_barrier_wait(&turn);
	}
	return arg;
}

static void count(int sig)
{
	came += sig != 0;
}

static void leave(int sig)
{
	came++;
	touch(); /* a handler may miss, too */
	siglongjmp(away, sig);
}

static void look(int sig, siginfo_t *info, void *context)
{
	sigset_t set;

	(void)context;
	sigprocmask(SIG_BLOCK, NULL, &set);
	seen_mask = sigismember(&set, SIGUSR1) | sigismember(&set, SIGALRM) << 1;
	check("siginfo", info->si_signo == sig && info->si_code > 0);
	siglongjmp(away, info->si_addr == nowhere ? sig : -1);
}

static void by_signal(int sig)
{
	check("the first action", signal(sig, SIG_DFL) == SIG_DFL);
	exchange();
	check("SIG_DFL", signal(sig, SIG_IGN) == SIG_DFL);
	exchange();
	raise(sig); /* is ignored */
	exchange();
	check("SIG_IGN", signal(sig, count) == SIG_IGN);
	exchange();
	came = 0;
	raise(sig);
	raise(sig);
	check("a handler", signal(sig, leave) == count && came == 2);
	exchange();
	check("sysv_signal()", sysv_signal(sig, count) == leave);
	exchange();
	raise(sig);
	check("reset", came == 3 && signal(sig, SIG_DFL) == SIG_DFL);
	exchange();
}

static void by_sigaction(int sig)
{
	struct sigaction sa = { .sa_sigaction = look, .sa_flags = SA_SIGINFO }, before, now;

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR1);
	check("sigaction()", !sigaction(sig, &sa, &before) && before.sa_handler == SIG_DFL);
	exchange();
	check("what is installed",
	      !sigaction(sig, NULL, &now) && now.sa_sigaction == look &&
		      (now.sa_flags & SA_SIGINFO));
	check("the mask",
	      sigismember(&now.sa_mask, SIGUSR1) && !sigismember(&now.sa_mask, SIGUSR2));
	sigaction(sig, &before, &now);
	check("what was installed", now.sa_sigaction == look && sigismember(&now.sa_mask, SIGUSR1));
	exchange();
	sigaction(sig, &now, &before); /* what it has returned */
	check("what was restored", before.sa_handler == SIG_DFL);
	exchange();
}

/* Like a program that looks whether memory is readable. */
static int probe(volatile char *at)
{
	int sig = sigsetjmp(away, 1);

	if (!sig)
		(void)*at;
	return sig;
}

static void real(void)
{
	char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t set;
	int i;

	for (i = 0; i < 20; i++) {
		nowhere = i % 2 ? hole : NULL;
		seen_mask = 0;
		check("a real fault", probe(nowhere) == SIGSEGV);
		check("the handler's mask", seen_mask == 1);
		touch();
	}
	sigprocmask(SIG_BLOCK, NULL, &set);
	check("the mask after siglongjmp()",
	      !sigismember(&set, SIGUSR1) && !sigismember(&set, SIGSEGV));
	munmap(hole, 4096);
}

int main(void)
{
	struct sigaction sa = { .sa_sigaction = look, .sa_flags = SA_SIGINFO };
	pthread_t t;

	sigaddset(&sa.sa_mask, SIGUSR1);
	pthread_barrier_init(&turn, NULL, 2);
	pthread_create(&t, NULL, other, NULL);
	by_signal(SIGSEGV);
	by_signal(SIGBUS);
	by_sigaction(SIGSEGV);
	by_sigaction(SIGBUS);
	signal(SIGBUS, leave);
	signal(SIGBUS, SIG_DFL);
	exchange();
	signal(SIGSEGV, SIG_IGN);
	exchange();
	sigaction(SIGSEGV, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	exchange();
	pthread_join(t, NULL);
	sigaction(SIGSEGV, &sa, NULL);
	real();
	printf("pages %d %d\n", pages[0][0], pages[PAGES - 1][0]);
	return conclude();
}
