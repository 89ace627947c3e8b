// SPDX-License-Identifier: BSD-2-Clause
/*
 * contexts.c - makecontext(3) and its like: fibers that threads of all ranks take in turn, with
 * contexts that share pages, each with its mask of signals and its rounding.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <xmmintrin.h>

#include "steps.h"

enum { THREADS = 4, FIBERS = 12, TURNS = 300, STACK = 64 << 10 };

static struct fiber {
	ucontext_t context, back; /* back: in the thread that gives the turn */
	char *stack;
	double sum;
	int left; /* turns */
	int busy;
} fibers[FIBERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const unsigned int rounding[] = { _MM_ROUND_NEAREST, _MM_ROUND_DOWN, _MM_ROUND_UP,
					 _MM_ROUND_TOWARD_ZERO };

/* Of vectors and of x87, which have the same numbers. */
static unsigned int rounding_now(void)
{
	unsigned short word;

	__asm__ volatile("fnstcw %0" : "=m"(word));
	return _MM_GET_ROUNDING_MODE() == (word >> 10 & 3u) << 13 ? _MM_GET_ROUNDING_MODE() : ~0u;
}

static void round_by(unsigned int mode)
{
	unsigned short word;

	__asm__ volatile("fnstcw %0" : "=m"(word));
	word = (unsigned short)((word & ~(3u << 10)) | mode >> 13 << 10);
	__asm__ volatile("fldcw %0" : : "m"(word));
	_MM_SET_ROUNDING_MODE(mode);
}

static int is_blocked(int sig)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return sigismember(&set, sig);
}

/* The registers of all its turns are the fiber's own. */
static void run_fiber(int number, int turns, int c, int d, int e, int f, long g, int h,
		      const char *text)
{
	struct fiber *mine = &fibers[number];
	volatile double sum = 0;

	check("arguments",
	      c == 3 && d == 4 && e == 5 && f == 6 && g == 7l << 40 && h == 8 &&
		      !strcmp(text, "nine"));
	round_by(rounding[number % 4]);
	for (mine->left = turns; mine->left; mine->left--) {
		check("mask",
		      is_blocked(SIGUSR1) == number % 2 && is_blocked(SIGUSR2) == number / 2 % 2);
		check("rounding", rounding_now() == rounding[number % 4]);
		sum = sum + 1.0 / mine->left;
		if (mine->left > 1)
			check("swapcontext", !swapcontext(&mine->context, &mine->back));
	}
	mine->sum = sum;
}

static void make_fiber(int number)
{
	struct fiber *f = &fibers[number];

	f->left = -1;
	f->stack = malloc(STACK);
	check("getcontext", !getcontext(&f->context));
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK;
	f->context.uc_link = &f->back;
	/* not even misses may be blocked by it */
	if (number == 3)
		sigfillset(&f->context.uc_sigmask);
	if (number % 2)
		sigaddset(&f->context.uc_sigmask, SIGUSR1);
	if (number / 2 % 2)
		sigaddset(&f->context.uc_sigmask, SIGUSR2);
	makecontext(&f->context, (void (*)(void))run_fiber, 9, number, TURNS, 3, 4, 5, 6, 7l << 40,
		    8, "nine");
}

static void give_turn(struct fiber *f)
{
	check("thread's swapcontext", !swapcontext(&f->back, &f->context));
	check("thread's mask", !is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
	check("thread's rounding", rounding_now() == _MM_ROUND_NEAREST);
}

static void *schedule(void *arg)
{
	int at = (int)(long)arg, ended = 0, busy;
	struct fiber *f;

	while (ended < FIBERS) {
		at = (at + 1) % FIBERS;
		f = &fibers[at];
		pthread_mutex_lock(&lock);
		ended = f->left ? 0 : ended + 1;
		busy = f->busy || !f->left;
		f->busy |= !busy;
		pthread_mutex_unlock(&lock);
		if (busy)
			continue;
		give_turn(f);
		pthread_mutex_lock(&lock);
		f->busy = 0;
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

/* A context goes on as often as it is set. */
static void *repeat(void *arg)
{
	ucontext_t again;
	volatile int times = 0;

	check("getcontext", !getcontext(&again));
	if (++times < 1000)
		setcontext(&again);
	check("times", times == 1000);
	return arg;
}

static void *child(void *arg)
{
	*(unsigned int *)arg = rounding_now();
	return NULL;
}

/* The floating-point environment of a thread is its creator's. */
static void *inherit(void *arg)
{
	unsigned int got = 1;
	int i;

	for (i = 0; i < 4; i++) {
		round_by(rounding[i]);
		in_thread(child, &got);
		check("inherited rounding", got == rounding[i]);
	}
	return arg;
}

int main(void)
{
	int i, right = 0;

	for (i = 0; i < FIBERS; i++)
		make_fiber(i);
	in_threads(THREADS, schedule);
	for (i = 0; i < FIBERS; i++) {
		right += i >= 4 && fibers[i].sum == fibers[i % 4].sum;
		free(fibers[i].stack);
	}
	tell("%d fibers, %.17g %.17g %.17g %.17g\n", right, fibers[0].sum, fibers[1].sum,
	     fibers[2].sum, fibers[3].sum);
	in_threads(THREADS, repeat);
	in_threads(2, inherit);
	return conclude();
}
