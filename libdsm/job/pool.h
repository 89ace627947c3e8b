/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pool.h - allocation of numbers in constant time, by any thread of any process that shares the
 * memory.
 *
 * A LIFO list of free numbers, and a mark below which all numbers have been taken once. Zero is the
 * initial state, and memory for numbers that were never needed is never touched. The upper half of
 * head counts changes, against ABA:
 *
 *   A: reads head = 5, next[5] = 7     B: takes 5, takes 7, gives 5 back
 *   A: would make 7 the head, which is in use; the count has changed, and A retries.
 */
#ifndef JOB_POOL_H
#define JOB_POOL_H

#include <errno.h>
#include <stdint.h>

struct pool {
	uint64_t head;  /* changes << 32 | number + 1 */
	uint32_t fresh; /* numbers from here on were never taken */
	uint32_t pad;
};

/* Allocate a number below limit. -EAGAIN: all are in use. next has `limit` entries. */
static inline int64_t pool_take(struct pool *p, const uint32_t *next, uint32_t limit)
{
	uint64_t head = __atomic_load_n(&p->head, __ATOMIC_ACQUIRE);
	uint32_t fresh;

	while ((uint32_t)head) {
		uint32_t number = (uint32_t)head - 1;
		uint64_t after =
			((head >> 32) + 1) << 32 | __atomic_load_n(&next[number], __ATOMIC_RELAXED);

		if (__atomic_compare_exchange_n(&p->head, &head, after, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_ACQUIRE))
			return number;
	}
	fresh = __atomic_load_n(&p->fresh, __ATOMIC_RELAXED);
	while (fresh < limit)
		if (__atomic_compare_exchange_n(&p->fresh, &fresh, fresh + 1, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return fresh;
	return -EAGAIN;
}

static inline void pool_give(struct pool *p, uint32_t *next, uint32_t number)
{
	uint64_t head = __atomic_load_n(&p->head, __ATOMIC_RELAXED), after;

	do {
		__atomic_store_n(&next[number], (uint32_t)head, __ATOMIC_RELAXED);
		after = ((head >> 32) + 1) << 32 | (number + 1);
	} while (!__atomic_compare_exchange_n(&p->head, &head, after, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

#endif
