/* SPDX-License-Identifier: BSD-2-Clause */
/* valgrind.h - detects that valgrind runs this process. */
#ifndef UTIL_VALGRIND_H
#define UTIL_VALGRIND_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Valgrind's simulated CPU treats these instructions as a request and puts the answer into rdx; a
 * real CPU ignores them.
 */
static inline bool under_valgrind(void)
{
	const uint64_t running_on_valgrind[6] = { 0x1001 };
	uint64_t answer = 0;

	__asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi; rolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(answer)
			 : "a"(running_on_valgrind)
			 : "cc", "memory");
	return answer;
}

#endif
