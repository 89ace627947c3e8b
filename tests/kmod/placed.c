// SPDX-License-Identifier: BSD-2-Clause
/*
 * placed.c - frames are taken from the NUMA node that the policy of the process names (set_mempolicy(2)), or its cpuset; those that a
 * worker makes, because a peer gives blocks back, from the node that this named when the process made the window.
 *
 * Runs in a guest with the module loaded and two nodes (numa=fake=2).
 */
#include "tests/kmod/common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdio.h>
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

/* KiB that are free, on the lists of processors, too, where frames are that were freed before; -1: there is no such node. */
static long node_free(unsigned int node)
{
	unsigned int of = UINT_MAX;
	char line[128];
	long pages = 0, n;
	bool is = false;
	FILE *f = fopen("/proc/zoneinfo", "r");

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "Node %u, zone", &of);
		is |= of == node;
		if (of == node && (sscanf(line, " pages free %ld", &n) == 1 || sscanf(line, " count: %ld", &n) == 1))
			pages += n;
	}
	if (f)
		fclose(f);
	return is ? pages * (long)(PAGE / 1024) : -1;
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
	printf("%s: of %lu KiB of frames, %ld came from node %u\n", way->name, SIZE / 1024, taken, node);
	munmap(JOB_BASE, SIZE);
	close(fd);
	return way->unbind() && taken >= (long)ENOUGH && nothing_left(20);
}

/* Rank 1, which may be bound, touches all blocks, and gives them back to rank 0, which has no frames for them. */
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
	printf("%s: of %lu KiB of frames that a worker made, %ld came from node %u\n", way->name, SIZE / 1024, taken,
	       node);
	kill(pid, SIGKILL);
	munmap(JOB_BASE, SIZE);
	close(fd);
	return job_reap(&pid, 1, 20) && bound && fd >= 0 && now_s() < end && taken >= (long)ENOUGH && nothing_left(20);
}

int main(int argc, char **argv)
{
	static const struct way ways[] = { { "policy", policy_bind, policy_unbind },
					   { "cpuset", cpuset_bind, cpuset_unbind } };
	struct job *j;
	bool ok = true;
	unsigned int i;

	if (argc > 1) {
		printf("usage: placed\n"
		       "Frames on the NUMA node of a policy, or of a cpuset; in a guest with dsm.ko loaded and two nodes.\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	if (!module_loaded() || node_free(1) < 0) {
		fprintf(stderr, "placed: dsm.ko is not loaded, or there is one node\n");
		return 77;
	}
	j = job_new();
	mkdir(GROUPS, 0700);
	ok = !mount("none", GROUPS, "cgroup2", 0, NULL) && group_put(GROUPS "/cgroup.subtree_control", "+cpuset");
	for (i = 0; i < 4; i++)
		ok &= fills(j, &ways[i / 2], i % 2) && worker_fills(j, &ways[i / 2], i % 2);
	rmdir(GROUPS "/node0");
	rmdir(GROUPS "/node1");
	umount(GROUPS);
	if (!ok)
		printf("FAILED: frames are placed as the process says\n");
	return ok ? 0 : 1;
}
