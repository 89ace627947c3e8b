// SPDX-License-Identifier: BSD-2-Clause
/*
 * process.c - a plain POSIX threads program that sends signals to its process, by timers and
 * kill(), from any of its threads. Threads take them by sigwait() and its relatives, and by
 * handlers, which run in a thread that does not block them.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "steps.h"

#define THREADS 3

static pid_t pid;
static pthread_t main_thread, taker;
static volatile sig_atomic_t came, elsewhere;
static unsigned char pages[4][4096] __attribute__((aligned(4096)));
static int called, ready; /* atomic */

static sigset_t set_of(int a, int b)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, a);
	sigaddset(&set, b);
	return set;
}

static void block(int how, int sig)
{
	const sigset_t set = set_of(sig, sig);

	pthread_sigmask(how, &set, NULL);
}

static void sleep_ms(long ms)
{
	const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void alarm_in(long ms)
{
	const struct itimerval t = { .it_value.tv_usec = ms * 1000 };

	check("setitimer()", !setitimer(ITIMER_REAL, &t, NULL));
}

/* ---- everything is blocked: who waits takes it ----------------------------------------------- */

static void start_timer(int ms, int sig)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL,
			      .sigev_signo = sig,
			      .sigev_value.sival_int = 77 };
	const struct itimerspec in = { .it_value.tv_nsec = ms * 1000000 };
	struct itimerspec left;
	timer_t t;

	check("timer_create()",
	      !timer_create(CLOCK_MONOTONIC, &e, &t) && !timer_settime(t, 0, &in, NULL));
	check("timer_gettime()", !timer_gettime(t, &left) && left.it_value.tv_nsec <= ms * 1000000);
}

static void *wait_for_some(void *arg)
{
	const sigset_t set = set_of(SIGALRM, SIGUSR1), rt = set_of(SIGRTMIN, SIGRTMIN);
	const struct timespec brief = { .tv_nsec = 20000000 }, longer = { .tv_sec = 20 };
	struct itimerval left;
	siginfo_t info;
	int sig = 0;

	check("getpid()", getpid() == pid && syscall(SYS_getpid) == pid);
	alarm_in(20);
	check("getitimer()", !getitimer(ITIMER_REAL, &left));
	check("sigwait()", !sigwait(&set, &sig) && sig == SIGALRM);
	check("kill()",
	      !kill(pid, SIGUSR1) && sigwaitinfo(&set, &info) == SIGUSR1 &&
		      info.si_code == SI_USER);
	check("sigqueue()", !sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = 5 }));
	check("sigtimedwait()",
	      sigtimedwait(&rt, &info, &longer) == SIGRTMIN && info.si_value.sival_int == 5);
	check("a limit", sigtimedwait(&rt, &info, &brief) == -1 && errno == EAGAIN);
	start_timer(20, SIGUSR1);
	check("a timer",
	      sigwaitinfo(&set, &info) == SIGUSR1 && info.si_value.sival_int == 77 &&
		      info.si_code == SI_TIMER);
	check("alarm()", alarm(100) == 0 && alarm(0) > 0);
	return arg;
}

/* One sends, another one takes. */
static void *take_one(void *arg)
{
	const sigset_t set = set_of(SIGUSR2, SIGUSR2);
	int sig = 0;

	__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
	check("sigwait() by another", !sigwait(&set, &sig) && sig == SIGUSR2);
	return arg;
}

static void *send_one(void *arg)
{
	sigset_t pending;

	check("kill() by another", !kill(pid, SIGUSR2));
	check("sigpending()", !arg || (!sigpending(&pending) && sigismember(&pending, SIGUSR2)));
	return NULL;
}

/* What rank 0 does for it, no thread that takes the signal may do. */
static void *open_one(void *arg)
{
	const int fd = open("/dev/null", O_RDONLY);

	check("open()", fd >= 0 && !close(fd));
	return arg;
}

static void blocked(void)
{
	pthread_t t[THREADS];
	sigset_t all, before;
	int i;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < THREADS; i++)
		in_thread(wait_for_some, NULL);
	wait_for_some(NULL);
	for (i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, take_one, NULL);
	while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < THREADS)
		sleep_ms(1);
	sleep_ms(50);
	for (i = 0; i < THREADS; i++) {
		in_thread(send_one, NULL);
		sleep_ms(50);
	}
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (i = 0; i < THREADS; i++) { /* it is sent first */
		in_thread(send_one, &all);
		in_thread(open_one, NULL);
		in_thread(take_one, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- handlers -------------------------------------------------------------------------------- */

static void on_signal(int sig)
{
	came += sig != 0;
	elsewhere += !pthread_equal(pthread_self(), taker);
	pages[came % 4][0]++;
}

/* Only this thread does not block it. */
static void *unblock_and_wait(void *arg)
{
	sigset_t none;
	int i;

	taker = pthread_self();
	signal(SIGUSR1, on_signal);
	came = elsewhere = 0;
	kill(pid, SIGUSR1);
	block(SIG_UNBLOCK, SIGUSR1);
	for (i = 0; i < 2000 && came < 1; i++)
		sleep_ms(1);
	kill(pid, SIGUSR1);
	for (i = 0; i < 2000 && came < 2; i++)
		sleep_ms(1);
	block(SIG_BLOCK, SIGUSR1);
	sigemptyset(&none);
	alarm(0);
	signal(SIGALRM, on_signal);
	block(SIG_BLOCK, SIGALRM);
	alarm_in(100);
	check("sigsuspend()", sigsuspend(&none) == -1 && errno == EINTR && came == 3);
	check("which thread", !elsewhere);
	return arg;
}

static void *pause_here(void *arg)
{
	block(SIG_UNBLOCK, SIGALRM);
	taker = pthread_self();
	came = elsewhere = 0;
	alarm_in(100);
	check("pause()", pause() == -1 && errno == EINTR && came == 1 && !elsewhere);
	return arg;
}

static void exit_it(int sig)
{
	pthread_exit((void *)(long)sig);
}

/* The handler ends the thread that it interrupts. */
static void *is_ended(void *arg)
{
	block(SIG_UNBLOCK, SIGALRM);
	alarm_in(100);
	for (;;)
		sleep_ms(1000);
	return arg;
}

/* main() blocks nothing, and the others all. */
static void *disturb(void *arg)
{
	sigset_t all;
	int i;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (i = 0; i < 20; i++) {
		kill(pid, SIGUSR1);
		sleep_ms(2);
	}
	return arg;
}

static void with_handlers(void)
{
	void *result;
	pthread_t t;
	int i;

	block(SIG_BLOCK, SIGUSR1);
	block(SIG_BLOCK, SIGALRM);
	for (i = 0; i < 2; i++)
		in_thread(unblock_and_wait, NULL);
	for (i = 0; i < 2; i++)
		in_thread(pause_here, NULL);
	signal(SIGALRM, exit_it);
	for (i = 0; i < 2; i++) {
		pthread_create(&t, NULL, is_ended, NULL);
		pthread_join(t, &result);
		check("pthread_exit() in a handler", (long)result == SIGALRM);
	}
	signal(SIGALRM, on_signal);
	taker = main_thread;
	came = elsewhere = 0;
	block(SIG_UNBLOCK, SIGUSR1);
	for (i = 0; i < 2; i++)
		in_thread(disturb, NULL);
	check("main()'s", came > 0 && !elsewhere);
}

/* ---- notification by a thread ---------------------------------------------------------------- */

static void on_timer(union sigval v)
{
	int i;

	for (i = 0; i < 4; i++)
		pages[i][v.sival_int]++;
	__atomic_add_fetch(&called, 1, __ATOMIC_SEQ_CST);
}

static void *notified(void *arg)
{
	struct sigevent e = { .sigev_notify = SIGEV_THREAD,
			      .sigev_notify_function = on_timer,
			      .sigev_value.sival_int = 9 };
	const struct itimerspec in = { .it_value.tv_nsec = 5000000,
				       .it_interval.tv_nsec = 5000000 };
	int i, until_n = __atomic_load_n(&called, __ATOMIC_SEQ_CST) + 5;
	timer_t t;

	check("SIGEV_THREAD",
	      !timer_create(CLOCK_MONOTONIC, &e, &t) && !timer_settime(t, 0, &in, NULL));
	while (__atomic_load_n(&called, __ATOMIC_SEQ_CST) < until_n)
		for (i = 0; i < 4; i++)
			pages[i][1]++;
	check("timer_delete()", timer_getoverrun(t) >= 0 && !timer_delete(t));
	return arg;
}

int main(void)
{
	int i;

	pid = getpid();
	main_thread = pthread_self();
	blocked();
	with_handlers();
	for (i = 0; i < 2; i++)
		in_thread(notified, NULL);
	return conclude();
}
