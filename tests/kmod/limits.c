// SPDX-License-Identifier: BSD-2-Clause
/*
 * limits.c - threads that wait for a lock in dsm.ko with a time limit. The lock's holder is a rank
 * of the same guest, which does not release it; in one kernel and by RDMA.
 *
 * Their calls end in time, and the threads have slept. A thread that waited behind another thread
 * of its rank leaves no slot in use; neither does one whose handler leaves the wait by
 * siglongjmp(3). The first thread, whose request is queued at the lock's home, leaves one slot in
 * use, however many follow. When the lock arrives, it goes to a thread of the rank that still
 * waits, or is released; in the end it is free.
 *
 * Runs in a guest with the module loaded and an RDMA device.
 */
#include "tests/kmod/common.h"
#include "core/sync.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LIMIT_NS 50000000u /* limit of a call, on a fast kernel */
/* on a slow kernel: processor time of a call times this; 800 calls take less than half of it */
#define COSTS 100u
#define TIMES 40u
#define THREADS 20u
#define LONG_NS 60000000000ull

static struct {
	_Atomic unsigned int failed, name, step;
} * both;
static struct job *j;
static int fd;
static uint64_t limit_ns = LIMIT_NS;

static bool expect(bool is, const char *what)
{
	if (!is) {
		printf("FAILED: %s (%s)\n", what, strerror(errno));
		show_ranks();
		fflush(stdout);
		atomic_fetch_add(&both->failed, 1);
		_exit(1); /* threads may wait for ever */
	}
	return is;
}

static void until_step(unsigned int step)
{
	expect(reached(&both->step, step), "the other rank");
}

/* Call for the lock, which is rank 0's. Returns the status; *hold is the record. */
static int lock(uint16_t what, uint64_t ns, uint16_t *hold)
{
	struct dsm_ioc_call c = { .call = what, .object = atomic_load(&both->name), .ns = ns };

	if (ioctl(fd, DSM_IOC_CALL, &c))
		return -errno;
	*hold = c.hold;
	return c.status;
}

static void unlock(uint16_t hold)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_UNLOCK, .hold = hold };

	expect(!ioctl(fd, DSM_IOC_CALL, &c) && !c.status, "it is released");
}

static double processor_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Rank 0, the lock's home and holder. */
static void holds(void)
{
	struct dsm_ioc_call made = { .value2 = (uint64_t)SYNC_MUTEX << 32 };
	uint16_t hold = 0;

	fd = job_join(j, 0);
	expect(fd >= 0 && !ioctl(fd, DSM_IOC_CALL, &made) && !made.status, "a lock");
	atomic_store(&both->name, (unsigned int)made.result);
	expect(!lock(DSM_CALL_LOCK, 0, &hold), "it is held");
	atomic_store(&both->step, 1);
	until_step(2); /* all limits have passed */
	unlock(hold);
	until_step(3);
	expect(!lock(DSM_CALL_LOCK, LONG_NS, &hold), "it comes back to its first holder");
	expect(none_listed(LISTED_CALL) && none_listed(LISTED_SLOT),
	       "nothing of what was given up is left");
	unlock(hold);
	atomic_store(&both->step, 4);
	fflush(stdout);
	_exit(0);
}

static void *passes(void *arg)
{
	uint16_t hold;
	unsigned int i;

	for (i = 0; i < TIMES; i++) {
		const double start = now_s();

		expect(lock(DSM_CALL_LOCK, limit_ns, &hold) == -ETIMEDOUT, "a limit passes");
		expect(now_s() - start >= (double)limit_ns * 1e-9, "not before its time");
	}
	return arg;
}

static sigjmp_buf out_of_here;
static _Atomic unsigned int tid, left;

static void leave(int sig)
{
	(void)sig;
	siglongjmp(out_of_here, 1);
}

/* Waits without a limit; the handler leaves the wait. The next call gives it up. */
static void *leaves(void *arg)
{
	struct dsm_ioc_call another = { .call = DSM_CALL_BARRIER, .object = 1, .value2 = 3 };
	uint16_t hold;

	atomic_store(&tid, (unsigned int)gettid());
	if (!sigsetjmp(out_of_here, 1)) {
		lock(DSM_CALL_LOCK, 0, &hold);
		expect(false, "the handler leaves");
	}
	expect(!ioctl(fd, DSM_IOC_CALL, &another), "another call");
	atomic_store(&left, 1);
	return arg;
}

static void *stays(void *arg)
{
	uint16_t hold = 0;

	atomic_store(&tid, (unsigned int)gettid());
	expect(!lock(DSM_CALL_LOCK, LONG_NS, &hold), "a thread that has stayed gets it");
	unlock(hold);
	return arg;
}

static unsigned int slots(void)
{
	return listed(LISTED_SLOT);
}

static pthread_t thread_asleep(void *(*run)(void *))
{
	pthread_t thread;

	atomic_store(&tid, 0);
	pthread_create(&thread, NULL, run, NULL);
	until_asleep(&tid);
	return thread;
}

/* Rank 1. */
static void waits(bool stay)
{
	struct sigaction sa = { .sa_handler = leave };
	pthread_t threads[THREADS], thread;
	unsigned int i, before;
	double start, used;
	uint16_t hold;

	fd = job_join(j, 1);
	expect(fd >= 0, "a job of two ranks");
	until_step(1);
	before = slots();
	used = processor_s();
	sigaction(SIGUSR1, &sa, NULL);
	for (i = 0; i < TIMES; i++)
		expect(lock(DSM_CALL_LOCK, 1, &hold) == -ETIMEDOUT, "a limit of 1 ns");
	limit_ns += (uint64_t)((processor_s() - used) / TIMES * 1e9 * COSTS);
	used = processor_s();
	start = now_s();
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, passes, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	expect(now_s() - start < patience(20) + 2e-9 * TIMES * (double)limit_ns,
	       "limits pass in time");
	expect(processor_s() - used < 0.5 * (now_s() - start) + 0.1, "the threads sleep");
	thread = thread_asleep(leaves);
	pthread_kill(thread, SIGUSR1);
	expect(reached(&left, 1), "a thread that has left its wait goes on");
	pthread_join(thread, NULL);
	expect(slots() == before + 1, "one place in the line of ranks is left, and none behind it");
	if (stay)
		thread = thread_asleep(stays);
	atomic_store(&both->step, 2);
	if (stay)
		pthread_join(thread, NULL);
	atomic_store(&both->step, 3);
	until_step(4); /* the lock that arrived at this rank goes back */
	fflush(stdout);
	_exit(0);
}

static bool two_ranks(bool stay, bool rdma)
{
	pid_t pids[2];
	unsigned int i;
	bool ok;

	job_set(j, 2, rdma);
	atomic_store(&both->step, 0);
	fflush(stdout);
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i] && i)
			waits(stay);
		if (!pids[i])
			holds();
	}
	ok = job_reap(pids, 2, 60) && nothing_left(20) && !atomic_load(&both->failed);
	printf("%u limits pass%s%s: %s\n", (THREADS + 1) * TIMES, rdma ? ", over RDMA" : "",
	       stay ? ", and a thread stays" : "", ok ? "ok" : "FAILED");
	return ok;
}

int main(void)
{
	bool ok = true;
	unsigned int i;

	module_needed();
	j = job_new();
	both = shared_memory(PAGE);
	for (i = 0; i < 4; i++)
		ok &= two_ranks(i & 1, i & 2);
	return ok ? 0 : 1;
}
