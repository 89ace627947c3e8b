// SPDX-License-Identifier: BSD-2-Clause
/*
 * ring.c - frees an allocation of another process.
 *
 * Threads: any, of any process of the host. The producers of the ring take s->lock. Its holder may
 * be killed: waiting for it has a limit, and the owner, the only consumer, never takes it.
 */
#include "heap/ring.h"
#include "util/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* if no other producer progresses for so long, its process is gone or stopped */
#define RING_PATIENCE_NS 1000000000ll
/* interval between a waiter's checks: a killed holder wakes nobody */
#define RING_NAP_NS 50000000l

/*
 * -EAGAIN: no producer has progressed for RING_PATIENCE_NS. The lock is never taken away from its
 * holder: if that was only stopped, it would continue with an old tail.
 */
static int ring_lock(struct heap_shared *s)
{
	const struct timespec nap = { .tv_nsec = RING_NAP_NS };
	uint32_t tail = __atomic_load_n(&s->tail, __ATOMIC_RELAXED), seen, word = 0;
	int64_t end;

	if (__atomic_compare_exchange_n(&s->lock, &word, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return 0;
	end = (int64_t)clock_ns() + RING_PATIENCE_NS;
	while (__atomic_exchange_n(&s->lock, 2, __ATOMIC_ACQUIRE) != 0) {
		syscall(SYS_futex, &s->lock, FUTEX_WAIT, 2, &nap, NULL, 0);
		seen = __atomic_load_n(&s->tail, __ATOMIC_RELAXED);
		if (seen != tail) {
			tail = seen;
			end = (int64_t)clock_ns() + RING_PATIENCE_NS;
		} else if ((int64_t)clock_ns() > end) {
			return -EAGAIN;
		}
	}
	return 0;
}

static void ring_unlock(struct heap_shared *s)
{
	if (__atomic_exchange_n(&s->lock, 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &s->lock, FUTEX_WAKE, 1, NULL, NULL, 0);
}

int ring_free(struct heap_shared *s, uint64_t offset)
{
	uint32_t tail;
	int err;

	if (!live_test(s, offset))
		return -EINVAL;
	err = ring_lock(s);
	if (err)
		return err;
	tail = __atomic_load_n(&s->tail, __ATOMIC_RELAXED);
	if (tail - __atomic_load_n(&s->head, __ATOMIC_ACQUIRE) >= HEAP_RING) {
		err = -EAGAIN;
	} else if (!live_clear(s, offset)) {
		err = -EINVAL;
	} else {
		s->ring[tail % HEAP_RING] = s->base + offset;
		/* Partner: the acquire in ring_drain(). */
		__atomic_store_n(&s->tail, tail + 1, __ATOMIC_RELEASE);
	}
	ring_unlock(s);
	return err;
}

bool heap_wants_drain(const struct heap_shared *s)
{
	uint32_t head = __atomic_load_n(&s->head, __ATOMIC_RELAXED);

	return __atomic_load_n(&s->tail, __ATOMIC_RELAXED) - head > HEAP_RING / 2;
}
