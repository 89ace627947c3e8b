// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_redirect.c - libraries of the transports allocate from net/own.h. Each test runs in a
 * process of its own.
 */
#include "suite.h"

#include <infiniband/verbs.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "net/own.h"
#include "net/redirect.h"
#include "net/stream.h"

/* Size of a block that ibv_fork_init() keeps; the heap's blocks are powers of two. */
#define KEPT 56

/* Does libibverbs take a block of the heap? The last block given back is the next one allocated. */
static bool takes_a_block(void)
{
	void *p = own_alloc(KEPT, 0), *next;

	own_free(p);
	ck_assert_int_eq(ibv_fork_init(), 0);
	next = own_alloc(KEPT, 0);
	own_free(next);
	return next != p;
}

UNIT_TEST(libibverbs_allocates_from_the_heap_of_the_transports)
{
	redirect_malloc();
	/* Later kernels and libraries need no preparation for fork(). */
	ck_assert(takes_a_block() || ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}

UNIT_TEST(before_it_allocates_from_the_c_library)
{
	ck_assert(!takes_a_block());
}

UNIT_TEST(streams_of_the_kernels_files_take_no_memory)
{
	FILE *f[16];
	size_t before;
	char line[64], pid[16];
	int i, k;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	stream_prepare();
	before = mallinfo2().uordblks;
	for (i = 0; i < 10; i++) {
		f[0] = stream_open("/proc/self/statm", "r");
		ck_assert_ptr_nonnull(fgets(line, sizeof(line), f[0]));
		ck_assert_int_gt(atoll(line), 0);
		ck_assert_ptr_null(fgets(line, sizeof(line), f[0]));
		ck_assert(feof(f[0]));
		ck_assert_int_eq(stream_close(f[0]), 0);
		/* A stream must not read what the previous one left in its buffer. */
		f[0] = stream_open("/proc/self/stat", "re");
		ck_assert_int_eq(fgetc(f[0]), pid[0]);
		ck_assert_int_eq(stream_close(f[0]), 0);
		ck_assert_ptr_null(stream_open("/proc/nosuch", "r"));
	}
	ck_assert_uint_eq(mallinfo2().uordblks, before);
	/* More streams than there are. */
	for (i = 0; i < 16; i++) {
		f[i] = stream_open("/proc/self/statm", "r");
		ck_assert_ptr_nonnull(f[i]);
		for (k = 0; k < i; k++)
			ck_assert_ptr_ne(f[i], f[k]);
	}
	for (i = 0; i < 16; i++) {
		ck_assert_ptr_nonnull(fgets(line, sizeof(line), f[i]));
		ck_assert_int_eq(stream_close(f[i]), 0);
	}
}

UNIT_SUITE("redirect")
