/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * quantum.h - when a node keeps mutexes that other nodes want.
 *
 * When threads of several nodes use many locks, say one for each cell of a grid, each lock is soon
 * requested back. Every critical section then waits for messages, and a node that gets a lock
 * interrupts the one that computes. So nodes take turns. During its *quantum* a node delays giving
 * locks away (miss/keep.h) and requests locks as usual, so that they collect there and cost no
 * messages. The others get little until it is their turn.
 *
 * A quantum begins when locks bounce between nodes: within 1 ms, four requests without a claim have
 * come, and threads of this node have waited for four locks of others. It ends after
 * DSM_QUANTUM_MS, or earlier, when
 *
 *   - a request comes, and this node has lately taken fewer than 16 locks per millisecond;
 *   - 32 times, a lock had to go after 128 releases: it is a few locks that bounce;
 *   - a request comes with the stronger claim.
 *
 * A node in its quantum sends its *claim* with each request (op of MSG_LOCK, repeated in MSG_NEXT).
 * A node that receives a claim begins no quantum for 10 ms. It also ends its own quantum if the
 * claim is stronger, or equal and of a node with a lower number. The claim is 1 plus the number of
 * quanta that the node has lost in a row in this way, at most 255, so every node gets its turn.
 * After a quantum a node begins no other for 10 ms, in which the others begin theirs; for twice as
 * long as before, up to 1.28 s, if it has ended because the node took few locks.
 *
 * A quantum pauses while a thread of the node waits for other threads (at a barrier, a condition, a
 * semaphore), which may need a lock from here, but not for a thread that has waited throughout.
 * Meanwhile the node has no claim.
 *
 * No clock, allocation or lock; times are in ns, and do not decrease. The caller holds the node's
 * keep.lock, except for quantum_runs() and quantum_claim().
 */
#ifndef CORE_QUANTUM_H
#define CORE_QUANTUM_H

#include "core/types.h"

#define QUANTUM_MS_NS 1000000ull
/*
 * Locks bounce if both counts reach four in a millisecond: a thread then waits for a good part of
 * the time, as an exchange between two nodes takes some 30 us.
 */
#define QUANTUM_WINDOW_NS QUANTUM_MS_NS
#define QUANTUM_LOCKS 4
/* the others need about one window to begin */
#define QUANTUM_REST_NS (10 * QUANTUM_MS_NS)
#define QUANTUM_REST_MOST_NS (128 * QUANTUM_REST_NS)
/*
 * Locks per millisecond, at least: several times what the node took when they bounced. Looked at
 * once in the time for which a request is delayed.
 */
#define QUANTUM_USED 16
#define QUANTUM_USED_NS (2 * QUANTUM_MS_NS)
/*
 * Releases of a lock while a request for it is delayed: so many short sections take longer than an
 * exchange, and few enough for threads that poll under a lock. Times that it came to that: 4,096
 * sections in all, so that within 100,000 each node gets about as many.
 */
#define QUANTUM_RELEASES 128
#define QUANTUM_FULL 32
#define QUANTUM_CLAIM_MOST 255

struct quantum {
	uint64_t window;        /* when it began */
	uint32_t asked, waited; /* since then */
	uint64_t length;        /* of a quantum; 0: there are none; set at the start */
	uint64_t ends;  /* of this one, or the last one; atomic for readers without the lock */
	uint64_t heard; /* the last claim that was respected */
	uint64_t used, used_at; /* locks that the node had taken then; used_at 0: not looked yet */
	uint64_t rest;          /* after this quantum; 0: QUANTUM_REST_NS */
	uint32_t base;          /* fewest waiting threads seen in this quantum; atomic, too */
	uint16_t full;          /* times that a lock went after QUANTUM_RELEASES */
	uint8_t lost;           /* quanta given up in a row */
	uint8_t claim;          /* of this quantum, or the last one; atomic, too */
};

static inline bool quantum_runs(const struct quantum *q, uint64_t now)
{
	return now < __atomic_load_n(&q->ends, __ATOMIC_RELAXED);
}

static inline bool quantum_is_paused(const struct quantum *q, uint32_t idle)
{
	return idle > __atomic_load_n(&q->base, __ATOMIC_RELAXED);
}

/* The claim of a node that sends MSG_LOCK; 0: none. idle: its threads that wait for others. */
static inline uint8_t quantum_claim(const struct quantum *q, uint64_t now, uint32_t idle)
{
	return quantum_runs(q, now) && !quantum_is_paused(q, idle)
		? __atomic_load_n(&q->claim, __ATOMIC_RELAXED)
		: 0;
}

static inline void quantum_end(struct quantum *q, uint64_t now)
{
	__atomic_store_n(&q->ends, now, __ATOMIC_RELAXED);
}

static inline void quantum_begin(struct quantum *q, uint64_t now, uint32_t idle)
{
	const uint64_t rest = q->rest ? q->rest : QUANTUM_REST_NS;

	if (now < q->ends + rest || now < q->heard + QUANTUM_REST_NS)
		return;
	__atomic_store_n(&q->claim, (uint8_t)(q->lost + 1), __ATOMIC_RELAXED);
	__atomic_store_n(&q->base, idle, __ATOMIC_RELAXED);
	__atomic_store_n(&q->ends, now + q->length, __ATOMIC_RELAXED);
	q->lost = 0;
	q->full = 0;
	q->used_at = 0;
}

static inline void quantum_count(struct quantum *q, uint64_t now, uint32_t idle, bool asked)
{
	if (now - q->window > QUANTUM_WINDOW_NS) {
		q->window = now;
		q->asked = q->waited = 0;
	}
	q->asked += asked;
	q->waited += !asked;
	if (q->asked >= QUANTUM_LOCKS && q->waited >= QUANTUM_LOCKS)
		quantum_begin(q, now, idle);
}

/* A thread of this node waits for a lock of another one. */
static inline void quantum_waited(struct quantum *q, uint64_t now, uint32_t idle)
{
	quantum_count(q, now, idle, false);
}

/* Node `from` asks node `me` for a lock, with this claim. True: it is to wait. */
static inline bool quantum_asked(struct quantum *q, uint64_t now, uint32_t idle, uint16_t me,
				 uint16_t from, uint8_t claim)
{
	if (!claim) {
		quantum_count(q, now, idle, true);
	} else if (quantum_runs(q, now) && (q->claim > claim || (q->claim == claim && me < from))) {
		; /* it will hear of this node's claim */
	} else {
		if (quantum_runs(q, now)) {
			q->lost = q->claim < QUANTUM_CLAIM_MOST ? q->claim : QUANTUM_CLAIM_MOST - 1;
			quantum_end(q, now);
		}
		q->heard = now;
	}
	if (idle < q->base)
		__atomic_store_n(&q->base, idle, __ATOMIC_RELAXED);
	return quantum_runs(q, now) && !quantum_is_paused(q, idle);
}

/* Is quantum_used() to be called? */
static inline bool quantum_looks(const struct quantum *q, uint64_t now)
{
	return now - q->used_at >= QUANTUM_USED_NS;
}

/* So many locks have the node's threads taken until now. False: too few, and the quantum ends. */
static inline bool quantum_used(struct quantum *q, uint64_t now, uint64_t locks)
{
	const uint64_t rest = q->rest ? 2 * q->rest : 2 * QUANTUM_REST_NS;

	if (q->used_at && locks - q->used < (now - q->used_at) / QUANTUM_MS_NS * QUANTUM_USED) {
		quantum_end(q, now);
		q->rest = rest < QUANTUM_REST_MOST_NS ? rest : QUANTUM_REST_MOST_NS;
		return false;
	}
	if (q->used_at)
		q->rest = 0;
	q->used = locks;
	q->used_at = now;
	return true;
}

/* A lock went after QUANTUM_RELEASES. */
static inline void quantum_full(struct quantum *q, uint64_t now)
{
	if (++q->full >= QUANTUM_FULL && quantum_runs(q, now))
		quantum_end(q, now);
}

#endif
