// SPDX-License-Identifier: BSD-2-Clause
/*
 * slot.c - request slots and hold records: their allocation, waiting for one, and the answer in it.
 *
 * A slot belongs to a request until its answer has come. A request that always completes must never
 * wait for one that depends on another thread, so each kind has slots of its own:
 *
 *   SLOT_BLOCK     blocks that threads wait for; most come without help, but not one that another
 *                  node has pinned
 *   SLOT_AHEAD     blocks that nobody waits for
 *   SLOT_BACK      blocks that are given back: asked of the home, and by the home, which must not
 *                  stand behind pinned ones
 *   SLOT_BRIEF     requests that their home answers at once: atomics, posts, signals, unlocks,
 *                  init, destroy, try (at most after nodes have returned leases), calls,
 *                  placements
 *   SLOT_LASTING   locks, semaphores, conditions; and blocks, when all slots for those are in use:
 *                  others may have pinned them
 *
 * A thread that finds no slot for a block or a brief request sleeps until one is free, and handles
 * messages meanwhile. If all lasting slots are in use, the request fails. Slots for blocks that
 * have landing places of the transport are taken first.
 */
#include "miss/slot.h"

#include "job/job.h"
#include "job/pool.h"
#include "miss/block.h"
#include "miss/wait.h"
#include "util/bits.h"
#include "util/futex.h"

static int short_take(uint64_t *words, unsigned int from, unsigned int to)
{
	unsigned int w;

	for (w = from / 64; w * 64 < to; w++) {
		/*
		 * Not relaxed: in await() this load comes after the count of waiters. Partner: the
		 * change in slot_put().
		 */
		uint64_t seen = __atomic_load_n(&words[w], __ATOMIC_SEQ_CST),
			 bits = word_mask(w, from, to);

		while (~seen & bits) {
			int bit = __builtin_ctzll(~seen & bits);

			if (__atomic_compare_exchange_n(&words[w], &seen, seen | 1ull << bit, 0,
							__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
				return (int)(w * 64) + bit;
		}
	}
	return -EAGAIN;
}

static int take_last(uint32_t end)
{
	struct ctl *c = job.me;
	int64_t s = pool_take(&c->lasting_slots, c->slot_next + CTL_BRIEF_END, end - CTL_BRIEF_END);

	if (s >= end - CTL_BRIEF_END) { /* beyond the limit: a lasting request had it */
		pool_give(&c->lasting_slots, c->slot_next + CTL_BRIEF_END, (uint32_t)s);
		return -EAGAIN;
	}
	return s < 0 ? -EAGAIN : (int)(CTL_BRIEF_END + s);
}

static int take(enum slot_kind kind)
{
	struct ctl *c = job.me;
	int64_t s;

	switch (kind) {
	case SLOT_BLOCK:
		s = short_take(c->slot_used, 0, CTL_BLOCK_SLOTS);
		if (s < 0)
			s = short_take(c->slot_used, CTL_SLOTS, CTL_BLOCK_END);
		return s >= 0 ? (int)s : take_last(job.limits.block_slots);
	case SLOT_BACK:
		s = short_take(c->slot_used, CTL_AHEAD_SLOTS, CTL_SLOTS);
		if (s >= 0)
			return (int)s;
		__attribute__((__fallthrough__));
	case SLOT_AHEAD: return short_take(c->slot_used, CTL_BLOCK_SLOTS, CTL_AHEAD_SLOTS);
	case SLOT_BRIEF:
		s = pool_take(&c->brief_slots, c->slot_next + CTL_BLOCK_END,
			      CTL_BRIEF_END - CTL_BLOCK_END);
		return s < 0 ? -EAGAIN : (int)(CTL_BLOCK_END + s);
	case SLOT_LASTING: return take_last(CTL_ALL_SLOTS);
	}
	return -EINVAL;
}

static void wake_one(struct queue_word *q)
{
	if (!__atomic_load_n(&q->waiting, __ATOMIC_SEQ_CST))
		return;
	__atomic_fetch_add(&q->word, 1, __ATOMIC_SEQ_CST);
	futex_wake(&q->word, 1);
}

/*
 * The waiter counts itself before it checks once more, so that a thread that gives a slot back
 * after that check sees the count:
 *   waiter:  waiting++; check: none; sleep while word stands
 *   giver:   give back; waiting? then word++, wake
 */
static int await(enum slot_kind kind, struct queue_word *q)
{
	int s;

	__atomic_fetch_add(&q->waiting, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		uint32_t word = __atomic_load_n(&q->word, __ATOMIC_SEQ_CST);

		s = take(kind);
		if (s >= 0)
			break;
		s = wait_word(&q->word, word, &q->sleepers);
		if (s < 0)
			break;
	}
	__atomic_fetch_sub(&q->waiting, 1, __ATOMIC_SEQ_CST);
	if (s < 0)
		wake_one(q); /* this thread may have been the one that was woken */
	return s;
}

int slot_get(enum slot_kind kind)
{
	struct ctl *c = job.me;
	int s = take(kind);

	if (s < 0 && kind == SLOT_LASTING)
		return -EAGAIN;
	if (s < 0)
		s = await(kind, kind == SLOT_BLOCK ? &c->block_queue : &c->brief_queue);
	if (s < 0)
		return s;
	__atomic_store_n(&c->slots[s].prefetch, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&c->slots[s].kind, (uint8_t)kind, __ATOMIC_RELAXED);
	c->slots[s].by = job.local;
	return s;
}

int slot_try_prefetch(uint32_t object, enum slot_kind kind)
{
	struct ctl *c = job.me;
	int s = take(kind);

	if (s >= 0) {
		__atomic_store_n(&c->slots[s].prefetch, SLOT_LEFT, __ATOMIC_RELAXED);
		__atomic_store_n(&c->slots[s].object, object, __ATOMIC_RELAXED);
		c->slots[s].by = job.local;
	}
	return s;
}

bool slot_is_used(uint16_t slot)
{
	return __atomic_load_n(&job.me->slot_used[slot / 64], __ATOMIC_ACQUIRE) >> (slot % 64) & 1;
}

bool slot_is_prefetch(uint16_t slot)
{
	return __atomic_load_n(&job.me->slots[slot].prefetch, __ATOMIC_RELAXED) & SLOT_LEFT;
}

bool slot_is_block(uint16_t slot)
{
	return slot < CTL_BLOCK_END ||
		(slot >= CTL_BRIEF_END &&
		 __atomic_load_n(&job.me->slots[slot].kind, __ATOMIC_RELAXED) == SLOT_BLOCK);
}

static bool is_left(uint16_t slot, size_t off, size_t end)
{
	size_t at = block_off(slot_object(NULL, slot));

	return at >= off && at < end && slot_is_prefetch(slot);
}

/* Read the count first: if another request gets the slot, the count has changed. */
static bool is_left_at(uint16_t slot, size_t off, size_t end, uint32_t *seq)
{
	*seq = slot_seq(slot);
	return is_left(slot, off, end);
}

int slot_find_prefetch(size_t off, size_t end, uint32_t *seq)
{
	const struct ctl *c = job.me;
	uint32_t s, last;

	for (s = 0; s < CTL_BLOCK_END; s++)
		if (slot_is_used((uint16_t)s) && is_left_at((uint16_t)s, off, end, seq))
			return (int)s;
	if (!__atomic_load_n(&c->left_last, __ATOMIC_ACQUIRE))
		return -1;
	last = CTL_BRIEF_END + __atomic_load_n(&c->lasting_slots.fresh, __ATOMIC_RELAXED);
	for (s = CTL_BRIEF_END; s < last; s++)
		if (is_left_at((uint16_t)s, off, end, seq))
			return (int)s;
	return -1;
}

bool slot_any_prefetch(size_t off, size_t end)
{
	uint32_t seq;

	return slot_find_prefetch(off, end, &seq) >= 0;
}

/*
 * Written, not only read: a waiter that counts itself in await() after this sees what was given
 * back before it.
 */
static void wake_after(struct queue_word *q)
{
	if (__atomic_fetch_add(&q->waiting, 0, __ATOMIC_SEQ_CST))
		wake_one(q);
}

void slot_put(uint16_t slot)
{
	struct ctl *c = job.me;

	if (slot < CTL_BLOCK_END) {
		__atomic_fetch_and(&c->slot_used[slot / 64], ~(1ull << (slot % 64)),
				   __ATOMIC_SEQ_CST);
		if (slot < CTL_BLOCK_SLOTS || slot >= CTL_SLOTS)
			wake_one(&c->block_queue);
	} else if (slot < CTL_BRIEF_END) {
		pool_give(&c->brief_slots, c->slot_next + CTL_BLOCK_END, slot - CTL_BLOCK_END);
		wake_after(&c->brief_queue);
	} else {
		if (__atomic_exchange_n(&c->slots[slot].prefetch, 0, __ATOMIC_RELAXED) & SLOT_LEFT)
			__atomic_fetch_sub(&c->left_last, 1, __ATOMIC_RELEASE);
		pool_give(&c->lasting_slots, c->slot_next + CTL_BRIEF_END, slot - CTL_BRIEF_END);
		wake_after(&c->block_queue);
	}
}

uint32_t slot_object(void *arg, uint16_t slot)
{
	(void)arg;
	return __atomic_load_n(&job.me->slots[slot].object, __ATOMIC_RELAXED);
}

uint32_t slot_seq(uint16_t slot)
{
	return __atomic_load_n(&job.me->slots[slot].seq, __ATOMIC_ACQUIRE);
}

void slot_complete(uint16_t slot, int16_t status, uint64_t value)
{
	struct slot *s = &job.me->slots[slot];

	/*
	 * Atomic: the thread that waits may look at an answer that others follow, and two threads
	 * may complete the slot, one for "in line" and one for the turn.
	 */
	__atomic_store_n(&s->status, status, __ATOMIC_RELAXED);
	__atomic_store_n(&s->value, value, __ATOMIC_RELAXED);
	/* A full barrier, which pairs with the sleeper's count in be_patient() (wait.c). */
	__atomic_fetch_add(&s->seq, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->sleepers, __ATOMIC_SEQ_CST))
		futex_wake(&s->seq, 1 << 30);
}

bool slot_leave(uint16_t slot)
{
	if (slot >= CTL_BRIEF_END)
		__atomic_fetch_add(&job.me->left_last, 1, __ATOMIC_SEQ_CST);
	return !(__atomic_fetch_or(&job.me->slots[slot].prefetch, SLOT_LEFT, __ATOMIC_SEQ_CST) &
		 SLOT_WOKEN);
}

bool slot_woken(uint16_t slot)
{
	struct slot *s = &job.me->slots[slot];

	return !(__atomic_fetch_or(&s->prefetch, SLOT_WOKEN, __ATOMIC_SEQ_CST) &
		 (SLOT_LEFT | SLOT_QUIT));
}

bool slot_quit(uint16_t slot, uint32_t hold)
{
	struct slot *s = &job.me->slots[slot];

	__atomic_store_n(&s->object, hold, __ATOMIC_RELAXED);
	return !(__atomic_fetch_or(&s->prefetch, SLOT_QUIT, __ATOMIC_SEQ_CST) & SLOT_WOKEN);
}

bool slot_has_quit(uint16_t slot)
{
	return __atomic_load_n(&job.me->slots[slot].prefetch, __ATOMIC_RELAXED) & SLOT_QUIT;
}

void slot_expect(uint16_t slot)
{
	__atomic_store_n(&job.me->slots[slot].prefetch, 0, __ATOMIC_SEQ_CST);
}

/*
 * In a node of several ranks, the waiting thread may be in another process than the one that
 * receives m.
 */
bool slot_waited(const struct msg *m)
{
	if (job.width[m->dst] > 1)
		return false;
	switch ((enum msg_type)m->type) {
	case MSG_DATA:
	case MSG_GRANT:
	case MSG_INV_ACK:
	case MSG_REPLY:
	case MSG_LOCKED:
		return m->req_node == m->dst &&
			(m->req_slot < CTL_BLOCK_SLOTS || m->req_slot >= CTL_SLOTS);
	case MSG_DEPART: return true; /* it comes when all threads are in the barrier */
	default: return false;
	}
}

int64_t hold_take(void)
{
	int64_t index = pool_take(&job.me->hold_pool, job.me->hold_next, CTL_HOLDS);

	if (index >= 0)
		job.me->hold_by[index] = job.local;
	return index;
}

void hold_give(uint32_t index)
{
	pool_give(&job.me->hold_pool, job.me->hold_next, index);
}
