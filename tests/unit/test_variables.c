// SPDX-License-Identifier: BSD-2-Clause
/* test_variables.c - libdsm/util/variables: the program's own variables by address. */
#include "suite.h"

#include <errno.h>
#include <string.h>

#include "util/variables.h"

static char static_array[20000];
static struct {
	char large[3000];
	char rest[1000];
} static_struct;
char variables_exported[64];

static void expect(const char *at, size_t size, const char *name, const void *start, size_t bytes)
{
	struct variable v = { 0 };
	char text[64];

	ck_assert_int_eq(variables_find(at, size, &v, text, sizeof(text)), 0);
	ck_assert_str_eq(text, name);
	ck_assert_ptr_eq(v.at, start);
	ck_assert_uint_eq(v.size, bytes);
}

UNIT_TEST(variables_are_found_by_any_address)
{
	expect(static_array, 1, "static_array", static_array, sizeof(static_array));
	expect(static_array + 19999, 1, "static_array", static_array, sizeof(static_array));
	expect(static_array + 4096, 4096, "static_array", static_array, sizeof(static_array));
	expect(static_struct.rest, 8, "static_struct", &static_struct, sizeof(static_struct));
	expect(variables_exported, 64, "variables_exported", variables_exported, 64);
}

UNIT_TEST(the_largest_of_several)
{
	const char *end = static_array + sizeof(static_array);
	struct variable v = { 0 };
	char text[5];

	/* Whatever else lies there, it is smaller. */
	ck_assert_int_eq(variables_find(static_array, (size_t)(end - static_array) + 64, &v, text,
					sizeof(text)),
			 0);
	ck_assert_str_eq(text, "stat");
	ck_assert_ptr_eq(v.at, static_array);
	ck_assert_uint_ge(v.n, 1);
}

UNIT_TEST(other_memory_has_no_variables)
{
	struct variable v = { .n = 77 };
	char local = 1, text[64] = "as before";

	ck_assert_int_eq(variables_find(&local, 1, &v, text, sizeof(text)), -ENOENT);
	ck_assert_int_eq(variables_find((void *)&strlen, 1, &v, text, sizeof(text)), -ENOENT);
	ck_assert_uint_eq(v.n, 77);
	ck_assert_str_eq(text, "as before");
}

UNIT_SUITE("variables")
