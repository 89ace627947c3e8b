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
 * A suite: its tests register themselves, in the order of the file. UNIT_LOOP_TEST: for each _i
 * from `from` to below `to`. Each takes the place of Check's START_TEST; what it begins needs no
 * END_TEST. UNIT_CASE: the tests that follow are a case with its own name (CK_RUN_CASE=name runs
 * it alone) and its own setup, which may be NULL.
 */
struct unit_test {
	const TTest *test; /* NULL: a case begins here */
	int from, to;
	const char *name; /* of the case */
	void (*setup)(void);
};
struct unit_case {
	double seconds;                         /* limit of each test; 0: UNIT_SECONDS */
	void (*setup)(void), (*teardown)(void); /* for tests before any UNIT_CASE */
};

#define UNIT_TESTS 100u
/* It ends tests that hang. On a busy machine, a test may take longer than the 4 s of Check. */
#define UNIT_SECONDS 60

static struct unit_test unit_tests[UNIT_TESTS];
static unsigned int unit_count;

static inline void unit_register(struct unit_test test)
{
	if (unit_count == UNIT_TESTS)
		abort();
	unit_tests[unit_count++] = test;
}

#define UNIT_LOOP_TEST(name, from, to)                                                         \
	static const TTest *name;                                                              \
	static __attribute__((constructor)) void name##_register(void)                         \
	{                                                                                      \
		unit_register((struct unit_test){ name, (int)(from), (int)(to), NULL, NULL }); \
	}                                                                                      \
	START_TEST(name)
#define UNIT_TEST(name) UNIT_LOOP_TEST(name, 0, 1)
#define UNIT_CASE(name, setup)                                                 \
	static __attribute__((constructor)) void name##_case(void)             \
	{                                                                      \
		unit_register((struct unit_test){ NULL, 0, 0, #name, setup }); \
	}

static inline TCase *unit_begin(Suite *s, const char *name, const struct unit_case *c)
{
	TCase *t = tcase_create(name);

	tcase_set_timeout(t, c->seconds > 0 ? c->seconds : UNIT_SECONDS);
	if (c->setup || c->teardown)
		tcase_add_checked_fixture(t, c->setup, c->teardown);
	suite_add_tcase(s, t);
	return t;
}

static inline int unit_suite(const char *name, const struct unit_case *c)
{
	Suite *s = suite_create(name);
	TCase *t = unit_begin(s, name, c);
	unsigned int i;

	for (i = 0; i < unit_count; i++) {
		const struct unit_test *u = &unit_tests[i];

		if (u->test)
			tcase_add_loop_test(t, u->test, u->from, u->to);
		else
			t = unit_begin(s, u->name,
				       &(struct unit_case){ c->seconds, u->setup, NULL });
	}
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
