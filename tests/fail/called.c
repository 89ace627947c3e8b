// SPDX-License-Identifier: BSD-2-Clause
/*
 * called.c - for some seconds, the other ranks call rank 1, which may be stopped: only its service
 * thread can answer.
 *
 *   called SECONDS
 */
#include <dsm.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common.h"

static void *end(void *arg)
{
	return arg;
}

int main(int argc, char **argv)
{
	dsm_thread_t *ended = join("called", 4096);
	unsigned long calls = 0;
	long until;

	if (dsm_rank() == 0)
		MUST(dsm_spawn(ended, 1, NULL, end, ended));
	MUST(dsm_barrier());
	until = now_ms() + (argc > 1 ? atoi(argv[1]) : 1) * 1000;
	if (dsm_rank() == 0) {
		printf("ready\n");
		fflush(stdout);
	}
	for (; dsm_rank() != 1 && now_ms() < until; calls++) {
		MUST(dsm_cancel(*ended));
		usleep(10000);
	}
	printf("%lu calls\n", calls);
	MUST(dsm_barrier());
	if (dsm_rank() == 0)
		MUST(dsm_join(*ended, NULL));
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}
