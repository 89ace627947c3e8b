// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_store_buffer.c - kmod/base/pte.c: why a batch that closes pages needs a full barrier before
 * it looks for page tables.
 *
 * The two sides of kmod/node/map.c, "store buffering", as a litmus test. Initially prot is 1, table
 * and lock are 0:
 *
 *   batch                             fault in another view
 *   prot = 0                          table = 1
 *   full barrier (pte.c)              takes the lock of the table, which is a full barrier on this
 *                                     processor
 *   finds = table                     sees = prot
 *
 * If the batch finds no table, it leaves the page to the fault, which then must see that it is
 * closed: not finds == 0 && sees == 1. Without the barrier, prot may still be in the store buffer
 * of the batch's processor when the batch reads the table.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "suite.h"

#define PLACES 512u /* both sides go through these between two meetings */
#define MEETINGS 200u
#define ENOUGH 10u /* lost closes; usually these take milliseconds */
#define PATIENCE_S 45

struct place {
	_Alignas(64) _Atomic unsigned int prot;
	_Alignas(64) _Atomic unsigned int table;
	_Alignas(64) _Atomic unsigned int lock;
	unsigned int sees; /* of the fault */
	_Alignas(64) unsigned int finds;
};

static struct place places[PLACES];
static _Atomic unsigned int begun, ended; /* meetings, as the batch counts them, and the fault */
static _Atomic bool over;

/*
 * What smp_mb() is in the kernel. A fence of the language would be refused by the thread sanitizer.
 */
static inline void full_barrier(void)
{
#ifdef __x86_64__
	__asm__ volatile("lock; addl $0, -4(%%rsp)" ::: "memory", "cc");
#else
	__sync_synchronize();
#endif
}

/* then the other thread's processor is another program's, and this one may be, too */
#define SPINS 100000u

static void await(const _Atomic unsigned int *n, unsigned int meeting)
{
	unsigned int spins;

	for (spins = 0; atomic_load(n) != meeting && !atomic_load(&over); spins++)
		if (spins >= SPINS)
			sched_yield();
}

static void *fault(void *unused)
{
	unsigned int meeting, i;

	for (meeting = 1; !atomic_load(&over); meeting++) {
		await(&begun, meeting);
		for (i = 0; i < PLACES; i++) {
			struct place *p = &places[i];

			atomic_store_explicit(&p->table, 1, memory_order_relaxed);
			atomic_exchange(&p->lock, 1);
#ifndef __x86_64__
			full_barrier();
#endif
			p->sees = atomic_load_explicit(&p->prot, memory_order_relaxed);
		}
		atomic_store(&ended, meeting);
	}
	return unused;
}

static inline void batch(struct place *p, bool fenced)
{
	atomic_store_explicit(&p->prot, 0, memory_order_relaxed);
	if (fenced)
		full_barrier();
	p->finds = atomic_load_explicit(&p->table, memory_order_relaxed);
}

static unsigned int meet(unsigned int meeting, bool fenced)
{
	unsigned int i, lost = 0;

	for (i = 0; i < PLACES; i++) {
		atomic_store(&places[i].prot, 1);
		atomic_store(&places[i].table, 0);
		atomic_store(&places[i].lock, 0);
	}
	atomic_store(&begun, meeting);
	for (i = 0; i < PLACES; i++)
		batch(&places[i], fenced);
	await(&ended, meeting);
	for (i = 0; i < PLACES; i++)
		lost += !places[i].finds && places[i].sees;
	return lost;
}

/*
 * Instrumented code is too slow between the two accesses. One processor alone reads what it has
 * stored.
 */
static bool shows_store_buffers(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	return false;
#else
	cpu_set_t set;

	return !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 1;
#endif
}

/*
 * Meetings with the barrier and without take turns, until closes were lost without it: so each kind
 * had the same chance.
 */
UNIT_TEST(only_without_the_barrier_closes_are_lost)
{
	const unsigned int enough = shows_store_buffers() ? ENOUGH : 0;
	const time_t end = time(NULL) + PATIENCE_S;
	unsigned int meeting, lost[2] = { 0, 0 }; /* without the barrier, with it */
	pthread_t other;

	ck_assert_int_eq(pthread_create(&other, NULL, fault, NULL), 0);
	for (meeting = 1; meeting <= MEETINGS || (lost[false] < enough && time(NULL) < end);
	     meeting++)
		lost[meeting % 2] += meet(meeting, meeting % 2);
	atomic_store(&over, true);
	pthread_join(other, NULL);
	ck_assert_uint_eq(lost[true], 0);
	ck_assert_uint_ge(lost[false], enough);
}

UNIT_SUITE("store_buffer", .seconds = 60)
