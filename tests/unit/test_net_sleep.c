// SPDX-License-Identifier: BSD-2-Clause
/* test_net_sleep.c - net/ucx over shared memory and over TCP: sleeping, being woken, several threads at once. */
#include "net_sleep_suite.h"

int main(void)
{
	Suite *s = suite_create("net_sleep");
	TCase *t = tcase_create("ucx");

	tcase_set_timeout(t, 120);
	add_net_sleep_suite(t);
	suite_add_tcase(s, t);
	return unit_main(s);
}
