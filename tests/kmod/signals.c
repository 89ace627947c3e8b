// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - a thread of a rank waits in dsm.ko for a block that another rank has pinned, and gets signals: their handler runs at
 * once, and the access ends when the block comes, with what the other rank wrote. So for a block that is elsewhere, and for one
 * that the thread may read and wants to write.
 *
 * Runs in a guest with the module loaded.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIGNALS 20u
#define WRITTEN 41u

static struct {
	_Atomic unsigned int pinned, handled, ended, failed;
} * both;
static struct job *j;

static bool expect(bool is, const char *what)
{
	if (!is) {
		printf("FAILED: %s (%s)\n", what, strerror(errno));
		atomic_fetch_add(&both->failed, 1);
	}
	return is;
}

/* Until *n is that much; false: it took too long. */
static bool reached(const _Atomic unsigned int *n, unsigned int wanted)
{
	double end = now_s() + patience(20);

	while (atomic_load(n) < wanted && now_s() < end)
		usleep(500);
	return atomic_load(n) >= wanted;
}

static volatile unsigned int *word(void)
{
	return (volatile unsigned int *)JOB_BASE;
}

static int pin(int fd, bool on, bool write)
{
	struct dsm_ioc_range r = { .op = on ? DSM_RANGE_PIN : DSM_RANGE_UNPIN, .pages = 1, .write = write };

	return ioctl(fd, DSM_IOC_RANGE, &r);
}

/* Has the block pinned until the other rank's thread has had all its signals. */
static void holds(bool upgrade)
{
	int fd = job_join(j, 1);

	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	*word() = WRITTEN;
	expect(!pin(fd, true, !upgrade), "a block is pinned");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->handled, SIGNALS), "handlers run while their thread waits");
	expect(!atomic_load(&both->ended), "the access waits");
	expect(!pin(fd, false, !upgrade), "it is let go");
	expect(reached(&both->ended, 1), "the access ends");
	fflush(stdout);
	_exit(0);
}

static void handler(int sig)
{
	(void)sig;
	atomic_fetch_add(&both->handled, 1);
}

static void *access_it(void *arg)
{
	(void)arg;
	++*word();
	atomic_store(&both->ended, 1);
	return NULL;
}

static void waits(bool upgrade)
{
	struct sigaction sa = { .sa_handler = handler };
	int fd = job_join(j, 0);
	pthread_t thread;
	long long faults;
	unsigned int i;

	if (!expect(fd >= 0, "a job of two ranks") || !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	if (upgrade)
		expect(*word() == WRITTEN, "it can be read");
	faults = counter("faults");
	pthread_create(&thread, NULL, access_it, NULL);
	for (i = 0; counter("faults") == faults && i < 20000; i++)
		usleep(1000);
	for (i = 1; i <= SIGNALS; i++) {
		pthread_kill(thread, SIGUSR1);
		if (!expect(reached(&both->handled, i), "a handler"))
			break;
	}
	atomic_store(&both->handled, SIGNALS); /* the other rank need not wait for what has failed */
	pthread_join(thread, NULL);
	expect(*word() == WRITTEN + 1, "the access is made, and once");
	fflush(stdout);
	_exit(0);
}

static bool one(bool upgrade)
{
	pid_t pids[2];
	unsigned int i;
	bool ok;

	job_set(j, 2, false);
	j->home = DSM_REGION_CYCLIC;
	atomic_store(&both->pinned, 0);
	atomic_store(&both->handled, 0);
	atomic_store(&both->ended, 0);
	fflush(stdout);
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			(i ? holds : waits)(upgrade);
	}
	ok = job_reap(pids, 2, 90);
	ok &= nothing_left(20);
	printf("%s: %s\n", upgrade ? "a write to a block for reading" : "a block that is elsewhere",
	       ok && !atomic_load(&both->failed) ? "handlers ran while it was waited for" : "FAILED");
	return ok && !atomic_load(&both->failed);
}

int main(void)
{
	bool ok;

	if (!module_loaded()) {
		fprintf(stderr, "signals: dsm.ko is not loaded\n");
		return 77;
	}
	j = job_new();
	both = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (both == MAP_FAILED)
		return 2;
	ok = one(false);
	ok &= one(true);
	return ok ? 0 : 1;
}
