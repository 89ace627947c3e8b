// SPDX-License-Identifier: BSD-2-Clause
/*
 * failalloc.c - each call of dsm.ko, its mapping and its faults with each of the allocations they
 * make refused, one at a time, and with the first ones together: by the task's own count
 * (/proc/self/task/TID/fail-nth) and mark (make-it-fail), so that nobody else goes without.
 *
 * A script of two ranks in one process goes through a job from opening the device to forgetting a
 * range. For each of its steps it is run again and again, with the first, second, ... allocation of
 * that step refused, until the step makes no more; behind the first --stride ones in larger and
 * larger strides. What must hold: the step works or fails, the script ends, and nothing is left.
 * Splats and leaks are for the caller to find, in the kernel's log and by kmemleak.
 *
 * Without RDMA a step that has failed for the want of one allocation is made again, and works; so
 * do all others; no rank is lost, and the ranks reach each other. By RDMA it may not: rxe has
 * changed a queue pair's state when its own allocation for that fails. There the ranks do what
 * makes messages and keys; locks, objects, barriers, other processes and regions are tried in one
 * kernel.
 *
 * JOIN and CONNECT by RDMA are refused each allocation that the module itself makes for
 * connections, by test_fail_sleeping; rxe's own are left alone (counts()). A CONNECT that was
 * refused is tried again.
 *
 * Runs in a guest, as root, with the module loaded and a soft RDMA device. On a kernel without
 * CONFIG_FAILSLAB there are JOIN and CONNECT by RDMA only.
 */
#include "core/sync.h"
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"
#include "tests/kmod/common_trust.h"

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

#define WINDOW (10ul << 20)
/* pages of region 0; region 1 has the other pages, and a table of owners */
#define REGION_PAGES 2048u
#define OWNED_PAGES (WINDOW / PAGE - REGION_PAGES)
#define PARTS 8u
#define LIMIT_NS 1000000u
#define BASE(rank) (JOB_BASE + (rank) * (1ul << 30))
#define STEPS_MAX 128u
#define STRIDE 64u
#define FIRST 0u /* refuse the step's first allocations, one after the other: */
#define FIRST_OF "8"
/* at least so many allocations of the module in JOIN over RDMA with one peer */
#define JOINS_LEAST 16u

enum way { HERE, RDMA, PROTECT, WAYS };
static const char *const way_names[] = { "one kernel", "RDMA", "protection" };

/* Shared with the process that runs a script. */
static struct report {
	unsigned int steps; /* steps of the script */
	bool injected;      /* the step made enough allocations for one to be refused */
	bool step_failed;
	bool failed_again;   /* on repetition, with no allocation refused */
	bool ended;          /* the script ran to its end */
	unsigned int others; /* other steps that failed, with no allocation refused */
	char name[32];       /* the step's name */
	char other[32];      /* the first other step that failed */
	char lost[64];       /* how a rank was lost; empty: none was */
} * report;

/* ---- one script ----------------------------------------------------------------------------- */

static struct script {
	enum way way;
	/* steps so far; the step to fail, and which allocation (or FIRST) */
	unsigned int at, target, nth;
	bool counts; /* the current step may be the target */
	const char *name;
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
 * Some steps are left out: those that are the same without RDMA, and JOIN, which makes queue pairs
 * and is left to join_all(). If rxe's own allocations for a queue pair fail, rxe (Linux 6.1) stops
 * timers that it has not set up.
 */
static bool counts(const char *name)
{
	static const char *const left_out[] = { "open", "WINDOW", "JOIN", "REGION",
						"mmap", "STATS",  "HOT",  "LOST" };
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
	s.name = name;
	if (!s.counts || s.at != s.target)
		return;
	if (s.nth == FIRST && !set("failslab/times", FIRST_OF))
		_exit(5);
	snprintf(report->name, sizeof(report->name), "%s", name);
	n = snprintf(line, sizeof(line), "%u", s.nth == FIRST ? 1 : s.nth);
	if (pwrite(s.nth == FIRST ? s.all_fd : s.fail_fd, line, (size_t)n, 0) != n)
		_exit(5);
}

/* If a step fails, it is repeated, and must then succeed. */
static bool is_strict(void)
{
	return s.nth != FIRST && s.way != RDMA;
}

/* Must the step be repeated? Yes if one of its allocations was refused and it failed. */
static bool after(bool failed)
{
	char line[16] = "";

	if (!s.counts || s.at++ != s.target) {
		if (failed && !report->others++)
			snprintf(report->other, sizeof(report->other), "%s", s.name);
		return false;
	}
	if (pwrite(s.all_fd, "0", 1, 0) != 1 || pread(s.fail_fd, line, sizeof(line) - 1, 0) <= 0 ||
	    pwrite(s.fail_fd, "0", 1, 0) != 1)
		_exit(5);
	report->injected = atoi(line) == 0;
	report->step_failed = failed;
	return failed && is_strict();
}

static void was_again(bool failed)
{
	report->failed_again |= failed;
}

static int call(const char *name, int fd, unsigned long op, void *arg)
{
	int err;

	before(name);
	err = ioctl(fd, op, arg);
	if (after(err != 0)) {
		err = ioctl(fd, op, arg);
		was_again(err != 0);
	}
	return err;
}

static int sync_once(unsigned int rank, const struct dsm_ioc_call *in, struct dsm_ioc_call *out)
{
	*out = *in;
	return ioctl(s.fd[rank], DSM_IOC_CALL, out) ? -errno : out->status;
}

/*
 * A synchronisation call, whose expected result is `wanted`: a status of the object's home, or
 * -errno. c is input and output.
 */
static bool sync_ends(const char *name, unsigned int rank, struct dsm_ioc_call *c, int wanted)
{
	const struct dsm_ioc_call in = *c;
	int err;

	before(name);
	err = sync_once(rank, &in, c);
	if (after(err != wanted)) {
		err = sync_once(rank, &in, c);
		was_again(err != wanted);
	}
	return err == wanted;
}

static void access_page(const char *name, unsigned int rank, unsigned int page, bool write)
{
	int sig;

	before(name);
	sig = touch(BASE(rank) + page * PAGE, write);
	if (after(sig != 0))
		was_again(touch(BASE(rank) + page * PAGE, write) != 0);
}

static void range(const char *name, unsigned int op, unsigned int page, unsigned int pages,
		  unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages, .write = write };

	call(name, s.fd[0], DSM_IOC_RANGE, &r);
}

static int open_device(void)
{
	int fd;

	before("open");
	fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);
	if (after(fd < 0)) {
		fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);
		was_again(fd < 0);
	}
	return fd;
}

static bool open_rank(unsigned int rank)
{
	struct dsm_ioc_window w = { .size = WINDOW };
	struct dsm_ioc_key key = { .key = "failalloc" };

	s.fd[rank] = open_device();
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
	return !call("JOIN", s.fd[rank], DSM_IOC_JOIN, &s.join[rank]) &&
		!call("KEY", s.fd[rank], DSM_IOC_KEY, &key);
}

#define REGION(what)                                                           \
	{                                                                      \
		.op = (what), .pages = REGION_PAGES, .home = DSM_REGION_CYCLIC \
	}

static bool connect_rank(unsigned int rank)
{
	unsigned int peer = !rank;
	struct dsm_ioc_connect c = { .rank = (uint16_t)peer,
				     .flags = s.way == HERE ? DSM_CONNECT_HERE : 0,
				     .address_size = s.join[peer].address_size,
				     .address = (uintptr_t)s.address[peer] };
	struct dsm_ioc_region g = REGION(DSM_REGION_ADD);

	return !call("CONNECT", s.fd[rank], DSM_IOC_CONNECT, &c) &&
		!call("REGION", s.fd[rank], DSM_IOC_REGION, &g);
}

static bool map_once(unsigned int rank, int fd)
{
	return mmap(BASE(rank), WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
		    fd, 0) != MAP_FAILED;
}

static bool map_file(unsigned int rank, int fd)
{
	bool ok;

	before("mmap");
	ok = map_once(rank, fd);
	if (after(!ok)) {
		ok = map_once(rank, fd);
		was_again(!ok);
	}
	return ok;
}

static bool map_rank(unsigned int rank)
{
	return map_file(rank, s.fd[rank]);
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
	call("PROTECT_PAGE", s.fd[0], DSM_IOC_PROTECT_PAGE,
	     (void *)dsm_page_item(JOB_PAGES - 1, DSM_PROT_WRITE));
}

/* Open the files for this thread; injection concerns only this thread. */
static void open_marks(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%ld/fail-nth", syscall(SYS_gettid));
	s.fail_fd = open(path, O_RDWR | O_CLOEXEC);
	s.all_fd = open("/proc/thread-self/make-it-fail", O_WRONLY | O_CLOEXEC);
	if (s.fail_fd < 0 || s.all_fd < 0)
		_exit(4);
}

/*
 * Another process attaches to rank 0, adds its region, uses its pages, and removes the region. Its
 * steps count in this script.
 */
static void use_view(void)
{
	struct dsm_ioc_attach a = { .fd = s.fd[0] };
	struct dsm_ioc_region add = REGION(DSM_REGION_ADD), remove = REGION(DSM_REGION_REMOVE);
	pid_t pid = fork();
	int fd, status;

	if (pid) {
		if (waitpid(pid, &status, 0) != pid || status)
			_exit(4);
		s.at = report->steps;
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_marks();
	fd = open_device();
	if (!call("ATTACH", fd, DSM_IOC_ATTACH, &a) && !call("REGION", fd, DSM_IOC_REGION, &add) &&
	    map_file(0, fd)) {
		access_page("the other process reads", 0, 0, false);
		access_page("the other process writes", 0, 5, true);
		call("REMOVE", fd, DSM_IOC_REGION, &remove);
	}
	report->steps = s.at;
	_exit(0);
}

/* Each part of the region has its own home; rank 1 has the first. */
static void use_owners(void)
{
	struct dsm_owner owners[PARTS] = { { 1 }, { 0 }, { 1 } };
	struct dsm_ioc_region add = { .op = DSM_REGION_ADD,
				      .id = 1,
				      .page = REGION_PAGES,
				      .pages = OWNED_PAGES,
				      .home = DSM_REGION_PARTS,
				      .arg = OWNED_PAGES / PARTS,
				      .parts = PARTS,
				      .owners = (uintptr_t)owners };
	struct dsm_ioc_region remove = add;

	remove.op = DSM_REGION_REMOVE;
	if (ioctl(s.fd[1], DSM_IOC_REGION, &add))
		_exit(4);
	call("REGION with owners", s.fd[0], DSM_IOC_REGION, &add);
	access_page("write in a part", 0, REGION_PAGES, true);
	access_page("read in a part", 0, REGION_PAGES + OWNED_PAGES / PARTS, false);
	call("REMOVE", s.fd[0], DSM_IOC_REGION, &remove);
	if (ioctl(s.fd[1], DSM_IOC_REGION, &remove))
		_exit(4);
}

#define CALL_BARRIER                                                                \
	{                                                                           \
		.call = DSM_CALL_BARRIER, .object = 2000, .threads = 1, .value2 = 3 \
	}

static _Atomic unsigned int script_tid;

/* Rank 0 arrives while rank 1 waits. */
static void *come_late(void *unused)
{
	struct dsm_ioc_call c = CALL_BARRIER;

	(void)unused;
	until_asleep(&script_tid);
	return (void *)(uintptr_t)(ioctl(s.fd[0], DSM_IOC_CALL, &c) || c.status);
}

static void use_barrier(void)
{
	struct dsm_ioc_call c = CALL_BARRIER;
	pthread_t thread;
	void *failed;

	atomic_store(&script_tid, (unsigned int)syscall(SYS_gettid));
	if (pthread_create(&thread, NULL, come_late, NULL))
		_exit(4);
	/* If the call failed, the thread ends with the process. */
	if (sync_ends("BARRIER", 1, &c, 0) && (pthread_join(thread, &failed) || failed))
		_exit(4);
}

/* Rank 1 uses objects of rank 0 alone: no other thread posts or signals. */
static void use_objects(void)
{
	struct dsm_ioc_call mutex = { .value2 = (uint64_t)SYNC_MUTEX << 32 },
			    cond = { .value2 = (uint64_t)SYNC_COND << 32 },
			    sem = { .value2 = (uint64_t)SYNC_SEM << 32 };
	struct dsm_ioc_call lock = { .call = DSM_CALL_TRYLOCK },
			    unlock = { .call = DSM_CALL_UNLOCK },
			    post = { .op = SOP_POST, .value = 1 }, take = { .op = SOP_WAIT },
			    wait = { .op = SOP_WAIT, .ns = LIMIT_NS },
			    point = { .op = SOP_WAIT, .ns = LIMIT_NS, .hold = DSM_SYNC_POINT },
			    cancel = { .call = DSM_CALL_CANCEL, .value = (uintptr_t)&point },
			    enqueue = { .op = SOP_ENQUEUE, .ns = LIMIT_NS };

	sync_ends("SYNC of a semaphore", 1, &sem, 0);
	wait.object = point.object = post.object = take.object = (uint32_t)sem.result;
	sync_ends("SOP_WAIT", 1, &wait, -ETIMEDOUT);
	/* Without memory to park the call, it is not interrupted, and ends at its limit. */
	if (sync_ends("SOP_WAIT at a point", 1, &point, -EINPROGRESS))
		sync_ends("CANCEL", 1, &cancel, 0);
	sync_ends("SYNC of a mutex", 1, &mutex, 0);
	sync_ends("SYNC of a condition", 1, &cond, 0);
	lock.object = (uint32_t)mutex.result;
	enqueue.object = (uint32_t)cond.result;
	if (sync_ends("TRYLOCK", 1, &lock, 0)) {
		unlock.hold = lock.hold;
		enqueue.mutex = lock.hold + 1u;
		if (!sync_ends("SOP_ENQUEUE", 1, &enqueue, -ETIMEDOUT))
			ioctl(s.fd[1], DSM_IOC_CALL, &unlock);
	}
	sync_ends("SOP_POST", 1, &post, 0);
	sync_ends("SOP_WAIT that gets it", 1, &take, 0);
}

static void has_lost(unsigned int rank, const struct dsm_ioc_lost *lost)
{
	if (lost->rank != -1)
		snprintf(report->lost, sizeof(report->lost), "rank %u has lost rank %d: %s", rank,
			 lost->rank, strerror(-lost->err));
}

static void look_at(unsigned int rank, unsigned int page)
{
	const int sig = touch(BASE(rank) + page * PAGE, true);

	if (sig)
		snprintf(report->lost, sizeof(report->lost), "rank %u has no page %u: %s", rank,
			 page, strsignal(sig));
}

/* Can each rank still reach the other? Page 2 is rank 0's, page 7 rank 1's. */
static void look_for_lost(void)
{
	struct dsm_ioc_lost lost = { .rank = -1 };
	unsigned int i;

	for (i = 0; i < 2; i++) {
		if (ioctl(s.fd[i], DSM_IOC_LOST, &lost))
			snprintf(report->lost, sizeof(report->lost), "rank %u: LOST: %s", i,
				 strerror(errno));
		has_lost(i, &lost);
		look_at(i, 2);
		look_at(i, 7);
	}
	report->ended = true;
}

/*
 * As in the library: forget a range when no rank has a request for it, checked twice, so that the
 * message that ended the last request has arrived, too. A rank that was given up for lack of memory
 * may have a request forever.
 */
static void until_quiet(unsigned int page, unsigned int pages)
{
	const double end = now_s() + (is_strict() ? patience(20) : 0.1);
	struct dsm_ioc_range r = { .op = DSM_RANGE_QUIET, .page = page, .pages = pages };
	unsigned int i;

	for (i = 0; i < 4; i++)
		while (ioctl(s.fd[i % 2], DSM_IOC_RANGE, &r) && errno == EAGAIN && now_s() < end)
			usleep(100);
}

static void use_job(void)
{
	static uint32_t transfers[DSM_UNIT_PAGES];
	struct dsm_ioc_call sync = { .call = DSM_CALL_SYNC,
				     .home = 1,
				     .value2 = (uint64_t)SYNC_MUTEX << 32 },
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
	if (s.way == HERE) {
		use_objects();
		use_barrier();
		use_owners();
		use_view();
	}
	call("STATS", s.fd[0], DSM_IOC_STATS, &stats);
	call("HOT", s.fd[0], DSM_IOC_HOT, &hot);
	if (!call("LOST", s.fd[0], DSM_IOC_LOST, &lost) && is_strict())
		has_lost(0, &lost);
	range("LEAVE", DSM_RANGE_LEAVE, 1536, 512, 0);
	until_quiet(1536, 512);
	range("QUIET", DSM_RANGE_QUIET, 1536, 512, 0);
	range("FORGET", DSM_RANGE_FORGET, 1536, 512, 0);
	if (is_strict())
		look_for_lost();
}

static void play(void)
{
	open_marks();
	catch_signals();
	s.fd[0] = s.fd[1] = -1;
	if (s.way == PROTECT) {
		if (open_rank(0) && map_rank(0))
			use_protection();
	} else if (open_rank(0) && open_rank(1) && connect_rank(0) && connect_rank(1) &&
		   map_rank(0) && map_rank(1)) {
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
 * Count only the allocations of JOIN, in a context of its own. If JOIN makes n or more allocations
 * and one of n is refused, each JOIN fails. The second and later ones fail at the n-th, because
 * they start after a refused one. If n exceeds the number, two JOINs in a row never both fail.
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
			printf("FAILED: JOIN, %s, without its allocation %u: %s; %lld ranks, %lld pages\n",
			       how, n, strerror(-err), counter("joined"),
			       counter("charged") - charged);
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
		printf("FAILED: objects of the RDMA device are left\nbefore: %safter:  %s", before,
		       after);
		ok = false;
	}
	return ok;
}

static bool joins(void)
{
	bool ok = join_all("softirq", DSM_MODE_SOFTIRQ);

	ok = ok && file_set(PARAMETERS "test_no_srq", "1") &&
		file_set(PARAMETERS "test_no_inline", "1") &&
		join_all("polling, buffers of each connection", DSM_MODE_POLL);
	return file_set(PARAMETERS "test_no_srq", "0") &&
		file_set(PARAMETERS "test_no_inline", "0") && ok;
}

/* ---- CONNECT by RDMA ------------------------------------------------------------------------- */

/*
 * Each queue pair's path to the peer needs an allocation. With every second one refused, each
 * CONNECT gets further than the last.
 */
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
			printf("FAILED: CONNECT after %u that were refused memory: %s\n", refused,
			       strerror(errno));
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
	ok = ok && !ioctl(s.fd[0], DSM_IOC_REGION, &g) && connect_rank(1) && map_rank(0) &&
		map_rank(1);
	if (ok &&
	    (touch(BASE(0) + PAGE, true) || touch(BASE(1), false) ||
	     touch(BASE(1) + PAGE, false))) {
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

/* The target step must have succeeded on repetition, and all other steps at once. */
static bool all_worked(void)
{
	if (report->failed_again)
		printf("FAILED: it fails still when nothing is refused any more\n");
	if (report->others)
		printf("FAILED: %u other steps failed, first %s\n", report->others, report->other);
	if (s.way != PROTECT && !report->ended)
		printf("FAILED: it did not come to its end\n");
	if (report->lost[0])
		printf("FAILED: %s\n", report->lost);
	return !report->failed_again && !report->others && (s.way == PROTECT || report->ended) &&
		!report->lost[0];
}

/*
 * False: the script did not end, left something behind, or did not recover from a single refused
 * allocation.
 */
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
	ok &= nothing_left(20) && report->steps; /* the script ran to its end */
	ok = ok && (!is_strict() || all_worked());
	if (!ok)
		printf("FAILED: %s, step %u (%s), allocation %u\n", way_names[way], target,
		       report->name, nth);
	return ok;
}

/* Let every allocation fail, without a log message. Of the slab, those of marked tasks fail. */
static bool allow_failures(void)
{
	return set("failslab/ignore-gfp-wait", "N") && set("failslab/verbose", "0") &&
		set("failslab/task-filter", "Y") && set("failslab/times", "0") &&
		set("failslab/probability", "100") && set("fail_page_alloc/ignore-gfp-wait", "N") &&
		set("fail_page_alloc/ignore-gfp-highmem", "N") &&
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
	module_needed();
	report = shared_memory(sizeof(*report));
	catch_signals();
	if (!joins() || !connects())
		return 1;
	if (access("/sys/kernel/debug/failslab", F_OK)) {
		printf("this kernel has no failslab: JOIN and CONNECT by RDMA only\n");
		return 0;
	}
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
			printf("FAILED: %s: the script ends after %u steps when nothing is refused\n",
			       way_names[way], steps);
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
