// SPDX-License-Identifier: BSD-2-Clause
/*
 * placed.c - frames are taken from the NUMA node that the policy of the process names (set_mempolicy(2)).
 *
 * Runs in a guest with the module loaded and two nodes (numa=fake=2).
 */
#include "tests/kmod/common.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (64ul << 20)
#define ENOUGH (SIZE / 1024 * 9 / 10)

/* KiB; -1: there is no such node. */
static long node_free(unsigned int node)
{
	char path[64], line[128];
	long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/meminfo", node);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f) && sscanf(line, "Node %*u MemFree: %ld", &kib) != 1)
		;
	if (f)
		fclose(f);
	return kib;
}

/* The window is filled by a process of that policy. */
static bool fills(struct job *j, unsigned int node)
{
	const unsigned long mask = 1ul << node;
	const long before = node_free(node);
	long taken;
	char *p;
	int fd;

	if (syscall(SYS_set_mempolicy, MPOL_BIND, &mask, 8 * sizeof(mask)))
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
	printf("of %lu KiB of frames, %ld came from node %u\n", SIZE / 1024, taken, node);
	munmap(JOB_BASE, SIZE);
	close(fd);
	return taken >= (long)ENOUGH && nothing_left(20);
}

int main(int argc, char **argv)
{
	struct job *j;
	bool ok = true;
	unsigned int node;

	if (argc > 1) {
		printf("usage: placed\n"
		       "Frames on the NUMA node of a policy; in a guest with dsm.ko loaded and two nodes.\n");
		return strcmp(argv[1], "--help") ? 2 : 0;
	}
	if (!module_loaded() || node_free(1) < 0) {
		fprintf(stderr, "placed: dsm.ko is not loaded, or there is one node\n");
		return 77;
	}
	j = job_new();
	for (node = 0; node < 2; node++)
		ok &= fills(j, node);
	if (!ok)
		printf("FAILED: frames are placed as the process says\n");
	return ok ? 0 : 1;
}
