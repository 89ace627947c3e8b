/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * schedule.h - selects the next chunk to send to one peer. Pure: no allocation, lock, clock or
 * system call.
 *
 * A flow is a connection as the scheduler sees it: a short queue of operation lengths. The
 * scheduler cuts operations into chunks. Priorities 7 to 1 are strict: a flow sends only while no
 * flow of a higher priority has anything to send. Flows of one priority are served round-robin, one
 * chunk each. Priority 0 is the weighted class, also round-robin: in each epoch a flow may send
 * weight * chunk bytes, then waits until the others have used their share. If its last chunk
 * exceeds the share, the excess is deducted from the next share.
 *
 * Each lane (queue pair) has a window of outstanding bytes and a number of slots. Without the
 * window, scheduling would only order what enters the FIFO of the device. A backlog that waits for
 * the window of the strict lane also blocks the weighted lane, because the link is busy with strict
 * bytes.
 *
 * The window bounds how long a short message waits behind the bytes of others. A large window suits
 * flows of long messages. So the weighted lane has a second, narrow window for long chunks
 * (rs_sched_narrow()), which applies while short messages are about: for RS_ALERT_CHUNKS long
 * chunks after an idle flow pushed a short message. A flow is not idle in this sense if one of its
 * last RS_BULKY_OPS operations was longer than a chunk: the header of a long message is not worth a
 * narrow window. Such a short message also takes the next turn of the weighted class, within the
 * share of its flow.
 *
 * dsm.ko also uses this file (kmod/net/egress.c). It has one queue pair per class of messages, each
 * of which may be full while others are not (rs_sched_hold()), and learns of completions in batches
 * (rs_sched_placed()).
 */
#ifndef SHARE_SCHED_H
#define SHARE_SCHED_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#endif

#define RS_PRIORITIES 8 /* 0: the weighted class; 1 to 7: strict, the highest first */
#define RS_WEIGHT_MAX 64
#define RS_FLOW_OPS 16 /* operations of a flow that the scheduler holds; a power of two */
#define RS_COST_MIN 64 /* minimum cost of a chunk in bytes, in the window and in the share */
#define RS_ALERT_CHUNKS 256
#define RS_BULKY_OPS 16

enum rs_lane { RS_STRICT, RS_WEIGHTED, RS_LANES };

struct rs_flow {
	struct rs_flow *next, *prev; /* in the list of its priority */
	/* that list. NULL: nothing to send, moving to another lane, or weighted and held */
	struct rs_turns *on;
	uint32_t len[RS_FLOW_OPS];  /* bytes of operation n, at n % RS_FLOW_OPS */
	uint8_t extra[RS_FLOW_OPS]; /* bytes by which its chunks may be longer than others */
	/* numbers of the oldest operation not yet picked entirely, and of the next */
	uint32_t first, end;
	uint32_t sent; /* bytes of operation `first` already picked */
	/* bytes left in epoch `epoch`, less any excess; weighted class only */
	int32_t share;
	uint32_t epoch;
	uint32_t outstanding; /* chunks picked and not done */
	uint8_t priority, weight;
	uint8_t next_priority, next_weight; /* after the outstanding chunks, while moving */
	/* to the other lane: chunks of one flow never overtake each other */
	bool moving;
	uint8_t lane;  /* enum rs_lane */
	uint8_t bulky; /* operations until its short messages are urgent */
	bool held;     /* rs_sched_hold() */
};

struct rs_turns {
	struct rs_flow *head, *tail;
};

struct rs_window {
	uint32_t bytes, max_bytes;
	uint32_t chunks, max_chunks;
};

struct rs_sched {
	struct rs_turns turns[RS_PRIORITIES]; /* [0]: of the weighted class, in this epoch */
	struct rs_turns expired;              /* of the weighted class, in the next epoch */
	uint32_t epoch;
	struct rs_window lane[RS_LANES];
	uint32_t chunk;
	uint32_t narrow; /* bytes of the narrow window. 0: there is none */
	uint32_t alert;  /* long chunks that the narrow window still applies to */
};

struct rs_chunk {
	struct rs_flow *flow;
	uint32_t op;          /* its number in the flow */
	uint32_t offset, len; /* in the operation */
	uint8_t lane;
	bool last; /* of the operation */
};

void rs_sched_init(struct rs_sched *s, uint32_t chunk, const uint32_t max_bytes[RS_LANES],
		   const uint32_t max_chunks[RS_LANES]);

/* Give the weighted lane a narrow window of at most `bytes`; 0: none. */
void rs_sched_narrow(struct rs_sched *s, uint32_t bytes);

/* priority 0 to 7, weight 1 to RS_WEIGHT_MAX. The first operation has number 0. */
void rs_flow_init(struct rs_flow *f, uint8_t priority, uint8_t weight);

/* Initialise a flow that uses the given lane's window at any priority. Do not call rs_sched_set()
 * for it. */
void rs_flow_init_on(struct rs_flow *f, uint8_t priority, uint8_t weight, enum rs_lane lane);

/* Return the current lane of the flow's chunks. */
enum rs_lane rs_flow_lane(const struct rs_flow *f);

/* Queue an operation of len bytes (0 is allowed: one empty chunk). False: RS_FLOW_OPS are
 * queued. */
bool rs_sched_push(struct rs_sched *s, struct rs_flow *f, uint32_t len);
/* The same, with chunks up to `extra` bytes longer, because they have no header. */
bool rs_sched_push_longer(struct rs_sched *s, struct rs_flow *f, uint32_t len, uint8_t extra);

/* Pick up to max chunks; return their number. Each must be followed by one rs_sched_done(). While
 * short messages are about, a long chunk is picked alone: who posts it is busy for a chunk at most,
 * and looks before it for the completions of the short ones, and after it for other short ones. */
unsigned int rs_sched_pick(struct rs_sched *s, struct rs_chunk *out, unsigned int max);

/* The same in two steps, also for a long chunk behind others: return the flow whose chunk
 * rs_sched_pick() would pick now (NULL: none), then pick that chunk. */
struct rs_flow *rs_sched_next(struct rs_sched *s);
void rs_sched_take(struct rs_sched *s, struct rs_flow *f, struct rs_chunk *out);

/*
 * Hold a flow whose queue pair is full: other flows are served until rs_sched_resume(). A held
 * strict flow still blocks lower priorities. A held weighted flow counts as idle.
 */
void rs_sched_hold(struct rs_sched *s, struct rs_flow *f);
void rs_sched_resume(struct rs_sched *s, struct rs_flow *f);

/* Complete a chunk on the lane that it was picked for. */
void rs_sched_done(struct rs_sched *s, struct rs_flow *f, enum rs_lane lane, uint32_t len);

/* Change the priority. Queued operations keep their order; a flow that changes lanes waits for its
 * outstanding chunks. */
void rs_sched_set(struct rs_sched *s, struct rs_flow *f, uint8_t priority, uint8_t weight);

/* Drop the operations that were not picked, and the rest of a partly picked one. Outstanding chunks
 * remain. */
void rs_sched_drop(struct rs_sched *s, struct rs_flow *f);

/* True if some flow has something to send, even if the windows do not allow it. Held weighted flows
 * do not count. */
bool rs_sched_backlog(const struct rs_sched *s);

/* ---- for users with batched completions -------------------------------------------------------
 *
 * Instead of rs_sched_done(), call rs_sched_placed() when a chunk is posted, since the queue itself
 * bounds the chunks, and rs_sched_landed() with the total cost of completed chunks in the window,
 * of any flows of the lane. Such flows never change lanes.
 */
static inline uint32_t rs_cost(uint32_t len)
{
	return len < RS_COST_MIN ? RS_COST_MIN : len;
}

static inline void rs_sched_placed(struct rs_sched *s, struct rs_flow *f)
{
	s->lane[f->lane].chunks--;
	f->outstanding--;
}

static inline void rs_sched_landed(struct rs_sched *s, enum rs_lane lane, uint32_t cost)
{
	s->lane[lane].bytes -= cost;
}

/* True if a chunk may bypass the scheduler, while no flow has anything to send. No share is
 * charged; it lands as above. */
static inline bool rs_sched_fits(const struct rs_sched *s, enum rs_lane lane, uint32_t cost)
{
	const struct rs_window *w = &s->lane[lane];

	return w->bytes <= w->max_bytes && cost <= w->max_bytes - w->bytes;
}

static inline void rs_sched_pass(struct rs_sched *s, enum rs_lane lane, uint32_t cost)
{
	s->lane[lane].bytes += cost;
}

#endif
