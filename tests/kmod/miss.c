// SPDX-License-Identifier: BSD-2-Clause
/*
 * miss.c - one write miss between two ranks that RDMA connects, for tests/kmod/miss, which lets the
 * kernel trace the functions of dsm.ko: tracing is on only for the access. Prints the number of the
 * thread that misses.
 *
 * The block is at home at rank 0, which has written it. Rank 1 writes it, after another block of
 * the same 2 MiB, so that rank 0 knows the key of its frames.
 */
#include "tests/kmod/common.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK 0u
#define BEFORE 2u /* of the same home */

static void tracing(char on)
{
	const int fd = open("/sys/kernel/tracing/tracing_on", O_WRONLY);

	if (fd < 0 || write(fd, &on, 1) != 1)
		_exit(1);
	close(fd);
}

static void rank(struct job *j, unsigned int me)
{
	const int fd = job_join(j, me);

	if (fd < 0)
		_exit(1);
	if (!me) {
		JOB_BASE[BLOCK * PAGE] = JOB_BASE[BEFORE * PAGE] = 1;
		atomic_store(&j->stop, 1);
	}
	if (!reached(&j->stop, 1))
		_exit(1);
	if (me) {
		JOB_BASE[BEFORE * PAGE] = 2;
		usleep(300000); /* what that has left to do is done */
		tracing('1');
		JOB_BASE[BLOCK * PAGE] = 2;
		tracing('0');
		printf("thread %d\n", getpid());
		fflush(stdout);
		atomic_store(&j->stop, 2);
	}
	_exit(!reached(&j->stop, 2));
}

int main(void)
{
	struct job *j;
	pid_t pids[2];
	unsigned int i;

	module_needed();
	j = job_new();
	job_set(j, 2, true);
	j->home = DSM_REGION_CYCLIC;
	for (i = 0; i < 2; i++) {
		pids[i] = fork();
		if (!pids[i])
			rank(j, i);
	}
	return !job_reap(pids, 2, patience(30)) || !nothing_left(20);
}
