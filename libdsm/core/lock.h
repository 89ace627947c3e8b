/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lock.h - mutual exclusion as a distributed queue (after Mellor-Crummey and Scott). The home knows
 * only the tail of the queue. It tells the previous tail who its successor is. The holder passes
 * the lock directly to its successor.
 *
 * A released lock stays at its node while no other node requests it: its record is CACHED, and
 * locking it again is a local step. The keeper is still the tail of the queue, so MSG_NEXT makes it
 * pass the lock on. A trylock or the destruction of a lock must know whether the lock is idle; the
 * home asks the tail with MSG_RECALL.
 *
 * If a node holds or awaits a lock, its other threads queue at the hold record (HE_JOIN). They pass
 * the lock to each other without a message. While another node waits, they do so at most
 * hold_ctx.passes times.
 *
 * While a node has a lock and nobody waits for it, the record is *fast* (hold_ctx.fast): its state
 * is in a word beside it. Threads then take and release the lock by one compare-and-swap of that
 * word, and no step runs. Each step first takes the word back and derives the state from it. At its
 * end it makes the record fast again if nobody waits:
 *
 *   thread:  word has the name, free? then held   step:  word := 0; was it held? HOLD_HELD : HOLD_CACHED
 *            word has the name, held? then free          the event; HOLD_HELD or HOLD_CACHED,
 *                                                        nobody waits? word := name
 *
 * Both sides change the word by one atomic operation. A thread whose swap fails has not taken, or
 * not released, the lock, and runs a step instead. The word contains the full name of the lock, so
 * a swap never takes another lock.
 *
 * Where records can be fast, a release does not give the lock to a local waiter, which may be
 * asleep. It *wakes* the first waiter. Until that thread arrives (HE_COME), any running thread may
 * take the lock. If the woken thread finds the lock held, it gets the lock at the next release. So
 * a waiter is overtaken only during wake-ups, its own or those of waiters before it: at position k
 * of the queue it enters after at most k wake-ups and one critical section after each.
 *
 * A host may keep MSG_NEXT for a while before it delivers it, as a slow channel would; the node
 * then keeps the lock. Meanwhile the record is `wanted` and not fast, so that each release is a
 * step (hold_want()).
 *
 * There are two state machines: struct sync (kind SYNC_MUTEX) at the home, stepped by
 * lock_home_step(), and a hold record at each node that holds or awaits a lock, stepped by
 * hold_step(). A record becomes free when no message can name it any more.
 */
#ifndef CORE_LOCK_H
#define CORE_LOCK_H

#include "core/action.h"
#include "core/queue.h"
#include "core/sync.h"

enum hold_state {
	HOLD_FREE = 0,
	HOLD_WAITING,   /* requested, not yet granted */
	HOLD_WAIT_NEXT, /* not yet granted, successor known */
	HOLD_HELD,
	HOLD_HELD_NEXT, /* held, successor known */
	HOLD_CACHED,    /* released, no successor known: a thread of this node may take it */
	HOLD_LEAVING,   /* returned to the home, answer pending */
	/* the home has answered that there is a successor: MSG_NEXT is on its way */
	HOLD_LEAVING_NEXT,
	/*
	 * passed on; home's answer pending; until then the home may see this node as the tail of
	 * the queue
	 */
	HOLD_LEFT,
	HOLD_STATES
};

enum hold_event {
	HE_UNLOCK = 0,
	HE_TAKE, /* a thread of this node takes a cached lock */
	HE_JOIN, /* a thread of this node queues at the record: m->req_slot */
	HE_GIVE, /* return the lock: the node needs the record */
	HE_LOCKED,
	HE_NEXT,
	HE_FREED,   /* MSG_FREED, count 0 */
	HE_REFUSED, /* MSG_FREED, count -errno */
	/* MSG_FREED, value 1: MSG_UNLOCK and MSG_NEXT crossed (callers pass HE_FREED) */
	HE_CROSSED,
	HE_RECALL,
	HE_COME, /* a woken thread has arrived: m->req_slot */
	HE_EVENTS
};

/*
 * State of the woken thread, whose slot is in hold.slot. Used in HELD, HELD_NEXT and CACHED, where
 * records can be fast.
 */
enum hold_turn {
	TURN_NONE = 0,
	TURN_WOKEN, /* woken, not yet arrived */
	TURN_GIVEN, /* woken, not yet arrived, and it owns the lock: HELD_NEXT */
	TURN_DUE    /* arrived, found the lock held: it gets the lock at the next release */
};

struct hold {
	uint8_t state;      /* stale while the record is fast: use hold_state() */
	uint8_t passed : 5; /* local passes since another node waits */
	uint8_t wanted : 1; /* hold_want() */
	uint8_t turn : 2;
	uint16_t home;
	uint32_t object;
	uint16_t slot; /* of the waiting request */
	uint16_t gen;  /* upper 16 bits of the object's generation; `object` has the lower 8 */
	uint16_t next_node, next_slot;
	uint32_t next_hold;
	uint32_t line; /* queue of waiting threads of this node (queue.h) */
	uint64_t word; /* 0: not fast; else the lock's name and HOLD_FAST; atomic */
};
CORE_ASSERT_SIZE(struct hold, 32);

/* ---- the word
 * ------------------------------------------------------------------------------------ A lock's
 * name: generation (24 bits), 4 unused bits, home (12), index (24). Threads call these functions
 * without any lock. */

#define HOLD_FAST (1ull << 36)
#define HOLD_TAKEN (1ull << 37) /* a thread holds the lock */

/* gen: the upper 16 bits of the generation, as in messages. */
static inline uint64_t hold_name(uint16_t home, uint32_t object, uint16_t gen)
{
	return (uint64_t)gen << 48 | (uint64_t)(object >> 24) << 40 | (uint64_t)home << 24 |
		(object & 0xffffff);
}

/* Take the lock. False: it is not fast here, or it is held. */
static inline bool hold_fast_take(uint64_t *word, uint64_t name)
{
	uint64_t seen = name | HOLD_FAST;

	return __atomic_compare_exchange_n(word, &seen, seen | HOLD_TAKEN, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* Release the lock, which the caller holds. False: not fast; release it by HE_UNLOCK. */
static inline bool hold_fast_release(uint64_t *word, uint64_t name)
{
	uint64_t seen = name | HOLD_FAST | HOLD_TAKEN;

	return __atomic_compare_exchange_n(word, &seen, name | HOLD_FAST, 0, __ATOMIC_SEQ_CST,
					   __ATOMIC_RELAXED);
}

/* Is the lock fast here, and held? */
static inline bool hold_fast_taken(const uint64_t *word, uint64_t name)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) == (name | HOLD_FAST | HOLD_TAKEN);
}

/* The state of a record. Without the record's lock, the result may be stale: a hint. */
static inline uint8_t hold_state(const struct hold *h)
{
	uint64_t word = __atomic_load_n(&h->word, __ATOMIC_RELAXED);

	if (!word)
		return __atomic_load_n(&h->state, __ATOMIC_RELAXED);
	return word & HOLD_TAKEN ? HOLD_HELD : HOLD_CACHED;
}

/*
 * Step the home with MSG_LOCK, MSG_TRYLOCK, MSG_UNLOCK or MSG_RECALLED. Returns 0 or -EBADMSG.
 * *destroy is set if MSG_RECALLED answers a recall for SOP_DESTROY (s->who, s->slot): the caller
 * must then retry the destruction.
 */
int lock_home_step(uint16_t me, struct sync *s, const struct msg *m, bool *destroy,
		   struct actions *out);
/*
 * Ask the tail of the queue, on behalf of request m, whether the lock is idle. False: another
 * recall is outstanding.
 */
bool lock_home_recall(uint16_t me, struct sync *s, const struct msg *m, struct actions *out);

/*
 * Local passes while another node waits: so many critical sections share the cost of moving the
 * lock.
 */
#define LOCK_PASSES 16

/* What the host passes to each step of a record. */
struct hold_ctx {
	uint16_t me;
	/* most local passes while another node waits; below 32, and not 0 if `fast` */
	uint8_t passes;
	uint8_t claim; /* op of MSG_LOCK for threads in line; 0 in steps of messages */
	/* threads use hold_fast_take() and hold_fast_release(), and a woken thread sends HE_COME */
	bool fast;
	/* queue entries for threads of this node; all zero: HE_JOIN is not used */
	struct qpool queue;
};

/*
 * The functions below are called with the record's lock held.
 *
 * Initialize a free record for the request `ask`, MSG_LOCK or MSG_TRYLOCK, which the caller then
 * sends. Other threads may still read the record: they found it while it belonged to another lock.
 */
void hold_begin(struct hold *h, const struct msg *ask);
/*
 * Has a step that started in state `before` freed the record? Then the host returns it to the pool.
 * False if it was free before: MSG_RECALL may reach a record that is in the pool, or that a thread
 * has taken but not initialized.
 */
static inline bool hold_freed(uint8_t before, const struct hold *h)
{
	return before != HOLD_FREE && h->state == HOLD_FREE;
}
/* Step a record for an event of a thread of this node. about: the thread's request, which names the
 * lock; -EBADMSG if the record belongs to another lock by now. NULL skips that check; not for
 * HE_JOIN and HE_COME. Otherwise like hold_step(). */
int hold_thread(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev,
		const struct msg *about, struct actions *out);
/*
 * The host will keep this MSG_NEXT. From now on until HE_NEXT, no thread takes or releases the lock
 * by the word. False: the lock is not at this record (HELD or CACHED); deliver the message now.
 */
bool hold_want(struct hold *h, const struct msg *next);
/*
 * Remove the thread with this slot from the record's queue. False: not queued; it requests the
 * lock, is woken, or holds it.
 */
bool hold_leave(const struct hold_ctx *ctx, struct hold *h, uint16_t slot);

/*
 * Step a record; index is its number at this node. Returns 0, or -EBADMSG for an event that the
 * state does not allow. ACT_WAKE with -EAGAIN wakes a thread without the lock. It answers with
 * HE_COME and is woken again when it owns the lock. For HE_RECALL, m may name another lock than the
 * record's; the answer is then -EBUSY (not idle).
 */
int hold_step(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev,
	      const struct msg *m, struct actions *out);

const char *hold_state_name(unsigned int state);
const char *hold_event_name(unsigned int event);
const char *hold_rule_name(unsigned int state, unsigned int event);

#endif
