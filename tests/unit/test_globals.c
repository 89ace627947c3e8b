// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_globals.c - api/globals: why the program's variables cannot be shared, as printed on stderr.
 */
#include "suite.h"

#include <dsm.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fault/fault.h"
#include "job/job.h"
#include "util/log.h"

/*
 * A job of several nodes of the kernel helper has this backend. Without /dev/dsm, a job of one rank
 * gets it here.
 */
static void host_by_kernel(void)
{
	ck_assert_int_eq(dsm_init(NULL), 0);
	job.fault = &fault_kmod;
}

/* Returns the line that dsm_adopt_globals() prints. */
static const char *refusal(void)
{
	static char line[512];
	int fds[2];

	ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	log_release();
	log_keep();
	close(fds[1]);
	ck_assert_int_eq(dsm_adopt_globals(NULL), -ENOTSUP);
	ck_assert_int_gt(read(fds[0], line, sizeof(line) - 1), 0);
	return line;
}

UNIT_TEST(with_the_kernel_helper_the_line_says_how_to_do_without)
{
	host_by_kernel();
	ck_assert_str_eq(
		refusal(),
		"libdsm: the program's global variables cannot be shared: the kernel helper "
		"hosts this job (set DSM_BACKEND=user, or start one node)\n");
}

UNIT_TEST(without_it_the_line_says_what_is_wrong_with_the_program)
{
	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_ptr_nonnull(strstr(refusal(), "link with libdsm.so, not libdsm.a"));
}

UNIT_TEST(with_the_kernel_helper_no_memory_is_adopted)
{
	static char page[PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));

	host_by_kernel();
	ck_assert_int_eq(dsm_region_adopt(page, sizeof(page), NULL, NULL), -ENOTSUP);
}

UNIT_SUITE("globals", .seconds = 60)
