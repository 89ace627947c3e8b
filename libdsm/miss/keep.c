// SPDX-License-Identifier: BSD-2-Clause
/* keep.c - see keep.h. The state is the node's: struct keep of its control segment. */
#include "miss/keep.h"

#include <pthread.h>
#include <string.h>

#include "job/job.h"
#include "util/clock.h"
#include "util/futex.h"

/*
 * Much longer than an exchange, so that what the node gives away hardly disturbs it, and short for
 * a thread that waits for one lock.
 */
#define KEEP_NS 2000000u

static struct keep *mine(void)
{
	return &job.me->keep;
}

static bool is_off(void)
{
	return !mine()->quantum.length;
}

static uint32_t idle(void)
{
	return __atomic_load_n(&mine()->idle, __ATOMIC_RELAXED);
}

bool keep_any(void)
{
	return __atomic_load_n(&mine()->n, __ATOMIC_RELAXED);
}

/*
 * Locks that threads of a rank of this node have taken. Those that have ended do not count: for a
 * moment that looks like many more.
 */
static uint64_t locks_of(const struct rank_ctl *c)
{
	uint64_t n = c->stats.locks;
	unsigned int w;

	for (w = 0; w < CTL_LANES / 64; w++) {
		uint64_t used = __atomic_load_n(&c->lane_used[w], __ATOMIC_RELAXED);

		for (; used; used &= used - 1)
			n += __atomic_load_n(
				&c->lanes[w * 64 + (unsigned int)__builtin_ctzll(used)].locks,
				__ATOMIC_RELAXED);
	}
	return n;
}

static uint64_t locks_taken(void)
{
	uint64_t n = 0;
	uint16_t r;

	for (r = job.first[job.node]; r < job.size; r++)
		if (rank_info(r)->ctl)
			n += locks_of(rank_info(r)->ctl);
	return n;
}

/* Is the message to be kept, if its lock is here? */
static bool keeps(struct keep *k, const struct msg *m)
{
	struct quantum *q = &k->quantum;
	uint64_t now;
	bool kept;

	word_lock(&k->lock);
	now = clock_ns();
	kept = quantum_asked(q, now, idle(), job.node, m->req_node, m->op) &&
		!(m->flags & MSGF_TIMED) && k->n < CTL_KEPT &&
		(!quantum_looks(q, now) || quantum_used(q, now, locks_taken()));
	word_unlock(&k->lock);
	return kept;
}

/* With the lock. */
static void set_kept(struct keep *k, uint32_t n)
{
	__atomic_store_n(&k->due, k->kept[0].due, __ATOMIC_RELAXED);
	__atomic_store_n(&k->n, n, __ATOMIC_RELAXED);
}

bool keep_next(struct core_host *h, const struct msg *next)
{
	struct keep *k = mine();
	uint32_t n;

	if (is_off() || next->req_node == job.node || !keeps(k, next) || !core_hold_want(h, next))
		return false;
	word_lock(&k->lock);
	n = k->n;
	if (n < CTL_KEPT) {
		k->kept[n] = (struct kept_next){ .m = *next, .due = clock_ns() + KEEP_NS };
		set_kept(k, n + 1);
	}
	word_unlock(&k->lock);
	if (n == CTL_KEPT)
		return false;
	count(&job.mine->stats.locks_kept, 1);
	/* Who was told of the first one comes back for the others. */
	if (!n && !pthread_equal(job.service, pthread_self()))
		job_ring(job.rank);
	return true;
}

/* With the lock. */
static struct msg take_kept(struct keep *k, unsigned int at)
{
	const struct msg m = k->kept[at].m;

	memmove(&k->kept[at], &k->kept[at + 1], (k->n - at - 1) * sizeof(k->kept[0]));
	set_kept(k, k->n - 1);
	return m;
}

/* The time until the first message is to be delivered; 0: now. */
static uint64_t wait_for_first(const struct keep *k)
{
	const uint64_t now = clock_ns(), due = __atomic_load_n(&k->due, __ATOMIC_RELAXED);

	return due > now && quantum_runs(&k->quantum, now) &&
			!quantum_is_paused(&k->quantum, idle())
		? due - now
		: 0;
}

bool keep_take(bool all, struct msg *m, uint64_t *left)
{
	struct keep *k = mine();
	bool taken;

	*left = keep_any() ? wait_for_first(k) : 0;
	if (!keep_any() || (!all && *left))
		return false;
	word_lock(&k->lock);
	*left = k->n ? wait_for_first(k) : 0;
	taken = k->n && (all || !*left);
	if (taken)
		*m = take_kept(k, 0);
	word_unlock(&k->lock);
	return taken;
}

bool keep_released(uint32_t hold, struct msg *m)
{
	struct keep *k = mine();
	unsigned int i;
	bool taken;

	if (!keep_any())
		return false;
	word_lock(&k->lock);
	for (i = 0; i < k->n && k->kept[i].m.aux != hold; i++)
		;
	taken = i < k->n && ++k->kept[i].releases >= QUANTUM_RELEASES;
	if (taken) {
		*m = take_kept(k, i);
		quantum_full(&k->quantum, clock_ns());
	}
	word_unlock(&k->lock);
	return taken;
}

void keep_waited(void)
{
	struct keep *k = mine();

	if (is_off())
		return;
	word_lock(&k->lock);
	quantum_waited(&k->quantum, clock_ns(), idle());
	word_unlock(&k->lock);
}

uint8_t keep_claim(void)
{
	return is_off() ? 0 : quantum_claim(&mine()->quantum, clock_ns(), idle());
}

void keep_pause(void)
{
	if (!is_off())
		__atomic_fetch_add(&mine()->idle, 1, __ATOMIC_RELAXED);
}

void keep_resume(void)
{
	if (!is_off())
		__atomic_fetch_sub(&mine()->idle, 1, __ATOMIC_RELAXED);
}
