/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * work.h - the protocol work queued by a thread: messages for this node, copies to close, and
 * timers.
 *
 * Each thread uses its own queue, inside the runtime, also in the fault handler, without a stripe.
 * Nothing waits for other ranks.
 */
#ifndef MISS_WORK_H
#define MISS_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "core/action.h"
#include "core/bundle.h"
#include "job/ctl.h"
#include "miss/span.h"
#include "miss/stream.h"

#define WORK_ITEMS 8192 /* initial size of a thread's queue; it grows by doubling */

/* most copies that are closed together: the answer of the first one waits for the steps of the
 * others */
#define WORK_CLOSINGS 64

enum work_kind {
	WORK_STEP, /* deliver the message */
	/* send it with the block, whose access does not change; gathered like copies to close */
	WORK_COPY,
	WORK_DROP,    /* close the block, then send it */
	WORK_LOWER,   /* write-protect the block, then send it with the block */
	WORK_TAKE_RO, /* close the block, which was readable, and send it with the block */
	WORK_TAKE_RW, /* the same; the block was writable */
	/* a lock was granted to a thread that has given up: slot and status of the message */
	WORK_PASS,
	WORK_GATHER /* a close of release blocks: release_gather() */
};

struct item {
	struct msg m;
	uint32_t kind; /* enum work_kind */
	uint32_t pad;
};

/* A block that has come, to be opened with its neighbours. */
struct opening {
	struct msg m;
	struct action open, wake;
	const char *contents; /* NULL: zeros, or those that it has */
};

struct gather;

/* Neighbouring release blocks that this thread changes together (miss/twin.h). n 0: none. */
struct twin_run {
	size_t off;
	unsigned int n;
	uint64_t shut, raise, fresh; /* a bit for each block: what twin_run_end() does */
	struct span held;
};

struct timer {
	uint32_t at, object;
	bool fresh; /* of a block that this thread has got, and has not returned to yet */
};

/* A list that grows by mremap(2). */
struct timers {
	uint32_t n, room;
	struct timer *v;
};

struct work {
	uint32_t head, tail; /* of items; not reduced modulo room, which is a power of two */
	uint32_t room;
	bool running;
	bool more;          /* the transport may have more messages: closings wait for them */
	struct item *items; /* `first`, or a larger area until the queue is empty again */
	struct timers timers;
	bool uses;                          /* between work_use() and work_used() */
	uint32_t used_at;                   /* us: when that began */
	uint32_t closings;                  /* only run_work() uses these and the buffer */
	struct item closing[WORK_CLOSINGS]; /* by kind, copies by receiver, then by block */
	uint32_t sendings;                  /* messages of one type to one node, for a bundle */
	struct msg sending[WIRE_BUNDLE_MAX];
	uint32_t openings; /* in the order in which they have come */
	struct opening opening[WIRE_BUNDLE_MAX];
	/* the messages of a bundle are being stepped: their contents stay until all are */
	bool bundled;
	bool refused; /* one of them has broken a rule: those behind it are not stepped */
	struct twin_run run;
	struct gather *gather; /* next seven: release blocks (miss/release.c, miss/twin.c) */
	uint8_t *payload;      /* of the FLUSH or NOTE that the next step sends */
	size_t payload_size;
	const uint8_t *diff; /* that is merged; NULL: it is in the notes (notes_add_diff()) */
	size_t diff_size;
	struct streams streams[2]; /* of the thread's reads, and of its writes */
	struct streams opened;     /* its stores to release blocks that it could read */
	size_t stored;             /* the last of these; */
	struct stream *storing;    /* its stream; NULL: none */
	bool raises;               /* that store may ask for homes */
	char page[PAGE_BYTES], taken[PAGE_BYTES];
	struct item first[WORK_ITEMS];
	char heads[WIRE_BUNDLE_MAX *
		   /* the messages before contents in the buffer, which follows */
		   sizeof(struct msg)];
	char buffer[BLOCK_MAX];
};
_Static_assert(offsetof(struct work, heads) + sizeof(((struct work *)0)->heads) ==
		       offsetof(struct work, buffer),
	       "a bundle's messages end where its contents begin");

/* Called before any other thread uses the engine, and after all have stopped using it. -EAGAIN. */
int work_start(void);
void work_stop(void);

/* Reserve a queue for a thread that will be created. The thread takes it before it uses the engine.
 * Release a queue that was not taken. NULL: no memory. */
struct work *work_reserve(void);
void work_take(struct work *w);
void work_release(struct work *w);
/* This thread's queue. Ends the process if none was reserved and there is no memory. */
struct work *work_mine(void);
void work_push(enum work_kind kind, const struct msg *m);
/* False: nothing is queued. */
bool work_pop(struct item *out);

/* Set aside an item that closes a copy. There must be room. */
void work_closing(const struct item *it);
/* The number of closings, from it and at most n, that are of adjacent blocks and of one kind: one
 * call can carry them out. */
unsigned int work_run(const struct item *it, unsigned int n);

/*
 * Between these calls, this thread says that it uses the block that it has got, and steps what
 * follows at this node. A home gives the block to the next in line there, so it would lose it each
 * time before the thread is back at its access, if the steps take longer than the hold time. So no
 * time passes meanwhile (work_now()), and the time of a timer that is scheduled begins again when
 * the thread hands it over.
 */
void work_use(void);
void work_used(void);
/* us, wraps */
uint32_t work_now(void);
/* how long a block is held that is granted now; not 0 between those calls */
uint32_t work_hold(void);

/* Schedule PE_REPLAY for a block at time `at`. False: no memory. */
bool work_timer(uint32_t object, uint32_t at);
/* Fire this thread's timers that are due. True: others are pending. hand_over: the thread returns
 * to the program, and the service thread takes the pending timers. Empties the queue, unless no
 * timer was due. */
bool work_timers(bool hand_over);
/* Have timers been handed over? Any thread. */
bool work_late_waits(void);
/* Fire timers that were handed over. Called by the service thread. True: others are pending. */
bool work_late(void);

/* An empty pipe for the fault backend's take(). Both ends are -1 if none is available; take() works
 * without one. */
const int *pipe_get(void);
void pipe_put(const int *pipe);

#endif
