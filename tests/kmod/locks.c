// SPDX-License-Identifier: BSD-2-Clause
/*
 * locks.c - a fault keeps neither mmap_lock nor its thread for long.
 *
 * A thread polls for a block that another rank has pinned, as long as a rank may poll (1 s).
 * Meanwhile another thread of its process maps memory: the fault must give up mmap_lock at once. A
 * process of the node waits in a fault for frames that FORGET frees, for seconds (test_slow_free):
 * it can be killed.
 *
 * Runs in a guest with the module loaded.
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SPIN_US 1000000u /* DSM_US_MAX */
#define SPIN_PAGE 1u     /* its home is rank 1 */
#define MAP_SECONDS 0.3
#define KILL_SECONDS 1.0
#define SLOW_FREE "/sys/module/dsm/parameters/test_slow_free"
#define AWAY DSM_UNIT_PAGES /* a page without frames, in another unit than page 0 */

static struct shared {
	_Atomic unsigned int pinned, done, faulting;
} * shared;
static struct job *j;

static int range(int fd, unsigned int op, unsigned int page, unsigned int pages)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages };

	r.write = op == DSM_RANGE_FORGET ? 0 : DSM_PIN_WRITE;

	return ioctl(fd, DSM_IOC_RANGE, &r);
}

/* ---- polling -------------------------------------------------------------------------------- */

static void pins(void)
{
	int fd = job_join(j, 1);

	if (fd < 0 || range(fd, DSM_RANGE_PIN, SPIN_PAGE, 1))
		_exit(3);
	atomic_store(&shared->pinned, 1);
	if (!reached(&shared->done, 1) || range(fd, DSM_RANGE_UNPIN, SPIN_PAGE, 1) ||
	    !reached(&shared->done, 2))
		_exit(4);
	_exit(0);
}

/* A thread that polls stops when another one of its processor is to run. */
static void run_on(unsigned int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *touches(void *unused)
{
	(void)unused;
	run_on(1);
	atomic_store(&shared->faulting, 1);
	++*(volatile char *)(JOB_BASE + SPIN_PAGE * PAGE);
	return NULL;
}

/* The longest of several mappings and unmappings. */
static double map_time(void)
{
	double longest = 0;
	unsigned int i;

	for (i = 0; i < 5; i++) {
		const double began = now_s();
		void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		munmap(p, PAGE);
		longest = now_s() - began > longest ? now_s() - began : longest;
	}
	return longest;
}

static bool polling(void)
{
	double longest = 0;
	pthread_t thread;
	pid_t pid;
	bool ok;
	int fd;

	job_set(j, 2, false);
	j->home = DSM_REGION_CYCLIC;
	j->spin_us = SPIN_US;
	fflush(stdout);
	pid = fork();
	run_on(0);
	if (!pid)
		pins();
	fd = job_join(j, 0);
	ok = it_holds(fd >= 0 && reached(&shared->pinned, 1), "a job of two ranks");
	if (ok) {
		pthread_create(&thread, NULL, touches, NULL);
		ok = reached(&shared->faulting, 1);
		usleep(50000);
		longest = map_time();
		atomic_store(&shared->done, 1);
		pthread_join(thread, NULL);
	}
	atomic_store(&shared->done, 2);
	ok = ok &&
		it_holds(longest < patience(MAP_SECONDS),
			 "memory can be mapped while a fault polls");
	printf("mapped memory within %.0f ms while a fault polled\n", longest * 1e3);
	munmap(JOB_BASE, JOB_WINDOW);
	close(fd);
	j->spin_us = 0;
	return job_reap(&pid, 1, 20) && nothing_left(20) && ok;
}

/* ---- waiting for frames --------------------------------------------------------------------- */

static int dev;

static void *forgets(void *unused)
{
	(void)unused;
	it_holds(!range(dev, DSM_RANGE_FORGET, 0, DSM_UNIT_PAGES), "FORGET");
	return NULL;
}

static void faults(void)
{
	if (job_attach(j, dev) < 0)
		_exit(3);
	atomic_store(&shared->faulting, 2);
	if (!reached(&shared->done, 3))
		_exit(4);
	atomic_store(&shared->faulting, 3);
	++*(volatile char *)(JOB_BASE + AWAY * PAGE);
	_exit(5);
}

static bool forgetting(void)
{
	const double slow = patience(10);
	double began, took = 0;
	pthread_t thread;
	char text[16];
	int status;
	pid_t pid;
	bool ok;

	snprintf(text, sizeof(text), "%.0f", slow * 1e3);
	job_set(j, 1, false);
	dev = job_join(j, 0);
	if (!it_holds(dev >= 0, "a job of one rank"))
		return false;
	*(volatile char *)JOB_BASE = 1;
	fflush(stdout);
	pid = fork();
	if (!pid)
		faults();
	ok = it_holds(reached(&shared->faulting, 2), "another process of the node") &&
		file_set(SLOW_FREE, text);
	if (ok) {
		pthread_create(&thread, NULL, forgets, NULL);
		usleep(200000);
		atomic_store(&shared->done, 3);
		ok = reached(&shared->faulting, 3);
		usleep(200000);
	}
	began = now_s();
	kill(pid, SIGKILL);
	ok = it_holds(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status),
		      "the other process waits for frames") &&
		ok;
	took = now_s() - began;
	file_set(SLOW_FREE, "0");
	if (ok)
		pthread_join(thread, NULL);
	ok = ok &&
		it_holds(took < patience(KILL_SECONDS),
			 "a process that waits for frames in a fault can be killed");
	printf("killed within %.0f ms while it waited for frames\n", took * 1e3);
	munmap(JOB_BASE, JOB_WINDOW);
	close(dev);
	return nothing_left(20) && ok;
}

int main(int argc, char **argv)
{
	bool ok;

	no_arguments(argc, argv, "Faults that poll, and that wait for frames");
	module_needed();
	j = job_new();
	shared = shared_memory(sizeof(*shared));
	ok = polling();
	ok &= forgetting();
	return ok ? 0 : 1;
}
