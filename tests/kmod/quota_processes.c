// SPDX-License-Identifier: BSD-2-Clause
/*
 * quota_processes.c - a process whose calls take more than its share: tables of regions, contexts,
 * threads that poll, memory of a cgroup.
 */
#include "tests/kmod/common_trust.h"
#include "tests/kmod/quota.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- regions and their tables ---------------------------------------------------------------- */

#define OWNERS DSM_PARTS_MAX
#define OWNERS_BYTES (OWNERS * sizeof(struct dsm_owner))

static int one_region(int fd, uint32_t id, uint32_t op)
{
	static struct dsm_owner owners[OWNERS];
	struct dsm_ioc_region g = { .op = op,
				    .page = id * DSM_UNIT_PAGES,
				    .pages = DSM_UNIT_PAGES,
				    .id = (uint16_t)id,
				    .home = DSM_REGION_PARTS,
				    .arg = 1,
				    .parts = OWNERS,
				    .owners = (uintptr_t)owners };

	return ioctl(fd, DSM_IOC_REGION, &g);
}

/* Shared by the process that adds regions, and by root, which may read the counters. */
static struct crowd {
	_Atomic unsigned int joined, added, removed, go;
	_Atomic unsigned int n; /* number of regions */
	_Atomic int err;        /* error of the region that is refused */
} * crowd;

/* Make each 2 MiB of the window a region, each with its own table of owners. */
static bool regions_all(void *unused)
{
	struct rlimit limit = { LIMIT, LIMIT };
	struct dsm_ioc_key key;
	unsigned int n = 0, i;
	int fd;

	(void)unused;
	new_key(&key);
	if (!expect(!setrlimit(RLIMIT_MEMLOCK, &limit), "setrlimit"))
		return false;
	fd = rank_open(BIG);
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1), "a rank"))
		return false;
	atomic_store(&crowd->joined, 1);
	if (!reached(&crowd->go, 1))
		return false;
	while (n < DSM_REGIONS_MAX && !one_region(fd, n, DSM_REGION_ADD))
		n++;
	atomic_store(&crowd->err, errno);
	atomic_store(&crowd->n, n);
	atomic_store(&crowd->added, 1);
	if (!reached(&crowd->go, 2))
		return false;
	for (i = 0; i < n; i++)
		if (!expect(!one_region(fd, i, DSM_REGION_REMOVE), "a region goes"))
			return false;
	atomic_store(&crowd->removed, 1);
	return reached(&crowd->go, 3) &&
		expect(!one_region(fd, 0, DSM_REGION_ADD), "a region can be added again");
}

static bool are_charged(void)
{
	long base, more;
	unsigned int n;
	bool ok;

	if (!expect(reached(&crowd->joined, 1), "a rank without regions"))
		return false;
	base = charged();
	atomic_store(&crowd->go, 1);
	if (!expect(reached(&crowd->added, 1), "regions"))
		return false;
	n = atomic_load(&crowd->n);
	more = charged() - base;
	printf("%u regions with %u owners each: %ld pages, beside %ld\n", n, OWNERS, more, base);
	ok = expect(n && n < DSM_REGIONS_MAX && atomic_load(&crowd->err) == EDQUOT,
		    "there is no memory for another") &&
		expect(n * OWNERS_BYTES <= (unsigned long)more * PAGE, "they are charged") &&
		expect(base + more <= (long)((LIMIT + FREE) / PAGE), "no more than may be locked");
	atomic_store(&crowd->go, 2);
	ok = expect(reached(&crowd->removed, 1) && charged() == base, "all of it is given back") &&
		ok;
	atomic_store(&crowd->go, 3);
	return ok;
}

bool quota_regions(void)
{
	int status;
	bool ok;
	pid_t pid;

	crowd = shared_memory(sizeof(*crowd));
	pid = start_somebody(regions_all, NULL);
	ok = are_charged();
	return waitpid(pid, &status, 0) == pid && !status && ok;
}

/* ---- contexts, threads ----------------------------------------------------------------------- */

static bool open_all(void *unused)
{
	unsigned int n;

	(void)unused;
	for (n = 0; n < 1000 && open("/dev/dsm", O_RDWR) >= 0; n++)
		;
	printf("%u contexts\n", n);
	return expect(n >= 64 && n < 1000 && errno == EUSERS, "no user has any number of contexts");
}

#define ENOUGH 250u /* contexts, more than a user may have */

/*
 * In a process of root, with or without CAP_SYS_RESOURCE: the number of contexts that it can make,
 * up to ENOUGH; 255: failed.
 */
static unsigned int open_as_root(bool exempt)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	unsigned int n = 0;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (syscall(SYS_capget, &head, caps))
			_exit(255);
		caps[0].effective &= exempt ? ~0u : ~(1u << CAP_SYS_RESOURCE);
		if (syscall(SYS_capset, &head, caps))
			_exit(255);
		while (n < ENOUGH && open("/dev/dsm", O_RDWR) >= 0)
			n++;
		_exit((int)n);
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		? (unsigned int)WEXITSTATUS(status)
		: 255;
}

static bool put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return expect(ok, file);
}

/*
 * As another user of a namespace of SOMEBODY: open until it is refused, and keep the files until
 * *go is 2.
 */
static void open_as_subuid(unsigned int uid, _Atomic unsigned int *opened,
			   const _Atomic unsigned int *go)
{
	unsigned int n = 0;

	if (setuid(uid))
		_exit(3);
	while (n < 1000 && open("/dev/dsm", O_RDWR) >= 0)
		n++;
	atomic_store(opened, n + 1);
	reached(go, 2);
	_exit(0);
}

/* In a process of SOMEBODY: a namespace with two more users, which open as much as they can. */
static bool namespace_opens(void *shared)
{
	_Atomic unsigned int *n = shared;
	pid_t pids[2];
	unsigned int i;

	if (!expect(!unshare(CLONE_NEWUSER), "a user namespace"))
		return false;
	atomic_store(&n[0], 1);
	if (!reached(&n[1], 1)) /* the map is written */
		return false;
	for (i = 0; i < 2; i++) {
		fflush(stdout);
		pids[i] = fork();
		if (!pids[i])
			open_as_subuid(i + 1, &n[2 + i], &n[1]);
		if (!reached(&n[2 + i], 1))
			return false;
	}
	atomic_store(&n[1], 2);
	for (i = 0; i < 2; i++)
		waitpid(pids[i], NULL, 0);
	return true;
}

/* All users of a namespace count as its owner. */
static bool namespaces(void)
{
	_Atomic unsigned int *n = shared_memory(PAGE);
	char path[64];
	bool ok;
	int status;
	pid_t pid = start_somebody(namespace_opens, n);

	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	ok = expect(reached(&n[0], 1), "a user namespace") && put(path, "0 1234 1\n1 100000 2");
	atomic_store(&n[1], 1);
	ok = expect(waitpid(pid, &status, 0) == pid && !status, "users of a namespace") && ok;
	printf("%u and %u contexts of two users of a namespace\n", n[2] - 1, n[3] - 1);
	return expect(n[2] > 64 && n[2] < ENOUGH && n[3] == 1,
		      "users of a namespace share its owner's limit") &&
		ok;
}

bool quota_contexts(void)
{
	struct rlimit files = { 2000, 2000 };
	unsigned int with, without;

	setrlimit(RLIMIT_NOFILE, &files);
	with = open_as_root(true);
	without = open_as_root(false);
	printf("%u contexts of root, %u without CAP_SYS_RESOURCE\n", with, without);
	return expect(with == ENOUGH, "who has CAP_SYS_RESOURCE is exempt") &&
		expect(without >= 64 && without < ENOUGH, "nobody else is, root or not") &&
		as_somebody(open_all, NULL) && namespaces();
}

/* Processor time of all polling threads, in ticks of 10 ms. */
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
		    sscanf(strchr(line, ')'),
			   ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			   &kernel) == 2)
			ticks += user + kernel;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return ticks;
}

/* Let all polling threads run for two seconds, with nothing to poll for. */
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
	return expect(join_by_rdma(DSM_MODE_POLL) >= 0 && join_by_rdma(DSM_MODE_POLL) >= 0,
		      "two ranks that poll") &&
		expect(idle(),
		       "threads that poll leave the processors alone while nothing comes") &&
		refused(join_by_rdma(DSM_MODE_POLL), EUSERS, "a third one") &&
		expect(join_by_rdma(DSM_MODE_SOFTIRQ) >= 0, "a rank that does not poll");
}

/* Polling threads belong to no process, and may each take a whole processor. */
bool quota_pollers(void)
{
	bool ok = set_parameter("max_pollers", "8") && as_somebody(poll_all, NULL);

	return set_parameter("max_pollers", "64") && ok;
}

#define GROUPS "/tmp/dsm-groups"
#define GROUP GROUPS "/quota"

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

#define ATTACHED (8 * (2l << 20)) /* an attached process begins here */

/*
 * Another process of the node, of another cgroup: its accesses are charged to that of the context.
 */
static bool group_attached(int fd, uint64_t size)
{
	struct dsm_ioc_attach a = { .fd = fd };
	int mine = open("/dev/dsm", O_RDWR), i;

	if (!put(GROUPS "/cgroup.procs", "0") ||
	    !expect(mine >= 0 && !ioctl(mine, DSM_IOC_ATTACH, &a) &&
			    !rank_region(mine, (uint32_t)(size / PAGE), 0),
		    "ATTACH") ||
	    !expect(mmap(JOB_BASE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
			 mine, 0) != MAP_FAILED,
		    "its window"))
		return false;
	for (i = 0; i < 8; i++)
		if (!expect(!touch(JOB_BASE + ATTACHED + i * (2l << 20), true),
			    "an access of an attached process"))
			return false;
	return true;
}

/*
 * Frames and tables are charged to the memory cgroup of the process. The kernel charges in units of
 * up to 256 KiB per processor.
 */
static bool group_rank(void)
{
	const uint64_t size = 256ull << 30;
	struct dsm_ioc_key key;
	long before, tables, frames, others;
	int fd, i, status = -1;
	pid_t pid;

	new_key(&key);
	catch_signals();
	if (!put(GROUP "/cgroup.procs", "0"))
		return false;
	before = charged_kib();
	fd = rank_open(size);
	if (!expect(fd >= 0 && !rank_join(fd, &key, 0, 1) &&
			    !rank_region(fd, (uint32_t)(size / PAGE), 0),
		    "a rank") ||
	    !expect(mmap(JOB_BASE, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
			 fd, 0) != MAP_FAILED,
		    "its window"))
		return false;
	tables = charged_kib() - before;
	for (i = 0; i < 8; i++)
		if (!expect(!touch(JOB_BASE + i * (2l << 20), true), "an access"))
			return false;
	frames = charged_kib() - before - tables;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool ok = group_attached(fd, size);

		fflush(stdout);
		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	others = charged_kib() - before - tables - frames;
	printf("%ld KiB of tables, %ld KiB for 16 MiB, %ld KiB for 16 MiB of an attached process in another group\n",
	       tables, frames, others);
	return !status &&
		expect(others >= 16000,
		       "frames of an attached process are charged to the same group") &&
		expect(tables > 1024, "tables are charged") &&
		expect(frames >= 16000, "frames are charged");
}

bool quota_cgroup(void)
{
	pid_t pid;
	int status = -1;

	mkdir(GROUPS, 0700);
	if (!expect(!mount("none", GROUPS, "cgroup2", 0, NULL), "cgroup2") ||
	    !put(GROUPS "/cgroup.subtree_control", "+memory") ||
	    !expect(!mkdir(GROUP, 0700), GROUP))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		bool ok = group_rank();

		fflush(stdout);
		_exit(!ok);
	}
	waitpid(pid, &status, 0);
	/* A worker frees the rank's memory soon afterwards. */
	return nothing_left(20) && expect(!rmdir(GROUP), "rmdir " GROUP) &&
		expect(!umount(GROUPS), "umount " GROUPS) && !status;
}
