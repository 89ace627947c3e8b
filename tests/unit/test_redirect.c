// SPDX-License-Identifier: BSD-2-Clause
/* test_redirect.c - the libraries of the transports allocate from net/own.h. Each test runs in a process of its own. */
#include "suite.h"

#include <infiniband/verbs.h>

#include "net/own.h"
#include "net/redirect.h"

/* Bytes of what ibv_fork_init() keeps; the heap's blocks are powers of two. */
#define KEPT 56

/* Whether libibverbs takes a block of the heap: the one that was given back last is the next to be given out. */
static bool takes_a_block(void)
{
	void *p = own_alloc(KEPT, 0), *next;

	own_free(p);
	ck_assert_int_eq(ibv_fork_init(), 0);
	next = own_alloc(KEPT, 0);
	own_free(next);
	return next != p;
}

START_TEST(libibverbs_allocates_from_the_heap_of_the_transports)
{
	redirect_malloc();
	/* Later kernels and libraries need nothing for fork(). */
	ck_assert(takes_a_block() || ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
}
END_TEST

START_TEST(before_it_allocates_from_the_c_library)
{
	ck_assert(!takes_a_block());
}
END_TEST

int main(void)
{
	Suite *s = suite_create("redirect");
	TCase *t = tcase_create("redirect");

	tcase_add_test(t, libibverbs_allocates_from_the_heap_of_the_transports);
	tcase_add_test(t, before_it_allocates_from_the_c_library);
	suite_add_tcase(s, t);
	return unit_main(s);
}
