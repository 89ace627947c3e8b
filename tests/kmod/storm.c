// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm.c - everything that ends a rank of dsm.ko, at the worst moment. Ranks whose threads continuously fault, lock,
 * pin and meet at a barrier are killed, exit, unmap their window, or try to move it or to give it to a child. Their
 * RDMA device is deleted, also while they join; a processor goes offline; allocations are refused; processes of
 * another user and of another namespace try to join; and meanwhile the test tries to unload the module.
 *
 * Most rounds take only some tens of milliseconds, so that there are thousands; every LONG_EVERYth is longer. In
 * every DEVICE_EVERYth round the device is removed and comes back, in every CPU_EVERYth a processor, and in every
 * SHORT_EVERYth memory is short. After every RELOAD_EVERYth round the module is unloaded and loaded again, half of
 * the time while the device is removed; in some rounds it is unloaded while ranks die, and faults linger in it.
 *
 * Contents. Each thread has its own word in each of HOT pages, and counts in it. In memory outside of the module, it
 * records the number that it is about to write, and the number that it has written. A thread that reads the word must
 * find a number between the last one written before and the last one begun after, whichever process has died
 * meanwhile; and the writer must find its last number. All ranks add to other words, each under its own mutex, or
 * with its page pinned: two ranks never hold the same one, and no addition is lost. A rank that ends in there takes
 * the lock or the page along; the others wait, for a lock only briefly.
 *
 * Each kind of event is counted where it happens. After ENOUGH rounds each kind must have happened, except those that
 * this kernel cannot do, which the output lists. An operation that should have been refused, and was not, is printed
 * with its round. Before the first round, a process that differs from the strangers only in its user or its network
 * namespace must be able to join.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. What must hold: processes end within
 * seconds, a device can be removed within REMOVAL_S, unloading is refused while there are users, and nothing is left
 * after each round. Whenever the module can be unloaded, and it must be after the last round, the RDMA device and the
 * slab caches have no more objects than before. The caller checks the kernel's log.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"
#include "tests/kmod/common_stranger.h"
#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4u
#define LONG_EVERY 20u
#define DEVICE_EVERY 10u /* even, so that these rounds are over RDMA */
#define RELOAD_EVERY 25u
#define CPU_EVERY 8u
#define SHORT_EVERY 6u
#define ENOUGH 50u /* enough rounds for all events; a debug kernel runs as many */
#define HOT 16u
#define FAILSLAB "/sys/kernel/debug/failslab"
#define REMOVAL_S 5     /* most removals are far faster; the longest is printed. On a slow or busy host: */
#define REMOVAL_LATE 10 /* so many times the shortest removal */

enum order { GO_ON, EXIT, UNMAP, FORK, MOVE, ORDERS };
enum { KILL = GO_ON, STRANGER = ORDERS, REMOVAL }; /* events that are no order to a rank */

enum event {
	EVENT_KILL,
	EVENT_EXIT,
	EVENT_UNMAP,
	EVENT_CHILD,
	EVENT_MOVE,
	EVENT_USER,
	EVENT_NAMESPACE,
	EVENT_REMOVAL,
	EVENT_OFFLINE,
	EVENT_UNLOAD,
	EVENT_RELOAD,
	EVENT_RANGE,
	EVENT_ADD,
	EVENT_SHORT,
	EVENT_LOCK,
	EVENT_LIMIT,
	EVENT_PIN,
	EVENT_BARRIER,
	EVENT_HOLDER,
	EVENT_WAITER,
	EVENTS
};

static const char *const event_names[EVENTS] = {
	[EVENT_KILL] = "ranks killed",
	[EVENT_EXIT] = "ranks that exited",
	[EVENT_UNMAP] = "windows unmapped",
	[EVENT_CHILD] = "children refused",
	[EVENT_MOVE] = "moves refused",
	[EVENT_USER] = "other users refused",
	[EVENT_NAMESPACE] = "other namespaces refused",
	[EVENT_REMOVAL] = "devices removed",
	[EVENT_OFFLINE] = "processors off",
	[EVENT_UNLOAD] = "unloads refused",
	[EVENT_RELOAD] = "reloads",
	[EVENT_RANGE] = "ranges",
	[EVENT_ADD] = "additions",
	[EVENT_SHORT] = "allocations refused",
	[EVENT_LOCK] = "additions under a lock",
	[EVENT_LIMIT] = "waits for a lock given up",
	[EVENT_PIN] = "additions with a pin",
	[EVENT_BARRIER] = "barriers",
	[EVENT_HOLDER] = "ends with a lock or a pin",
	[EVENT_WAITER] = "ends in a wait for one, or at a barrier",
};

/* A word that all ranks add to under a lock: the mutex of the rank with that number, or for the last word, a pin of its page. */
#define GUARDS (JOB_RANKS + 1)
#define PIN_GUARD JOB_RANKS
#define GUARD_WORD 256u /* index in the page, which has nothing else */
#define LOCK_S 0.005    /* time limit of a lock */
#define BARRIER 100u

struct orders {
	_Atomic int order[JOB_RANKS];
	_Atomic unsigned long accesses, signals, checked, wrong, intruders;
	_Atomic unsigned long events[EVENTS];
	struct {
		_Atomic uint64_t begun, done;
	} marks[JOB_RANKS][THREADS][HOT];
	_Atomic uint64_t mutex[JOB_RANKS]; /* its name and generation; 0: there is none */
	struct {
		_Atomic uint64_t begun, done;
		_Atomic unsigned int holder; /* rank + 1 */
	} guards[GUARDS];
	_Atomic bool waits[JOB_RANKS][THREADS];
};

static struct orders *orders;
static const char *module;     /* file of the module, to unload and load it */
static unsigned int round_now; /* inherited by processes that start in the round */
static bool all_long;          /* long rounds only: more accesses, fewer ends of ranks */
static unsigned long early;
static double removal_longest, removal_shortest = 1e9, removal_sum, round_longest;

static void happened(enum event e)
{
	atomic_fetch_add(&orders->events[e], 1);
}

static unsigned long times(enum event e)
{
	return atomic_load(&orders->events[e]);
}

/* Report an operation that the module should have refused. */
static void intruded(const char *who, unsigned int rank, const char *what)
{
	atomic_fetch_add(&orders->intruders, 1);
	dprintf(1, "FAILED: round %u: %s rank %u: %s succeeded\n", round_now, who, rank, what);
}

/* ---- ranks ---------------------------------------------------------------------------------- */

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
	volatile uint64_t *at = (volatile uint64_t *)(JOB_BASE + page * PAGE) + rank * THREADS + thread;
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
			w->rank, w->thread, write ? "adds to" : "reads", rank, thread, page, (unsigned long long)seen,
			(unsigned long long)least, (unsigned long long)most);
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
	object = (struct dsm_ioc_call){ .home = c.home, .object = (uint32_t)c.result, .gen = c.result >> 32 };
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

static void guard_failed(const struct worker *w, unsigned int g, const char *what, uint64_t value, uint64_t least,
			 uint64_t most)
{
	if (!atomic_fetch_add(&orders->wrong, 1))
		dprintf(1, "FAILED: rank %u, thread %u, %s %u: %s: %llu, not %llu to %llu\n", w->rank, w->thread,
			g == PIN_GUARD ? "pin" : "lock", g, what, (unsigned long long)value, (unsigned long long)least,
			(unsigned long long)most);
}

/* The holder of a guard must be alone with its word. An addition ended by a signal may or may not have been made. */
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
	struct dsm_ioc_range r = { .op = DSM_RANGE_PIN, .page = HOT + PIN_GUARD, .pages = 1, .write = DSM_PIN_WRITE };

	if (call_waiting(w, DSM_IOC_RANGE, &r))
		return;
	add_guarded(w, PIN_GUARD, EVENT_PIN);
	r.op = DSM_RANGE_UNPIN;
	ioctl(w->fd, DSM_IOC_RANGE, &r);
}

/* One thread per rank. */
static void use_barrier(struct worker *w)
{
	struct dsm_ioc_call c = {
		.call = DSM_CALL_BARRIER, .object = BARRIER, .threads = 1, .value2 = (1u << w->job->ranks) - 1
	};

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
static void count_ends(void)
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

		refused_now = page < HOT ? !check(w, page, write) : touch(JOB_BASE + page * PAGE, write) != 0;
		signals += refused_now;
		if (refused_now && n % 8 == 0)
			usleep(500); /* access may stay refused, and other threads need the processor */
		if (++n % 32 == 0) {
			atomic_fetch_add(&orders->accesses, 32);
			atomic_fetch_add(&orders->signals, signals);
			signals = 0;
		}
	}
	return NULL;
}

/* A child inherits the file, but must not get the window, even if its parent asks for that, nor may it make calls. */
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
		if (mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED, JOB_BASE + (1ul << 40)) !=
		    MAP_FAILED)
			intruded("in", w->rank, "mremap");
		else
			happened(EVENT_MOVE);
		break;
	default: break;
	}
}

static void rank_process(struct job *j, unsigned int rank, uint64_t seed)
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
		w[i] = (struct worker){ .random = seed + i, .job = j, .rank = rank, .thread = i, .fd = fd };
		if (!i)
			make_mutex(&w[i]);
		pthread_create(&thread, NULL, work, &w[i]);
	}
	setpriority(PRIO_PROCESS, 0, -20); /* this thread only: it must obey while others keep the processors busy */
	for (; !atomic_load(&j->stop); usleep(2000))
		obey((enum order)atomic_exchange(&orders->order[rank], GO_ON), &w[0]);
	_exit(0);
}

/* ---- events from outside -------------------------------------------------------------------- */

static bool failed(const char *what)
{
	printf("FAILED: %s\n", what);
	return false;
}

static bool device(const char *command)
{
	char line[200];

	snprintf(line, sizeof(line), "rdma link %s", command);
	return system(line) == 0 || failed(line);
}

/* Removing the device must end its users without other help. */
static bool remove_device(void)
{
	double start = now_s(), took;

	if (!device("delete rxe0"))
		return false;
	took = now_s() - start;
	happened(EVENT_REMOVAL);
	removal_sum += took;
	removal_longest = took > removal_longest ? took : removal_longest;
	removal_shortest = took < removal_shortest ? took : removal_shortest;
	if (took > patience(REMOVAL_S))
		printf("removing the device took %.1f s\n", took);
	return true;
}

/* On a slow host every removal is slow; a removal that waits for an event that does not come is slow only sometimes. */
static bool removed_soon(void)
{
	return !times(EVENT_REMOVAL) || removal_longest <= patience(REMOVAL_S) ||
		removal_longest <= REMOVAL_LATE * removal_shortest || failed("the device could not be removed soon");
}

/* A refusal proves nothing if the place is taken or the peer is missing. */
static void visit_over(const struct visitor *v, const char *did, int err)
{
	if (did)
		intruded(v->uid ? "another user as" : "another namespace as", v->rank, did);
	else if (err == (v->uid ? EACCES : ENODEV))
		happened(v->uid ? EVENT_USER : EVENT_NAMESPACE);
}

/*
 * A stranger: another user, or another network namespace, which has no device to join by. Each is a different user: two of one
 * user could use the key for a job of their own.
 */
static void stranger(const struct job *j, uint64_t *r, unsigned int rank)
{
	static uid_t last = SOMEBODY;
	const bool user = pick(r, 2);
	const struct visitor v = { .uid = user ? ++last : 0,
				   .elsewhere = !user,
				   .by_device = !user,
				   .rank = rank,
				   .size = j->ranks,
				   .key = j->key };

	visit(&v, visit_over);
}

/*
 * Let one of `one_of` allocations fail: the module's, in softirq, faults, calls (frames, keys, tables) and workers. On a kernel
 * with failslab, all allocations of the ranks' threads. 0: none.
 */
static void shortage(unsigned int one_of)
{
	char value[20];

	snprintf(value, sizeof(value), "%u", one_of);
	file_set("/sys/module/dsm/parameters/test_fail_alloc", value);
	file_set("/sys/module/dsm/parameters/test_fail_sleeping", value);
	if (access(FAILSLAB, F_OK))
		return;
	file_set(FAILSLAB "/task-filter", "Y");
	file_set(FAILSLAB "/ignore-gfp-wait", "N");
	file_set(FAILSLAB "/verbose", "0");
	file_set(FAILSLAB "/times", "-1");
	snprintf(value, sizeof(value), "%u", one_of ? 1 + 20 / one_of : 0);
	file_set(FAILSLAB "/probability", value);
}

static const char *processor_file(void)
{
	static char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online", sysconf(_SC_NPROCESSORS_CONF) - 1);
	return path;
}

/* Switch the last processor. False: there is only one, or it cannot go offline. */
static bool processor(bool online)
{
	return file_set(processor_file(), online ? "1" : "0");
}

struct plan {
	unsigned int number;
	unsigned int pause_us; /* longest pause between two events */
	bool removal;          /* remove the device in this round, */
	bool early;            /* while ranks join */
	bool removed;
	bool shortage;  /* make memory short */
	bool processor; /* take a processor offline */
	bool unload;    /* unload the module while its ranks are killed; faults linger in it */
};

static bool is_running(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return !waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) && !info.si_pid;
}

/* Wait until ranks have obeyed, have ended, or are too busy. */
static void wait_for_orders(const struct job *j, const pid_t *pids)
{
	const double end = now_s() + patience(0.05);
	unsigned int i;

	for (i = 0; i < j->ranks; i++)
		while (atomic_load(&orders->order[i]) != GO_ON && is_running(pids[i]) && now_s() < end)
			usleep(500);
}

static bool weather(struct job *j, uint64_t *r, const pid_t *pids, struct plan *plan)
{
	unsigned int i, n = 2 + pick(r, 6), rank, gone = pick(r, j->ranks), event;
	unsigned int removal = plan->removal ? pick(r, n) : n, offline = plan->processor ? pick(r, n) : n;
	int err;

	for (i = 0; i < n; i++) {
		usleep(pick(r, plan->pause_us));
		rank = pick(r, j->ranks);
		if (i == offline && processor(false))
			happened(EVENT_OFFLINE);
		event = i == removal ? REMOVAL : pick(r, REMOVAL);
		switch (event) {
		case KILL:
			if (is_running(pids[rank]) && !kill(pids[rank], SIGKILL))
				happened(EVENT_KILL);
			gone = rank;
			break;
		case STRANGER: stranger(j, r, gone); break; /* in the place of this rank, if it has gone */
		case REMOVAL:
			plan->removed = true;
			if (!remove_device())
				return false;
			break;
		default: atomic_store(&orders->order[rank], (int)event);
		}
		/* One process has the device open for sure: this one. */
		err = module_unload();
		if (err != -EWOULDBLOCK && err != -EBUSY)
			return failed("the module could be unloaded while in use");
		happened(EVENT_UNLOAD);
	}
	if (pick(r, 2))
		wait_for_orders(j, pids);
	return true;
}

/* Wait until all ranks have joined. Without their device they cannot. */
static bool all_come(struct job *j, uint64_t *r, struct plan *plan)
{
	double end = now_s() + patience(60);

	if (plan->early) {
		usleep(pick(r, (unsigned int)patience(60000)));
		plan->removed = true;
		early++;
		if (!remove_device())
			return false;
		end = now_s() + 0.02;
	}
	while (atomic_load(&j->ready) < j->ranks && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	if (atomic_load(&j->ready) == j->ranks)
		return true;
	if (!plan->early)
		printf("round %u: no job: %s\n", plan->number, strerror(-atomic_load(&j->failed)));
	return plan->early;
}

/* Unload as soon as the module has no user, while ranks end. */
static bool unload_at_once(void)
{
	double end = now_s() + patience(20);

	while (module_unload() && now_s() < end)
		usleep(100);
	happened(EVENT_RELOAD);
	return !module_loaded() ? module_load(module)
				: failed("the module cannot be unloaded after its ranks were killed");
}

static bool one_round(struct job *j, uint64_t *r, unsigned int number)
{
	struct plan plan = { .number = number,
			     .shortage = number % SHORT_EVERY == 1,
			     .removal = number % DEVICE_EVERY == 0,
			     .early = number % DEVICE_EVERY == 0 && pick(r, 3) == 0,
			     .processor = number % CPU_EVERY == 3,
			     .unload = module && number % RELOAD_EVERY % 10 == 7 };
	int keep = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	unsigned int i, ranks = 2 + pick(r, 2);
	pid_t pids[JOB_RANKS];
	long long reserve;
	bool ok;

	plan.pause_us = (unsigned int)patience(all_long || number % LONG_EVERY == LONG_EVERY - 1 ? 100000
						       : plan.shortage                           ? 50000
												 : 6000);
	if (keep < 0)
		return failed("/dev/dsm cannot be opened");
	job_set(j, ranks, number % 2 == 0);
	memset(orders->order, 0, sizeof(orders->order));
	memset(orders->marks, 0, sizeof(orders->marks));
	memset(orders->mutex, 0, sizeof(orders->mutex));
	memset(orders->guards, 0, sizeof(orders->guards));
	memset(orders->waits, 0, sizeof(orders->waits));
	chmod("/dev/dsm", 0666); /* strangers may open it */
	j->mode = pick(r, 3);
	j->home = pick(r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	fflush(stdout);
	for (i = 0; i < ranks; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i, next(r));
	}
	ok = all_come(j, r, &plan);
	if (plan.unload)
		file_set("/sys/module/dsm/parameters/test_linger", "2");
	reserve = counter("from_reserve");
	if (plan.shortage)
		shortage(2 + pick(r, pick(r, 2) ? 4 : 20));
	if (ok && !plan.early)
		ok = weather(j, r, pids, &plan);
	if (plan.shortage)
		atomic_fetch_add(&orders->events[EVENT_SHORT], (unsigned long)(counter("from_reserve") - reserve));
	if (pick(r, 2))
		atomic_store(&j->stop, 1);
	for (i = 0; i < ranks; i++)
		kill(pids[i], SIGKILL);
	close(keep);
	if (plan.unload)
		ok &= unload_at_once();
	ok &= job_reap(pids, ranks, 20);
	count_ends();
	shortage(0);
	if (plan.processor)
		processor(true);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	if (plan.removed)
		ok &= device("add rxe0 type rxe netdev eth0");
	return nothing_left(20) && ok;
}

static bool ends_well(const char *before)
{
	char after[300];
	double end = now_s() + patience(10);
	int err;

	while ((err = module_unload()) && now_s() < end)
		usleep(20000);
	if (err)
		return failed("the module cannot be unloaded");
	if (module_loaded())
		return failed("it is there still");
	if (!access("/sys/kernel/slab/dsm_txn", F_OK) || !access("/dev/dsm", F_OK) ||
	    !access("/sys/kernel/debug/dsm", F_OK))
		return failed("something of it is left");
	device_objects(after, sizeof(after));
	if (strcmp(before, after)) {
		printf("before: %safter:  %s", before, after);
		return failed("objects of the RDMA device are left");
	}
	return true;
}

/* Unload and load the module; with_device: while the device is removed and made. */
static bool reload(const char *before, bool with_device)
{
	pid_t child = -1;
	int status = 0;
	bool ok;

	fflush(stdout);
	if (with_device) {
		child = fork();
		if (!child)
			_exit(device("delete rxe0") && device("add rxe0 type rxe netdev eth0") ? 0 : 1);
		usleep(20000);
		while (module_unload() && !access("/sys/module/dsm", F_OK))
			usleep(1000);
		waitpid(child, &status, 0);
		ok = !status && module_load(module);
	} else {
		ok = true;
	}
	happened(EVENT_RELOAD);
	return ok && ends_well(before) && module_load(module);
}

/* Why the event is impossible here; NULL: it is possible. */
static const char *cannot_happen(enum event e)
{
	if (e == EVENT_OFFLINE && access(processor_file(), W_OK))
		return "none can go offline";
	return e == EVENT_RELOAD && !module ? "no --module" : NULL;
}

static bool is_missing(enum event e)
{
	return !times(e) && !cannot_happen(e);
}

static bool all_happened(void)
{
	enum event e;

	for (e = 0; e < EVENTS && !is_missing(e); e++)
		;
	return e == EVENTS;
}

/* False: enough rounds, and some event never happened. */
static bool report_events(unsigned int rounds)
{
	enum event e;

	for (e = 0; e < EVENTS; e++) {
		printf("%s%lu %s", e ? ", " : "", times(e), event_names[e]);
		if (cannot_happen(e))
			printf(" (%s)", cannot_happen(e));
	}
	printf("%s\n", access(FAILSLAB, F_OK) ? " (no failslab: only the module's own)" : "");
	for (e = 0; rounds >= ENOUGH && e < EVENTS; e++)
		if (is_missing(e))
			printf("FAILED: %s: none in %u rounds\n", event_names[e], rounds);
	return rounds < ENOUGH || all_happened();
}

/* Rounds are short, and a busy host does little in them: run up to four times as many until every event has happened. */
static bool goes_on(unsigned int round, unsigned int rounds)
{
	return round < rounds || (rounds >= ENOUGH && round < 4 * rounds && !all_happened());
}

int main(int argc, char **argv)
{
	unsigned int rounds = 20, i;
	double seconds = 0, began = now_s(); /* 0: all rounds */
	unsigned long removals;
	char before[300];
	uint64_t r = 1;
	struct job *j;
	bool ok;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seed") && a + 1 < argc) {
			r = strtoull(argv[++a], NULL, 0);
		} else if (!strcmp(argv[a], "--rounds") && a + 1 < argc) {
			rounds = (unsigned int)atoi(argv[++a]);
		} else if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--long")) {
			all_long = true;
		} else if (!strcmp(argv[a], "--module") && a + 1 < argc) {
			module = argv[++a];
		} else {
			printf("usage: storm [--seed S] [--rounds N] [--seconds T] [--long] [--module FILE]\n"
			       "Ranks of dsm.ko die in all ways; in a guest with the module loaded, which is unloaded at the end.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "storm: dsm.ko is not loaded\n");
		return 77;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);  /* inherit the children of killed ranks */
	setpriority(PRIO_PROCESS, 0, -20); /* above the ranks' threads, whose number must not affect the times */
	j = job_new();
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	device_objects(before, sizeof(before));
	ok = strangers_control();
	for (i = 0; ok && goes_on(i, rounds) && (!seconds || now_s() < began + seconds); i++) {
		double start = now_s(), took;

		round_now = i;
		ok = one_round(j, &r, i) && !atomic_load(&orders->wrong);
		took = now_s() - start;
		if (took > round_longest)
			round_longest = took;
		if (took > patience(5))
			printf("round %u took %.0f s: %s, mode %u\n", i, took, j->rdma ? "RDMA" : "one kernel",
			       j->mode);
		if (ok && module && i % RELOAD_EVERY == RELOAD_EVERY - 1)
			ok = reload(before, pick(&r, 2));
		if (!ok)
			printf("round %u failed\n", i);
	}
	printf("%lu accesses, %lu of them refused, %lu words checked, %lu wrong; the longest round %.1f s\n",
	       atomic_load(&orders->accesses), atomic_load(&orders->signals), atomic_load(&orders->checked),
	       atomic_load(&orders->wrong), round_longest);
	ok = report_events(i) && ok;
	removals = times(EVENT_REMOVAL);
	printf("%u rounds: %lu devices removed (%lu while ranks joined) in %.2f s, at most %.2f s; %lu times reloaded\n",
	       i, removals, early, removals ? removal_sum / (double)removals : 0, removal_longest, times(EVENT_RELOAD));
	ok &= removed_soon();
	ok &= !atomic_load(&orders->intruders); /* printed already */
	if (atomic_load(&orders->wrong) || !atomic_load(&orders->checked))
		ok = failed("contents");
	return ok && ends_well(before) ? 0 : 1;
}
