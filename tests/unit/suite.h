/* SPDX-License-Identifier: BSD-2-Clause */
/* suite.h - shared by all suites. */
#ifndef UNIT_SUITE_H
#define UNIT_SUITE_H

#include <check.h>
#include <stdint.h>
#include <stdlib.h>

/* For long loops: ck_assert() reports every success to its parent process, too. */
#define unit_require(x)                         \
	do {                                    \
		if (!(x))                       \
			ck_abort_msg("%s", #x); \
	} while (0)

/* Run one suite; the program's exit status. */
static inline int unit_main(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* xorshift: the same numbers on every machine. */
static inline uint64_t unit_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

#endif
