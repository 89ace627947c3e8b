// SPDX-License-Identifier: BSD-2-Clause
/*
 * failalloc.c - each call of dsm.ko, its mapping and its faults with each of the allocations they make refused, one at a
 * time, and with the first ones together: by the task's own count (/proc/self/task/TID/fail-nth) and mark (make-it-fail), so
 * that nobody else goes without.
 *
 * A script of two ranks in one process goes through a job from opening the device to forgetting a range. For each of its
 * steps it is run again and again, with the first, second, ... allocation of that step refused, until the step makes no more;
 * behind the first --stride ones in larger and larger strides. What must hold: the step works or fails, the script ends, and
 * nothing is left. Splats and leaks are for the caller to find, in the kernel's log and by kmemleak.
 *
 * JOIN and CONNECT by RDMA are refused each allocation that the module itself makes for connections, by test_fail_sleeping; rxe's
 * own are left alone (counts()). A CONNECT that was refused is tried again.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. On a kernel without CONFIG_FAILSLAB there are JOIN and
 * CONNECT by RDMA only.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"
#include "tests/kmod/common_trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define WINDOW (8ul << 20)
#define BASE(rank) (JOB_BASE + (rank) * (1ul << 30))
#define STEPS_MAX 64u
#define STRIDE 64u
#define FIRST 0u /* the step's first allocations are refused, one after the other: */
#define FIRST_OF "8"
#define JOINS_LEAST 16u /* allocations of the module itself in JOIN by RDMA, where there is one peer */

enum way { HERE, RDMA, PROTECT, WAYS };
static const char *const way_names[] = { "one kernel", "RDMA", "protection" };

/* Shared with the process that runs a script. */
static struct report {
	unsigned int steps; /* that there are */
	bool injected;      /* the step made as many allocations */
	bool step_failed;
	char name[32]; /* of the step */
} * report;

/* ---- one script ----------------------------------------------------------------------------- */

static struct script {
	enum way way;
	unsigned int at, target, nth; /* steps so far; which one goes without its nth allocation, or its FIRST */
	bool counts;                  /* the step that is under way */
	int fail_fd, all_fd;
	int fd[2];
	struct dsm_ioc_join join[2];
	char address[2][DSM_ADDRESS_MAX];
} s;

static bool set(const char *file, const char *value)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/debug/%s", file);
	f = fopen(path, "w");
	return f && fputs(value, f) >= 0 && !fclose(f);
}

/*
 * What is the same without RDMA is not done twice; and JOIN, which makes queue pairs, is left to join_all(): rxe (Linux 6.1) stops
 * timers that it has not set up when its own allocations for one fail.
 */
static bool counts(const char *name)
{
	static const char *const left_out[] = { "open", "WINDOW", "JOIN", "REGION", "mmap", "STATS", "HOT", "LOST" };
	unsigned int i;

	for (i = 0; s.way == RDMA && i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (!strcmp(name, left_out[i]))
			return false;
	return true;
}

static void before(const char *name)
{
	char line[16];
	int n;

	s.counts = counts(name);
	if (!s.counts || s.at != s.target)
		return;
	if (s.nth == FIRST && !set("failslab/times", FIRST_OF))
		_exit(5);
	snprintf(report->name, sizeof(report->name), "%s", name);
	n = snprintf(line, sizeof(line), "%u", s.nth == FIRST ? 1 : s.nth);
	if (pwrite(s.nth == FIRST ? s.all_fd : s.fail_fd, line, (size_t)n, 0) != n)
		_exit(5);
}

static void after(bool failed)
{
	char line[16] = "";

	if (!s.counts || s.at++ != s.target)
		return;
	if (pwrite(s.all_fd, "0", 1, 0) != 1 || pread(s.fail_fd, line, sizeof(line) - 1, 0) <= 0 ||
	    pwrite(s.fail_fd, "0", 1, 0) != 1)
		_exit(5);
	report->injected = atoi(line) == 0;
	report->step_failed = failed;
}

static int call(const char *name, int fd, unsigned long op, void *arg)
{
	int err;

	before(name);
	err = ioctl(fd, op, arg);
	after(err != 0);
	return err;
}

static void access_page(const char *name, unsigned int rank, unsigned int page, bool write)
{
	int sig;

	before(name);
	sig = touch(BASE(rank) + page * PAGE, write);
	after(sig != 0);
}

static void range(const char *name, unsigned int op, unsigned int page, unsigned int pages, unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages, .write = write };

	call(name, s.fd[0], DSM_IOC_RANGE, &r);
}

static bool open_rank(unsigned int rank)
{
	struct dsm_ioc_window w = { .size = WINDOW };
	struct dsm_ioc_key key = { .key = "failalloc" };

	before("open");
	s.fd[rank] = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	after(s.fd[rank] < 0);
	if (s.fd[rank] < 0 || call("WINDOW", s.fd[rank], DSM_IOC_WINDOW, &w))
		return false;
	if (s.way == PROTECT)
		return true;
	s.join[rank] = (struct dsm_ioc_join){ .rank = (uint16_t)rank,
					      .size = 2,
					      .spin_us = 20,
					      .readahead = 4,
					      .gid = -1,
					      .address_size = DSM_ADDRESS_MAX,
					      .address = (uintptr_t)s.address[rank],
					      .vectors = { -1, -1, -1, -1 } };
	if (s.way == HERE)
		strcpy(s.join[rank].device, "none");
	return !call("JOIN", s.fd[rank], DSM_IOC_JOIN, &s.join[rank]) && !call("KEY", s.fd[rank], DSM_IOC_KEY, &key);
}

static bool connect_rank(unsigned int rank)
{
	unsigned int peer = !rank;
	struct dsm_ioc_connect c = { .rank = (uint16_t)peer,
				     .flags = s.way == HERE ? DSM_CONNECT_HERE : 0,
				     .address_size = s.join[peer].address_size,
				     .address = (uintptr_t)s.address[peer] };
	struct dsm_ioc_region g = { .pages = WINDOW / PAGE, .home = DSM_REGION_CYCLIC };

	return !call("CONNECT", s.fd[rank], DSM_IOC_CONNECT, &c) && !call("REGION", s.fd[rank], DSM_IOC_REGION, &g);
}

static bool map_rank(unsigned int rank)
{
	void *p;

	before("mmap");
	p = mmap(BASE(rank), WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, s.fd[rank], 0);
	after(p == MAP_FAILED);
	return p != MAP_FAILED;
}

static void use_protection(void)
{
	struct dsm_prot_item items[200];
	struct dsm_ioc_protect p = { .items = (uintptr_t)items, .count = 200 };
	unsigned int i;

	for (i = 0; i < 200; i++)
		items[i] = (struct dsm_prot_item){ .page = i * 5, .prot = DSM_PROT_WRITE };
	call("PROTECT", s.fd[0], DSM_IOC_PROTECT, &p);
	access_page("first touch", 0, 0, true);
	p.flags = DSM_PROTECT_SOFTIRQ;
	for (i = 0; i < 200; i++)
		items[i].prot = DSM_PROT_READ;
	call("PROTECT in softirq", s.fd[0], DSM_IOC_PROTECT, &p);
	access_page("read", 0, 5, false);
}

static void use_job(void)
{
	static uint32_t transfers[DSM_UNIT_PAGES];
	struct dsm_ioc_call sync = { .call = DSM_CALL_SYNC, .home = 1, .value2 = (uint64_t)SYNC_MUTEX << 32 },
			    lock = { .call = DSM_CALL_LOCK, .home = 1 };
	struct dsm_ioc_call unlock = { .call = DSM_CALL_UNLOCK };
	struct dsm_ioc_stats stats = { .region = 0 };
	struct dsm_ioc_hot hot = { .transfers = (uintptr_t)transfers };
	struct dsm_ioc_lost lost;

	access_page("write at home", 0, 0, true);
	access_page("write away", 0, 1, true);
	access_page("read away", 0, 3, false);
	access_page("upgrade", 0, 3, true);
	access_page("the other reads", 1, 1, false);
	access_page("the other writes", 1, 0, true);
	access_page("other 2 MiB", 0, 512 + 1, true);
	range("PREFETCH", DSM_RANGE_PREFETCH, 1024, 32, 0);
	range("ACQUIRE", DSM_RANGE_ACQUIRE, 1024 + 64, 16, 1);
	range("PIN", DSM_RANGE_PIN, 1536, 4, 1);
	range("UNPIN", DSM_RANGE_UNPIN, 1536, 4, 1);
	range("PLACE", DSM_RANGE_PLACE, 8, 1, 1);
	range("RELEASE", DSM_RANGE_RELEASE, 0, 16, 0);
	range("EVICT", DSM_RANGE_EVICT, 1024 + 64, 16, 0);
	call("SYNC", s.fd[0], DSM_IOC_CALL, &sync);
	lock.object = (uint32_t)sync.result;
	call("LOCK", s.fd[0], DSM_IOC_CALL, &lock);
	unlock.hold = lock.hold;
	call("UNLOCK", s.fd[0], DSM_IOC_CALL, &unlock);
	call("STATS", s.fd[0], DSM_IOC_STATS, &stats);
	call("HOT", s.fd[0], DSM_IOC_HOT, &hot);
	call("LOST", s.fd[0], DSM_IOC_LOST, &lost);
	range("LEAVE", DSM_RANGE_LEAVE, 1536, 512, 0);
	range("FORGET", DSM_RANGE_FORGET, 1536, 512, 0);
}

static void play(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%ld/fail-nth", syscall(SYS_gettid));
	s.fail_fd = open(path, O_RDWR | O_CLOEXEC);
	s.all_fd = open("/proc/thread-self/make-it-fail", O_WRONLY | O_CLOEXEC);
	if (s.fail_fd < 0 || s.all_fd < 0)
		_exit(4);
	catch_signals();
	s.fd[0] = s.fd[1] = -1;
	if (s.way == PROTECT) {
		if (open_rank(0) && map_rank(0))
			use_protection();
	} else if (open_rank(0) && open_rank(1) && connect_rank(0) && connect_rank(1) && map_rank(0) && map_rank(1)) {
		use_job();
	}
	before("close");
	close(s.fd[0]);
	after(false);
	report->steps = s.at;
	_exit(0);
}

/* ---- JOIN by RDMA --------------------------------------------------------------------------- */

#define PARAMETERS "/sys/module/dsm/parameters/"

static bool refuse_one_of(unsigned int n)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", n);
	return file_set(PARAMETERS "test_fail_sleeping", value);
}

/*
 * In a context that nobody else is in, no allocation but those of JOIN is counted. Where it makes n or more of them, one of n
 * refused makes each JOIN fail; and from the second on, which starts behind one that was refused, at the nth. With more than
 * all, no two fail one after the other.
 */
static bool join_all(const char *how, uint32_t mode)
{
	struct dsm_ioc_window w = { .size = WINDOW };
	const int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	bool ok = fd >= 0 && !ioctl(fd, DSM_IOC_WINDOW, &w);
	const long long charged = counter("charged");
	char before[300], after[300];
	unsigned int n;
	int err;

	device_objects(before, sizeof(before));
	for (n = 1; ok; n++) {
		ok = refuse_one_of(n);
		err = join_one_of_two(fd, mode);
		if (err == -ENOMEM)
			err = join_one_of_two(fd, mode);
		if (!err)
			break;
		if (err != -ENOMEM || counter("joined") || counter("charged") != charged) {
			printf("FAILED: JOIN, %s, without its allocation %u: %s; %lld ranks, %lld pages\n", how, n,
			       strerror(-err), counter("joined"), counter("charged") - charged);
			ok = false;
		}
	}
	ok &= refuse_one_of(0);
	close(fd);
	printf("JOIN by RDMA, %s: %u allocations refused one by one\n", how, n - 1);
	if (ok && n - 1 < JOINS_LEAST) {
		printf("FAILED: the module makes more than that\n");
		ok = false;
	}
	ok &= nothing_left(20);
	device_objects(after, sizeof(after));
	if (ok && strcmp(before, after)) {
		printf("FAILED: objects of the RDMA device are left\nbefore: %safter:  %s", before, after);
		ok = false;
	}
	return ok;
}

static bool joins(void)
{
	bool ok = join_all("softirq", DSM_MODE_SOFTIRQ);

	ok = ok && file_set(PARAMETERS "test_no_srq", "1") && file_set(PARAMETERS "test_no_inline", "1") &&
		join_all("polling, buffers of each connection", DSM_MODE_POLL);
	return file_set(PARAMETERS "test_no_srq", "0") && file_set(PARAMETERS "test_no_inline", "0") && ok;
}

/* ---- CONNECT by RDMA -------------------------------------------------------------------------- */

/* Each queue pair's way to the peer is an allocation. With every second one refused, each CONNECT comes further than the one
 * before. */
static bool connect_again_and_again(void)
{
	struct dsm_ioc_connect c = { .rank = 1,
				     .address_size = s.join[1].address_size,
				     .address = (uintptr_t)s.address[1] };
	unsigned int refused = 0;
	bool ok = refuse_one_of(2);

	while (ok && ioctl(s.fd[0], DSM_IOC_CONNECT, &c)) {
		ok = errno == ENOMEM && ++refused < 2 * CLASS_MAX;
		if (!ok)
			printf("FAILED: CONNECT after %u that were refused memory: %s\n", refused, strerror(errno));
	}
	ok &= refuse_one_of(0);
	printf("CONNECT by RDMA: %u refused\n", refused);
	if (ok && refused < CLASS_MAX - 1) {
		printf("FAILED: there are as many queue pairs\n");
		ok = false;
	}
	return ok;
}

static bool connects(void)
{
	struct dsm_ioc_region g = { .pages = WINDOW / PAGE, .home = DSM_REGION_CYCLIC };
	bool ok;

	s = (struct script){ .way = RDMA, .target = STEPS_MAX, .fd = { -1, -1 } };
	ok = open_rank(0) && open_rank(1) && connect_again_and_again();
	if (ok && (connect_rank(0) || errno != EEXIST)) {
		printf("FAILED: connected twice\n");
		ok = false;
	}
	ok = ok && !ioctl(s.fd[0], DSM_IOC_REGION, &g) && connect_rank(1) && map_rank(0) && map_rank(1);
	if (ok && (touch(BASE(0) + PAGE, true) || touch(BASE(1), false) || touch(BASE(1) + PAGE, false))) {
		printf("FAILED: the ranks do not reach each other\n");
		ok = false;
	}
	munmap(BASE(0), WINDOW);
	munmap(BASE(1), WINDOW);
	close(s.fd[0]);
	close(s.fd[1]);
	return nothing_left(20) && ok;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* False: it did not end, or left something. */
static bool one(enum way way, unsigned int target, unsigned int nth)
{
	pid_t pid;
	bool ok;

	memset(report, 0, sizeof(*report));
	s = (struct script){ .way = way, .target = target, .nth = nth };
	fflush(stdout);
	pid = fork();
	if (!pid)
		play();
	ok = job_reap(&pid, 1, 30);
	ok &= nothing_left(20) && report->steps; /* it came to the end of the script */
	if (!ok)
		printf("FAILED: %s, step %u (%s), allocation %u\n", way_names[way], target, report->name, nth);
	return ok;
}

/* Every allocation may fail, without a word for each; of a task that is marked, the next ones from the slab do. */
static bool allow_failures(void)
{
	return set("failslab/ignore-gfp-wait", "N") && set("failslab/verbose", "0") &&
		set("failslab/task-filter", "Y") && set("failslab/times", "0") && set("failslab/probability", "100") &&
		set("fail_page_alloc/ignore-gfp-wait", "N") && set("fail_page_alloc/ignore-gfp-highmem", "N") &&
		set("fail_page_alloc/min-order", "0") && set("fail_page_alloc/verbose", "0");
}

int main(int argc, char **argv)
{
	unsigned int way, step, nth, runs, refused, failed, most, without, stride = STRIDE;
	int a;

	for (a = 1; a < argc; a++) {
		if (!strcmp(argv[a], "--stride") && a + 1 < argc && atoi(argv[a + 1]) > 0) {
			stride = (unsigned int)atoi(argv[++a]);
		} else {
			printf("usage: failalloc [--stride N]\n"
			       "Calls of dsm.ko whose allocations are refused one by one, all of the first N (64) of each call, then fewer and\n"
			       "fewer; in a guest with the module loaded and an RDMA device. Without CONFIG_FAILSLAB: JOIN and CONNECT by RDMA only.\n");
			return strcmp(argv[a], "--help") ? 2 : 0;
		}
	}
	if (!module_loaded()) {
		fprintf(stderr, "failalloc: dsm.ko is not loaded\n");
		return 1;
	}
	catch_signals();
	if (!joins() || !connects())
		return 1;
	if (access("/sys/kernel/debug/failslab", F_OK)) {
		printf("this kernel has no failslab: JOIN and CONNECT by RDMA only\n");
		return 0;
	}
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!allow_failures()) {
		perror("failslab");
		return 1;
	}
	for (way = 0; way < WAYS; way++) {
		unsigned int steps;

		if (!one(way, STEPS_MAX, 1))
			return 1;
		steps = report->steps;
		if (steps < (way == PROTECT ? 8 : way == RDMA ? 20 : 30)) {
			printf("FAILED: %s: the script ends after %u steps when nothing is refused\n", way_names[way],
			       steps);
			return 1;
		}
		runs = refused = failed = most = without = 0;
		for (step = 0; step < steps; step++) {
			if (!one(way, step, FIRST))
				return 1;
			without += report->step_failed;
			for (nth = 1;; nth += 1 + nth / stride) {
				if (!one(way, step, nth))
					return 1;
				runs++;
				if (!report->injected)
					break;
				refused++;
				failed += report->step_failed;
				most = nth > most ? nth : most;
			}
		}
		printf("%s: %u steps, of which %u failed without the first " FIRST_OF
		       "; %u runs, %u allocations refused, the %uth of a step at most; %u steps failed for it\n",
		       way_names[way], steps, without, runs, refused, most, failed);
		if (!refused || !failed || !without) {
			printf("FAILED: nothing was refused, or nothing failed for it\n");
			return 1;
		}
	}
	return 0;
}
