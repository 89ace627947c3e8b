// SPDX-License-Identifier: GPL-2.0
/*
 * slot.c - request slots: how a thread waits for a slot, and for the answer in it.
 *
 * A signal ends the wait of a call, which is repeated after the handler (park.c). Only a fatal
 * signal ends a killable wait. If the thread no longer waits, the answer frees the slot. Every
 * function sleeps unless its comment says otherwise.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "slot.h"
#include "core/ask.h"
#include "rank.h"
#include "table.h"
#include "../base/test.h"
#include "../base/trace.h"

TEST_PARAM(uint, test_block_slots, 0, "slots from here on are not for blocks; 2048 at least");

static int take(struct rank *r, unsigned int from, unsigned int to)
{
	unsigned long i;

	do {
		i = find_next_zero_bit(r->slot_used, to, from);
		if (i >= to)
			return -EAGAIN;
	} while (test_and_set_bit(i, r->slot_used));
	return (int)i;
}

/*
 * A wait for a pinned block may be as long as one for a lock, so a block request may also use some
 * of the slots for calls.
 */
static int take_block(struct rank *r)
{
	const u32 end = test_value(test_block_slots);
	int slot = take(r, 0, SYNC_SLOTS);

	return slot >= 0
		? slot
		: take(r, BRIEF_END, end ? clamp(end, BRIEF_END, BLOCK_SLOTS) : BLOCK_SLOTS);
}

/* Take first from the slots that a block may not use. */
static int take_lasting(struct rank *r)
{
	const int slot = take(r, BLOCK_SLOTS, ALL_SLOTS);

	return slot >= 0 ? slot : take(r, BRIEF_END, BLOCK_SLOTS);
}

static int take_any(struct rank *r, enum slot_kind kind)
{
	switch (kind) {
	case SLOT_BLOCK: return take_block(r);
	case SLOT_BRIEF: return take(r, SLOTS, BRIEF_END);
	case SLOT_LASTING: return take_lasting(r);
	}
	return -EINVAL;
}

static void begin(struct rank *r, unsigned int slot)
{
	struct slot *s = slot_at(r, slot);

	WRITE_ONCE(s->nobody, slot >= SYNC_SLOTS && slot < SLOTS);
	s->over = s->granted = false;
	WRITE_ONCE(s->mm, current->mm);
}

/* If no memory can be allocated for the slot, put it back. */
static int begin_in(struct rank *r, int slot, enum slot_kind kind)
{
	const int err = table_slot(r, slot);

	if (err) {
		slot_put(r, slot);
		return err;
	}
	begin(r, slot);
	if (kind != SLOT_BLOCK)
		WRITE_ONCE(slot_at(r, slot)->object, 0);
	return slot;
}

int signal_err(void)
{
	return fatal_signal_pending(current) ? -EINTR : -ERESTARTNOINTR;
}

/*
 * Brief slots are freed without another thread's help. A lasting slot may be in use until a thread
 * posts, unlocks or signals, so a call that finds none free fails. A miss cannot fail, and waits.
 */
int slot_get(struct rank *r, enum slot_kind kind, bool killable)
{
	const unsigned int state = killable ? TASK_KILLABLE : TASK_INTERRUPTIBLE;
	wait_queue_head_t *queue = kind == SLOT_BLOCK ? &r->slot_free : &r->brief_free;
	int slot = take_any(r, kind);

	might_sleep();
	if (slot < 0 && kind == SLOT_LASTING)
		return -EAGAIN;
	if (slot < 0 &&
	    ___wait_event(*queue, (slot = take_any(r, kind)) >= 0 || READ_ONCE(r->dead), state, 0,
			  0, schedule()))
		return signal_err();
	return slot < 0 ? -EIO : begin_in(r, slot, kind);
}

int slot_now(struct rank *r)
{
	const int slot = take_block(r);

	return slot < 0 ? slot : begin_in(r, slot, SLOT_BLOCK);
}

int slot_try(struct rank *r, u32 object, bool back)
{
	int slot = back ? take(r, AHEAD_SLOTS, SLOTS) : -EAGAIN;

	if (slot < 0)
		slot = take(r, SYNC_SLOTS, AHEAD_SLOTS);
	if (slot >= 0) {
		begin(r, slot);
		WRITE_ONCE(r->slots[slot].object, object);
	}
	return slot;
}

void slot_put(struct rank *r, unsigned int slot)
{
	wait_queue_head_t *queue =
		slot >= SLOTS && slot < BRIEF_END ? &r->brief_free : &r->slot_free;

	clear_bit_unlock(slot, r->slot_used);
	smp_mb__after_atomic(); /* pairs with the queueing of the waiter in slot_get() */
	if (waitqueue_active(queue))
		wake_up(queue);
}

static bool due(const struct slot *s)
{
	return ask_due(READ_ONCE(s->ask)) == MSG_SYNC;
}

/* Under wait.lock. */
static void answer(struct slot *s, s16 status, u64 value, bool last)
{
	s->status = status;
	s->value = value;
	s->over = last && !due(s); /* SOP_CANCEL may have been sent since `last` was computed */
	s->granted |= !status;
	smp_store_release(&s->seq, s->seq + 1);
	wake_up_all_locked(&s->wait);
}

/* Any context. */
void slot_answered(struct rank *r, unsigned int slot, s16 status, u64 value, bool last)
{
	struct slot *s = slot_at(r, slot);
	unsigned long flags;
	bool nobody, over;

	spin_lock_irqsave(&s->wait.lock, flags);
	answer(s, status, value, last);
	nobody = s->nobody;
	over = s->over;
	spin_unlock_irqrestore(&s->wait.lock, flags);
	trace_dsm_wake(r->me, slot, s->object, status);
	if (nobody && over)
		slot_put(r, slot);
}

/*
 * Either the waiting thread or the caller confirms a grant, never both and never neither. So
 * `nobody` is read and the answer is counted under one hold of the lock that slot_abandon() takes.
 */
bool slot_granted(struct rank *r, unsigned int slot, s16 status, u64 value)
{
	struct slot *s = slot_at(r, slot);
	unsigned long flags;
	bool waits;

	spin_lock_irqsave(&s->wait.lock, flags);
	waits = !s->nobody;
	if (waits)
		answer(s, status, value, true);
	spin_unlock_irqrestore(&s->wait.lock, flags);
	if (waits)
		trace_dsm_wake(r->me, slot, READ_ONCE(s->object), status);
	return waits;
}

void slot_complete(struct rank *r, unsigned int slot, s16 status, u64 value)
{
	slot_answered(r, slot, status, value, true);
}

bool slot_abandon(struct rank *r, unsigned int slot, u32 seq)
{
	struct slot *s = slot_at(r, slot);
	bool left;

	spin_lock_irq(&s->wait.lock);
	left = s->seq == seq;
	if (left)
		s->nobody = 1;
	spin_unlock_irq(&s->wait.lock);
	return left;
}

bool slot_leave(struct rank *r, unsigned int slot)
{
	struct slot *s = slot_at(r, slot);
	bool left;

	spin_lock_irq(&s->wait.lock);
	left = !s->over || due(s);
	if (left)
		s->nobody = 1;
	spin_unlock_irq(&s->wait.lock);
	return left;
}

bool slot_answered_by(const struct slot *s, u32 seq, u32 n)
{
	return smp_load_acquire(&s->seq) - seq >= n;
}

bool slot_spin(struct rank *r, unsigned int slot, u32 seq, u32 n, struct mm_struct *locked)
{
	const u64 until = ktime_get_ns() + (u64)r->spin_us * NSEC_PER_USEC;
	const struct slot *s = slot_at(r, slot);

	do {
		if (slot_answered_by(s, seq, n))
			return true;
		cpu_relax();
	} while (!need_resched() && ktime_get_ns() < until &&
		 !(locked && mmap_lock_is_contended(locked)));
	return slot_answered_by(s, seq, n);
}

/* Jiffies until `end` (ktime_get_ns(); 0: no limit), cut off at the longest timeout. */
static long ticks_until(u64 end)
{
	const u64 now = ktime_get_ns();

	return !end ? MAX_SCHEDULE_TIMEOUT
		    : (long)min_t(u64, nsecs_to_jiffies64(end > now ? end - now : 0) + 1,
				  MAX_SCHEDULE_TIMEOUT - 1);
}

int slot_sleep(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable)
{
	const unsigned int state = killable ? TASK_KILLABLE : TASK_INTERRUPTIBLE;
	const u64 end = ns ? ktime_get_ns() + min_t(u64, ns, S64_MAX) : 0;
	struct slot *s = slot_at(r, slot);
	long left;

	might_sleep();
	do { /* late ticks make a timeout in jiffies expire early */
		left = ___wait_event(
			s->wait,
			___wait_cond_timeout(slot_answered_by(s, seq, n) || READ_ONCE(r->dead)),
			state, 0, ticks_until(end), __ret = schedule_timeout(__ret));
	} while (left == 0 && ktime_get_ns() < end);
	if (slot_answered_by(s, seq, n))
		return 0;
	return left == 0 ? -ETIMEDOUT : left < 0 ? signal_err() : -EIO;
}

int slot_wait(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable)
{
	return slot_spin(r, slot, seq, n, NULL) ? 0 : slot_sleep(r, slot, seq, n, ns, killable);
}
