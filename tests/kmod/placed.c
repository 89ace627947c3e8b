// SPDX-License-Identifier: BSD-2-Clause
/*
 * placed.c - frames are taken from the NUMA node that the policy of the process names
 * (set_mempolicy(2)), or its cpuset; those that a worker makes, because a peer gives blocks back,
 * from the node that this named when the process made the window. If the node of the cpuset is
 * full, the kernel reclaims memory there, and takes no frames from the other one.
 *
 * Runs in a guest with the module loaded and two nodes (numa=fake=2).
 */
#include "tests/kmod/common.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (64ul << 20)
#define ENOUGH (SIZE / 1024 * 9 / 10)
#define FEW (SIZE / 1024 / 10)
#define RECLAIMABLE (2 * SIZE)
#define STEP (2ul << 20)
#define GROUPS "/tmp/dsm-groups"

/* How the memory of a process comes to be on one node, until it is freed from that. */
struct way {
	const char *name;
	bool (*bind)(unsigned int node);
	bool (*unbind)(void);
};

static bool policy_bind(unsigned int node)
{
	const unsigned long mask = 1ul << node;

	return !syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof(mask));
}

static bool policy_unbind(void)
{
	return !syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

static bool group_put(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (!ok)
		printf("%s: %s\n", file, strerror(errno));
	if (fd >= 0)
		close(fd);
	return ok;
}

static bool cpuset_bind(unsigned int node)
{
	char group[32], file[64], text[16];

	snprintf(group, sizeof(group), GROUPS "/node%u", node);
	if (mkdir(group, 0700) && errno != EEXIST)
		return false;
	snprintf(file, sizeof(file), "%s/cpuset.mems", group);
	snprintf(text, sizeof(text), "%u", node);
	if (!group_put(file, text))
		return false;
	snprintf(file, sizeof(file), "%s/cgroup.procs", group);
	return group_put(file, "0");
}

static bool cpuset_unbind(void)
{
	return group_put(GROUPS "/cgroup.procs", "0");
}

/*
 * KiB that the zones of a node report under these two names together, of which one may be NULL; -1:
 * there is no such node.
 */
static long node_kib(unsigned int node, const char *name, const char *other)
{
	unsigned int of = UINT_MAX;
	char line[128];
	long pages = 0, n;
	bool is = false;
	FILE *f = fopen("/proc/zoneinfo", "r");

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Node %u, zone", &of);
		is |= of == node;
		if (of == node &&
		    (sscanf(line, name, &n) == 1 || (other && sscanf(line, other, &n) == 1)))
			pages += n;
	}
	if (f)
		fclose(f);
	return is ? pages * (long)(PAGE / 1024) : -1;
}

/*
 * Free memory, also on the lists of processors, where frames are that were freed before; -1: there
 * is no such node.
 */
static long node_free(unsigned int node)
{
	return node_kib(node, " pages free %ld", " count: %ld");
}

/* The kernel reclaims memory of the node when less than this is free. */
static long node_low(unsigned int node)
{
	return node_kib(node, " low %ld", NULL);
}

/* The window is filled by a process that is bound to the node. */
static bool fills(struct job *j, const struct way *way, unsigned int node)
{
	const long before = node_free(node);
	long taken;
	char *p;
	int fd;

	if (!way->bind(node))
		return false;
	job_set(j, 1, false);
	j->window = SIZE;
	j->pages = SIZE / PAGE;
	fd = job_join(j, 0);
	if (fd < 0)
		return false;
	for (p = JOB_BASE; p < JOB_BASE + SIZE; p += PAGE)
		*(volatile char *)p = 1;
	taken = before - node_free(node);
	printf("%s: of %lu KiB of frames, %ld came from node %u\n", way->name, SIZE / 1024, taken,
	       node);
	munmap(JOB_BASE, SIZE);
	close(fd);
	return way->unbind() && taken >= (long)ENOUGH && nothing_left(20);
}

/*
 * Rank 1, which may be bound, touches all blocks, and gives them back to rank 0, which has no
 * frames for them.
 */
static void gives_back(struct job *j)
{
	struct dsm_ioc_range evict = { .op = DSM_RANGE_EVICT, .pages = SIZE / PAGE };
	int fd = job_join(j, 1);
	char *p;

	for (p = JOB_BASE; fd >= 0 && p < JOB_BASE + SIZE; p += PAGE)
		*(volatile char *)p = 1;
	if (fd < 0 || ioctl(fd, DSM_IOC_RANGE, &evict))
		_exit(3);
	pause();
}

/* A worker makes the frames, for a process that was bound to the node when it made the window. */
static bool worker_fills(struct job *j, const struct way *way, unsigned int node)
{
	const double end = now_s() + patience(60);
	const long before = node_free(node);
	long taken;
	bool bound;
	pid_t pid;
	int fd;

	job_set(j, 2, false);
	j->window = SIZE;
	j->pages = SIZE / PAGE;
	j->home = DSM_REGION_FIXED;
	fflush(stdout);
	if (!way->bind(1 - node))
		return false;
	pid = fork();
	if (!pid)
		gives_back(j);
	bound = way->bind(node);
	fd = job_join(j, 0);
	bound &= way->unbind();
	while (counter("frames") < (long long)(2 * SIZE / PAGE) && now_s() < end)
		usleep(1000);
	taken = before - node_free(node);
	printf("%s: of %lu KiB of frames that a worker made, %ld came from node %u\n", way->name,
	       SIZE / 1024, taken, node);
	kill(pid, SIGKILL);
	munmap(JOB_BASE, SIZE);
	close(fd);
	return job_reap(&pid, 1, 20) && bound && fd >= 0 && now_s() < end &&
		taken >= (long)ENOUGH && nothing_left(20);
}

/*
 * Fill the node, partly with memory that the kernel may take back at any time (MADV_FREE), say so,
 * and wait.
 */
static void fill_node(unsigned int node, int done)
{
	char *p = mmap(NULL, RECLAIMABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0),
	     *more;
	bool ok = p != MAP_FAILED && policy_bind(node);

	if (ok) {
		/* a huge page is not taken back in parts */
		madvise(p, RECLAIMABLE, MADV_NOHUGEPAGE);
		memset(p, 1, RECLAIMABLE);
	}
	while (ok && node_free(node) > node_low(node) + (long)STEP / 1024) {
		more = mmap(NULL, STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ok = more != MAP_FAILED;
		if (ok)
			memset(more, 1, STEP);
	}
	ok = ok && !madvise(p, RECLAIMABLE, MADV_FREE);
	if (write(done, &ok, 1) == 1)
		pause();
	_exit(3);
}

/* The kernel's thread that reclaims memory of the node (kswapd), or 0. */
static pid_t node_reclaimer(unsigned int node)
{
	char want[32], comm[32], file[300];
	struct dirent *e;
	DIR *d = opendir("/proc");
	pid_t pid = 0;
	FILE *f;

	snprintf(want, sizeof(want), "kswapd%u\n", node);
	while (d && !pid && (e = readdir(d))) {
		snprintf(file, sizeof(file), "/proc/%s/comm", e->d_name);
		f = fopen(file, "r");
		if (f && fgets(comm, sizeof(comm), f) && !strcmp(comm, want))
			pid = atoi(e->d_name);
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return pid;
}

#define RT_RUNTIME "/proc/sys/kernel/sched_rt_runtime_us"

/*
 * Do threads of SCHED_FIFO leave processor time to others? By default the kernel lets others run
 * for 50 ms of each second.
 */
static bool leave_time(bool leave)
{
	static char was[32];
	int fd = open(RT_RUNTIME, O_RDWR);
	const char *text = leave ? was : "-1";
	bool ok = fd >= 0 && (leave || read(fd, was, sizeof(was) - 1) > 0) &&
		pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/*
 * Run on a processor of the other node, whose memory the kernel then prefers, and keep the thread
 * that reclaims memory of this node from running: it would make room there before the next frame.
 * Or undo that.
 */
static bool race_decide(unsigned int node, bool undo)
{
	struct sched_param normal = { 0 }, first = { .sched_priority = 1 };
	const pid_t reclaimer = node_reclaimer(node);
	unsigned int cpu, of;
	cpu_set_t set;

	CPU_ZERO(&set);
	for (cpu = 0; undo && cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &set);
	if (undo)
		return leave_time(true) && !sched_setscheduler(0, SCHED_OTHER, &normal) &&
			!sched_setaffinity(0, sizeof(set), &set) &&
			!sched_setaffinity(reclaimer, sizeof(set), &set);
	for (cpu = 0; cpu < (unsigned int)sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		if (!sched_setaffinity(0, sizeof(set), &set) && !getcpu(NULL, &of) && of != node)
			return reclaimer && !sched_setaffinity(reclaimer, sizeof(set), &set) &&
				leave_time(false) && !sched_setscheduler(0, SCHED_FIFO, &first);
	}
	return false;
}

/*
 * The window is filled by a process in the cpuset of the node, which is full. How many KiB come
 * from the other one?
 */
static bool strays(struct job *j, unsigned int node, long *strayed)
{
	bool filled = false, bound;
	long before;
	int done[2], fd;
	double spun;
	pid_t pid;
	char *p;

	if (pipe(done))
		return false;
	fflush(stdout);
	pid = fork();
	if (!pid)
		fill_node(node, done[1]);
	close(done[1]);
	if (read(done[0], &filled, 1) != 1 || !filled)
		printf("node %u could not be filled\n", node);
	close(done[0]);
	job_set(j, 1, false);
	j->window = SIZE;
	j->pages = SIZE / PAGE;
	bound = filled && race_decide(node, false) && cpuset_bind(node);
	before = node_free(1 - node);
	fd = job_join(j, 0);
	/* as on a busy host, it takes longer than others may be kept from running by default */
	for (spun = now_s() + 1.2; bound && now_s() < spun;)
		;
	for (p = JOB_BASE; bound && fd >= 0 && p < JOB_BASE + SIZE; p += PAGE)
		*(volatile char *)p = 1;
	*strayed = before - node_free(1 - node);
	bound &= race_decide(node, true);
	printf("cpuset: of %lu KiB of frames of node %u, which is full, %ld came from the other one\n",
	       SIZE / 1024, node, *strayed);
	munmap(JOB_BASE, SIZE);
	close(fd);
	kill(pid, SIGKILL);
	return job_reap(&pid, 1, 20) && bound && cpuset_unbind() && fd >= 0 && nothing_left(20);
}

int main(int argc, char **argv)
{
	static const struct way ways[] = { { "policy", policy_bind, policy_unbind },
					   { "cpuset", cpuset_bind, cpuset_unbind } };
	const bool control = argc > 1 && !strcmp(argv[1], "--control");
	struct job *j;
	long strayed = 0;
	bool ok = true;
	unsigned int i;

	if (argc > 1 + control) {
		printf("usage: placed [--control]\n"
		       "Frames on the NUMA node of a policy, or of a cpuset; in a guest with dsm.ko loaded and two nodes.\n"
		       "  --control   test_lose_hardwall is set: frames must come from outside the cpuset\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	if (!module_loaded() || node_free(1) < 0) {
		fprintf(stderr, "placed: dsm.ko is not loaded, or there is one node\n");
		return 77;
	}
	j = job_new();
	mkdir(GROUPS, 0700);
	ok = !mount("none", GROUPS, "cgroup2", 0, NULL) &&
		group_put(GROUPS "/cgroup.subtree_control", "+cpuset");
	for (i = 0; i < 4 && !control; i++)
		ok &= fills(j, &ways[i / 2], i % 2) && worker_fills(j, &ways[i / 2], i % 2);
	ok = ok && strays(j, 1, &strayed) &&
		(control ? strayed >= (long)ENOUGH / 2 : strayed <= (long)FEW);
	rmdir(GROUPS "/node0");
	rmdir(GROUPS "/node1");
	umount(GROUPS);
	if (!ok)
		printf("FAILED: frames are placed as the process says; %ld KiB came from the other node than the cpuset's\n",
		       strayed);
	return ok ? 0 : 1;
}
