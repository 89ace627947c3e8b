// SPDX-License-Identifier: BSD-2-Clause
/*
 * handles.c - functions that take a thread as an argument: joining with a time limit, attributes
 * and names for threads of all ranks; and functions that change a thread in the kernel, for the
 * calling thread.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "steps.h"

#define THREADS 5 /* more than ranks: some are neighbours of main() */

/* ---- joining --------------------------------------------------------------------------------- */

static void *waits(void *arg)
{
	until((int)(intptr_t)arg);
	return arg;
}

static void *joins_itself(void *arg)
{
	const struct timespec past = { 1, 0 };

	check("join of itself", pthread_timedjoin_np(pthread_self(), NULL, &past) == EDEADLK);
	return arg;
}

static void joining(void)
{
	struct timespec t, past = { 1, 0 };
	void *result = NULL;
	pthread_t one;
	int i, err;

	for (i = 1; i <= THREADS; i++) {
		pthread_create(&one, NULL, waits, (void *)(intptr_t)i);
		check("tryjoin of one that runs", pthread_tryjoin_np(one, &result) == EBUSY);
		check("timedjoin, past", pthread_timedjoin_np(one, &result, &past) == ETIMEDOUT);
		t = after_ms(CLOCK_REALTIME, 30);
		check("timedjoin", pthread_timedjoin_np(one, &result, &t) == ETIMEDOUT);
		t = after_ms(CLOCK_MONOTONIC, 30);
		check("clockjoin",
		      pthread_clockjoin_np(one, &result, CLOCK_MONOTONIC, &t) == ETIMEDOUT);
		check("clockjoin, another clock",
		      pthread_clockjoin_np(one, &result, CLOCK_PROCESS_CPUTIME_ID, &t) == EINVAL);
		go_to(i);
		t = after_ms(CLOCK_MONOTONIC, 20000);
		if (i % 3 == 0)
			err = pthread_timedjoin_np(one, &result, NULL);
		else if (i % 3 == 1)
			err = pthread_clockjoin_np(one, &result, CLOCK_MONOTONIC, &t);
		else
			while ((err = pthread_tryjoin_np(one, &result)) == EBUSY)
				usleep(1000);
		check("result", !err && (intptr_t)result == i);
	}
	for (i = 0; i < 2; i++) {
		in_thread(joins_itself, NULL);
	}
	for (i = 0; i < 2; i++) {
		pthread_create(&one, NULL, waits, (void *)(intptr_t)(THREADS + 1));
		pthread_detach(one);
		check("join of a detached one", pthread_timedjoin_np(one, NULL, &past) == EINVAL);
	}
	go_to(THREADS + 1);
}

static void *returns(void *arg)
{
	return arg;
}

/* What POSIX recommends where a handle names no thread any more, or one that cannot be joined. */
static void ended(void)
{
	pthread_t one;
	int i;

	for (i = 0; i < THREADS; i++) {
		pthread_create(&one, NULL, waits, (void *)(intptr_t)(THREADS + 2 + i));
		check("detach", !pthread_detach(one));
		check("detach of a detached one", pthread_detach(one) == EINVAL);
		check("join of a detached one, for ever", pthread_join(one, NULL) == EINVAL);
		go_to(THREADS + 2 + i);
		pthread_create(&one, NULL, returns, NULL);
		usleep(20000);
		check("detach of an ended one", !pthread_detach(one));
		pthread_create(&one, NULL, returns, NULL);
		check("join", !pthread_join(one, NULL));
		check("join of a joined one", pthread_join(one, NULL) == ESRCH);
		check("detach of a joined one", pthread_detach(one) == ESRCH);
	}
}

/* ---- attributes ------------------------------------------------------------------------------ */

struct stack {
	char *low;
	size_t size, guard;
	int detached;
};

static struct stack stack_of(pthread_t t)
{
	struct stack s = { 0 };
	pthread_attr_t attr;
	void *low;

	if (pthread_getattr_np(t, &attr))
		return s;
	pthread_attr_getstack(&attr, &low, &s.size);
	pthread_attr_getguardsize(&attr, &s.guard);
	pthread_attr_getdetachstate(&attr, &s.detached);
	pthread_attr_destroy(&attr);
	s.low = low;
	return s;
}

static struct stack mine;

static void *looks(void *arg)
{
	char here = 0;
	const struct stack s = stack_of(pthread_self());

	check("a local variable is on the stack", &here >= s.low && &here < s.low + s.size);
	mine = s;
	go_to(20);
	until(21);
	return arg;
}

static void attributes(void)
{
	const size_t sizes[] = { 64ul << 10, 256ul << 10, 3ul << 20, 192ul << 10 };
	pthread_attr_t attr;
	struct stack s;
	pthread_t one;
	int i;

	for (i = 0; i < 4; i++) {
		go_to(19);
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, sizes[i]);
		pthread_attr_setdetachstate(
			&attr, i == 3 ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE);
		pthread_create(&one, &attr, looks, NULL);
		pthread_attr_destroy(&attr);
		until(20);
		s = stack_of(one);
		check("the same for others", !memcmp(&s, &mine, sizeof(s)));
		check("size", s.size + s.guard >= sizes[i]);
		check("detached",
		      s.detached == (i == 3 ? PTHREAD_CREATE_DETACHED : PTHREAD_CREATE_JOINABLE));
		go_to(21);
		if (i < 3)
			pthread_join(one, NULL);
	}
}

/* ---- names ----------------------------------------------------------------------------------- */

static char wanted[THREADS][16];
static pthread_barrier_t named, seen;

static void *has_name(void *arg)
{
	const char *want = wanted[(intptr_t)arg];
	char name[16] = "", kernels[16] = "";

	pthread_barrier_wait(&named);
	check("own name, given by main()",
	      !pthread_getname_np(pthread_self(), name, sizeof(name)) && !strcmp(name, want));
	pthread_barrier_wait(&seen);
	snprintf(name, sizeof(name), "self %d", (int)(intptr_t)arg);
	check("named by itself", !pthread_setname_np(pthread_self(), name));
	check("known to the kernel", !prctl(PR_GET_NAME, kernels) && !strcmp(name, kernels));
	pthread_barrier_wait(&named);
	pthread_barrier_wait(&seen);
	return NULL;
}

static void names(void)
{
	char name[16] = "", mains[16] = "", want[16];
	pthread_t t[THREADS];
	int i;

	pthread_barrier_init(&named, NULL, THREADS + 1);
	pthread_barrier_init(&seen, NULL, THREADS + 1);
	check("setname of main()", !pthread_setname_np(pthread_self(), "fifteen letters"));
	check("known to the kernel",
	      !prctl(PR_GET_NAME, mains) && !strcmp(mains, "fifteen letters"));
	for (i = 0; i < THREADS; i++) {
		pthread_create(&t[i], NULL, has_name, (void *)(intptr_t)i);
		check("its creator's at first",
		      !pthread_getname_np(t[i], name, sizeof(name)) && !strcmp(name, mains));
		snprintf(wanted[i], sizeof(wanted[i]), "worker %d", i);
		check("setname", !pthread_setname_np(t[i], wanted[i]));
		check("setname, too long", pthread_setname_np(t[i], "sixteen letters!") == ERANGE);
		check("getname",
		      !pthread_getname_np(t[i], name, sizeof(name)) && !strcmp(name, wanted[i]));
		check("getname, too short", pthread_getname_np(t[i], name, 15) == ERANGE);
	}
	pthread_barrier_wait(&named);
	pthread_barrier_wait(&seen);
	pthread_barrier_wait(&named);
	for (i = 0; i < THREADS; i++) {
		snprintf(want, sizeof(want), "self %d", i);
		check("getname of what it named itself",
		      !pthread_getname_np(t[i], name, sizeof(name)) && !strcmp(name, want));
	}
	pthread_barrier_wait(&seen);
	for (i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
}

/* ---- the calling thread ---------------------------------------------------------------------- */

static volatile int came, value;

static void handler(int sig, siginfo_t *info, void *context)
{
	(void)context;
	came = sig;
	value = info->si_value.sival_int;
}

static void *itself(void *arg)
{
	const struct sigaction act = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };
	struct sched_param param = { .sched_priority = 77 };
	struct timespec used;
	cpu_set_t set, again;
	clockid_t clock;
	int policy = -1;

	check("getschedparam",
	      !pthread_getschedparam(pthread_self(), &policy, &param) && policy == SCHED_OTHER &&
		      !param.sched_priority);
	check("setschedparam", !pthread_setschedparam(pthread_self(), SCHED_BATCH, &param));
	check("policy",
	      !pthread_getschedparam(pthread_self(), &policy, &param) && policy == SCHED_BATCH);
	check("setschedprio", !pthread_setschedprio(pthread_self(), 0));
	check("setschedprio, too high", pthread_setschedprio(pthread_self(), 1000) == EINVAL);
	check("getcpuclockid",
	      !pthread_getcpuclockid(pthread_self(), &clock) && !clock_gettime(clock, &used) &&
		      used.tv_sec < 60);
	check("getaffinity",
	      !pthread_getaffinity_np(pthread_self(), sizeof(set), &set) && CPU_COUNT(&set) > 0);
	while (CPU_COUNT(&set) > 1) {
		int cpu = 0;

		while (!CPU_ISSET(cpu, &set))
			cpu++;
		CPU_CLR(cpu, &set);
	}
	check("setaffinity", !pthread_setaffinity_np(pthread_self(), sizeof(set), &set));
	check("set", !sched_getaffinity(0, sizeof(again), &again) && CPU_EQUAL(&set, &again));
	sigaction(SIGUSR1, &act, NULL);
	check("kill", !pthread_kill(pthread_self(), SIGUSR1) && came == SIGUSR1);
	sigaction(SIGUSR2, &act, NULL);
	check("sigqueue",
	      !pthread_sigqueue(pthread_self(), SIGUSR2, (union sigval){ .sival_int = 42 }) &&
		      came == SIGUSR2 && value == 42);
	check("kill, no such signal", pthread_kill(pthread_self(), 1000) == EINVAL);
	return arg;
}

int main(void)
{
	int i;

	joining();
	ended();
	attributes();
	names();
	for (i = 0; i < 3; i++) {
		in_thread(itself, NULL);
	}
	itself(NULL);
	return conclude();
}
