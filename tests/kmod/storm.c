// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm.c - everything that ends a rank of dsm.ko, at the worst moment: ranks whose threads fault and lock all the time are killed,
 * exit, unmap their window, try to move it or to give it to a child; their RDMA device is deleted, also while they join; a
 * processor goes; allocations are refused; processes of another user and of another namespace try to join; and meanwhile
 * somebody tries to unload the module.
 *
 * Most rounds are short, some tens of milliseconds, so that there are thousands; every LONG_EVERYth is longer, in every
 * DEVICE_EVERYth the device goes and comes, in every CPU_EVERYth a processor, in every SHORT_EVERYth memory is short, and after
 * every RELOAD_EVERYth the module goes and comes, half the time while the device goes; in some it goes while ranks die, and faults
 * linger in it.
 *
 * Contents. Each thread has a word of its own in each of HOT pages, and counts in it; it says what it is about to write, and
 * what it has written, in memory that is not the module's. Whoever can read a word must find a number between what had been
 * written before and what was begun after, whoever has died meanwhile; and a thread what it wrote last.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. What must hold: processes end within seconds, a device
 * can be removed within REMOVAL_S, unloading is refused while there are users, nothing is left after each round; whenever the
 * module can be unloaded, and after the last round it must be, the RDMA device and the slab caches have no more objects than
 * before. The kernel's log is its caller's to read.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

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
#define DEVICE_EVERY 10u /* even: of those rounds by RDMA */
#define RELOAD_EVERY 25u
#define CPU_EVERY 8u
#define SHORT_EVERY 6u
#define HOT 16u
#define SOMEBODY 1234u  /* a user without privileges */
#define REMOVAL_S 5     /* and mostly far less; the longest is printed. On a slow or busy host: */
#define REMOVAL_LATE 10 /* times the shortest one */

enum order { GO_ON, EXIT, UNMAP, FORK, MOVE };

struct orders {
	_Atomic int order[JOB_RANKS];
	_Atomic unsigned long accesses, signals, calls, checked, wrong;
	_Atomic unsigned long intruders; /* children and strangers who could do something */
	struct {
		_Atomic uint64_t begun, done;
	} marks[JOB_RANKS][THREADS][HOT];
};

static struct orders *orders;
static const char *module; /* its file, where it is to be unloaded and loaded */
static unsigned long kills, exits, unmaps, forks, moves, strangers, switches, deletions, early, reloads, refused;
static double removal_longest, removal_shortest = 1e9, removal_sum, round_longest;

/* ---- ranks ---------------------------------------------------------------------------------- */

struct worker {
	uint64_t random;
	struct job *job;
	unsigned int rank, thread;
	int fd;
};

/* One access to a word, which may add to it. 0, or the signal it ended with. */
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

/* Whether the word of a thread in a page can be had; it must be right. */
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

/* An accepted call on whatever there is. */
static void call(struct worker *w)
{
	struct dsm_ioc_range range = { .op = pick(&w->random, DSM_RANGE_PIN),
				       .page = pick(&w->random, JOB_PAGES - 64),
				       .pages = 64 };
	struct dsm_ioc_call sync = { .call = DSM_CALL_SYNC,
				     .home = (uint16_t)pick(&w->random, w->job->ranks),
				     .value2 = (uint64_t)SYNC_ATOMIC << 32 };
	uint32_t object;

	atomic_fetch_add(&orders->calls, 1);
	if (pick(&w->random, 2)) {
		range.page &= ~511u;
		range.write = range.op < DSM_RANGE_RELEASE ? pick(&w->random, 2) : 0;
		ioctl(w->fd, DSM_IOC_RANGE, &range);
		return;
	}
	/* An atomic variable: made, added to, destroyed. */
	if (ioctl(w->fd, DSM_IOC_CALL, &sync) || sync.status)
		return;
	object = (uint32_t)sync.result;
	sync = (struct dsm_ioc_call){ .home = sync.home, .object = object, .op = SOP_ADD, .value = 1 };
	ioctl(w->fd, DSM_IOC_CALL, &sync);
	sync = (struct dsm_ioc_call){ .home = sync.home, .object = object, .op = SOP_DESTROY };
	ioctl(w->fd, DSM_IOC_CALL, &sync);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned long n = 0, signals = 0;
	bool refused_now;

	file_set("/proc/thread-self/make-it-fail", "1"); /* where the kernel can, see shortage() */
	while (!atomic_load(&w->job->stop)) {
		/* Few pages that all want, and the rest of the window now and then. */
		unsigned int page = pick(&w->random, pick(&w->random, 8) ? HOT : JOB_PAGES);
		bool write = pick(&w->random, 3) == 0;

		refused_now = page < HOT ? !check(w, page, write) : touch(JOB_BASE + page * PAGE, write) != 0;
		signals += refused_now;
		if (refused_now && n % 8 == 0)
			usleep(500); /* it may stay so, and others need the processor */
		if (++n % 64 == 0)
			call(w);
		if (n % 256 == 0) {
			atomic_fetch_add(&orders->accesses, 256);
			atomic_fetch_add(&orders->signals, signals);
			signals = 0;
		}
	}
	return NULL;
}

/* A child has the file, but neither the window, whatever its parent wants, nor a say. */
static void have_child(struct worker *w)
{
	struct dsm_ioc_lost l;
	unsigned int i;

	if (!madvise(JOB_BASE, JOB_WINDOW, MADV_DOFORK))
		atomic_fetch_add(&orders->intruders, 1);
	if (fork())
		return;
	alarm(2);
	signal(SIGALRM, SIG_DFL);
	for (i = 0; i < 100; i++)
		call(w);
	if (!touch(JOB_BASE, true) || !ioctl(w->fd, DSM_IOC_LOST, &l))
		atomic_fetch_add(&orders->intruders, 1);
	_exit(0);
}

static void obey(enum order order, struct worker *w)
{
	switch (order) {
	case EXIT: _exit(0);
	case UNMAP: munmap(JOB_BASE, JOB_WINDOW); break;
	case FORK: have_child(w); break;
	case MOVE: /* is refused, but only after the kernel has tried it */
		if (mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED, JOB_BASE + (1ul << 40)) !=
		    MAP_FAILED)
			atomic_fetch_add(&orders->intruders, 1);
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
		pthread_create(&thread, NULL, work, &w[i]);
	}
	for (; !atomic_load(&j->stop); usleep(2000))
		obey((enum order)atomic_exchange(&orders->order[rank], GO_ON), &w[0]);
	_exit(0);
}

/* ---- who makes the weather ------------------------------------------------------------------ */

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

/* The device goes, with whoever uses it, and nobody else has to do anything for that. */
static bool remove_device(void)
{
	double start = now_s(), took;

	if (!device("delete rxe0"))
		return false;
	took = now_s() - start;
	deletions++;
	removal_sum += took;
	removal_longest = took > removal_longest ? took : removal_longest;
	removal_shortest = took < removal_shortest ? took : removal_shortest;
	if (took > patience(REMOVAL_S))
		printf("removing the device took %.1f s\n", took);
	return true;
}

/* What takes long takes so each time where the host is slow; who waits for somebody that does not come does so now and then. */
static bool removed_soon(void)
{
	return !deletions || removal_longest <= patience(REMOVAL_S) ||
		removal_longest <= REMOVAL_LATE * removal_shortest || failed("the device could not be removed soon");
}

/* Somebody of another user, or of another network namespace, knows everything of the job, and wants to be one of its ranks. */
static void stranger(struct job *j, uint64_t *r)
{
	static char address[DSM_ADDRESS_MAX];
	struct dsm_ioc_window window = { .size = JOB_WINDOW };
	struct dsm_ioc_join in = { .rank = (uint16_t)pick(r, j->ranks),
				   .size = (uint16_t)j->ranks,
				   .gid = -1,
				   .address_size = DSM_ADDRESS_MAX,
				   .address = (uintptr_t)address,
				   .vectors = { -1, -1, -1, -1 } };
	struct dsm_ioc_connect c = { .rank = (uint16_t)((in.rank + 1) % j->ranks), .flags = DSM_CONNECT_HERE };
	bool user = pick(r, 2), in_job;
	int fd;

	strangers++;
	if (fork())
		return;
	if (user) {
		strcpy(in.device, "none");
		if (setresuid(SOMEBODY, SOMEBODY, SOMEBODY))
			_exit(1);
	} else if (unshare(CLONE_NEWNET)) {
		_exit(1);
	}
	fd = open("/dev/dsm", O_RDWR);
	in_job = fd >= 0 && !ioctl(fd, DSM_IOC_WINDOW, &window) && !ioctl(fd, DSM_IOC_JOIN, &in) &&
		!ioctl(fd, DSM_IOC_KEY, &j->key);
	/* In another namespace there is no device to join by. */
	if (in_job && (!user || !ioctl(fd, DSM_IOC_CONNECT, &c)))
		atomic_fetch_add(&orders->intruders, 1);
	_exit(0);
}

/*
 * One of so many allocations fails: the module's own, of softirq, of faults and calls - frames, keys, tables - and of workers;
 * where the kernel has failslab, all of the ranks' threads. 0: none.
 */
static void shortage(unsigned int one_of)
{
	char value[20];

	snprintf(value, sizeof(value), "%u", one_of);
	file_set("/sys/module/dsm/parameters/test_fail_alloc", value);
	file_set("/sys/module/dsm/parameters/test_fail_sleeping", value);
	if (access("/sys/kernel/debug/failslab", F_OK))
		return;
	file_set("/sys/kernel/debug/failslab/task-filter", "Y");
	file_set("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
	file_set("/sys/kernel/debug/failslab/verbose", "0");
	file_set("/sys/kernel/debug/failslab/times", "-1");
	snprintf(value, sizeof(value), "%u", one_of ? 1 + 20 / one_of : 0);
	file_set("/sys/kernel/debug/failslab/probability", value);
}

/* The last processor. False: there is only one. */
static bool processor(bool online)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%ld/online", sysconf(_SC_NPROCESSORS_CONF) - 1);
	return file_set(path, online ? "1" : "0");
}

struct plan {
	unsigned int number;
	unsigned int pause_us; /* the longest between two events */
	bool removal;          /* the device goes in this round, */
	bool early;            /* while ranks join */
	bool removed;
	bool processor; /* so does a processor, */
	bool unload;    /* and the module, when its ranks are killed: faults linger in it */
};

static bool weather(struct job *j, uint64_t *r, const pid_t *pids, struct plan *plan)
{
	unsigned int i, n = 2 + pick(r, 6), rank, removal = plan->removal ? pick(r, n) : n;
	unsigned int offline = plan->processor ? pick(r, n) : n;
	int err;

	for (i = 0; i < n; i++) {
		usleep(pick(r, plan->pause_us));
		rank = pick(r, j->ranks);
		if (i == offline)
			switches += processor(false);
		switch (i == removal ? 6 : pick(r, 6)) {
		case 0:
			kill(pids[rank], SIGKILL);
			kills++;
			break;
		case 1:
			atomic_store(&orders->order[rank], EXIT);
			exits++;
			break;
		case 2:
			atomic_store(&orders->order[rank], UNMAP);
			unmaps++;
			break;
		case 3:
			atomic_store(&orders->order[rank], FORK);
			forks++;
			break;
		case 4:
			atomic_store(&orders->order[rank], MOVE);
			moves++;
			break;
		case 5: stranger(j, r); break;
		default:
			plan->removed = true;
			if (!remove_device())
				return false;
		}
		/* One process at least has the device open: this one. */
		err = module_unload();
		if (err != -EWOULDBLOCK && err != -EBUSY)
			return failed("the module could be unloaded while in use");
		refused++;
	}
	return true;
}

/* Until all ranks are there; without their device they need not come. */
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

/* As soon as nobody uses it any more, while ranks die. */
static bool unload_at_once(void)
{
	double end = now_s() + patience(20);

	while (module_unload() && now_s() < end)
		usleep(100);
	reloads++;
	return !module_loaded() ? module_load(module)
				: failed("the module cannot be unloaded after its ranks were killed");
}

static bool one_round(struct job *j, uint64_t *r, unsigned int number)
{
	struct plan plan = { .number = number,
			     .pause_us = number % LONG_EVERY == LONG_EVERY - 1 ? 100000 : 6000,
			     .removal = number % DEVICE_EVERY == 0,
			     .early = number % DEVICE_EVERY == 0 && pick(r, 3) == 0,
			     .processor = number % CPU_EVERY == 3,
			     .unload = module && number % RELOAD_EVERY % 10 == 7 };
	int keep = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	unsigned int i, ranks = 2 + pick(r, 2);
	pid_t pids[JOB_RANKS];
	bool ok;

	if (keep < 0)
		return failed("/dev/dsm cannot be opened");
	job_set(j, ranks, number % 2 == 0);
	memset(orders->order, 0, sizeof(orders->order));
	memset(orders->marks, 0, sizeof(orders->marks));
	chmod("/dev/dsm", 0666); /* strangers come as far as they can */
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
	if (number % SHORT_EVERY == 1)
		shortage(2 + pick(r, 20));
	if (ok && !plan.early)
		ok = weather(j, r, pids, &plan);
	if (pick(r, 2))
		atomic_store(&j->stop, 1);
	for (i = 0; i < ranks; i++)
		kill(pids[i], SIGKILL);
	close(keep);
	if (plan.unload)
		ok &= unload_at_once();
	ok &= job_reap(pids, ranks, 20);
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

/* The module goes and comes; with_device: while its device does. */
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
	reloads++;
	return ok && ends_well(before) && module_load(module);
}

int main(int argc, char **argv)
{
	unsigned int rounds = 20, i;
	double seconds = 0, began = now_s(); /* 0: all rounds */
	char before[300];
	uint64_t r = 1;
	bool ok = true;
	struct job *j;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--seed") && a + 1 < argc) {
			r = strtoull(argv[++a], NULL, 0);
		} else if (!strcmp(argv[a], "--rounds") && a + 1 < argc) {
			rounds = (unsigned int)atoi(argv[++a]);
		} else if (!strcmp(argv[a], "--seconds") && a + 1 < argc) {
			seconds = atof(argv[++a]);
		} else if (!strcmp(argv[a], "--module") && a + 1 < argc) {
			module = argv[++a];
		} else {
			printf("usage: storm [--seed S] [--rounds N] [--seconds T] [--module FILE]\n"
			       "Ranks of dsm.ko die in all ways; in a guest with the module loaded, which is unloaded at the end.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "storm: dsm.ko is not loaded\n");
		return 77;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1);  /* children of ranks that were killed */
	setpriority(PRIO_PROCESS, 0, -20); /* what is measured is not how many threads of ranks there are */
	j = job_new();
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	device_objects(before, sizeof(before));
	for (i = 0; i < rounds && ok && (!seconds || now_s() < began + seconds); i++) {
		double start = now_s(), took;

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
	printf("%lu accesses, %lu of them refused, %lu words checked, %lu wrong, %lu calls\n",
	       atomic_load(&orders->accesses), atomic_load(&orders->signals), atomic_load(&orders->checked),
	       atomic_load(&orders->wrong), atomic_load(&orders->calls));
	printf("%lu moves, %lu strangers, %lu processors off; ", moves, strangers, switches);
	printf("%lu kills, %lu exits, %lu unmaps, %lu forks, unloading refused %lu times, the longest round %.1f s\n",
	       kills, exits, unmaps, forks, refused, round_longest);
	printf("%u rounds: %lu devices removed (%lu while ranks joined) in %.2f s, at most %.2f s; %lu times reloaded\n",
	       i, deletions, early, deletions ? removal_sum / (double)deletions : 0, removal_longest, reloads);
	ok &= removed_soon();
	if (atomic_load(&orders->intruders))
		ok = failed("a child of a rank, or a stranger, had a say");
	if (atomic_load(&orders->wrong) || !atomic_load(&orders->checked))
		ok = failed("contents");
	return ok && ends_well(before) ? 0 : 1;
}
