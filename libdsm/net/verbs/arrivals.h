/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arrivals.h - arrivals between the thread that takes them from a device and the threads that handle them.
 *
 * Many completions are taken from the device under one acquisition of the queue's lock, but a thread has one in hand only:
 * its handler may wait for an answer that came right behind, and that other threads, or the handler's own waiting,
 * then find here. So one thread at a time puts, under the lock, and any number take, without a lock.
 *
 * Arrivals are numbered. A place is free for number p while its turn is p, and holds it while its turn is p + 1:
 *
 *   put, under the lock              take, any thread
 *   turn == p? write the arrival     turn == p + 1? head: p -> p + 1, the arrival is this thread's
 *   turn = p + 1 (release)           read it; turn = p + ARRIVALS_ROOM (release)
 *
 * Each release pairs with the acquire of the other side: what was written is seen, and is not written over while it is
 * read. A thread that is put aside between its two steps keeps one place occupied, and so all behind it, but nobody
 * from taking.
 */
#ifndef NET_VERBS_ARRIVALS_H
#define NET_VERBS_ARRIVALS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/verbs/frame.h"
#include "net/verbs/set.h"

struct lane;
struct fetch;

enum arrival_kind { ARRIVAL_NONE = 0, ARRIVAL_SENT, ARRIVAL_READ, ARRIVAL_FRAME, ARRIVAL_BROKEN, ARRIVAL_BAD };

/* One completion, sorted. */
struct arrival {
	struct lane *lane;
	struct fetch *fetch;
	const char *payload;
	struct frame f;
	struct msg m;
	uint32_t qpn;
	int32_t recv;  /* the receive buffer it occupies; -1: none */
	uint8_t class; /* of that */
	uint8_t kind;
	uint8_t status;
};

/* A batch, and another one whose last is still being read; a power of two. */
#define ARRIVALS_ROOM (2u * VERBS_BATCH_MAX)

struct arrivals {
	_Atomic uint32_t head; /* the next to take */
	uint32_t tail;         /* the next to put; under the lock */
	struct {
		_Atomic uint32_t turn;
		struct arrival a;
	} places[ARRIVALS_ROOM];
	/* Those that had to be taken from the device and found no place; under the lock. */
	struct arrival *spilled;
	unsigned int spilled_head, spilled_n, spilled_room;
};

void arrivals_init(struct arrivals *in);
void arrivals_free(struct arrivals *in);

/* The oldest arrival that has a place. False: there is none. */
bool arrivals_take(struct arrivals *in, struct arrival *a);

/* Under the lock. How many could be put now, at most max. */
unsigned int arrivals_space(const struct arrivals *in, unsigned int max);
/* Under the lock, no more than there is space for. */
void arrivals_put(struct arrivals *in, const struct arrival *a, unsigned int n);
/* Under the lock: make sure that n more can be spilled. -ENOMEM. */
int arrivals_reserve(struct arrivals *in, unsigned int n);
void arrivals_spill(struct arrivals *in, const struct arrival *a, unsigned int n);
/* Under the lock, when nothing has a place: the first of the spilled ones; those behind it get places. False: none. */
bool arrivals_unspill(struct arrivals *in, struct arrival *a);

#endif
