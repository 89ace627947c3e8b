// SPDX-License-Identifier: BSD-2-Clause
/*
 * storm.c - everything that ends a rank of dsm.ko, at the worst moment: ranks whose threads fault and lock all the time are killed,
 * exit, unmap their window, fork; their RDMA device is deleted; and meanwhile somebody tries to unload the module.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. What must hold: processes end within seconds, unloading
 * is refused while there are users, nothing is left after each round; and after the last the module can be unloaded, and the
 * RDMA device and the slab caches have no more objects than before. The kernel's log is its caller's to read.
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4u

enum order { GO_ON, EXIT, UNMAP, FORK };

struct orders {
	_Atomic int order[JOB_RANKS];
	_Atomic unsigned long accesses, signals, calls, intruders; /* children that could do something */
};

static struct orders *orders;
static unsigned long kills, exits, unmaps, forks, deletions, refused;

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

	while (!atomic_load(&w->job->stop)) {
		/* Few pages that all want, and the rest of the window now and then. */
		unsigned int page = pick(&w->random, pick(&w->random, 8) ? 16 : JOB_PAGES);

		signals += touch(JOB_BASE + page * PAGE, pick(&w->random, 3) == 0) != 0;
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

static bool weather(struct job *j, uint64_t *r, const pid_t *pids, bool *deleted)
{
	unsigned int i, n = 2 + pick(r, 6), rank;
	int err;

	for (i = 0; i < n; i++) {
		usleep(pick(r, 150000));
		rank = pick(r, j->ranks);
		switch (pick(r, 6)) {
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
			if (!j->rdma || *deleted)
				break;
			if (!device("delete rxe0"))
				return false;
			*deleted = true;
			deletions++;
			break;
		default:
			break;
		}
		/* One process at least has the device open: this one. */
		err = unload();
		if (err != -EWOULDBLOCK && err != -EBUSY)
			return failed("the module could be unloaded while in use");
		refused++;
	}
	return true;
}

static bool one_round(struct job *j, uint64_t *r, unsigned int number)
{
	int keep = open("/dev/dsm", O_RDWR | O_CLOEXEC), trouble;
	unsigned int i, ranks = 2 + pick(r, 2);
	bool ok, deleted = false;
	pid_t pids[JOB_RANKS];
	double end;

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
	end = now_s() + 60;
	while (atomic_load(&j->ready) < ranks && !atomic_load(&j->failed) && now_s() < end)
		usleep(1000);
	trouble = atomic_load(&j->failed);
	if (atomic_load(&j->ready) < ranks)
		printf("round %u: no job: %s\n", number, strerror(-trouble));
	ok = atomic_load(&j->ready) == ranks && weather(j, r, pids, &deleted);
	if (pick(r, 2))
		atomic_store(&j->stop, 1);
	for (i = 0; i < ranks; i++)
		kill(pids[i], SIGKILL);
	ok &= job_reap(pids, ranks, 60);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	close(keep);
	if (deleted)
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
	double end = now_s() + 10;
	int err;

	while ((err = unload()) && now_s() < end)
		usleep(50000);
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

int main(int argc, char **argv)
{
	unsigned int rounds = 20, i;
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
		} else {
			printf("usage: storm [--seed S] [--rounds N]\n"
			       "Ranks of dsm.ko die in all ways; in a guest with the module loaded, which is unloaded at the end.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "storm: dsm.ko is not loaded\n");
		return 77;
	}
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* children of ranks that were killed */
	j = job_new();
	orders = mmap(NULL, sizeof(*orders), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	resources(before, sizeof(before));
	for (i = 0; i < rounds && ok; i++) {
		double start = now_s();

		ok = one_round(j, &r, i);
		if (now_s() - start > 25)
			printf("round %u took %.0f s: %s, mode %u\n", i, now_s() - start, j->rdma ? "RDMA" : "one kernel", j->mode);
		if (!ok)
			printf("round %u failed\n", i);
	}
	printf("%u rounds: %lu kills, %lu exits, %lu unmaps, %lu forks, %lu devices deleted, unloading refused %lu times\n", i, kills,
	       exits, unmaps, forks, deletions, refused);
	printf("%lu accesses, %lu of them refused, %lu calls\n", atomic_load(&orders->accesses), atomic_load(&orders->signals),
	       atomic_load(&orders->calls));
	if (atomic_load(&orders->intruders))
		ok = failed("a child of a rank had a say");
	return ok && ends_well(before) ? 0 : 1;
}
