// SPDX-License-Identifier: BSD-2-Clause
/*
 * calls.c - see calls.h. A section of its own, with nothing else, so that its addresses are known.
 */
#include "calls.h"

__attribute__((section("calls_program"), noinline)) long call_program(void *fn, long a, long b,
								      long c)
{
	long result = ((long (*)(long, long, long))fn)(a, b, c);

	__asm__ volatile("" : "+r"(result)); /* no jump to fn, either */
	return result;
}
