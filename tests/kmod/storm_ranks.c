// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm_ranks.c - ranks whose threads continuously fault, lock, pin and meet at a barrier, and obey
 * orders (enum order).
 *
 * Contents. Each thread has its own word in each of HOT pages, and counts in it. In memory outside
 * of the module, it records the number that it is about to write, and the number that it has
 * written. A thread that reads the word must find a number between the last one written before and
 * the last one begun after, whichever process has died meanwhile; and the writer must find its last
 * number. All ranks add to other words, each under its own mutex, or with its page pinned: two
 * ranks never hold the same one, and no addition is lost. A rank that ends in there takes the lock
 * or the page along; the others wait, for a lock only briefly.
 */
#include "core/sync.h"
#include "tests/kmod/storm.h"
#include "tests/kmod/common_module.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define GUARD_WORD 256u /* index in the page, which has nothing else */
#define LOCK_S 0.005    /* time limit of a lock */
#define BARRIER 100u

struct worker {
	uint64_t random;
	struct job *job;
	unsigned int rank, thread;
	int fd;
};

/* Read a word, and add to it if `add` is not 0. Returns 0, or the signal that ended the access. */
static int look(volatile uint64_t *at, uint64_t *seen, uint64_t add)
{
	int sig = sigsetjmp(away, 0);

	if (!sig) {
		away_set = true;
		*seen = *at;
		if (add)
			*at = *seen + add;
	}
	away_set = false;
	return sig;
}

/* Access a thread's word in a page. False: no access. If there is, the word must be right. */
static bool check(struct worker *w, unsigned int page, bool write)
{
	unsigned int rank = write ? w->rank : pick(&w->random, w->job->ranks),
		     thread = write ? w->thread : pick(&w->random, THREADS);
	_Atomic uint64_t *begun = &orders->marks[rank][thread][page].begun,
			 *done = &orders->marks[rank][thread][page].done;
	volatile uint64_t *at =
		(volatile uint64_t *)(JOB_BASE + page * PAGE) + rank * THREADS + thread;
	uint64_t least = atomic_load(done), most, seen = 0;

	if (write)
		atomic_store(begun, least + 1);
	if (look(at, &seen, write))
		return false;
	most = write ? least : atomic_load(begun);
	if (write)
		atomic_store(done, seen + 1);
	atomic_fetch_add(&orders->checked, 1);
	if ((seen < least || seen > most) && !atomic_fetch_add(&orders->wrong, 1))
		dprintf(1,
			"FAILED: rank %u, thread %u %s the word of rank %u, thread %u in page %u: %llu, not %llu to %llu\n",
			w->rank, w->thread, write ? "adds to" : "reads", rank, thread, page,
			(unsigned long long)seen, (unsigned long long)least,
			(unsigned long long)most);
	return true;
}

/* A call that may fail. */
static bool try_call(int fd, unsigned long op, void *arg)
{
	if (!ioctl(fd, op, arg))
		return true;
	if (errno == ENOMEM)
		happened(EVENT_SHORT);
	return false;
}

/* Create an atomic variable, add to it, destroy it. */
static bool use_object(struct worker *w)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_SYNC,
				  .home = (uint16_t)pick(&w->random, w->job->ranks),
				  .value2 = (uint64_t)SYNC_ATOMIC << 32 };
	struct dsm_ioc_call object;

	if (!try_call(w->fd, DSM_IOC_CALL, &c))
		return false;
	if (c.status)
		return true;
	object = (struct dsm_ioc_call){ .home = c.home,
					.object = (uint32_t)c.result,
					.gen = c.result >> 32 };
	c = object;
	c.op = SOP_ADD;
	c.value = 1;
	if (try_call(w->fd, DSM_IOC_CALL, &c) && !c.status)
		happened(EVENT_ADD);
	c = object;
	c.op = SOP_DESTROY;
	try_call(w->fd, DSM_IOC_CALL, &c);
	return true;
}

/* A call on an object or a range. Returns the name of a call that was accepted, or NULL. */
static const char *call(struct worker *w)
{
	struct dsm_ioc_range range = { .op = pick(&w->random, DSM_RANGE_PIN),
				       .page = pick(&w->random, JOB_PAGES - 64) & ~511u,
				       .pages = 64 };

	if (pick(&w->random, 2))
		return use_object(w) ? "DSM_IOC_CALL" : NULL;
	range.write = range.op < DSM_RANGE_RELEASE ? pick(&w->random, 2) : 0;
	if (!try_call(w->fd, DSM_IOC_RANGE, &range))
		return NULL;
	happened(EVENT_RANGE);
	return "DSM_IOC_RANGE";
}

/* ---- locks, pins, barriers ------------------------------------------------------------------- */

/* A call that may wait. Returns 0 or errno. */
static int call_waiting(struct worker *w, unsigned long op, void *arg)
{
	_Atomic bool *waits = &orders->waits[w->rank][w->thread];
	int err;

	atomic_store(waits, true);
	err = ioctl(w->fd, op, arg) ? errno : 0;
	atomic_store(waits, false);
	if (err == ENOMEM)
		happened(EVENT_SHORT);
	return err;
}

static void raise_to(_Atomic uint64_t *at, uint64_t value)
{
	uint64_t old = atomic_load(at);

	while (old < value && !atomic_compare_exchange_weak(at, &old, value))
		;
}

static void guard_failed(const struct worker *w, unsigned int g, const char *what, uint64_t value,
			 uint64_t least, uint64_t most)
{
	if (!atomic_fetch_add(&orders->wrong, 1))
		dprintf(1, "FAILED: rank %u, thread %u, %s %u: %s: %llu, not %llu to %llu\n",
			w->rank, w->thread, g == PIN_GUARD ? "pin" : "lock", g, what,
			(unsigned long long)value, (unsigned long long)least,
			(unsigned long long)most);
}

/*
 * The holder of a guard must be alone with its word. An addition ended by a signal may or may not
 * have been made.
 */
static void add_guarded(struct worker *w, unsigned int g, enum event e)
{
	volatile uint64_t *at = (volatile uint64_t *)(JOB_BASE + (HOT + g) * PAGE) + GUARD_WORD;
	_Atomic uint64_t *begun = &orders->guards[g].begun, *done = &orders->guards[g].done;
	const unsigned int other = atomic_exchange(&orders->guards[g].holder, w->rank + 1);
	const uint64_t least = atomic_load(done), most = atomic_load(begun);
	uint64_t seen = 0, again = 0;

	if (other)
		guard_failed(w, g, "another holds it, of rank", other - 1, w->rank, w->rank);
	if (!look(at, &seen, 0)) {
		atomic_fetch_add(&orders->checked, 1);
		if (seen < least || seen > most)
			guard_failed(w, g, "its word", seen, least, most);
		raise_to(begun, seen + 1);
		if (!look(at, &again, 1)) {
			if (again != seen)
				guard_failed(w, g, "its word has changed", again, seen, seen);
			raise_to(done, seen + 1);
			happened(e);
		}
	}
	atomic_store(&orders->guards[g].holder, 0);
}

static void make_mutex(struct worker *w)
{
	struct dsm_ioc_call c = { .home = (uint16_t)w->rank, .value2 = (uint64_t)SYNC_MUTEX << 32 };

	if (try_call(w->fd, DSM_IOC_CALL, &c) && !c.status)
		atomic_store(&orders->mutex[w->rank], c.result);
}

static void use_lock(struct worker *w)
{
	const unsigned int home = pick(&w->random, w->job->ranks);
	const uint64_t name = atomic_load(&orders->mutex[home]);
	struct dsm_ioc_call c = { .call = DSM_CALL_LOCK,
				  .home = (uint16_t)home,
				  .object = (uint32_t)name,
				  .gen = (uint32_t)(name >> 32),
				  .ns = (uint64_t)(patience(LOCK_S) * 1e9) },
			    unlock = { .call = DSM_CALL_UNLOCK };

	if (!name || call_waiting(w, DSM_IOC_CALL, &c))
		return;
	if (c.status == -ETIMEDOUT)
		happened(EVENT_LIMIT);
	if (c.status)
		return;
	add_guarded(w, home, EVENT_LOCK);
	unlock.hold = c.hold;
	ioctl(w->fd, DSM_IOC_CALL, &unlock);
}

/* One thread per rank pins: threads of one rank share the page. */
static void use_pin(struct worker *w)
{
	struct dsm_ioc_range r = {
		.op = DSM_RANGE_PIN, .page = HOT + PIN_GUARD, .pages = 1, .write = DSM_PIN_WRITE
	};

	if (call_waiting(w, DSM_IOC_RANGE, &r))
		return;
	add_guarded(w, PIN_GUARD, EVENT_PIN);
	r.op = DSM_RANGE_UNPIN;
	ioctl(w->fd, DSM_IOC_RANGE, &r);
}

/* One thread per rank. */
static void use_barrier(struct worker *w)
{
	struct dsm_ioc_call c = { .call = DSM_CALL_BARRIER,
				  .object = BARRIER,
				  .threads = 1,
				  .value2 = (1u << w->job->ranks) - 1 };

	if (!call_waiting(w, DSM_IOC_CALL, &c) && !c.status)
		happened(EVENT_BARRIER);
}

static void synchronise(struct worker *w)
{
	const bool seldom = !pick(&w->random, 4);

	if (seldom && w->thread == 0)
		use_barrier(w);
	else if (seldom && w->thread == 1)
		use_pin(w);
	else
		use_lock(w);
}

/* Count what ended ranks held, and what they waited for. */
void count_ends(void)
{
	unsigned int i, t;

	for (i = 0; i < GUARDS; i++)
		if (atomic_load(&orders->guards[i].holder))
			happened(EVENT_HOLDER);
	for (i = 0; i < JOB_RANKS; i++)
		for (t = 0; t < THREADS; t++)
			if (atomic_load(&orders->waits[i][t]))
				happened(EVENT_WAITER);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned long n = 0, signals = 0;
	bool refused_now;

	file_set("/proc/thread-self/make-it-fail", "1"); /* if the kernel can, see shortage() */
	while (!atomic_load(&w->job->stop)) {
		if (n % 32 == 0) { /* also on the first pass: rounds are short */
			call(w);
			synchronise(w);
		}
		/* Mostly a few pages that all ranks use; sometimes the rest of the window. */
		unsigned int page = pick(&w->random, pick(&w->random, 8) ? HOT : JOB_PAGES);
		bool write = pick(&w->random, 3) == 0;

		refused_now = page < HOT ? !check(w, page, write)
					 : touch(JOB_BASE + page * PAGE, write) != 0;
		signals += refused_now;
		if (refused_now && n % 8 == 0)
			/* access may stay refused, and other threads need the processor */
			usleep(500);
		if (++n % 32 == 0) {
			atomic_fetch_add(&orders->accesses, 32);
			atomic_fetch_add(&orders->signals, signals);
			signals = 0;
		}
	}
	return NULL;
}

/*
 * A child inherits the file, but must not get the window, even if its parent asks for that, nor may
 * it make calls.
 */
static void have_child(struct worker *w)
{
	const char *did = NULL;
	struct dsm_ioc_lost l;
	unsigned int i;

	if (!madvise(JOB_BASE, JOB_WINDOW, MADV_DOFORK))
		intruded("in", w->rank, "MADV_DOFORK");
	if (fork())
		return;
	alarm(2);
	signal(SIGALRM, SIG_DFL);
	for (i = 0; i < 100 && !did; i++)
		did = call(w);
	if (!did && !touch(JOB_BASE, true))
		did = "an access to the window";
	if (!did && !ioctl(w->fd, DSM_IOC_LOST, &l))
		did = "DSM_IOC_LOST";
	if (did)
		intruded("in a child of", w->rank, did);
	else
		happened(EVENT_CHILD);
	_exit(0);
}

static void obey(enum order order, struct worker *w)
{
	switch (order) {
	case EXIT: happened(EVENT_EXIT); _exit(0);
	case UNMAP:
		if (!munmap(JOB_BASE, JOB_WINDOW))
			happened(EVENT_UNMAP);
		break;
	case FORK: have_child(w); break;
	case MOVE: /* the kernel refuses it, but only after trying */
		if (mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED,
			   JOB_BASE + (1ul << 40)) != MAP_FAILED)
			intruded("in", w->rank, "mremap");
		else
			happened(EVENT_MOVE);
		break;
	default: break;
	}
}

void rank_process(struct job *j, unsigned int rank, uint64_t seed)
{
	static struct worker w[THREADS];
	pthread_t thread;
	unsigned int i;
	int fd;

	setpriority(PRIO_PROCESS, 0, 0);
	catch_signals();
	fd = job_join(j, rank);
	if (fd < 0)
		_exit(3);
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){
			.random = seed + i, .job = j, .rank = rank, .thread = i, .fd = fd
		};
		if (!i)
			make_mutex(&w[i]);
		pthread_create(&thread, NULL, work, &w[i]);
	}
	/* this thread only: it must obey while others keep the processors busy */
	setpriority(PRIO_PROCESS, 0, -20);
	for (; !atomic_load(&j->stop); usleep(2000))
		obey((enum order)atomic_exchange(&orders->order[rank], GO_ON), &w[0]);
	_exit(0);
}
