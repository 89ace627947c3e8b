/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * lock.h - mutual exclusion as a distributed queue (after Mellor-Crummey and Scott): the home knows only the last in line
 * and tells whoever was last before who comes next; the holder hands the lock straight to its successor.
 *
 * A lock that nobody else asks for stays where it was: its record is KEPT, and taking it again is a step in place. The
 * home takes a keeper for the last in line, as it is, and NEXT makes it hand on. Who wants to know whether the lock is
 * idle (a trylock, its destruction) makes the home ask the last in line: MSG_RECALL.
 *
 * Threads of one node that want the lock which their node has, or waits for, stand in line at its record (HE_JOIN), and get
 * it from each other without a message. While another node waits, they pass it on so many times at most.
 *
 * While a lock is of this node, and nobody waits for it, its record is *lent* to a word beside it (struct hold_ctx, lends):
 * threads take and release the lock by one compare-and-swap of that word, and no step runs. Each step first takes the word
 * back, with what threads have made of it, and lends it again at its end where the record allows that:
 *
 *   thread:  word is lent, free? then held        step:  word := 0; was it held? HOLD_HELD : HOLD_KEPT
 *            word is lent, held? then free               the event; HOLD_HELD or HOLD_KEPT, nobody waits? lend it
 *
 * Either side changes the word in one atomic operation, so a thread whose swap fails has not got, or not released, the lock:
 * it does so by a step. The word contains the lock's whole name, so a swap never takes another lock's.
 *
 * Where words are lent, a release does not hand the lock to a thread of the node that may be asleep. It *calls* the first in
 * line, and the lock is free for whoever is running until that thread comes (HE_COME). If it then finds the lock held, the next
 * release is its own. So a waiter is overtaken only while those before it, and it, are being woken: at place k of the line it
 * enters after at most k wake-ups, and one section after each.
 *
 * Two machines: struct sync (kind SYNC_MUTEX) at the home, stepped by lock_home_step(), and a hold record at each node
 * that holds or awaits a lock, stepped by hold_step(). A record is free again only when no message can name it any more.
 */
#ifndef CORE_LOCK_H
#define CORE_LOCK_H

#include "core/action.h"
#include "core/queue.h"
#include "core/sync.h"

enum hold_state {
	HOLD_FREE = 0,
	HOLD_WAITING,   /* asked, not yet granted */
	HOLD_WAIT_NEXT, /* not yet granted, and the successor is known already */
	HOLD_HELD,
	HOLD_HELD_NEXT,    /* held, successor known */
	HOLD_KEPT,         /* released, and nobody is known to come next: the next to lock may be of this node */
	HOLD_LEAVING,      /* given back; the home was told that nobody comes next */
	HOLD_LEAVING_NEXT, /* the home has answered that somebody does: MSG_NEXT is on its way */
	HOLD_LEFT, /* handed on, but the home's answer is still to come: until it arrives, the home may consider this node the last in line */
	HOLD_STATES
};

enum hold_event {
	HE_UNLOCK = 0,
	HE_TAKE, /* a thread of this node locks what the node keeps */
	HE_JOIN, /* a thread of this node waits for it here: m->req_slot */
	HE_GIVE, /* the node needs the record for something else */
	HE_LOCKED,
	HE_NEXT,
	HE_FREED,   /* MSG_FREED, count 0 */
	HE_REFUSED, /* MSG_FREED, count -errno */
	HE_CROSSED, /* MSG_FREED, value 1: MSG_UNLOCK and MSG_NEXT crossed (hold_step() tells it from HE_FREED itself) */
	HE_RECALL,
	HE_COME, /* a thread of this node that was called is here: m->req_slot */
	HE_EVENTS
};

/* Of the thread in hold.slot, once it was the first in line. Only in HELD, HELD_NEXT and KEPT, and only where words are lent. */
enum hold_turn {
	TURN_NONE = 0,
	TURN_CALLED, /* woken, and it has not come yet */
	TURN_GIVEN,  /* the same, and the lock is its already: HELD_NEXT */
	TURN_DUE     /* it came, and found the lock held: the next release is its own */
};

struct hold {
	uint8_t state;      /* while the word is lent, hold_state() tells */
	uint8_t passed : 6; /* so many times from thread to thread since another node waits */
	uint8_t turn : 2;
	uint16_t home;
	uint32_t object;
	uint16_t slot; /* of the waiting request */
	uint16_t gen;  /* of the object: what `object` has no room for */
	uint16_t next_node, next_slot;
	uint32_t next_hold;
	uint32_t line; /* threads of this node that wait behind it (queue.h) */
	uint64_t word; /* 0: not lent; else the lock's name and HOLD_LENT; atomic */
};
CORE_ASSERT_SIZE(struct hold, 32);

/* ---- the word ------------------------------------------------------------------------------------
 * A lock's name is generation (24 bits), 4 bits that are free, home (12), place (24). Threads call these without any lock. */

#define HOLD_LENT (1ull << 36)
#define HOLD_TAKEN (1ull << 37) /* a thread holds the lock */

/* gen: the upper bits of the generation, as in messages. */
static inline uint64_t hold_name(uint16_t home, uint32_t object, uint16_t gen)
{
	return (uint64_t)gen << 48 | (uint64_t)(object >> 24) << 40 | (uint64_t)home << 24 | (object & 0xffffff);
}

/* The lock is the caller's now; false: it is not lent here, or held. */
static inline bool lent_take(uint64_t *word, uint64_t name)
{
	uint64_t seen = name | HOLD_LENT;

	return __atomic_compare_exchange_n(word, &seen, seen | HOLD_TAKEN, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* The caller, who holds the lock, releases it; false: HE_UNLOCK must do that. */
static inline bool lent_release(uint64_t *word, uint64_t name)
{
	uint64_t seen = name | HOLD_LENT | HOLD_TAKEN;

	return __atomic_compare_exchange_n(word, &seen, name | HOLD_LENT, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Is it lent here, and held? */
static inline bool lent_taken(const uint64_t *word, uint64_t name)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED) == (name | HOLD_LENT | HOLD_TAKEN);
}

/* What the record's state is; without its lock, what it was a moment ago. */
static inline uint8_t hold_state(const struct hold *h)
{
	uint64_t word = __atomic_load_n(&h->word, __ATOMIC_RELAXED);

	if (!word)
		return h->state;
	return word & HOLD_TAKEN ? HOLD_HELD : HOLD_KEPT;
}

/*
 * The home's side: MSG_LOCK, MSG_TRYLOCK, MSG_UNLOCK, MSG_RECALLED. 0 or -EBADMSG. After MSG_RECALLED, *destroy says that
 * the answer was asked for by SOP_DESTROY (s->who, s->slot), which is to be tried again now.
 */
int lock_home_step(uint16_t me, struct sync *s, const struct msg *m, bool *destroy, struct actions *out);
/* m asks for a lock that has a last in line: is it idle there? One question at a time; false: one is out already. */
bool lock_home_recall(uint16_t me, struct sync *s, const struct msg *m, struct actions *out);

/* From thread to thread of a node while another node waits: what it costs to move a lock is shared by so many sections. */
#define LOCK_PASSES 16

/* What a host of records knows. */
struct hold_ctx {
	uint16_t me;
	uint8_t passes; /* from thread to thread while another node waits, at most; below 64, and not 0 where words are lent */
	bool lends;         /* threads use lent_take() and lent_release(), and what they are called for is HE_COME */
	struct qpool queue; /* where threads of this node stand in line; all zero: none join */
};

/*
 * A record's life. All that follows is called with the record's lock.
 *
 * A thread that has found a free record takes it for `ask`, MSG_LOCK or MSG_TRYLOCK, and sends that. Other
 * threads may still read the record: they found it while it belonged to another lock.
 */
void hold_begin(struct hold *h, const struct msg *ask);
/*
 * After a step that found the record in the state `before`: has it made the record free, so that the host gives it back? A
 * question can come to a record that is free, or that a thread has taken and not begun: it was given back, or it is that thread's.
 */
static inline bool hold_freed(uint8_t before, const struct hold *h)
{
	return before != HOLD_FREE && h->state == HOLD_FREE;
}
/* An event of a thread of this node. about: its request, which names the lock that it means: -EBADMSG, where the record is of
 * another by now. NULL: whichever the record has; not for HE_JOIN and HE_COME. Else as hold_step(). */
int hold_thread(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev, const struct msg *about,
		struct actions *out);
/* The thread with this slot leaves the line behind the record. False: it is not there; it asks, or is called, or holds. */
bool hold_leave(const struct hold_ctx *ctx, struct hold *h, uint16_t slot);

/*
 * The holder's side; index is the record's number at this node. ACT_WAKE with -EAGAIN calls a thread, which answers with
 * HE_COME, and is woken once more when the lock is its. HE_RECALL: m may be about another lock than the record's; then it is
 * not idle here.
 */
int hold_step(const struct hold_ctx *ctx, uint32_t index, struct hold *h, enum hold_event ev, const struct msg *m,
	      struct actions *out);

const char *hold_state_name(unsigned int state);
const char *hold_event_name(unsigned int event);
const char *hold_rule_name(unsigned int state, unsigned int event);

#endif
