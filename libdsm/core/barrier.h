/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * barrier.h - a combining tree over the nodes of a group: arrivals and their values go up, the departure with the
 * combined value comes down. The threads of a node's ranks arrive at that node; each rank's are counted on their own, so that
 * ranks that name different numbers of threads are all told.
 *
 * The number of a barrier that is destroyed is used again, in the next generation. The rank that makes barriers counts the
 * generations; all others learn them from the handles of their own threads, and each message carries one. An arrival of an older
 * generation than this node knows is refused. A newer one of an own thread, or of a child of the group that waits here, ends
 * the episode of the older: nobody else will come to it. But a node's generation becomes that of an own thread only; by a child's
 * word it becomes the next. Barrier 0 has generation 0 for ever.
 */
#ifndef CORE_BARRIER_H
#define CORE_BARRIER_H

#include "core/action.h"

#define BAR_FANOUT 8
#define BAR_LIFE_MAX \
	0xffffffu /* generations have 24 bits, as those of objects; a number that has used them up is not used again */

/* The threads of one rank that have come to the episode `gen`; those of another episode count for nothing. */
struct bar_part {
	uint32_t gen, threads, arrived; /* threads 0: never used */
	uint32_t all;                   /* not 0: who comes is the last of them */
};

/* The arrival of another node, as long as none of this node's threads has come in its generation. */
struct bar_early {
	uint64_t value;
	uint32_t life, threads;
	uint16_t from;
	int16_t status;
	uint8_t op, pad[3];
};
CORE_ASSERT_SIZE(struct bar_early, 24);

struct bar {
	uint32_t gen;     /* episodes that ended; waiters wait for it to move */
	uint32_t life;    /* the barrier's generation: older ones are refused */
	uint32_t before;  /* the generation before that */
	uint32_t threads; /* a rank, the smallest number that was said here; 0: no thread of this node has come yet */
	uint32_t expect;  /* threads a rank, as the first arrival said */
	uint32_t arrived; /* ranks of this node that are complete */
	uint8_t children; /* that arrived: from[] */
	uint8_t earlies;  /* in early[] */
	uint8_t any;      /* acc holds a value */
	uint8_t up;       /* this node's arrival has been sent to the parent */
	int16_t status;   /* -errno of this episode */
	int16_t ended;    /* -errno of the last */
	uint64_t mask;    /* the group, as the first of this node's threads named it */
	uint64_t acc;
	uint64_t result;           /* of the last episode */
	uint32_t sleepers;         /* the host's: threads that sleep on gen */
	uint16_t locals;           /* ranks of this node in the group; 0 counts as 1 */
	int16_t undone;            /* -errno of the last episode of the generation `before` */
	uint16_t from[BAR_FANOUT]; /* in order */
	struct bar_part part;      /* of the only rank of a node of one */
	/* As they came, each node once. Whether they are this node's children is known once one of its own threads has come. */
	struct bar_early early[BAR_FANOUT];
};
CORE_ASSERT_SIZE(struct bar, 288);

/* A node's place in the tree of a group (mask 0: all nodes). */
struct bar_tree {
	uint16_t parent; /* SET_NOBODY at the root */
	uint16_t nchildren;
	uint16_t child[BAR_FANOUT];
};

/* What an own thread says of the group. */
struct bar_group {
	uint64_t mask;   /* nodes; 0: all */
	uint16_t locals; /* ranks of this node among them; 0 counts as 1 */
};

/* A message's generation of the barrier: 16 bits in its req_slot, 8 in home. */
static inline uint32_t bar_life(const struct msg *m)
{
	return m->req_slot | (uint32_t)m->home << 16;
}

static inline void bar_set_life(struct msg *m, uint32_t life)
{
	m->req_slot = (uint16_t)life;
	m->home = (uint16_t)(life >> 16);
}

/* -EINVAL: me is not in the group. */
int bar_tree(uint64_t mask, uint16_t nnodes, uint16_t me, struct bar_tree *t);

typedef uint64_t (*bar_combine)(uint8_t op, uint64_t a, uint64_t b);

/* Before the bar_step() of an own thread's arrival, under the same lock: from now on the group is the one that it names. -ESTALE: it
 * is of an older generation; -EINVAL: its episode has another group; -EBADMSG: barrier 0 has no such generation. Nothing has changed
 * then. */
int bar_admit(struct bar *b, const struct msg *m, const struct bar_group *group);

/*
 * A thread of this node arrives (m: MSG_ARRIVE from me: object, op, value, aux threads, generation; part: of its rank, NULL:
 * b->part), or MSG_ARRIVE of a child, or MSG_DEPART of the parent. t may be NULL as long as none of this node's threads has come. 0,
 * -EBADMSG, or -ESTALE for an own thread: its generation is older than this node's. A child of an older generation, and one that is
 * none in the group that this node's threads name, departs with -EINVAL. A thread of this node waits for the end of the
 * episode in which it was counted: gen of its part, once this has returned.
 */
int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b, struct bar_part *part,
	     const struct msg *m, struct actions *out);

/*
 * How the episode has ended in which an own thread was counted that came in the generation `life`: 0 and its result, or -errno. No
 * lock. The thread may check late: if another episode has ended since, it gets 0 without a result.
 */
int bar_ended(const struct bar *b, uint32_t life, uint64_t *result);

#endif
