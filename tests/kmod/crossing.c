// SPDX-License-Identifier: BSD-2-Clause
/*
 * crossing.c - where two changes of a page cross, a translation is flushed before the call that
 * takes the access away returns.
 *
 * A thread on a processor of its own writes to a page all the time. Workers and faults make all
 * table entries (test_fail_trylock), and the module holds them where this test wants them to meet
 * (test_pause_*):
 *
 *   closes   the worker of one call has lowered the entry and is held before it flushes. Another
 *            call closes the page, too, and must not return before the page is flushed, though it
 *            finds nothing to lower
 *   fault    a thread faults on the page while it may write, and is held before it makes the entry;
 *            the fault of the writer makes it. The page is closed, and the worker is held before it
 *            lowers the entry. The first fault goes on, and must leave the entry to the worker,
 *            which then goes on, too
 *   table    a call closes a page that nobody has touched, so there is no page table, and is held
 *            when it has found none. A thread touches the page. The module behaves as a processor
 *            whose store buffer keeps what it has written for as long as it may: until a barrier,
 *            or until the call goes on
 *
 * The first two close pages in turns to reading and altogether: then the table entry is empty, and
 * another call finds no entry. Nothing may be written when the call has returned. With
 * test_lose_flush and test_lose_fence something must be, in all cases (--control): in the first
 * two, as soon as the writer's processor has not happened to forget the page by itself.
 *
 * While a fault or a worker is held, it has mmap_lock for reading: no thread of this process maps
 * memory then.
 *
 * Runs in a guest with two processors or more and the module loaded.
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PARAMETERS "/sys/module/dsm/parameters/"
#define ROUNDS 20u
/* behind JOB_PAGES, 2 MiB for each round of `table` */
#define WINDOW (JOB_WINDOW + ROUNDS * DSM_UNIT_PAGES * PAGE)
/* for the control to see a stale write */
#define PATIENCE_S 60
/* for a thread to reach the point where it is held */
#define STUCK_S 15
/* long enough for the writer to write */
#define LOOK_US 3000

enum where { FAULT, LOWER, FLUSH, STORE, PLACES };
enum { FREE, NEXT, HELD };

static const char *const places[PLACES] = {
	[FAULT] = PARAMETERS "test_pause_fault",
	[LOWER] = PARAMETERS "test_pause_lower",
	[FLUSH] = PARAMETERS "test_pause_flush",
	[STORE] = PARAMETERS "test_pause_store",
};

/* A thread that acts each time it is told to. */
struct actor {
	void (*act)(void);
	_Atomic unsigned int told, done;
};

static int dev, holds[PLACES];
/* changes each time: a translation that was not flushed is useless then */
static unsigned int page;
static bool by_page; /* changes between rounds: the call of this round is PROTECT_PAGE */
static atomic_bool writing, ending;
static _Atomic unsigned int written, passes, refused;

static volatile uint64_t *word(void)
{
	return (volatile uint64_t *)(JOB_BASE + page * PAGE);
}

static void protect(unsigned int prot)
{
	struct dsm_prot_item item = { page, prot };
	struct dsm_ioc_protect p = { .items = (uintptr_t)&item, .count = 1 };

	if (by_page ? ioctl(dev, DSM_IOC_PROTECT_PAGE, dsm_page_item(page, prot))
		    : ioctl(dev, DSM_IOC_PROTECT, &p))
		atomic_fetch_add(&refused, 1);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void stay_on(unsigned int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/*
 * Runs on a processor with a real-time priority, so that no worker preempts it: returning from a
 * worker would flush.
 */
static void *writer(void *arg)
{
	const struct sched_param first = { .sched_priority = 1 };

	(void)arg;
	stay_on(1);
	sched_setscheduler(0, SCHED_FIFO, &first);
	while (!atomic_load(&ending)) {
		if (!sigsetjmp(away, 0))
			for (away_set = true; atomic_load(&writing); atomic_fetch_add(&written, 1))
				++*word();
		away_set = false;
		atomic_fetch_add(&passes, 1);
		usleep(100);
	}
	return NULL;
}

static void *actor(void *arg)
{
	struct actor *a = arg;

	stay_on(0);
	while (!atomic_load(&ending)) {
		if (atomic_load(&a->told) == atomic_load(&a->done)) {
			usleep(100);
			continue;
		}
		a->act();
		atomic_fetch_add(&a->done, 1);
	}
	return NULL;
}

/*
 * Each case of a round has a page of its own, so every other round of it closes pages altogether.
 */
static void close_page(void)
{
	protect(page / 2 % 2 ? DSM_PROT_NONE : DSM_PROT_READ);
}

/* touch() also returns if the page has been closed. */
static void store(void)
{
	touch((volatile char *)(word() + 1), true);
}

static struct actor closer = { .act = close_page }, toucher = { .act = store };

static void tell(struct actor *a)
{
	atomic_fetch_add(&a->told, 1);
}

/* ---- meeting -------------------------------------------------------------------------------- */

static bool set_hold(enum where at, unsigned int value)
{
	const char digit = (char)('0' + value);

	return pwrite(holds[at], &digit, 1, 0) == 1;
}

/* Wait until the module holds a thread at that point. */
static bool comes_to(enum where at)
{
	const double end = now_s() + patience(STUCK_S);
	char digit = 0;

	while (pread(holds[at], &digit, 1, 0) == 1 && digit != '0' + HELD && now_s() < end)
		usleep(200);
	if (digit != '0' + HELD)
		printf("FAILED: nobody comes to %s\n", places[at]);
	return digit == '0' + HELD;
}

static bool finishes(const struct actor *a)
{
	return reached(&a->done, atomic_load(&a->told)) || it_failed("what was held does not end");
}

static bool begins_to_write(void)
{
	const unsigned int before = atomic_load(&written);

	atomic_store(&writing, true);
	return reached(&written, before + 1) || it_failed("the writer cannot write");
}

/* Wait until the writer is also out of the pass that it has begun. */
static bool stops_writing(void)
{
	atomic_store(&writing, false);
	return reached(&passes, atomic_load(&passes) + 2) || it_failed("the writer does not stop");
}

/*
 * Is the page written after it was closed? The writer may yet count the last word that it wrote
 * before.
 */
static bool is_written(void)
{
	const unsigned int before = atomic_load(&written);

	usleep(LOOK_US);
	return atomic_load(&written) - before > 1;
}

/* False: the case could not be set up. */
static bool closes(unsigned long *stale)
{
	page = (page + 1) % JOB_PAGES;
	protect(DSM_PROT_WRITE);
	if (!begins_to_write() || !set_hold(FLUSH, NEXT))
		return false;
	tell(&closer);
	if (!comes_to(FLUSH))
		return false;
	close_page();
	*stale += is_written();
	return set_hold(FLUSH, FREE) && finishes(&closer) && stops_writing();
}

static bool fault(unsigned long *stale)
{
	page = (page + 1) % JOB_PAGES;
	protect(DSM_PROT_WRITE);
	if (!set_hold(FAULT, NEXT))
		return false;
	tell(&toucher);
	if (!comes_to(FAULT) || !begins_to_write() || !set_hold(LOWER, NEXT))
		return false;
	tell(&closer);
	if (!comes_to(LOWER) || !set_hold(FAULT, FREE) || !finishes(&toucher) ||
	    !set_hold(LOWER, FREE) || !finishes(&closer))
		return false;
	*stale += is_written();
	return stops_writing();
}

/* Closing is held with interrupts off, on processor 0. */
static bool table(unsigned int round, unsigned long *stale)
{
	bool ok;

	page = JOB_PAGES + round * DSM_UNIT_PAGES;
	protect(DSM_PROT_WRITE);
	stay_on(1);
	ok = set_hold(STORE, NEXT);
	tell(&closer);
	ok = ok && comes_to(STORE);
	touch((volatile char *)word(), true);
	ok = set_hold(STORE, FREE) && ok && finishes(&closer);
	*stale += !touch((volatile char *)word(), true);
	stay_on(0);
	return ok;
}

/* ---- the test ------------------------------------------------------------------------------- */

static bool open_all(void)
{
	struct dsm_ioc_window w = { .size = WINDOW };
	unsigned int i;

	for (i = 0; i < PLACES; i++) {
		holds[i] = open(places[i], O_RDWR | O_CLOEXEC);
		if (holds[i] < 0)
			return false;
	}
	dev = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	return dev >= 0 && !ioctl(dev, DSM_IOC_WINDOW, &w) &&
		mmap(JOB_BASE, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
		     dev, 0) != MAP_FAILED &&
		file_set(PARAMETERS "test_fail_trylock", "1");
}

static bool run(bool control)
{
	unsigned long stale[3] = { 0 };
	double end = now_s() + patience(PATIENCE_S);
	pthread_t threads[3];
	unsigned int i, rounds;
	bool ok = true;

	if (pthread_create(&threads[0], NULL, writer, NULL) ||
	    pthread_create(&threads[1], NULL, actor, &closer) ||
	    pthread_create(&threads[2], NULL, actor, &toucher))
		exit(2);
	stay_on(0);
	for (rounds = 0;
	     ok && (control ? (!stale[0] || !stale[1]) && now_s() < end : rounds < ROUNDS);
	     rounds++) {
		by_page = rounds / 2 % 2;
		ok = closes(&stale[0]) && fault(&stale[1]) &&
			(rounds >= ROUNDS || table(rounds, &stale[2]));
	}
	for (i = 0; i < PLACES; i++)
		set_hold(i, FREE);
	atomic_store(&writing, false);
	atomic_store(&ending, true);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	file_set(PARAMETERS "test_fail_trylock", "0");
	printf("%u rounds: written after two calls had crossed %lu times, after a fault and a call %lu times, with a new table %lu times\n",
	       rounds, stale[0], stale[1], stale[2]);
	ok &= !atomic_load(&refused) || it_failed("a call was refused");
	return ok &&
		(control ? stale[0] && stale[1] && stale[2] : !stale[0] && !stale[1] && !stale[2]);
}

int main(int argc, char **argv)
{
	const bool control = argc == 2 && !strcmp(argv[1], "--control");

	if (argc > 1 && !control) {
		printf("usage: crossing [--control]\n"
		       "Changes of a page cross, and are flushed; in a guest with dsm.ko loaded. --control: they are not.\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	if (!module_loaded() || sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		fprintf(stderr, "crossing: this test needs dsm.ko and two processors\n");
		return 77;
	}
	catch_signals();
	if (!open_all()) {
		perror("crossing");
		return 1;
	}
	return run(control) ? 0 : 1;
}
