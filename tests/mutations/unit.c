// SPDX-License-Identifier: BSD-2-Clause
/*
 * unit.c - the unit suites of the core in one program, for tests/mutations/run: its arguments name
 * them in order.
 *
 * The first assertion that fails ends the program. Its exit status is FIRST_SUITE plus the position
 * of the suite. The two functions of Check that are defined here replace those of the library:
 * Check itself would run the other tests of the suite, and records every assertion that holds in a
 * file.
 */
#include <check.h>
#include <string.h>
#include <unistd.h>

#define SUITE(name) int main_##name(void);
#include "suites.h"
#undef SUITE

static const struct {
	const char *name;
	int (*main)(void);
} suites[] = {
#define SUITE(name) { #name, main_##name },
#include "suites.h"
#undef SUITE
};

static int position;

void _mark_point(const char *file, int line)
{
	(void)file;
	(void)line;
}

void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
	(void)file;
	(void)line;
	(void)expr;
	(void)msg;
	_exit(FIRST_SUITE + position);
}

int main(int argc, char **argv)
{
	unsigned int i;

	for (position = 1; position < argc; position++)
		for (i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
			if (!strcmp(argv[position], suites[i].name) && suites[i].main())
				return FIRST_SUITE + position;
	return 0;
}
