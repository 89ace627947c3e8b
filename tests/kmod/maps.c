// SPDX-License-Identifier: BSD-2-Clause
/*
 * maps.c - what a process does to its mapping: moving it, which is refused, also after the kernel
 * has tried it; giving it to a child; taking it away while its pages are freed; and leaving the
 * module no user while a thread is still in a fault of it.
 *
 * Nobody else pins a frame, or reads it for another process. The mmu notifiers of each process of
 * the node are called before frames are freed.
 *
 * A PROTECT that JOIN overtakes, while the module copies its items from memory that comes late
 * (userfaultfd), makes neither a frame nor an entry: the frames are the rank's then, which frees
 * them. A JOIN that waits to write its answer to such memory has happened: PROTECT is refused.
 *
 * Whatever was refused, the module goes on to be the only one to change table entries: frames that
 * are freed (DSM_RANGE_FORGET) are mapped nowhere.
 *
 * Runs in a guest, as root, with the module loaded. --unload unloads it while a fault lingers in it
 * (test_linger).
 */
#include "tests/kmod/common.h"
#include "tests/kmod/common_module.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNIT 512u /* pages of 2 MiB */
#define ELSEWHERE (JOB_BASE + (1ul << 40))
#define PATTERN 0x5adb0b5adb0b5adbull
#define LINGER_MS 700
#define PARAMETERS "/sys/module/dsm/parameters/"

static int bad;
static struct job *joined_to;

static void expect(bool ok, const char *what)
{
	if (!ok) {
		bad++;
		printf("FAILED: %s (errno %d)\n", what, errno);
		fflush(stdout);
	}
}

static volatile uint64_t *word(unsigned int page)
{
	return (volatile uint64_t *)(JOB_BASE + page * PAGE);
}

static int range(int fd, unsigned int op, unsigned int page, unsigned int pages, unsigned int write)
{
	struct dsm_ioc_range r = { .op = op, .page = page, .pages = pages, .write = write };

	return ioctl(fd, DSM_IOC_RANGE, &r) ? -errno : 0;
}

static void fill(unsigned int from)
{
	unsigned int i;

	for (i = from; i < from + UNIT; i++)
		*word(i) = PATTERN + i;
}

/* How many pages can be read and are as fill() left them. */
static unsigned int still(unsigned int from)
{
	unsigned int i, n = 0;

	for (i = from; i < from + UNIT; i++)
		n += !touch((volatile char *)word(i), false) && *word(i) == PATTERN + i;
	return n;
}

/* A context that has joined no job, and its window. */
static int window_open(void)
{
	struct dsm_ioc_window w = { .size = JOB_WINDOW };
	int fd = open("/dev/dsm", O_RDWR | O_CLOEXEC);

	if (fd < 0 || ioctl(fd, DSM_IOC_WINDOW, &w) ||
	    mmap(JOB_BASE, JOB_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
		 0) == MAP_FAILED)
		return -errno;
	return fd;
}

/*
 * What runs in a process of its own, as the only rank of a job, or with a context that has joined
 * none.
 */
static void alone(struct job *j, void (*f)(int fd), const char *name, bool joined)
{
	pid_t pid;
	int status;

	job_set(j, 1, false);
	joined_to = j;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		int fd;

		bad = 0;
		alarm((unsigned int)patience(40));
		catch_signals();
		fd = joined ? job_join(j, 0) : window_open();
		expect(fd >= 0, "a context");
		if (fd >= 0)
			f(fd);
		fflush(stdout);
		_exit(bad ? 1 : 0);
	}
	waitpid(pid, &status, 0);
	if (status)
		printf("%s: status %#x\n", name, status);
	bad += status != 0;
	expect(nothing_left(20), "nothing is left");
}

/* ---- moves ---------------------------------------------------------------------------------- */

static bool refused(void *p)
{
	return p == MAP_FAILED;
}

static void moves(int fd)
{
	const unsigned long half = JOB_WINDOW / 2;

	fill(0);
	fill(UNIT);
	expect(refused(mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_FIXED,
			      ELSEWHERE)),
	       "it cannot be moved");
	expect(still(0) == UNIT, "what was there is there");
	expect(!touch((volatile char *)word(3 * UNIT), true), "other pages can be had");
	expect(!range(fd, DSM_RANGE_FORGET, 0, UNIT, 0), "a range is forgotten");
	expect(still(0) == 0, "its frames are mapped no more");
	fill(0);
	expect(refused(mremap(JOB_BASE, half, half, MREMAP_MAYMOVE | MREMAP_FIXED, ELSEWHERE)),
	       "nor a part of it");
	expect(refused(mremap(JOB_BASE, JOB_WINDOW, half, 0)), "it does not shrink");
	expect(refused(mremap(JOB_BASE, JOB_WINDOW, 2 * JOB_WINDOW, MREMAP_MAYMOVE)), "nor grow");
	expect(refused(mremap(JOB_BASE, 0, JOB_WINDOW, MREMAP_MAYMOVE)), "nor is it doubled");
	expect(refused(mremap(JOB_BASE, JOB_WINDOW, JOB_WINDOW, MREMAP_MAYMOVE | MREMAP_DONTUNMAP)),
	       "in either way");
	expect(munmap(JOB_BASE, PAGE) && munmap(JOB_BASE + PAGE, PAGE), "it has no holes");
	expect(still(0) == UNIT && still(UNIT) == UNIT, "what was there is there, still");
	expect(!range(fd, DSM_RANGE_FORGET, 0, 2 * UNIT, 0), "a range is forgotten");
	expect(still(0) == 0 && still(UNIT) == 0, "its frames are mapped no more");
	expect(!munmap(JOB_BASE, JOB_WINDOW), "the whole of it can be unmapped");
	expect(!range(fd, DSM_RANGE_FORGET, 2 * UNIT, 2 * UNIT, 0), "and frames go without it");
}

/* ---- children ------------------------------------------------------------------------------- */

static void children(int fd)
{
	int status;
	pid_t pid;

	fill(0);
	expect(madvise(JOB_BASE, JOB_WINDOW, MADV_DOFORK) && errno == EINVAL,
	       "children cannot be given it");
	expect(madvise(JOB_BASE, PAGE, MADV_DOFORK), "nor a page of it");
	pid = fork();
	if (!pid)
		_exit((touch((volatile char *)word(0), false) ? 0 : 1) +
		      (touch((volatile char *)word(1), true) ? 0 : 2) +
		      (touch((volatile char *)word(UNIT), true) ? 0 : 4));
	waitpid(pid, &status, 0);
	expect(status == 0, "a child reads and writes nothing of it");
	expect(still(0) == UNIT, "its parent has everything");
	expect(!range(fd, DSM_RANGE_FORGET, 0, UNIT, 0), "a range is forgotten");
	expect(still(0) == 0, "its frames are mapped no more");
}

/* ---- other users of frames ------------------------------------------------------------------- */

/*
 * The kernel refuses the window to those who would pin its frames, or copy from them: they would
 * keep them when they are freed.
 */
static void unpinned(int fd)
{
	static char own[PAGE];
	const struct iovec mine = { own, PAGE }, theirs = { JOB_BASE, PAGE };
	int ends[2];

	fill(0);
	expect(process_vm_readv(getpid(), &mine, 1, &theirs, 1, 0) == -1 && errno == EFAULT,
	       "process_vm_readv(2)");
	expect(!pipe(ends), "a pipe");
	expect(vmsplice(ends[1], &theirs, 1, 0) == -1 && errno == EFAULT, "vmsplice(2)");
	expect(write(ends[1], JOB_BASE, PAGE) == (ssize_t)PAGE, "a copy of it can be written");
	expect(!range(fd, DSM_RANGE_FORGET, 0, UNIT, 0), "a range is forgotten");
	expect(still(0) == 0, "its frames are mapped no more");
}

/* ---- unmapped while frames go --------------------------------------------------------------- */

static atomic_bool over;

static void *writer(void *arg)
{
	uint64_t random = (uintptr_t)arg;

	while (!atomic_load(&over))
		if (touch((volatile char *)word(pick(&random, 2 * UNIT)), true) == SIGSEGV)
			break;
	return NULL;
}

static void *forgetter(void *arg)
{
	while (!atomic_load(&over))
		range((int)(intptr_t)arg, DSM_RANGE_FORGET, 0, 2 * UNIT, 0);
	return NULL;
}

/*
 * Frames are freed while munmap(2) is at their entries. That nobody writes to them then only a
 * kernel with page poisoning sees.
 */
static void unmapped(int fd)
{
	pthread_t threads[4];
	intptr_t i;

	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, writer, (void *)(i + 1));
	pthread_create(&threads[3], NULL, forgetter, (void *)(intptr_t)fd);
	usleep(20000);
	expect(!munmap(JOB_BASE, JOB_WINDOW), "munmap");
	usleep(2000);
	atomic_store(&over, true);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

/* ---- who else has translations --------------------------------------------------------------- */

/* Of two processes. */
static struct {
	_Atomic unsigned int step;
	_Atomic double let_go; /* when the fault could be over at the earliest */
} * both;

static void wait_for(unsigned int n)
{
	double end = now_s() + patience(20);

	while (atomic_load(&both->step) < n && now_s() < end)
		usleep(1000);
	expect(atomic_load(&both->step) >= n, "the other process goes on");
}

static void other_view(int fd)
{
	expect(job_attach(joined_to, fd) >= 0, "another process of the node");
	expect(still(0) == UNIT, "it sees what the first has written");
	atomic_store(&both->step, 1);
	wait_for(2);
	expect(*word(0) == 0, "what was forgotten is gone for it, too");
	fflush(stdout);
	_exit(bad ? 1 : 0);
}

/*
 * Before frames are freed, the mmu notifiers of each process that maps them are called: the module
 * has one in each, and counts its own. What others have translations for: secondary.c.
 */
static void notified(int fd)
{
	long long before;
	int status;
	pid_t pid;

	both = shared_memory(PAGE);
	fill(0);
	fill(UNIT);
	pid = fork();
	if (!pid)
		other_view(fd);
	wait_for(1);
	before = counter("zaps_notified");
	expect(!range(fd, DSM_RANGE_FORGET, 0, UNIT, 0), "a range is forgotten");
	expect(counter("zaps_notified") == before + 2,
	       "both processes' notifiers are called, once");
	expect(still(UNIT) == UNIT, "other pages are as they were");
	atomic_store(&both->step, 2);
	waitpid(pid, &status, 0);
	expect(!status, "the other process");
}

/* ---- a call that JOIN overtakes -------------------------------------------------------------- */

/*
 * Memory that the module waits for, when it copies an item from there, or the answer of JOIN to
 * there.
 */
static struct {
	void *at;
	int fault_fd, fd;
	int err; /* what the call ends with */
} late;

static bool late_begin(int fd, uint64_t mode)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	struct uffdio_register r = { .range.len = PAGE, .mode = mode };

	late.fd = fd;
	late.err = -1;
	late.at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	late.fault_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	r.range.start = (uintptr_t)late.at;
	return late.at != MAP_FAILED && late.fault_fd >= 0 &&
		!ioctl(late.fault_fd, UFFDIO_API, &api) &&
		!ioctl(late.fault_fd, UFFDIO_REGISTER, &r);
}

static bool late_is_waited_for(void)
{
	struct uffd_msg m;

	return read(late.fault_fd, &m, sizeof(m)) == sizeof(m) && m.event == UFFD_EVENT_PAGEFAULT;
}

static bool late_comes(const struct dsm_prot_item *item)
{
	static char page[PAGE] __attribute__((aligned(PAGE)));
	struct uffdio_copy c = { .dst = (uintptr_t)late.at, .src = (uintptr_t)page, .len = PAGE };

	memcpy(page, item, sizeof(*item));
	return !ioctl(late.fault_fd, UFFDIO_COPY, &c);
}

static void *protects(void *arg)
{
	struct dsm_ioc_protect p = { .items = (uintptr_t)late.at, .count = 1 };

	(void)arg;
	late.err = ioctl(late.fd, DSM_IOC_PROTECT, &p) ? errno : 0;
	return NULL;
}

static void *forgets(void *arg)
{
	expect(!range((int)(intptr_t)arg, DSM_RANGE_FORGET, 0, UNIT, 0), "a range is forgotten");
	return NULL;
}

static struct dsm_ioc_join join_alone(void)
{
	static char address[DSM_ADDRESS_MAX];

	return (struct dsm_ioc_join){ .device = "none",
				      .size = 1,
				      .gid = -1,
				      .address_size = sizeof(address),
				      .address = (uintptr_t)address,
				      .vectors = { -1, -1, -1, -1 } };
}

static bool joins_alone(int fd)
{
	struct dsm_ioc_join in = join_alone();
	struct dsm_ioc_region g = { .pages = JOB_PAGES, .home = DSM_REGION_FIXED };

	return !ioctl(fd, DSM_IOC_JOIN, &in) && !ioctl(fd, DSM_IOC_REGION, &g);
}

/*
 * When the item comes the rank frees the frames of its page: they are unlinked, and are held there
 * (test_slow_free) with the entries that lead to them.
 */
static void overtaken(int fd)
{
	const struct dsm_prot_item item = { .prot = DSM_PROT_WRITE };
	const double end = now_s() + patience(20);
	pthread_t protecting, forgetting;
	long long before;

	expect(late_begin(fd, UFFDIO_REGISTER_MODE_MISSING), "userfaultfd");
	if (bad || pthread_create(&protecting, NULL, protects, NULL))
		return;
	expect(late_is_waited_for(), "PROTECT waits for its item");
	expect(joins_alone(fd), "JOIN, REGION");
	fill(0);
	expect(file_set(PARAMETERS "test_slow_free", "15000"), "test_slow_free");
	before = counter("charged");
	pthread_create(&forgetting, NULL, forgets, (void *)(intptr_t)fd);
	while (counter("charged") >= before && now_s() < end)
		usleep(1000);
	expect(late_comes(&item), "the item");
	usleep(100000);
	expect(counter("frames") == UNIT, "no frames but those that go");
	expect(file_set(PARAMETERS "test_slow_free", "0"), "test_slow_free");
	pthread_join(protecting, NULL);
	pthread_join(forgetting, NULL);
	expect(late.err == EBUSY, "PROTECT is refused");
	expect(counter("frames") == 0, "the frames are gone");
}

static bool late_is_protected(bool is)
{
	struct uffdio_writeprotect w = { .range = { (uintptr_t)late.at, PAGE },
					 .mode = is ? UFFDIO_WRITEPROTECT_MODE_WP : 0 };

	return !ioctl(late.fault_fd, UFFDIO_WRITEPROTECT, &w);
}

static void *joins(void *arg)
{
	late.err = ioctl(late.fd, DSM_IOC_JOIN, late.at) ? errno : 0;
	return arg;
}

/* The answer of JOIN comes when it is a rank: no call comes between the two. */
static void overtakes(int fd)
{
	struct dsm_prot_item item = { .prot = DSM_PROT_WRITE };
	struct dsm_ioc_protect p = { .items = (uintptr_t)&item, .count = 1 };
	pthread_t joining;

	expect(late_begin(fd, UFFDIO_REGISTER_MODE_WP), "userfaultfd");
	if (bad)
		return;
	*(struct dsm_ioc_join *)late.at = join_alone();
	expect(late_is_protected(true), "write-protection");
	if (bad || pthread_create(&joining, NULL, joins, NULL))
		return;
	expect(late_is_waited_for(), "JOIN waits to answer");
	expect(ioctl(fd, DSM_IOC_PROTECT, &p) && errno == EBUSY, "PROTECT of a rank is refused");
	expect(ioctl(fd, DSM_IOC_PROTECT_PAGE, dsm_page_item(0, DSM_PROT_WRITE)) && errno == EBUSY,
	       "PROTECT_PAGE of a rank is refused");
	expect(late_is_protected(false), "no write-protection");
	pthread_join(joining, NULL);
	expect(!late.err, "JOIN");
	expect(counter("frames") == 0, "no frame was made");
}

/* ---- the module goes ------------------------------------------------------------------------ */

static bool linger(unsigned int ms)
{
	FILE *f = fopen(PARAMETERS "test_linger", "w");
	bool ok = f && fprintf(f, "%u", ms) > 0;

	return f && !fclose(f) && ok;
}

static void *faults(void *arg)
{
	(void)arg;
	touch(JOB_BASE, true);
	return NULL;
}

/* Has a block pinned that the other wants, until that has neither mapping nor file. */
static void holds(struct job *j)
{
	int fd = job_join(j, 1);

	expect(fd >= 0 && !range(fd, DSM_RANGE_PIN, 0, 1, 1), "a block is pinned");
	atomic_store(&both->step, 1);
	wait_for(2);
	atomic_store(&both->let_go, now_s());
	expect(!range(fd, DSM_RANGE_UNPIN, 0, 1, 1), "and let go");
	usleep(20000);
	close(fd);
}

static void leaves(struct job *j)
{
	int fd = job_join(j, 0);
	double end = now_s() + patience(20);
	long long faulted;
	pthread_t thread;

	expect(fd >= 0, "a job of two ranks");
	wait_for(1);
	faulted = counter("faults");
	pthread_create(&thread, NULL, faults, NULL);
	/*
	 * What counts it has mmap_lock, which munmap(2) then waits for until the fault has its
	 * file.
	 */
	while (counter("faults") == faulted && now_s() < end)
		usleep(1000);
	expect(linger(LINGER_MS), "test_linger");
	expect(!munmap(JOB_BASE, JOB_WINDOW) && !close(fd), "neither mapping nor file");
	atomic_store(&both->step, 2);
	pthread_join(thread, NULL);
}

/*
 * A thread is in a fault, whose mapping and file are gone: the module must not go before it is out.
 */
static void unload(struct job *j)
{
	pid_t pids[2];
	double start, gone;
	int i, err;

	both = shared_memory(PAGE);
	job_set(j, 2, false);
	fflush(stdout);
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			alarm((unsigned int)patience(40));
			catch_signals();
			if (i)
				holds(j);
			else
				leaves(j);
			fflush(stdout);
			_exit(bad ? 1 : 0);
		}
	}
	wait_for(2);
	start = now_s();
	do {
		err = module_unload();
		usleep(500);
	} while (err && now_s() < start + patience(20));
	gone = now_s();
	printf("unloaded after %.0f ms\n", (gone - atomic_load(&both->let_go)) * 1000);
	expect(!err, "it can be unloaded");
	expect(atomic_load(&both->let_go) > 0 &&
		       gone - atomic_load(&both->let_go) >= LINGER_MS * 1e-3,
	       "but not before the fault is over");
	expect(job_reap(pids, 2, 20), "both ranks end");
}

int main(int argc, char **argv)
{
	bool unloading = argc > 1 && !strcmp(argv[1], "--unload");
	struct job *j;
	int i;

	if (argc > 1 && !unloading) {
		printf("usage: maps [--unload]\n"
		       "What processes do to mappings of dsm.ko, in a guest with the module loaded.\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	module_needed();
	j = job_new();
	if (unloading) {
		unload(j);
	} else {
		alone(j, moves, "moves", true);
		alone(j, children, "children", true);
		alone(j, unpinned, "unpinned", true);
		alone(j, notified, "notified", true);
		for (i = 0; i < 10; i++)
			alone(j, unmapped, "unmapped", true);
		alone(j, overtaken, "overtaken", false);
		alone(j, overtakes, "overtakes", false);
	}
	printf("%d failed\n", bad);
	return bad ? 1 : 0;
}
