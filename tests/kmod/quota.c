// SPDX-License-Identifier: BSD-2-Clause
/*
 * quota.c - members of the group that ask dsm.ko for more than is theirs: memory, of their own and by what they send, contexts,
 * threads, processors (docs/kernel.md, "Security"). Each test is an attack that must come to nothing.
 *
 * Runs in a guest with the module loaded, as root; /dev/dsm is opened to everybody meanwhile. Without arguments all tests run.
 */
#include "tests/kmod/common_trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT (8ul << 20)

static int place(int fd, uint32_t page, uint32_t rank)
{
	struct dsm_ioc_range p = { .op = DSM_RANGE_PLACE, .page = page, .pages = 1, .write = rank };

	return ioctl(fd, DSM_IOC_RANGE, &p);
}

static long available_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[100];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

#define BIG (32ull << 30) /* a window of 16,384 times 2 MiB */
#define FREE (8ul << 20)  /* that a context has without its counting as locked */

static struct meeting {
	struct dsm_ioc_key key;
	_Atomic unsigned int come, connected, placed;
} * meeting;

static bool meet(_Atomic unsigned int *place)
{
	double end = now_s() + patience(10);

	atomic_fetch_add(place, 1);
	while (atomic_load(place) < 2 && now_s() < end)
		usleep(1000);
	return expect(atomic_load(place) == 2, "both ranks");
}

/* One of two ranks in processes of their own, blocks at home with rank 0. */
static int big_rank(unsigned int rank)
{
	int fd = rank_open(BIG);

	if (!expect(fd >= 0 && !rank_join(fd, &meeting->key, rank, 2), "JOIN") || !meet(&meeting->come) ||
	    !expect(!rank_connect(fd, !rank) && !rank_region(fd, (uint32_t)(BIG / PAGE), 0), "CONNECT, REGION") ||
	    !meet(&meeting->connected))
		return -1;
	return fd;
}

/* Each 2 MiB of a window that somebody names makes 20 KiB of state at its home, rank 0. */
static pid_t start_placing(void)
{
	pid_t pid = fork();
	int fd;

	if (pid)
		return pid;
	fd = big_rank(1);
	while (fd >= 0 && atomic_load(&meeting->placed) < BIG / PAGE / 512 &&
	       !place(fd, atomic_load(&meeting->placed) * 512, 0))
		atomic_fetch_add(&meeting->placed, 1);
	_exit(0);
}

static bool place_all(void *unused)
{
	struct rlimit limit = { LIMIT, LIMIT };
	const long before = available_kib();
	struct dsm_ioc_lost lost = { .rank = -1 };
	unsigned int placed;
	long taken;
	pid_t other;
	int fd;

	(void)unused;
	if (!expect(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit"))
		return false;
	fflush(stdout);
	other = start_placing();
	fd = big_rank(0);
	while (fd >= 0 && !ioctl(fd, DSM_IOC_LOST, &lost) && lost.rank < 0 &&
	       atomic_load(&meeting->placed) < BIG / PAGE / 512)
		usleep(1000);
	taken = before - available_kib();
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	placed = atomic_load(&meeting->placed);
	printf("%u states, %ld KiB, rank %d cannot go on (%s)\n", placed, taken, lost.rank, strerror(-lost.err));
	return expect(placed > 64 && placed * 20480ul <= LIMIT + FREE, "no more states than may be locked") &&
		expect(taken < (long)((4 * LIMIT + 4 * FREE) >> 10), "no more memory than that") &&
		expect(lost.rank == 0 && lost.err == -EDQUOT, "their home is told why it cannot go on");
}

static bool states(void)
{
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	new_key(&meeting->key);
	return as_somebody(place_all, NULL);
}

static bool open_all(void *unused)
{
	unsigned int n;

	(void)unused;
	for (n = 0; n < 1000 && open("/dev/dsm", O_RDWR) >= 0; n++)
		;
	printf("%u contexts\n", n);
	return expect(n >= 64 && n < 1000 && errno == EUSERS, "no user has any number of contexts");
}

static bool contexts(void)
{
	struct rlimit files = { 2000, 2000 };

	setrlimit(RLIMIT_NOFILE, &files);
	return as_somebody(open_all, NULL);
}

/* The processor time that polling threads have had, in ticks of a hundredth of a second. */
static unsigned long polled(void)
{
	unsigned long ticks = 0, user, kernel;
	char path[300], line[400];
	struct dirent *e;
	DIR *d = opendir("/proc");
	FILE *f;

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		f = fopen(path, "r");
		if (f && fgets(line, sizeof(line), f) && strstr(line, "(dsm-poll)") &&
		    sscanf(strchr(line, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			   &kernel) == 2)
			ticks += user + kernel;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return ticks;
}

/* Two seconds of all threads that poll, when there is nothing to poll for. */
static bool idle(void)
{
	unsigned long before, took;

	usleep(200000);
	before = polled();
	usleep(2000000);
	took = polled() - before;
	printf("%lu0 ms of processors while nothing came\n", took);
	return took < 40;
}

static bool poll_all(void *unused)
{
	(void)unused;
	return expect(join_by_rdma(DSM_MODE_POLL) >= 0 && join_by_rdma(DSM_MODE_POLL) >= 0, "two ranks that poll") &&
		expect(idle(), "threads that poll leave the processors alone while nothing comes") &&
		refused(join_by_rdma(DSM_MODE_POLL), EUSERS, "a third one") &&
		expect(join_by_rdma(DSM_MODE_SOFTIRQ) >= 0, "a rank that does not poll");
}

/* Threads that poll are no process's, and may take a processor each. */
static bool pollers(void)
{
	bool ok = set_parameter("max_pollers", "8") && as_somebody(poll_all, NULL);

	return set_parameter("max_pollers", "64") && ok;
}

#define GROUPS "/tmp/dsm-groups"
#define GROUP GROUPS "/quota"

static bool put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return expect(ok, file);
}

static long charged_kib(void)
{
	FILE *f = fopen(GROUP "/memory.current", "r");
	long bytes = -1;

	if (!f || fscanf(f, "%ld", &bytes) != 1)
		bytes = -1;
	if (f)
		fclose(f);
	return bytes / 1024;
}

/* Frames and tables are of the memory cgroup of the process. It counts by pieces of up to 256 KiB for each processor. */
static bool group_rank(void)
{
	const uint64_t size = 256ull << 30;
	struct dsm_ioc_key key;
	long before, tables, frames;
	int fd, i;

	new_key(&key);
	catch_signals();
	if (!put(GROUP "/cgroup.procs", "0"))
		return false;
	before = charged_kib();
	fd = rank_open(size);
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1) && !rank_region(fd, (uint32_t)(size / PAGE), 0), "a rank") ||
	    !expect(mmap(JOB_BASE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0) != MAP_FAILED,
		    "its window"))
		return false;
	tables = charged_kib() - before;
	for (i = 0; i < 8; i++)
		if (!expect(!touch(JOB_BASE + i * (2l << 20), true), "an access"))
			return false;
	frames = charged_kib() - before - tables;
	printf("%ld KiB of tables, %ld KiB for 16 MiB\n", tables, frames);
	return expect(tables > 1024, "tables are charged") && expect(frames >= 16000, "frames are charged");
}

static bool cgroup(void)
{
	pid_t pid;
	int status = -1;

	mkdir(GROUPS, 0700);
	if (!expect(!mount("none", GROUPS, "cgroup2", 0, NULL), "cgroup2") ||
	    !put(GROUPS "/cgroup.subtree_control", "+memory") || !expect(!mkdir(GROUP, 0700), GROUP))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool ok = group_rank();

		fflush(stdout);
		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	/* What the rank had goes in a worker, soon after it. */
	return nothing_left(20) && expect(!rmdir(GROUP), "rmdir " GROUP) && expect(!umount(GROUPS), "umount " GROUPS) &&
		!status;
}

/*
 * Two ranks that say of each other that it is the home: each forwards what the other does, for ever. Whoever asked gets its
 * processor back all the same, and the ranks can be killed.
 */
static bool homes(void)
{
	struct dsm_ioc_range ask = { .op = DSM_RANGE_PREFETCH, .pages = 64, .write = 1 };
	int fd[2], page;
	double start;

	if (!two_ranks(fd, JOB_WINDOW, 0, 1))
		return false;
	for (page = 0; page < 64; page++)
		if (!expect(!place(fd[0], page, 1) && !place(fd[1], page, 0), "PLACE"))
			return false;
	start = now_s();
	alarm((unsigned int)patience(10));
	return expect(!ioctl(fd[0], DSM_IOC_RANGE, &ask), "PREFETCH") &&
		expect(now_s() - start < patience(2), "an answer in time");
}

int main(int argc, char **argv)
{
	static const struct attack attacks[] = {
		{ "states", states },   { "cgroup", cgroup }, { "contexts", contexts },
		{ "pollers", pollers }, { "homes", homes },
	};

	return attacks_main(argc, argv, attacks, sizeof(attacks) / sizeof(attacks[0]));
}
