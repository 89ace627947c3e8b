// SPDX-License-Identifier: BSD-2-Clause
/*
 * masks.c - a plain POSIX threads program that blocks all signals by each function that can, and
 * touches what other threads have written meanwhile.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "steps.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* programs still use these */

#define PAGES 4
#define ROUNDS 9
#define STACK 262144 /* bytes; of private memory */
#define BIT(sig) (1 << ((sig)-1))

static unsigned char pages[PAGES][4096] __attribute__((aligned(4096)));
static pthread_barrier_t turn;
static ucontext_t back, there;

static void touch(void)
{
	size_t i;

	for (i = 0; i < PAGES; i++)
		pages[i][0]++;
}

static void *other(void *arg)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&turn);
		touch();
		pthread_barrier_wait(&turn);
	}
	return arg;
}

/* The other thread has the pages, then this one. */
static void exchange(void)
{
	pthread_barrier_wait(&turn);
	pthread_barrier_wait(&turn);
	touch();
}

static int is_blocked(int sig)
{
	sigset_t set;

	sigprocmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, sig);
}

static void open_all(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void in_context(void)
{
	check("the mask of a context", is_blocked(SIGUSR1));
	exchange();
	swapcontext(&there, &back);
	exchange();
	setcontext(&back);
}

static void contexts(void)
{
	getcontext(&there);
	there.uc_stack.ss_sp =
		mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	there.uc_stack.ss_size = STACK;
	there.uc_link = NULL;
	sigfillset(&there.uc_sigmask);
	makecontext(&there, in_context, 0);
	swapcontext(&back, &there);
	check("the mask before", !is_blocked(SIGUSR1));
	sigfillset(&there.uc_sigmask);
	swapcontext(&back, &there);
	check("the mask at the end", !is_blocked(SIGUSR1));
}

int main(void)
{
	pthread_t t;
	uint64_t all = UINT64_MAX, none = 0;

	pthread_barrier_init(&turn, NULL, 2);
	pthread_create(&t, NULL, other, NULL);
	check("sigblock()", sigblock(-1) == 0 && is_blocked(SIGUSR1));
	exchange();
	check("sigsetmask()",
	      (sigsetmask(BIT(SIGUSR2)) & BIT(SIGUSR1)) && !is_blocked(SIGUSR1) &&
		      is_blocked(SIGUSR2));
	check("all again", sigsetmask(-1) == BIT(SIGUSR2));
	exchange();
	open_all();
	check("sighold()",
	      !sighold(SIGSEGV) && !sighold(SIGBUS) && !sighold(SIGUSR1) && is_blocked(SIGUSR1));
	exchange();
	check("sigrelse()",
	      !sigrelse(SIGUSR1) && !is_blocked(SIGUSR1) && !sigrelse(SIGSEGV) &&
		      sighold(1000) == -1);
	sigset(SIGBUS, SIG_HOLD);
	check("sigset()",
	      sigset(SIGUSR2, SIG_HOLD) == SIG_DFL && is_blocked(SIGUSR2) &&
		      sigset(SIGUSR2, SIG_DFL) == SIG_HOLD);
	exchange();
	check("sigignore()", !sigignore(SIGUSR1) && signal(SIGUSR1, SIG_DFL) == SIG_IGN);
	open_all();
	check("by number",
	      !syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8) && is_blocked(SIGUSR1));
	exchange();
	check("by number, none",
	      !syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8) && !is_blocked(SIGUSR1));
	contexts();
	exchange();
	sigignore(SIGSEGV);
	exchange();
	pthread_join(t, NULL);
	printf("pages %d %d\n", pages[0][0], pages[PAGES - 1][0]);
	return conclude();
}
