// SPDX-License-Identifier: BSD-2-Clause
/* futex.c - the slow side of locks on words of shared memory. */
#include "util/futex.h"

#define LATE_NS 100000000u

void (*word_lock_late)(void);

void word_lock_wait(uint32_t *l)
{
	uint64_t since = clock_ns();

	while (__atomic_exchange_n(l, 2, __ATOMIC_ACQUIRE)) {
		futex_wait(l, 2, LATE_NS);
		if (clock_ns() - since < LATE_NS)
			continue;
		if (word_lock_late)
			word_lock_late();
		since = clock_ns();
	}
}
