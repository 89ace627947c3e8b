// SPDX-License-Identifier: BSD-2-Clause
/*
 * held.c - see held.h.
 *
 * The first table is in thread-local storage. Larger ones are mapped, not allocated, since the
 * program's malloc() may use the shared heap. They are unmapped with the thread.
 */
#include "sync/held.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#include "job/job.h"

__thread struct held held __attribute__((tls_model("initial-exec")));

static pthread_key_t key; /* for threads that have a lane or a table */

/* ---- lanes ----------------------------------------------------------------------------------- */

static struct lane *lane_take(void)
{
	unsigned int w;

	for (w = 0; w < CTL_LANES / 64; w++) {
		uint64_t seen = __atomic_load_n(&job.mine->lane_used[w], __ATOMIC_RELAXED);

		while (~seen) {
			int bit = __builtin_ctzll(~seen);

			if (__atomic_compare_exchange_n(&job.mine->lane_used[w], &seen,
							seen | 1ull << bit, 0, __ATOMIC_ACQUIRE,
							__ATOMIC_RELAXED))
				return &job.mine->lanes[w * 64 + (unsigned int)bit];
		}
	}
	return NULL;
}

static void lane_give(void)
{
	size_t i;

	/* Later destructors of the thread may still release locks: run again after those. */
	if (held.last_held && !pthread_setspecific(key, &held))
		return;
	if (!held.lane || __atomic_load_n(&job.state, __ATOMIC_ACQUIRE) != CTL_RUNNING)
		return;
	i = (size_t)(held.lane - job.mine->lanes);
	held.lane = NULL;
	held.last.id = 0;
	__atomic_fetch_and(&job.mine->lane_used[i / 64], ~(1ull << (i % 64)), __ATOMIC_RELEASE);
}

void held_count(void)
{
	if (!held.lane) {
		held.lane = lane_take();
		if (held.lane && pthread_setspecific(key, &held))
			lane_give();
	}
	if (held.lane)
		__atomic_store_n(&held.lane->locks, held.lane->locks + 1, __ATOMIC_RELAXED);
	else
		count(&job.mine->stats.locks, 1);
}

void held_leave(void)
{
	lane_give();
}

void held_forked(void)
{
	held.lane = NULL;
	held.last.id = 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void held_thread_ends(void *arg)
{
	(void)arg;
	lane_give();
	if (held.v == held.few || !held.v)
		return;
	munmap(held.v, held.size * sizeof(held.v[0]));
	held.v = held.few;
	held.size = HELD_FEW;
	held.n = 0;
}

int held_start(void)
{
	return -pthread_key_create(&key, held_thread_ends);
}

static int held_grow(void)
{
	uint32_t size = held.size, n = held.n, i;
	struct held_entry *was = held.v;
	void *more = mmap(NULL, 2 * size * sizeof(*was), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (more == MAP_FAILED)
		return -EAGAIN;
	if (pthread_setspecific(key, more)) {
		munmap(more, 2 * size * sizeof(*was));
		return -EAGAIN;
	}
	held.v = more;
	held.size = 2 * size;
	for (i = 0; i < size; i++)
		if (was[i].id)
			held_put(was[i].id, was[i].info);
	held.n = n;
	if (was != held.few)
		munmap(was, size * sizeof(*was));
	return 0;
}

int held_add(uint64_t id, uint32_t info)
{
	int err;

	if (!held.size) {
		held.v = held.few;
		held.size = HELD_FEW;
	}
	if (!held_room()) {
		err = held_grow();
		if (err)
			return err;
	}
	held_put(id, info);
	return 0;
}

/* Move up later entries, unless their own place is after the gap. */
void held_close_gap(uint32_t gap)
{
	const uint32_t mask = held.size - 1;
	uint32_t i = gap;

	for (;;) {
		i = (i + 1) & mask;
		if (!held.v[i].id)
			break;
		if (((i - held_place(held.v[i].id)) & mask) < ((i - gap) & mask))
			continue;
		held.v[gap] = held.v[i];
		held.v[i].id = 0;
		gap = i;
	}
}
