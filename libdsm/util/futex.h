/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * futex.h - sleeping and locking on words of shared memory, between processes.
 *
 * The locks guard a protocol step of well under a microsecond. Their holder may be killed. A waiter
 * sleeps for a bounded time, then calls word_lock_late, which checks for dead ranks, because the
 * thread that normally checks may be a waiter itself.
 */
#ifndef UTIL_FUTEX_H
#define UTIL_FUTEX_H

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

/*
 * A step that holds a lock takes well under the time of so many pauses. Scenes of tests/orders have
 * fewer.
 */
#ifndef WORD_SPINS
#define WORD_SPINS 200
#endif

static inline void cpu_relax(void)
{
	__builtin_ia32_pause();
}

/* Sleep while *word == expected, at most ns. Spurious returns are possible. */
static inline void futex_wait(uint32_t *word, uint32_t expected, uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (long)(ns % 1000000000u) };

	syscall(SYS_futex, word, FUTEX_WAIT, expected, &t, NULL, 0);
}

static inline void futex_wake(uint32_t *word, int n)
{
	syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

/* NULL, or called when a lock was not acquired for 100 ms. Set while the engine runs. */
extern void (*word_lock_late)(void);
void word_lock_wait(uint32_t *l);

/* 0 free, 1 held, 2 held with waiters (Drepper, "Futexes are tricky"). */
static inline void word_lock(uint32_t *l)
{
	uint32_t seen = 0;
	int spin;

	if (__atomic_compare_exchange_n(l, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	for (spin = 0; spin < WORD_SPINS; spin++) {
		cpu_relax();
		seen = 0;
		if (!__atomic_load_n(l, __ATOMIC_RELAXED) &&
		    __atomic_compare_exchange_n(l, &seen, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
	}
	word_lock_wait(l);
}

static inline void word_unlock(uint32_t *l)
{
	if (__atomic_exchange_n(l, 0, __ATOMIC_RELEASE) == 2)
		futex_wake(l, 1);
}

#endif
