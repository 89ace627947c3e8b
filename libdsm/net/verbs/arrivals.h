/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arrivals.h - queue of arrivals, from the thread that polls a device to the threads that handle
 * them.
 *
 * One acquisition of the queue's lock polls many completions, but a thread handles one at a time.
 * Its handler may wait for a response that is next in the same batch; other threads, or the handler
 * while it waits, find that response here. One thread at a time puts arrivals, under the lock. Any
 * number of threads take them, without a lock.
 *
 * Arrivals are numbered. A slot is free for number p while its turn is p, and holds it while its
 * turn is p + 1:
 *
 *   put, under the lock              take, any thread
 *   turn == p? write the arrival     turn == p + 1? head: p -> p + 1, this thread owns the arrival
 *   turn = p + 1 (release)           read it; turn = p + ARRIVALS_ROOM (release)
 *
 * Each release pairs with the acquire of the other side: a written arrival is visible, and is not
 * overwritten while it is read. A thread that is preempted between its two steps keeps its slot
 * occupied. That blocks puts when they reach this slot, but no take.
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

enum arrival_kind {
	ARRIVAL_NONE = 0,
	ARRIVAL_SENT,
	ARRIVAL_READ,
	ARRIVAL_FRAME,
	ARRIVAL_BROKEN,
	ARRIVAL_BAD
};

/* One completion, sorted. */
struct arrival {
	struct lane *lane;
	struct fetch *fetch;
	const char *payload;
	struct frame f;
	struct msg m;
	uint32_t qpn;
	int32_t recv;  /* receive buffer in use; -1: none */
	uint8_t class; /* of the receive buffer */
	uint8_t kind;
	uint8_t status;
};

/* One batch, plus another whose last arrival is still being read; a power of two. */
#define ARRIVALS_ROOM (2u * VERBS_BATCH_MAX)

struct arrivals {
	_Atomic uint32_t head; /* next to take */
	uint32_t tail;         /* next to put; under the lock */
	struct {
		_Atomic uint32_t turn;
		struct arrival a;
	} places[ARRIVALS_ROOM];
	/* Arrivals that had to be polled from the device when no slot was free; under the lock. */
	struct arrival *spilled;
	unsigned int spilled_head, spilled_n, spilled_room;
};

void arrivals_init(struct arrivals *in);
void arrivals_free(struct arrivals *in);

/* Take the oldest arrival in a slot. False: there is none. */
bool arrivals_take(struct arrivals *in, struct arrival *a);

/* Return the number of arrivals that can be put now, at most max. Under the lock. */
unsigned int arrivals_space(const struct arrivals *in, unsigned int max);
/* Put n arrivals, no more than arrivals_space() returned. Under the lock. */
void arrivals_put(struct arrivals *in, const struct arrival *a, unsigned int n);
/* Reserve memory to spill n more. Under the lock. -ENOMEM. */
int arrivals_reserve(struct arrivals *in, unsigned int n);
void arrivals_spill(struct arrivals *in, const struct arrival *a, unsigned int n);
/*
 * Take the first spilled arrival and move the next ones to slots. Under the lock, when all slots
 * are empty. False: none.
 */
bool arrivals_unspill(struct arrivals *in, struct arrival *a);

#endif
