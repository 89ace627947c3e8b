// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals_ranges.c - a thread waits in operations on ranges, and gets signals. They wait for the
 * later blocks of a range that is pinned in part; for a request slot, while other threads wait for
 * their blocks in all of them; and for the answers to a placement and to an echo, here of a rank
 * that has ended. While a rank waits for more pinned blocks than it has slots for blocks only,
 * other blocks arrive at once.
 */
#include "tests/kmod/signals.h"
#include "tests/kmod/common_module.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#define PARAMETER "/sys/module/dsm/parameters/test_block_slots"
#define SYNC_SLOTS 896u    /* slots for blocks only, as in the module */
#define BLOCK_SLOTS "2052" /* test_block_slots: blocks may use 4 slots more */
#define SLOTS_OF_BLOCKS 900u
#define MANY (SLOTS_OF_BLOCKS + 4)
#define MORE (SYNC_SLOTS + 24)

enum { STAYS = 1, LEAVES = 2 };

/* The operation of the waiting rank's thread, and the part of the other rank. */
struct operation {
	const char *name;
	unsigned int op, page, pages, write; /* DSM_RANGES: an access */
	unsigned int ways;                   /* ways to try: the thread stays, or leaves */
	bool rdma;
	bool full; /* slots are used up; SLOTS_OF_BLOCKS of them are for blocks */
	/*
	 * the first blocks are pinned; the thread waits for the last, which the other rank has
	 * pinned
	 */
	bool unpinned;
	bool alone; /* the other rank has ended, and does not answer */
};

/* Rank 1 is the home of odd pages. */
static const struct operation operations[] = {
	{ .name = "a slot for an access",
	  .op = DSM_RANGES,
	  .page = MANY - 1,
	  .full = true,
	  .ways = STAYS },
	{ .name = "a slot for a block",
	  .op = DSM_RANGE_ACQUIRE,
	  .page = MANY - 1,
	  .pages = 1,
	  .write = 1,
	  .full = true,
	  .ways = STAYS },
	{ .name = "the third block of a pin",
	  .op = DSM_RANGE_PIN,
	  .page = 1,
	  .pages = 3,
	  .write = DSM_PIN_WRITE,
	  .unpinned = true,
	  .ways = STAYS | LEAVES },
	{ .name = "a placement",
	  .op = DSM_RANGE_PLACE,
	  .page = 1,
	  .pages = 1,
	  .alone = true,
	  .ways = LEAVES },
	{ .name = "an echo",
	  .op = DSM_RANGE_ECHO,
	  .page = 1,
	  .pages = 1,
	  .rdma = true,
	  .alone = true,
	  .ways = LEAVES },
};

static const struct operation *now;

static void operate(int fd)
{
	int err;

	if (now->op == DSM_RANGES) {
		*(volatile unsigned int *)(JOB_BASE + now->page * PAGE) = WRITTEN;
		return;
	}
	err = range(fd, now->op, now->page, now->pages, now->write);
	expect(!err, "the operation");
}

static void *operate_it(void *arg)
{
	const bool goes = arg;

	atomic_store(&both->tid, (unsigned int)gettid());
	if (!goes || !sigsetjmp(out_of_here, 1)) {
		operate(waiter_fd);
		expect(!goes, "the handler leaves");
	} else if (!ends) {
		range(waiter_fd, DSM_RANGE_PREFETCH, 0, 1, 0); /* a different call */
	}
	atomic_store(&both->ended, 1);
	return NULL;
}

static void pinned_by_other(unsigned int *page, unsigned int *pages)
{
	*page = now->full ? 0 : now->page + now->pages - 1;
	*pages = now->full ? MANY : 1;
}

/* Rank 1. */
static void keeps(bool goes)
{
	int fd = job_join(j, 1);
	unsigned int page, pages;

	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	if (now->alone) {
		atomic_store(&both->pinned, 1);
		_exit(0);
	}
	pinned_by_other(&page, &pages);
	expect(!range(fd, DSM_RANGE_PIN, page, pages, 1), "blocks are pinned");
	atomic_store(&both->pinned, 1);
	reached(&both->tid, 1); /* the waiting rank may have to take all slots first */
	expect(reached(&both->handled, goes ? 1 : SIGNALS),
	       "handlers run while their thread waits");
	if (goes) {
		expect(reached(&both->ended, 1), "the thread goes on");
		/* A pin left behind would keep the block. */
		if (now->unpinned)
			expect(!range(fd, DSM_RANGE_PIN, now->page, now->pages, 1) &&
				       !range(fd, DSM_RANGE_UNPIN, now->page, now->pages, 1),
			       "others pin what the thread has left");
		atomic_store(&both->let, 1);
	} else {
		expect(!atomic_load(&both->ended), "the operation waits");
	}
	expect(!range(fd, DSM_RANGE_UNPIN, page, pages, 1), "they are let go");
	expect(reached(&both->ended, 1), "the operation ends");
	expect(reached(&both->pinned, 2), "the other rank");
	atomic_store(&both->pinned, 3);
	fflush(stdout);
	_exit(0);
}

static void away_from_here(int sig)
{
	(void)sig;
	siglongjmp(away, 1);
}

/*
 * Fill that many slots with requests for blocks. A thread that leaves an access leaves its slot to
 * the answer.
 */
static void fill_slots(unsigned int blocks)
{
	struct sigaction sa = { .sa_handler = away_from_here }, old;
	const struct itimerval none = { { 0, 0 }, { 0, 0 } };
	volatile unsigned int page = 0, us = 500;
	volatile long long faults = counter("faults");

	sigaction(SIGALRM, &sa, &old);
	while (page < blocks)
		if (!sigsetjmp(away, 1)) {
			const struct itimerval tick = { { 0, us }, { 0, us } };

			setitimer(ITIMER_REAL, &tick, NULL);
			*(volatile unsigned int *)(JOB_BASE + page * PAGE) = 1;
			expect(false, "a block that is pinned is waited for");
		} else {
			setitimer(ITIMER_REAL, &none, NULL);
			if (counter("faults") > faults) {
				page++;
				us = us > 1000 ? us / 2 : 500;
			} else if (us < 50000) {
				us *= 2; /* the signal came before the access */
			}
			faults = counter("faults");
		}
	sigaction(SIGALRM, &old, NULL);
}

/* A waiting fault must not block other threads of the process. */
static void map_something(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(p != MAP_FAILED && !munmap(p, PAGE), "another mapping");
}

/*
 * Check that each block is pinned as often as it should be: once, or not at all. Pins that a thread
 * has left are undone a moment after its call is no longer listed.
 */
static void check_pins(bool goes)
{
	unsigned int page;

	if (goes)
		expect(reached(&both->let, 1), "the other rank has pinned them");
	for (page = now->page; page < now->page + now->pages; page++)
		expect(goes == !!range(waiter_fd, DSM_RANGE_UNPIN, page, 1, 1) &&
			       range(waiter_fd, DSM_RANGE_UNPIN, page, 1, 1),
		       goes ? "what was left is not pinned" : "each block is pinned once");
}

/* The other rank has closed its file, and has left the job. */
static bool ended_alone(void)
{
	const double end = now_s() + patience(20);

	while (counter("views") != 1 && now_s() < end)
		usleep(1000);
	return counter("views") == 1;
}

/* Rank 0. */
static void operates(bool goes)
{
	pthread_t thread;

	begins(goes);
	if (now->full) {
		fill_slots(SLOTS_OF_BLOCKS);
		expect(!range(waiter_fd, DSM_RANGE_PLACE, MANY + 1, 1, 0),
		       "a placement, which needs none of these slots");
	}
	if (now->alone)
		expect(ended_alone(), "the other rank ends");
	thread = begin_and_signal(operate_it, goes, now->full ? map_something : NULL);
	if (atomic_load(&both->failed))
		_exit(1); /* the thread may never end */
	pthread_join(thread, NULL);
	expect(!ends || none_listed(LISTED_CALL), "what was left is given up");
	if (now->unpinned)
		check_pins(goes);
	atomic_store(&both->pinned, 2);
	if (!now->alone)
		/* its blocks have their home here */
		expect(reached(&both->pinned, 3), "the other rank");
	fflush(stdout);
	_exit(0);
}

static bool operation(const struct operation *o)
{
	bool ok = true;

	now = o;
	if (o->full && !file_set(PARAMETER, BLOCK_SLOTS))
		return false;
	if (o->ways & STAYS)
		ok = run_ranks(operates, keeps, false, o->rdma);
	if (ok && o->ways & LEAVES)
		ok = run_ranks(operates, keeps, true, o->rdma);
	ends = true;
	if (ok && o->ways & LEAVES)
		ok = run_ranks(operates, keeps, true, o->rdma);
	ends = false;
	if (o->full && !file_set(PARAMETER, "0"))
		return false;
	printf("%s: %s\n", o->name, ok ? "handlers ran while it was waited for" : "FAILED");
	return ok;
}

/* ---- more pinned blocks than slots ---------------------------------------------------------- */

static volatile unsigned int *word_of(unsigned int page)
{
	return (volatile unsigned int *)(JOB_BASE + page * PAGE);
}

/* Rank 1 writes these pages, and pins all but the last. */
static void keeps_many(bool unused)
{
	int fd = job_join(j, 1);
	unsigned int page;

	(void)unused;
	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	for (page = 0; page <= MORE; page++)
		*word_of(page) = WRITTEN + page;
	expect(!range(fd, DSM_RANGE_PIN, 0, MORE, 1), "blocks are pinned");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->ended, 1), "a block that is not pinned comes");
	expect(!range(fd, DSM_RANGE_UNPIN, 0, MORE, 1), "they are let go");
	expect(reached(&both->pinned, 2), "the other rank");
	fflush(stdout);
	_exit(0);
}

/* Rank 0 requests all pages. The last must arrive at once, the others later. */
static void asks_for_many(bool unused)
{
	unsigned int page;

	(void)unused;
	waiter_fd = job_join(j, 0);
	if (!expect(waiter_fd >= 0, "a job of two ranks") ||
	    !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	fill_slots(MORE);
	expect(*word_of(MORE) == WRITTEN + MORE, "what the other rank has written");
	atomic_store(&both->ended, 1);
	for (page = 0; page < MORE; page++)
		if (!expect(*word_of(page) == WRITTEN + page, "a block that was pinned"))
			break;
	expect(none_listed(LISTED_SLOT), "the slots are free");
	atomic_store(&both->pinned, 2);
	fflush(stdout);
	_exit(0);
}

static bool many(bool rdma)
{
	const bool ok = run_ranks(asks_for_many, keeps_many, false, rdma);

	printf("%u pinned blocks%s: %s\n", MORE, rdma ? " over RDMA" : "",
	       ok ? "another one comes" : "FAILED");
	return ok;
}

bool test_ranges(void)
{
	unsigned int i;
	bool ok = true;

	for (i = 0; i < sizeof(operations) / sizeof(operations[0]) && ok; i++)
		ok = operation(&operations[i]);
	return ok && many(false) && many(true);
}
