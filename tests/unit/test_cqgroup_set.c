// SPDX-License-Identifier: BSD-2-Clause
/* test_cqgroup_set.c - libdsm/cqgroup/set.c: lists of numbers as text. */
#include "suite.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "cqgroup/set.h"

UNIT_TEST(lists_are_read_and_written)
{
	static const char *const good[][2] = {
		{ "0", "0" },       { "0-1,4", "0-1,4" },
		{ "3,1,2", "1-3" }, { " 7 , 5 - 6 ", "5-7" },
		{ "4095", "4095" }, { "0-4095", "0-4095" },
	};
	static const char *const bad[] = { "",
					   " ",
					   ",",
					   "1,",
					   ",1",
					   "1-",
					   "-1",
					   "1--2",
					   "a",
					   "1a",
					   "1 2",
					   "0x10",
					   "2-1",
					   "1,1",
					   "0-3,2",
					   "4096",
					   "99999999999999999999",
					   "1;2",
					   "1-2-3" };
	char text[64], words[128];
	struct cqset s;
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_int_eq(
			cqset_parse(good[i][0], strlen(good[i][0]), &s, words, sizeof(words)), 0);
		cqset_print(&s, text, sizeof(text));
		ck_assert_str_eq(text, good[i][1]);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		words[0] = '\0';
		memset(&s, 0x55, sizeof(s));
		ck_assert_msg(cqset_parse(bad[i], strlen(bad[i]), &s, words, sizeof(words)) ==
				      -EINVAL,
			      "'%s'", bad[i]);
		ck_assert_msg(*words, "'%s'", bad[i]);
		ck_assert_uint_eq(s.word[0], 0x5555555555555555u);
	}
}

UNIT_TEST(long_list_is_cut_at_a_number)
{
	struct cqset s = { { 0 } };
	unsigned int n;
	char text[16];

	for (n = 0; n < 64; n += 2)
		cqset_add(&s, n);
	cqset_print(&s, text, sizeof(text));
	ck_assert_str_eq(text, "0,2,4,6,8,10...");
	ck_assert_uint_eq(cqset_count(&s), 32);
	ck_assert_uint_eq(cqset_nth(&s, 3), 6);
	ck_assert_uint_eq(cqset_nth(&s, 32), CQSET_MAX);
	cqset_print(&s, text, 1);
	ck_assert_str_eq(text, "");
}

UNIT_SUITE("cqgroup_set")
