// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - a thread of a rank waits in dsm.ko for a block that another rank has pinned, and gets signals. Their
 * handler runs at once, and the access completes when the block arrives, with the contents that the other rank wrote.
 * The same for a block that is elsewhere, and for one that the thread may read and wants to write; and for a signal that comes when
 * the block has arrived, but the thread has not been told of it (test_pause_grant).
 *
 * The same for each kind of call that waits: handlers run, and the call ends when the other rank permits it, and has
 * been made once, also if handlers make calls. A handler may also leave by siglongjmp(3), before or after the object
 * of the wait has arrived. Other ranks then get it, whether the thread makes another call or exits. Operations on
 * ranges wait for the later blocks of a range that is pinned in part; for a request slot, while other threads wait
 * for their blocks in all of them; and for the answers to a placement and to an echo, here of a rank that has ended.
 * While a rank waits for more pinned blocks than it has slots for blocks only, other blocks arrive at once.
 *
 * Runs in a guest with the module loaded.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define PARAMETER "/sys/module/dsm/parameters/test_block_slots"
#define SIGNALS 20u
#define WRITTEN 41u

static struct {
	_Atomic unsigned int pinned, handled, ended, failed, object, tid, let;
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

static volatile unsigned int *word(void)
{
	return (volatile unsigned int *)JOB_BASE;
}

static int range(int fd, unsigned int op, unsigned int page, unsigned int pages, unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages, .write = write };

	return ioctl(fd, DSM_IOC_RANGE, &r);
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
	atomic_store(&both->handled, SIGNALS); /* the other rank must not wait for a thread that failed */
	pthread_join(thread, NULL);
	expect(*word() == WRITTEN + 1, "the access is made, and once");
	fflush(stdout);
	_exit(0);
}

/* ---- as the block comes --------------------------------------------------------------------- */

#define PAUSE_GRANT "/sys/module/dsm/parameters/test_pause_grant"

/* A grant is held with softirqs off, on the processor of the rank that lets the block go: not where the signal is to be handled. */
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
	if (!expect(fd >= 0, "a job of two ranks") || !expect(reached(&both->pinned, 1), "the other rank"))
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

/* ---- calls ---------------------------------------------------------------------------------- */

#define LIMIT_NS 60000000000ull
#define BARRIER 3u

struct kind {
	const char *name;
	struct dsm_ioc_call wait, let; /* call of the waiting rank, call of the other rank that ends the wait */
	struct dsm_ioc_call hold;      /* by the other rank, before */
	struct dsm_ioc_call undo;      /* by the waiting rank, after */
	struct dsm_ioc_call again;     /* by the other rank, at the end: as if nobody had waited */
	int32_t status;                /* expected status of `again` */
	uint8_t object;                /* enum sync_kind */
	bool given_back;               /* what nobody waits for is given back */
	bool mutex;                    /* the wait releases a mutex */
};

#define SYNC(o, ...)                                                     \
	{                                                                \
		.call = DSM_CALL_SYNC, .op = (o), .home = 1, __VA_ARGS__ \
	}
#define CALL(c, ...)                                \
	{                                           \
		.call = (c), .home = 1, __VA_ARGS__ \
	}
#define ARRIVE                                                                         \
	{                                                                              \
		.call = DSM_CALL_BARRIER, .object = BARRIER, .threads = 1, .value2 = 3 \
	}

static const struct kind kinds[] = {
	{ .name = "a lock",
	  .object = SYNC_MUTEX,
	  .hold = CALL(DSM_CALL_LOCK, ),
	  .wait = CALL(DSM_CALL_LOCK, ),
	  .let = { .call = DSM_CALL_UNLOCK },
	  .undo = { .call = DSM_CALL_UNLOCK },
	  .again = CALL(DSM_CALL_TRYLOCK, ),
	  .given_back = true },
	{ .name = "a lock to write",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_WRLOCK, ),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_WRUNLOCK, ),
	  .again = SYNC(SOP_WRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to read",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_RDLOCK, ),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_RDUNLOCK, ),
	  .again = SYNC(SOP_WRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to write with a limit",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_RDLOCK, ),
	  .wait = SYNC(SOP_WRLOCK, .ns = LIMIT_NS),
	  .let = SYNC(SOP_RDUNLOCK, ),
	  .undo = SYNC(SOP_WRUNLOCK, ),
	  .again = SYNC(SOP_TRYWRLOCK, ),
	  .given_back = true },
	{ .name = "a lock to read with a limit",
	  .object = SYNC_RWLOCK,
	  .hold = SYNC(SOP_WRLOCK, ),
	  .wait = SYNC(SOP_RDLOCK, .ns = LIMIT_NS),
	  .let = SYNC(SOP_WRUNLOCK, ),
	  .undo = SYNC(SOP_RDUNLOCK, ),
	  .again = SYNC(SOP_TRYWRLOCK, ),
	  .given_back = true },
	{ .name = "a semaphore",
	  .object = SYNC_SEM,
	  .wait = SYNC(SOP_WAIT, ),
	  .let = SYNC(SOP_POST, .value = 1),
	  .undo = SYNC(SOP_POST, .value = 1),
	  .again = SYNC(SOP_TRYWAIT, ),
	  .given_back = true },
	{ .name = "a semaphore with a limit",
	  .object = SYNC_SEM,
	  .wait = SYNC(SOP_WAIT, .ns = LIMIT_NS),
	  .let = SYNC(SOP_POST, .value = 1),
	  .undo = SYNC(SOP_POST, .value = 1),
	  .again = SYNC(SOP_TRYWAIT, ),
	  .given_back = true },
	{ .name = "a condition",
	  .object = SYNC_COND,
	  .wait = SYNC(SOP_ENQUEUE, ),
	  .let = SYNC(SOP_SIGNAL, ),
	  .again = SYNC(SOP_DESTROY, ), /* no request is in line */
	  .given_back = true },
	{ .name = "a condition with a mutex",
	  .object = SYNC_COND,
	  .mutex = true,
	  .wait = SYNC(SOP_ENQUEUE, ),
	  .let = SYNC(SOP_SIGNAL, ),
	  .again = SYNC(SOP_DESTROY, ), /* no request is in line */
	  .given_back = true },
	{ .name = "a barrier", .wait = ARRIVE, .let = ARRIVE },
};

static bool call(int fd, const struct dsm_ioc_call *c, struct dsm_ioc_call *out)
{
	*out = *c;
	return !ioctl(fd, DSM_IOC_CALL, out);
}

static const struct kind *what;
static uint32_t mutex_name; /* its home is rank 0 */
static uint16_t mutex_hold; /* record of the waiting thread's hold, before it waits */
static bool mutex_taken;    /* by another thread of the rank */

/* Make a call on the shared object. Empty calls are skipped. */
static int32_t make_call(int fd, const struct dsm_ioc_call *c, uint16_t *hold)
{
	struct dsm_ioc_call named = *c, out;

	if (c->call == DSM_CALL_SYNC && !c->op)
		return 0;
	if (c->call == DSM_CALL_UNLOCK)
		named.hold = *hold;
	else if (c->call != DSM_CALL_BARRIER)
		named.object = atomic_load(&both->object);
	if (c->op == SOP_ENQUEUE && what->mutex)
		named.mutex = mutex_hold + 1u;
	if (!call(fd, &named, &out))
		return errno == EINTR ? -EINTR : -EIO;
	*hold = out.hold;
	return out.status;
}

static int waiter_fd;
static sigjmp_buf out_of_here;
static volatile sig_atomic_t leaves;
static bool late; /* the handler leaves only after the object of the wait has arrived */
static bool busy; /* handlers make a call, too */
static bool ends; /* the thread exits after leaving, and makes no other call */

static void another_call(void)
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

static bool lock_mutex(uint16_t *hold)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_LOCK, .object = mutex_name };
	const bool ok = call(waiter_fd, &c, &c) && !c.status;

	*hold = c.hold;
	return ok;
}

static void make_mutex(void)
{
	struct dsm_ioc_call c = { .value2 = (uint64_t)SYNC_MUTEX << 32 };

	expect(call(waiter_fd, &c, &c) && !c.status, "a mutex");
	mutex_name = (uint32_t)c.result;
}

/* Another thread locks the mutex that the waiting thread has released, in the same hold record, and keeps it until it unlocks. */
static void take_mutex(void)
{
	uint16_t hold;

	if (mutex_taken)
		return;
	mutex_taken = true;
	expect(lock_mutex(&hold) && hold == mutex_hold, "the mutex that the wait has released");
}

static void release_mutex(void)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_UNLOCK, .hold = mutex_hold };

	expect(call(waiter_fd, &c, &c), "the wait has released its mutex once");
}

/* Make the call in a thread that gets signals, or that leaves the call and makes another one. */
static void *call_it(void *arg)
{
	const bool goes = arg;
	uint16_t hold = 0;

	atomic_store(&both->tid, (unsigned int)gettid());
	if (goes && sigsetjmp(out_of_here, 1)) {
		if (!ends)
			another_call();
		atomic_store(&both->ended, 1);
		return NULL;
	}
	expect(!what->mutex || lock_mutex(&mutex_hold), "the mutex");
	expect(!make_call(waiter_fd, &what->wait, &hold), "the call");
	expect(!goes, "the handler leaves");
	atomic_store(&both->ended, 1);
	expect(!make_call(waiter_fd, &what->undo, &hold), "what it got is given back");
	return NULL;
}

/* Hold the object of the wait until the other rank's thread has received all signals. */
static void lets(bool goes)
{
	struct dsm_ioc_call made = { .home = 1, .value2 = (uint64_t)what->object << 32 };
	double end = now_s() + patience(20);
	int fd = job_join(j, 1);
	uint16_t hold = 0;
	int32_t status;

	if (!expect(fd >= 0, "a job of two ranks"))
		_exit(1);
	if (what->object) {
		expect(call(fd, &made, &made) && !made.status, "an object is made");
		atomic_store(&both->object, (unsigned int)made.result);
	}
	expect(!make_call(fd, &what->hold, &hold), "it is held");
	atomic_store(&both->pinned, 1);
	expect(reached(&both->handled, goes ? 1 : SIGNALS), "handlers run while their thread waits");
	if (goes && !late)
		expect(reached(&both->ended, 1), "the thread goes on");
	else
		expect(!atomic_load(&both->ended), "the call waits");
	expect(!make_call(fd, &what->let, &hold), "it is let go");
	atomic_store(&both->let, 1);
	expect(reached(&both->ended, 1), "the call ends");
	expect(reached(&both->pinned, 2), "the other rank");
	do {
		status = make_call(fd, &what->again, &hold);
	} while (status && now_s() < end && !usleep(1000));
	expect(!status, "it has been given back");
	if (what->object == SYNC_SEM)
		expect(make_call(fd, &what->again, &hold), "it was given back once");
	atomic_store(&both->pinned, 3);
	fflush(stdout);
	_exit(0);
}

/* Rank 0: begin when the other rank is ready. */
static void begins(bool goes)
{
	struct sigaction sa = { .sa_handler = leave };

	waiter_fd = job_join(j, 0);
	if (!expect(waiter_fd >= 0, "a job of two ranks") || !expect(reached(&both->pinned, 1), "the other rank"))
		_exit(1);
	sigaction(SIGUSR1, &sa, NULL);
	leaves = goes;
}

/* Start the waiting thread, and send all its signals while it waits; call `meanwhile` before each. */
static pthread_t begin_and_signal(void *(*run)(void *), bool goes, void (*meanwhile)(void))
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
	atomic_store(&both->handled, SIGNALS); /* the other rank must not wait for a thread that failed */
	return thread;
}

static void calls(bool goes)
{
	pthread_t thread;

	begins(goes);
	if (what->mutex)
		make_mutex();
	thread = begin_and_signal(call_it, goes, what->mutex ? take_mutex : NULL);
	if (what->mutex)
		release_mutex();
	pthread_join(thread, NULL);
	atomic_store(&both->pinned, 2);
	reached(&both->pinned, 3); /* the object of a call that was left arrives at this rank */
	fflush(stdout);
	_exit(0);
}

/* ---- ranges --------------------------------------------------------------------------------- */

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
	bool full;     /* slots are used up; SLOTS_OF_BLOCKS of them are for blocks */
	bool unpinned; /* the first blocks are pinned; the thread waits for the last, which the other rank has pinned */
	bool alone;    /* the other rank has ended, and does not answer */
};

/* Rank 1 is the home of odd pages. */
static const struct operation operations[] = {
	{ .name = "a slot for an access", .op = DSM_RANGES, .page = MANY - 1, .full = true, .ways = STAYS },
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
	{ .name = "a placement", .op = DSM_RANGE_PLACE, .page = 1, .pages = 1, .alone = true, .ways = LEAVES },
	{ .name = "an echo", .op = DSM_RANGE_ECHO, .page = 1, .pages = 1, .rdma = true, .alone = true, .ways = LEAVES },
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
	expect(reached(&both->handled, goes ? 1 : SIGNALS), "handlers run while their thread waits");
	if (goes) {
		expect(reached(&both->ended, 1), "the thread goes on");
		/* A pin left behind would keep the block. */
		if (now->unpinned)
			expect(!range(fd, DSM_RANGE_PIN, now->page, now->pages, 1) &&
				       !range(fd, DSM_RANGE_UNPIN, now->page, now->pages, 1),
			       "others pin what the thread has left");
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

/* Fill that many slots with requests for blocks. A thread that leaves an access leaves its slot to the answer. */
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

/* Check that each block is pinned as often as it should be: once, or not at all. */
static void check_pins(bool goes)
{
	unsigned int page;

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
		expect(reached(&both->pinned, 3), "the other rank"); /* its blocks have their home here */
	fflush(stdout);
	_exit(0);
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
	if (!expect(waiter_fd >= 0, "a job of two ranks") || !expect(reached(&both->pinned, 1), "the other rank"))
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

#define ANSWERED 500u

enum made { PLACEMENTS, ECHOES, ADDITIONS, TRIES, READ_TRIES, WRITE_TRIES };

static const char *const made_names[] = { "placements",
					  "echoes",
					  "additions",
					  "attempts at a semaphore",
					  "attempts at a lock to read",
					  "attempts at a lock to write" };

/* Indexed from TRIES on. */
static const struct attempt {
	uint8_t object, op, undo;
	uint8_t again; /* succeeds once if everything is given back */
	int refused;
} attempts[] = {
	[TRIES] = { SYNC_SEM, SOP_TRYWAIT, SOP_POST, SOP_TRYWAIT, -EAGAIN },
	[READ_TRIES] = { SYNC_RWLOCK, SOP_TRYRDLOCK, SOP_RDUNLOCK, SOP_TRYWRLOCK, -EBUSY },
	[WRITE_TRIES] = { SYNC_RWLOCK, SOP_TRYWRLOCK, SOP_WRUNLOCK, SOP_TRYWRLOCK, -EBUSY },
};
static enum made made;
static bool left;                     /* handlers leave operations */
static volatile sig_atomic_t in_call; /* a call is in progress */

/* True if the thread's next instruction is a system call: first time, or repeated. */
static bool before_call(const ucontext_t *at)
{
	static const char instruction[] = "\x0f\x05";

	return !memcmp((const void *)at->uc_mcontext.gregs[REG_RIP], instruction, 2);
}

/* Do not leave an attempt that has ended: it may have been granted something. */
static void count_it(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	if (!in_call)
		return;
	atomic_fetch_add(&both->handled, 1);
	if (busy)
		another_call();
	if (left && (made < TRIES || before_call(context)))
		siglongjmp(out_of_here, 1);
}

/* The object's home is rank 1. *was: the value before. */
static int add(int fd, uint64_t value, uint64_t *was)
{
	struct dsm_ioc_call c = SYNC(SOP_ADD, .object = atomic_load(&both->object), .value = value);
	const int err = ioctl(fd, DSM_IOC_CALL, &c) ? errno : -c.status;

	*was = c.result;
	return err;
}

/* Returns 0 if the object was taken, `refused` if another rank has it. */
static int try_it(int fd, uint8_t op)
{
	struct dsm_ioc_call c = SYNC(op, .object = atomic_load(&both->object));

	return ioctl(fd, DSM_IOC_CALL, &c) ? -errno : c.status;
}

static int give_it_back(int fd)
{
	struct dsm_ioc_call c = SYNC(attempts[made].undo, .object = atomic_load(&both->object), .value = 1);

	return ioctl(fd, DSM_IOC_CALL, &c) ? errno : -c.status;
}

static int operate_on(int fd, unsigned int page)
{
	uint64_t was;
	int err;

	if (sigsetjmp(out_of_here, 1)) {
		in_call = 0;
		return 0;
	}
	in_call = 1;
	if (made == ADDITIONS)
		err = add(fd, 1, &was);
	else if (made >= TRIES)
		err = try_it(fd, attempts[made].op);
	else
		err = range(fd, made == PLACEMENTS ? DSM_RANGE_PLACE : DSM_RANGE_ECHO, page, 1, 0) ? errno : 0;
	in_call = 0;
	if (made >= TRIES)
		err = !err ? give_it_back(fd) : err == attempts[made].refused ? 0 : -err;
	return err;
}

/*
 * Operations that end without another rank's help, under constant signals: each takes effect once, as if there were no signals.
 * If handlers leave them, the answers free the slots.
 */
static void is_disturbed(bool unused)
{
	const struct itimerval tick = { { 0, 300 }, { 0, 300 } }, none = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_sigaction = count_it, .sa_flags = SA_SIGINFO };
	int fd = job_join(j, 0), err = 0;
	uint64_t sum = ANSWERED;
	unsigned int i;

	(void)unused;
	waiter_fd = fd;
	expect(fd >= 0 && reached(&both->pinned, 1), "a job of two ranks");
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (i = 0; i < ANSWERED && !err; i++) {
		err = operate_on(fd, 2 * i + 1);
		if (made >= TRIES)
			range(fd, DSM_RANGE_PREFETCH, 0, 1,
			      0); /* a different call, or it would resume the one that was left */
	}
	setitimer(ITIMER_REAL, &none, NULL);
	expect(!err, "each is made");
	expect(made != ADDITIONS || (!add(fd, 0, &sum) && sum == ANSWERED), "each is made once");
	expect(atomic_load(&both->handled) > 0, "signals have come");
	range(fd, DSM_RANGE_PREFETCH, 0, 1, 0); /* a different call, in case the last was left */
	expect(none_listed(LISTED_SLOT), "the slots are free");
	if (made >= TRIES)
		expect(!try_it(fd, attempts[made].again) && try_it(fd, attempts[made].again) == attempts[made].refused,
		       "all is given back");
	atomic_store(&both->ended, 1);
	fflush(stdout);
	_exit(0);
}

static void answers(bool unused)
{
	const uint64_t kind = made >= TRIES ? attempts[made].object : SYNC_ATOMIC;
	struct dsm_ioc_call object = { .home = 1, .value = made == TRIES, .value2 = kind << 32 };
	int fd = job_join(j, 1);
	unsigned int i;

	(void)unused;
	expect(fd >= 0, "a job of two ranks");
	expect(made < ADDITIONS || (call(fd, &object, &object) && !object.status), "an object is made");
	atomic_store(&both->object, (unsigned int)object.result);
	for (i = 0; i < ANSWERED && made == ECHOES; i++) /* an echo needs frames */
		*(volatile unsigned int *)(JOB_BASE + (2 * i + 1) * PAGE) = WRITTEN;
	atomic_store(&both->pinned, 1);
	reached(&both->ended, 1);
	fflush(stdout);
	_exit(0);
}

/* ---- all ------------------------------------------------------------------------------------ */

static bool two_ranks(void (*one)(bool), void (*other)(bool), bool how, bool rdma)
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

static bool misses(bool upgrade)
{
	const bool ok = two_ranks(waits, holds, upgrade, false);

	printf("%s: %s\n", upgrade ? "a write to a block for reading" : "a block that is elsewhere",
	       ok ? "handlers ran while it was waited for" : "FAILED");
	return ok;
}

static bool misses_grant(void)
{
	const bool ok = two_ranks(misses_answer, sends, false, false);

	printf("a signal as the block comes: %s\n", ok ? "the access is made" : "FAILED");
	return ok;
}

static bool waits_for(const struct kind *k)
{
	bool ok;

	what = k;
	ok = two_ranks(calls, lets, false, false);
	printf("%s: %s\n", k->name, ok ? "handlers ran while it was waited for" : "FAILED");
	busy = true;
	ok = ok && two_ranks(calls, lets, false, false);
	busy = false;
	printf("%s, and handlers that make calls: %s\n", k->name, ok ? "made once" : "FAILED");
	if (!ok || !k->given_back)
		return ok;
	ok = two_ranks(calls, lets, true, false);
	late = true;
	ok = ok && two_ranks(calls, lets, true, false);
	late = false;
	ends = true;
	ok = ok && two_ranks(calls, lets, true, false);
	ends = false;
	printf("%s that a handler leaves: %s\n", k->name, ok ? "others get it" : "FAILED");
	return ok;
}

static bool operation(const struct operation *o)
{
	bool ok = true;

	now = o;
	if (o->full && !file_set(PARAMETER, BLOCK_SLOTS))
		return false;
	if (o->ways & STAYS)
		ok = two_ranks(operates, keeps, false, o->rdma);
	if (ok && o->ways & LEAVES)
		ok = two_ranks(operates, keeps, true, o->rdma);
	ends = true;
	if (ok && o->ways & LEAVES)
		ok = two_ranks(operates, keeps, true, o->rdma);
	ends = false;
	if (o->full && !file_set(PARAMETER, "0"))
		return false;
	printf("%s: %s\n", o->name, ok ? "handlers ran while it was waited for" : "FAILED");
	return ok;
}

static bool many(bool rdma)
{
	const bool ok = two_ranks(asks_for_many, keeps_many, false, rdma);

	printf("%u pinned blocks%s: %s\n", MORE, rdma ? " over RDMA" : "", ok ? "another one comes" : "FAILED");
	return ok;
}

enum handlers { COUNT, LEAVE, CALL };

static bool disturbed(enum made what_is_made, enum handlers handlers)
{
	static const char *const how[] = { "among", "left at", "among, with calls in their handlers," };
	bool ok;

	made = what_is_made;
	left = handlers == LEAVE;
	busy = handlers == CALL;
	ok = two_ranks(is_disturbed, answers, false, true);
	busy = false;
	printf("%s %s %u signals: %s\n", made_names[made], how[handlers], atomic_load(&both->handled),
	       ok ? "ok" : "FAILED");
	return ok;
}

int main(void)
{
	unsigned int i;
	bool ok;

	if (!module_loaded()) {
		fprintf(stderr, "signals: dsm.ko is not loaded\n");
		return 77;
	}
	j = job_new();
	both = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (both == MAP_FAILED)
		return 2;
	ok = misses(false);
	ok &= misses(true);
	ok &= misses_grant();
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && ok; i++)
		ok = waits_for(&kinds[i]);
	for (i = 0; i < sizeof(operations) / sizeof(operations[0]) && ok; i++)
		ok = operation(&operations[i]);
	ok = ok && many(false) && many(true);
	ok = ok && disturbed(PLACEMENTS, COUNT) && disturbed(ECHOES, COUNT);
	ok = ok && disturbed(PLACEMENTS, LEAVE) && disturbed(ECHOES, LEAVE);
	ok = ok && disturbed(ADDITIONS, COUNT) && disturbed(ADDITIONS, CALL);
	ok = ok && disturbed(TRIES, LEAVE) && disturbed(READ_TRIES, LEAVE) && disturbed(WRITE_TRIES, LEAVE);
	return ok ? 0 : 1;
}
