// SPDX-License-Identifier: BSD-2-Clause
/*
 * follow.c - in a node of several ranks, a rank touches pages that its node has, and only its
 * mapping changes. The protocol is not involved, so the thread has nothing to wait for, and must
 * not yield its processor.
 *
 * Nothing is read ahead. What comes ahead is opened for a whole run of blocks, and then their
 * requests end, one by one: between them, a thread can have used all blocks and be past the barrier
 * while a thread of its node has to wait for the requests.
 */
#include "common.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGES 64ul

static __thread unsigned int yields;

/* Counts every call in the process, including those of libraries. */
int sched_yield(void)
{
	yields++;
	return (int)syscall(SYS_sched_yield);
}

static void touch(uint64_t *p, uint64_t want, bool write)
{
	unsigned int before = yields;
	uint64_t i;

	for (i = 0; i < PAGES; i++) {
		REQUIRE(load(&p[i * 512]) == want + i, "page %lu holds %lu", i, load(&p[i * 512]));
		if (write)
			store(&p[i * 512], want + i);
	}
	REQUIRE(yields == before, "%u of %lu pages took a call of sched_yield()", yields - before,
		PAGES);
}

int main(int argc, char **argv)
{
	uint64_t *p, i, round;

	setenv("DSM_READAHEAD", "0", 1);
	test_start(argc, argv, "Mappings that follow their node.", NULL, 0);
	p = test_region("follow", PAGES * 4096, 4096, DSM_HOME_FIRST_TOUCH, 0);
	for (round = 1; round <= 3; round++) {
		for (i = 0; test_rank == 0 && i < PAGES; i++)
			store(&p[i * 512], round + i);
		MUST(dsm_barrier());
		if (dsm_node() == 0 && test_rank)
			touch(p, round, true);
		MUST(dsm_barrier());
		for (i = 0; test_rank == test_size - 1 && i < PAGES; i++)
			(void)load(&p[i * 512]);
		MUST(dsm_barrier());
		if (dsm_node() == dsm_nodes() - 1)
			touch(p, round, false);
		MUST(dsm_barrier());
	}
	return test_end();
}
