// SPDX-License-Identifier: BSD-2-Clause
/*
 * stuck.c - a process whose mmap_lock is taken must not keep pages of other processes from being
 * closed.
 *
 * Workers make all table entries (test_fail_trylock). In one process, a worker is held with
 * mmap_lock (test_pause_lower), and a thread that maps memory waits for that lock, so all other
 * workers that close pages there wait behind it. STUCK threads close a page each: more than a
 * workqueue has workers. Meanwhile this process, with a context of its own, opens and closes pages,
 * and closes the context. Then the worker is released, and every page that the first process has
 * closed must be closed.
 *
 * Runs in a guest with the module loaded.
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARAMETERS "/sys/module/dsm/parameters/"
#define HOLD PARAMETERS "test_pause_lower"
#define STUCK 600u /* WQ_UNBOUND_MAX_ACTIVE is 512 */
#define TURNS 20u
#define STACK (64ul << 10)

/* Shared by both processes. */
struct shared {
	_Atomic unsigned int ready, closed, refused, mapping, mapped, wrong;
};

/* The threads wait here, in a system call that needs no mmap_lock: for a byte of a pipe. */
enum step { FIRST, MAP, OTHERS, STEPS };

static struct shared *shared;
static int dev, hold_file, steps[STEPS][2];

static bool protect(unsigned int page, unsigned int prot)
{
	struct dsm_prot_item item = { page, prot };
	struct dsm_ioc_protect p = { .items = (uintptr_t)&item, .count = 1 };

	return !ioctl(dev, DSM_IOC_PROTECT, &p);
}

static volatile char *at(unsigned int page)
{
	return JOB_BASE + page * PAGE;
}

static char held(void)
{
	char digit = 0;

	return pread(hold_file, &digit, 1, 0) == 1 ? digit : 0;
}

static void await(enum step step)
{
	char byte;

	while (read(steps[step][0], &byte, 1) < 0)
		;
}

static bool tell(enum step step, unsigned int threads)
{
	while (threads && write(steps[step][1], "", 1) == 1)
		threads--;
	return !threads;
}

static bool set_hold(char digit)
{
	return pwrite(hold_file, &digit, 1, 0) == 1;
}

/* ---- the stuck process ----------------------------------------------------------------------- */

/* Allocate all memory of the thread before: a fault or a mapping would wait, too. */
static void *closer(void *arg)
{
	const unsigned int page = (unsigned int)(uintptr_t)arg;

	atomic_fetch_add(&shared->ready, 1);
	await(page ? OTHERS : FIRST);
	if (!protect(page, DSM_PROT_NONE))
		atomic_fetch_add(&shared->refused, 1);
	atomic_fetch_add(&shared->closed, 1);
	return NULL;
}

static void *mapper(void *arg)
{
	(void)arg;
	await(MAP);
	atomic_store(&shared->mapping, 1);
	mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	atomic_store(&shared->mapped, 1);
	return NULL;
}

static bool start(pthread_t *thread, void *(*run)(void *), uintptr_t arg)
{
	pthread_attr_t small;
	bool ok;

	pthread_attr_init(&small);
	ok = !pthread_attr_setstacksize(&small, STACK) &&
		!pthread_create(thread, &small, run, (void *)arg);
	pthread_attr_destroy(&small);
	return ok;
}

/* The stuck process: open all pages, with table entries; threads close them when told to. */
static bool be_stuck(void)
{
	static pthread_t closers[STUCK + 1], mapping;
	unsigned int i;

	if ((dev = window_at_base()) < 0 || !start(&mapping, mapper, 0))
		return it_failed("a window");
	for (i = 0; i <= STUCK; i++)
		if (!protect(i, DSM_PROT_WRITE) || touch(at(i), true) ||
		    !start(&closers[i], closer, i))
			return it_failed("a page and a thread");
	for (i = 0; i <= STUCK; i++)
		pthread_join(closers[i], NULL);
	pthread_join(mapping, NULL);
	for (i = 0; i <= STUCK; i++)
		atomic_fetch_add(&shared->wrong, touch(at(i), false) == 0);
	return true;
}

/* ---- the other process ---------------------------------------------------------------------- */

/*
 * Wait until the worker has mmap_lock, a thread waits for it to map memory, and all other threads
 * close pages.
 */
static bool get_stuck(void)
{
	const long long before = counter("deferred");
	const double end = now_s() + patience(15);

	if (!reached(&shared->ready, STUCK + 1) || !set_hold('1'))
		return it_failed("the other process begins");
	tell(FIRST, 1);
	while (held() != '2' && now_s() < end)
		usleep(1000);
	if (held() != '2')
		return it_failed("a worker is held");
	tell(MAP, 1);
	if (!reached(&shared->mapping, 1))
		return it_failed("a thread maps memory");
	usleep(100000);
	tell(OTHERS, STUCK);
	while (counter("deferred") < before + STUCK + 1 && now_s() < end)
		usleep(1000);
	return counter("deferred") >= before + STUCK + 1 ||
		it_failed("the threads close their pages");
}

static bool goes_on(void)
{
	bool ok = true;
	unsigned int i;

	for (i = 0; ok && i < TURNS; i++)
		ok = (protect(i, DSM_PROT_WRITE) && touch(at(i), true) == 0 &&
		      protect(i, DSM_PROT_NONE) && touch(at(i), false) == SIGBUS) ||
			it_failed("a page is opened and closed");
	if (munmap(JOB_BASE, JOB_WINDOW) || close(dev))
		return it_failed("the context is closed");
	return ok;
}

static bool run(void)
{
	const bool stuck = get_stuck();
	const double begin = now_s();
	bool ok = stuck && goes_on();

	printf("%u pages closed in another process in %.3f s, while %u of %u of the one that is stuck have been\n",
	       TURNS, now_s() - begin, atomic_load(&shared->closed), STUCK + 1);
	/* The module holds a worker for 20 seconds at most. */
	if (stuck &&
	    (held() != '2' || atomic_load(&shared->closed) || atomic_load(&shared->mapped)))
		ok = it_failed("the other process waits for the one that is stuck");
	set_hold('0');
	return ok;
}

int main(int argc, char **argv)
{
	pid_t child;
	int status;
	bool ok;

	no_arguments(argc, argv, "A process whose mmap_lock is taken keeps nobody else waiting");
	module_needed();
	shared = shared_memory(sizeof(*shared));
	hold_file = open(HOLD, O_RDWR | O_CLOEXEC);
	catch_signals();
	if (hold_file < 0 || pipe(steps[FIRST]) || pipe(steps[MAP]) || pipe(steps[OTHERS])) {
		perror("stuck");
		return 1;
	}
	child = fork();
	if (!child)
		_exit(be_stuck() ? 0 : 1);
	ok = child > 0 && (dev = window_at_base()) >= 0 &&
		file_set(PARAMETERS "test_fail_trylock", "1") && run();
	if (!ok && child > 0)
		kill(child, SIGKILL); /* the child may still wait for a command */
	if (child > 0 && waitpid(child, &status, 0) == child && ok)
		ok = (status == 0 && !atomic_load(&shared->refused) &&
		      !atomic_load(&shared->wrong)) ||
			it_failed("what was stuck is closed");
	file_set(PARAMETERS "test_fail_trylock", "0");
	return nothing_left(10) && ok ? 0 : 1;
}
