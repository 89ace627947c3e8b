// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - a thread of a rank waits in dsm.ko for a block that another rank has pinned, and gets
 * signals. Their handler runs at once, and the access completes when the block arrives, with the
 * contents that the other rank wrote. The same for a block that is elsewhere, and for one that the
 * thread may read and wants to write; and for a signal that comes when the block has arrived, but
 * the thread has not been told of it (test_pause_grant).
 *
 * The other files do the same with each kind of call that waits (signals_calls.c), and with
 * operations on ranges (signals_ranges.c); and disturb operations that end without another rank's
 * help (signals_disturbed.c).
 *
 * Runs in a guest with the module loaded.
 */
#include "tests/kmod/signals.h"
#include "tests/kmod/common_module.h"

#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

struct both *both;
struct job *j;
int waiter_fd;
sigjmp_buf out_of_here;
bool late, busy, ends;
static volatile sig_atomic_t leaves;

int range(int fd, unsigned int op, unsigned int page, unsigned int pages, unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages, .write = write };

	return ioctl(fd, DSM_IOC_RANGE, &r);
}

bool call(int fd, const struct dsm_ioc_call *c, struct dsm_ioc_call *out)
{
	*out = *c;
	return !ioctl(fd, DSM_IOC_CALL, out);
}

void another_call(void)
{
	struct dsm_ioc_call none = { .call = DSM_CALL_BARRIER, .object = BARRIER + 1, .value2 = 3 };

	expect(call(waiter_fd, &none, &none), "another call");
}

static void leave(int sig)
{
	(void)sig;
	if (busy)
		another_call();
	atomic_fetch_add(&both->handled, 1);
	if (leaves && late) {
		reached(&both->let, 1);
		usleep(50000);
	}
	if (leaves)
		siglongjmp(out_of_here, 1);
}

/* Rank 0: begin when the other rank is ready. */
void begins(bool goes)
{
	struct sigaction sa = { .sa_handler = leave };

	waiter_fd = job_join(j, 0);
	if (!expect(waiter_fd >= 0, "a job of two ranks") ||
	    !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	leaves = goes;
}

/*
 * Start the waiting thread, and send all its signals while it waits; call `meanwhile` before each.
 */
pthread_t begin_and_signal(void *(*run)(void *), bool goes, void (*meanwhile)(void))
{
	pthread_t thread;
	unsigned int i;

	pthread_create(&thread, NULL, run, goes ? &out_of_here : NULL);
	for (i = 1; i <= (goes ? 1 : SIGNALS); i++) {
		until_asleep(&both->tid);
		if (meanwhile)
			meanwhile();
		pthread_kill(thread, SIGUSR1);
		if (!expect(reached(&both->handled, i), "a handler"))
			break;
	}
	/* the other rank must not wait for a thread that failed */
	atomic_store(&both->handled, SIGNALS);
	return thread;
}

bool run_ranks(void (*one)(bool), void (*other)(bool), bool how, bool rdma)
{
	pid_t pids[2];
	unsigned int i;
	bool ok;

	job_set(j, 2, rdma);
	j->home = DSM_REGION_CYCLIC;
	atomic_store(&both->pinned, 0);
	atomic_store(&both->handled, 0);
	atomic_store(&both->ended, 0);
	atomic_store(&both->tid, 0);
	atomic_store(&both->let, 0);
	fflush(stdout);
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			(i ? other : one)(how);
	}
	ok = job_reap(pids, 2, 90);
	ok &= nothing_left(20);
	return ok && !atomic_load(&both->failed);
}

/* ---- accesses ------------------------------------------------------------------------------- */

static volatile unsigned int *word(void)
{
	return (volatile unsigned int *)JOB_BASE;
}

static int pin(int fd, bool on, bool write)
{
	return range(fd, on ? DSM_RANGE_PIN : DSM_RANGE_UNPIN, 0, 1, write);
}

/* Keep the block pinned until the other rank's thread has received all signals. */
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

	if (!expect(fd >= 0, "a job of two ranks") ||
	    !expect(reached(&both->pinned, 1), "the other rank"))
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
	/* the other rank must not wait for a thread that failed */
	atomic_store(&both->handled, SIGNALS);
	pthread_join(thread, NULL);
	expect(*word() == WRITTEN + 1, "the access is made, and once");
	fflush(stdout);
	_exit(0);
}

static bool misses(bool upgrade)
{
	const bool ok = run_ranks(waits, holds, upgrade, false);

	printf("%s: %s\n", upgrade ? "a write to a block for reading" : "a block that is elsewhere",
	       ok ? "handlers ran while it was waited for" : "FAILED");
	return ok;
}

/* ---- as the block comes --------------------------------------------------------------------- */

#define PAUSE_GRANT "/sys/module/dsm/parameters/test_pause_grant"

/*
 * A grant is held with softirqs off, on the processor of the rank that lets the block go: not where
 * the signal is to be handled.
 */
static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	expect(!sched_setaffinity(0, sizeof(set), &set), "a processor");
}

static bool is_held(void)
{
	FILE *f = fopen(PAUSE_GRANT, "r");
	unsigned int value = 0;

	if (f && fscanf(f, "%u", &value) != 1)
		value = 0;
	if (f)
		fclose(f);
	return value == 2;
}

static bool becomes_held(void)
{
	const double end = now_s() + patience(20);

	while (!is_held() && now_s() < end)
		usleep(1000);
	return is_held();
}

static void sends(bool unused)
{
	int fd;

	(void)unused;
	run_on(1);
	fd = job_join(j, 1);
	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	*word() = WRITTEN;
	expect(!pin(fd, true, true), "a block is pinned");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->let, 1), "the other rank waits");
	expect(!pin(fd, false, true), "it is let go");
	expect(reached(&both->ended, 1), "the access ends");
	fflush(stdout);
	_exit(0);
}

static void *access_asleep(void *arg)
{
	atomic_store(&both->tid, (unsigned int)gettid());
	return access_it(arg);
}

/* The thread leaves its wait between the block's arrival and its being told of that. */
static void misses_answer(bool unused)
{
	struct sigaction sa = { .sa_handler = handler };
	pthread_t thread;
	bool held;
	int fd;

	(void)unused;
	run_on(0);
	fd = job_join(j, 0);
	if (!expect(fd >= 0, "a job of two ranks") ||
	    !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	pthread_create(&thread, NULL, access_asleep, NULL);
	until_asleep(&both->tid);
	expect(file_set(PAUSE_GRANT, "1"), "test_pause_grant");
	atomic_store(&both->let, 1);
	held = expect(becomes_held(), "the block comes");
	pthread_kill(thread, SIGUSR1);
	expect(reached(&both->handled, 1), "a handler");
	expect(!held || is_held(), "it has run before the thread is told of the block");
	expect(file_set(PAUSE_GRANT, "0"), "test_pause_grant");
	if (!expect(reached(&both->ended, 1), "the access ends"))
		_exit(1);
	pthread_join(thread, NULL);
	expect(*word() == WRITTEN + 1, "the access is made, and once");
	fflush(stdout);
	_exit(0);
}

static bool misses_grant(void)
{
	const bool ok = run_ranks(misses_answer, sends, false, false);

	printf("a signal as the block comes: %s\n", ok ? "the access is made" : "FAILED");
	return ok;
}

/* ---- all ------------------------------------------------------------------------------------ */

int main(void)
{
	bool ok;

	module_needed();
	j = job_new();
	both = shared_memory(PAGE);
	ok = misses(false);
	ok &= misses(true);
	ok &= misses_grant();
	ok = ok && test_calls() && test_ranges() && test_disturbed();
	return ok ? 0 : 1;
}
