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

/*
 * A suite with one test case: its tests register themselves, in the order of the file.
 * UNIT_LOOP_TEST: for each _i from `from` to below `to`. Each takes the place of Check's
 * START_TEST; what it begins needs no END_TEST.
 */
struct unit_test {
	const TTest *test;
	int from, to;
};
struct unit_case {
	double seconds; /* limit of each test; 0: Check's own */
	void (*setup)(void), (*teardown)(void);
};

#define UNIT_TESTS 100u

static struct unit_test unit_tests[UNIT_TESTS];
static unsigned int unit_count;

static inline void unit_register(const TTest *test, int from, int to)
{
	if (unit_count == UNIT_TESTS)
		abort();
	unit_tests[unit_count++] = (struct unit_test){ test, from, to };
}

#define UNIT_LOOP_TEST(name, from, to)                                 \
	static const TTest *name;                                      \
	static __attribute__((constructor)) void name##_register(void) \
	{                                                              \
		unit_register(name, (int)(from), (int)(to));           \
	}                                                              \
	START_TEST(name)
#define UNIT_TEST(name) UNIT_LOOP_TEST(name, 0, 1)

static inline int unit_suite(const char *name, const struct unit_case *c)
{
	Suite *s = suite_create(name);
	TCase *t = tcase_create(name);
	unsigned int i;

	if (c->seconds > 0)
		tcase_set_timeout(t, c->seconds);
	if (c->setup || c->teardown)
		tcase_add_checked_fixture(t, c->setup, c->teardown);
	for (i = 0; i < unit_count; i++)
		tcase_add_loop_test(t, unit_tests[i].test, unit_tests[i].from, unit_tests[i].to);
	suite_add_tcase(s, t);
	return unit_main(s);
}

#define UNIT_SUITE(name, ...)                                                \
	int main(void)                                                       \
	{                                                                    \
		return unit_suite(name, &(struct unit_case){ __VA_ARGS__ }); \
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
