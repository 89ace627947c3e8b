/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bell.h - waking a rank of the same host only when it sleeps.
 *
 * UCX wakes the receiver of each first message after an arm, also if a thread of the receiver polls
 * for it. So ranks of one host ring instead: each rank has a page with a word, and a pipe. The word
 * says whether a message needs somebody woken; a thread that is about to poll clears it before it
 * asks. After each message the sender looks at the word, and rings by the pipe if it is set.
 *
 * A rank may leave UCX unarmed once all ranks that send to it ring. They do so if they run on this
 * host and let libdsm choose UCX's transports: then UCX has put a message into shared memory when
 * its send is complete.
 *
 * Interleavings. Both sides write, pass a full barrier, and read:
 *   sender:    message; barrier; word set, and not rung for it before? then ring
 *   receiver:  set the word to a new value; barrier; no message? then sleep
 * So either the sender rings, or the receiver sees the message. Only the receiver changes the word,
 * so a sender that is interrupted before it rings keeps no other from ringing.
 */
#ifndef NET_UCX_BELL_H
#define NET_UCX_BELL_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "net/ucx/frame.h"

/* When to ring: never; after messages that must not be late; after every message. */
enum bell_when { BELL_NOT = 0, BELL_URGENT, BELL_ALL };

/* In a memory object of the rank, which its peers map. */
struct bell_page {
	uint64_t key;     /* of its address: tells it from other files */
	uint32_t ringers; /* peers that ring; atomic */
	uint32_t pad[13];
	/*
	 * 4 times the number of the set, and enum bell_when for the next message; 0: not set;
	 * atomic
	 */
	uint32_t armed;
	uint32_t pad2[15];
};
_Static_assert(sizeof(struct bell_page) == 128, "the words that change often have a cache line");

/* This rank's own. */
struct bell {
	struct bell_page *page; /* NULL: it has none */
	int memory, in, out;    /* of the pipe: in is read, out is written */
	uint32_t pollers;       /* threads that poll while they wait; atomic */
	/* a thread sleeps, or is about to, and relies on being rung; atomic */
	uint32_t asleep;
	uint32_t sets;  /* of the word; atomic */
	uint32_t peers; /* ranks that send to this one */
};

/* A peer's. */
struct bell_rope {
	struct bell_page *page; /* NULL: it is not rung */
	int out;
	uint32_t sent; /* only for the barrier */
	uint32_t rung; /* the word, when this rank rang last; atomic */
};

/*
 * Make this rank's bell, and describe it in its address. Without one, UCX wakes this rank. Errors
 * are not reported.
 */
void bell_open(struct bell *b, struct ucx_blob *address);
void bell_close(struct bell *b);

/* Ring a peer of this host from now on, if its bell can be reached. Leave it at the end. */
void bell_join(struct bell_rope *r, const struct ucx_blob *address);
void bell_leave(struct bell_rope *r);

/* True if every peer rings. Any thread. */
bool bell_is_rung(const struct bell *b);
/*
 * Ask to be rung, if no thread polls: then look for messages, before sleeping. Any thread; does not
 * block.
 */
void bell_set(struct bell *b, enum bell_when when);
/* Nobody need be woken: a thread is about to look for messages. */
static inline void bell_clear(struct bell *b)
{
	if (__atomic_load_n(&b->page->armed, __ATOMIC_RELAXED))
		__atomic_store_n(&b->page->armed, BELL_NOT, __ATOMIC_RELAXED);
}
/*
 * Wake the thread of this rank that sleeps. Callers and those of bell_set() exclude each other;
 * does not block.
 */
void bell_ring_own(struct bell *b);
/* The slow half of bell_ring(): the word is set. */
void bell_pull(struct bell_rope *r, uint32_t word);

/* A message is in a peer's memory; it may be late. Any thread; does not block. */
static inline void bell_ring(struct bell_rope *r, bool late)
{
	uint32_t word;

	if (!r->page)
		return;
	__atomic_fetch_add(&r->sent, 1, __ATOMIC_SEQ_CST); /* a full barrier; partner: bell_set() */
	word = __atomic_load_n(&r->page->armed, __ATOMIC_RELAXED);
	if ((word & 3) > (late ? BELL_URGENT : BELL_NOT) &&
	    word != __atomic_load_n(&r->rung, __ATOMIC_RELAXED))
		bell_pull(r, word);
}

/* A thread polls from now on: nobody need be woken. */
static inline void bell_poll_begin(struct bell *b)
{
	__atomic_fetch_add(&b->pollers, 1, __ATOMIC_SEQ_CST);
	if (b->page)
		bell_clear(b);
}

/* It stops. True: it was the last one, and a thread sleeps: set the bell again. */
static inline bool bell_poll_end(struct bell *b)
{
	return __atomic_sub_fetch(&b->pollers, 1, __ATOMIC_SEQ_CST) == 0 &&
		__atomic_load_n(&b->asleep, __ATOMIC_SEQ_CST);
}

#endif
