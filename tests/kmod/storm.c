// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm.c - everything that ends a rank of dsm.ko, at the worst moment: ranks whose threads fault and lock all the time are killed,
 * exit, unmap their window, fork; their RDMA device is deleted, also while they join; and meanwhile somebody tries to unload
 * the module.
 *
 * Most rounds are short, some tens of milliseconds, so that there are thousands; every LONG_EVERYth is longer, in every
 * DEVICE_EVERYth the device goes and comes, and after every RELOAD_EVERYth the module does, half the time while the device
 * goes.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. What must hold: processes end within seconds, a device
 * can be removed within REMOVAL_S, unloading is refused while there are users, nothing is left after each round; whenever the
 * module can be unloaded, and after the last round it must be, the RDMA device and the slab caches have no more objects than
 * before. The kernel's log is its caller's to read.
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4u
#define LONG_EVERY 20u
#define DEVICE_EVERY 10u /* even: of those rounds by RDMA */
#define RELOAD_EVERY 25u
#define REMOVAL_S 5 /* and mostly far less; the longest is printed */

enum order { GO_ON, EXIT, UNMAP, FORK };

struct orders {
	_Atomic int order[JOB_RANKS];
	_Atomic unsigned long accesses, signals, calls, intruders; /* children that could do something */
};

static struct orders *orders;
static unsigned long kills, exits, unmaps, forks, deletions, early, reloads, refused;
static double removal_longest, removal_sum, round_longest;

/* ---- ranks ---------------------------------------------------------------------------------- */

struct worker {
	uint64_t random;
	struct job *job;
	int fd;
};

/* An accepted call on whatever there is. */
static void call(struct worker *w)
{
	struct dsm_ioc_range range = { .op = pick(&w->random, DSM_RANGE_PIN), .page = pick(&w->random, JOB_PAGES - 64), .pages = 64,
				       .write = pick(&w->random, 2) };
	struct dsm_ioc_call sync = { .call = DSM_CALL_SYNC, .home = (uint16_t)pick(&w->random, w->job->ranks), .value2 = 5ull << 32 };

	atomic_fetch_add(&orders->calls, 1);
	if (pick(&w->random, 2)) {
		range.page &= ~511u;
		ioctl(w->fd, DSM_IOC_RANGE, &range);
		return;
	}
	/* An atomic variable: made, added to, destroyed. */
	if (ioctl(w->fd, DSM_IOC_CALL, &sync) || sync.status)
		return;
	sync.object = (uint32_t)sync.result;
	sync.op = 15;
	sync.value = 1;
	sync.value2 = 0;
	ioctl(w->fd, DSM_IOC_CALL, &sync);
	sync.op = 1;
	ioctl(w->fd, DSM_IOC_CALL, &sync);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned long n = 0, signals = 0;
	bool refused_now;

	while (!atomic_load(&w->job->stop)) {
		/* Few pages that all want, and the rest of the window now and then. */
		unsigned int page = pick(&w->random, pick(&w->random, 8) ? 16 : JOB_PAGES);

		refused_now = touch(JOB_BASE + page * PAGE, pick(&w->random, 3) == 0) != 0;
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

static void rank_process(struct job *j, unsigned int rank, uint64_t seed)
{
	static struct worker w[THREADS];
	pthread_t thread;
	struct dsm_ioc_lost l;
	unsigned int i;
	int fd;

	setpriority(PRIO_PROCESS, 0, 0);
	catch_signals();
	fd = job_join(j, rank);
	if (fd < 0)
		_exit(3);
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){ .random = seed + i, .job = j, .fd = fd };
		pthread_create(&thread, NULL, work, &w[i]);
	}
	while (!atomic_load(&j->stop)) {
		switch ((enum order)atomic_exchange(&orders->order[rank], GO_ON)) {
		case EXIT:
			_exit(0);
		case UNMAP:
			munmap(JOB_BASE, JOB_WINDOW);
			break;
		case FORK: /* a child has the file, but neither the window nor a say */
			if (!fork()) {
				alarm(2);
				signal(SIGALRM, SIG_DFL);
				for (i = 0; i < 100; i++)
					call(&w[0]);
				if (!touch(JOB_BASE, true) || !ioctl(fd, DSM_IOC_LOST, &l))
					atomic_fetch_add(&orders->intruders, 1);
				_exit(0);
			}
			break;
		default:
			break;
		}
		usleep(2000);
	}
	_exit(0);
}

/* ---- who makes the weather ------------------------------------------------------------------ */

static bool failed(const char *what)
{
	printf("FAILED: %s\n", what);
	return false;
}

static int unload(void)
{
	return syscall(SYS_delete_module, "dsm", O_NONBLOCK) ? -errno : 0;
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
	if (took > removal_longest)
		removal_longest = took;
	if (took > patience(REMOVAL_S))
		printf("removing the device took %.1f s\n", took);
	return took <= patience(REMOVAL_S) || failed("the device could not be removed soon");
}

struct plan {
	unsigned int number;
	unsigned int pause_us; /* the longest between two events */
	bool removal;          /* the device goes in this round, */
	bool early;            /* while ranks join */
	bool removed;
};

static bool weather(struct job *j, uint64_t *r, const pid_t *pids, struct plan *plan)
{
	unsigned int i, n = 2 + pick(r, 6), rank, removal = plan->removal ? pick(r, n) : n;
	int err;

	for (i = 0; i < n; i++) {
		usleep(pick(r, plan->pause_us));
		rank = pick(r, j->ranks);
		switch (i == removal ? 4 : pick(r, 4)) {
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
		default:
			plan->removed = true;
			if (!remove_device())
				return false;
		}
		/* One process at least has the device open: this one. */
		err = unload();
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

static bool one_round(struct job *j, uint64_t *r, unsigned int number)
{
	struct plan plan = { .number = number, .pause_us = number % LONG_EVERY == LONG_EVERY - 1 ? 100000 : 6000,
			     .removal = number % DEVICE_EVERY == 0, .early = number % DEVICE_EVERY == 0 && pick(r, 3) == 0 };
	int keep = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	unsigned int i, ranks = 2 + pick(r, 2);
	pid_t pids[JOB_RANKS];
	bool ok;

	if (keep < 0)
		return failed("/dev/dsm cannot be opened");
	job_set(j, ranks, number % 2 == 0);
	memset(orders->order, 0, sizeof(orders->order));
	j->mode = pick(r, 3);
	j->home = pick(r, 2) ? DSM_REGION_FIRST_TOUCH : DSM_REGION_CYCLIC;
	fflush(stdout);
	for (i = 0; i < ranks; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank_process(j, i, next(r));
	}
	ok = all_come(j, r, &plan);
	if (ok && !plan.early)
		ok = weather(j, r, pids, &plan);
	if (pick(r, 2))
		atomic_store(&j->stop, 1);
	for (i = 0; i < ranks; i++)
		kill(pids[i], SIGKILL);
	ok &= job_reap(pids, ranks, 20);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	close(keep);
	if (plan.removed)
		ok &= device("add rxe0 type rxe netdev eth0");
	return nothing_left(20) && ok;
}

/* Objects of the RDMA device: "pd 1 cq 1 qp 1 ...". */
static void resources(char *out, size_t size)
{
	FILE *f = popen("rdma resource show link rxe0 2>/dev/null || rdma resource show", "r");
	char line[300], *from;

	*out = 0;
	while (f && fgets(line, sizeof(line), f)) {
		from = strstr(line, "rxe0:");
		snprintf(out, size, "%s", from ? from : "");
		if (from)
			break;
	}
	if (f)
		pclose(f);
}

static bool ends_well(const char *before)
{
	char after[300];
	double end = now_s() + patience(10);
	int err;

	while ((err = unload()) && now_s() < end)
		usleep(20000);
	if (err)
		return failed("the module cannot be unloaded");
	if (module_loaded())
		return failed("it is there still");
	if (!access("/sys/kernel/slab/dsm_txn", F_OK) || !access("/dev/dsm", F_OK) || !access("/sys/kernel/debug/dsm", F_OK))
		return failed("something of it is left");
	resources(after, sizeof(after));
	if (strcmp(before, after)) {
		printf("before: %safter:  %s", before, after);
		return failed("objects of the RDMA device are left");
	}
	return true;
}

static bool load(const char *module)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC);
	bool ok = fd >= 0 && !syscall(SYS_finit_module, fd, "", 0);

	if (!ok)
		perror(module);
	if (fd >= 0)
		close(fd);
	return ok;
}

/* The module goes and comes; with_device: while its device does. */
static bool reload(const char *module, const char *before, bool with_device)
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
		while (unload() && !access("/sys/module/dsm", F_OK))
			usleep(1000);
		waitpid(child, &status, 0);
		ok = !status && load(module);
	} else {
		ok = true;
	}
	reloads++;
	return ok && ends_well(before) && load(module);
}

int main(int argc, char **argv)
{
	unsigned int rounds = 20, i;
	double seconds = 0, began = now_s(); /* 0: all rounds */
	const char *module = NULL;
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
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* children of ranks that were killed */
	setpriority(PRIO_PROCESS, 0, -20); /* what is measured is not how many threads of ranks there are */
	j = job_new();
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	resources(before, sizeof(before));
	for (i = 0; i < rounds && ok && (!seconds || now_s() < began + seconds); i++) {
		double start = now_s(), took;

		ok = one_round(j, &r, i);
		took = now_s() - start;
		if (took > round_longest)
			round_longest = took;
		if (took > patience(5))
			printf("round %u took %.0f s: %s, mode %u\n", i, took, j->rdma ? "RDMA" : "one kernel", j->mode);
		if (ok && module && i % RELOAD_EVERY == RELOAD_EVERY - 1)
			ok = reload(module, before, pick(&r, 2));
		if (!ok)
			printf("round %u failed\n", i);
	}
	printf("%lu accesses, %lu of them refused, %lu calls\n", atomic_load(&orders->accesses), atomic_load(&orders->signals),
	       atomic_load(&orders->calls));
	printf("%lu kills, %lu exits, %lu unmaps, %lu forks, unloading refused %lu times, the longest round %.1f s\n", kills, exits,
	       unmaps, forks, refused, round_longest);
	printf("%u rounds: %lu devices removed (%lu while ranks joined) in %.2f s, at most %.2f s; %lu times reloaded\n", i, deletions, early,
	       deletions ? removal_sum / (double)deletions : 0, removal_longest, reloads);
	if (atomic_load(&orders->intruders))
		ok = failed("a child of a rank had a say");
	return ok && ends_well(before) ? 0 : 1;
}
