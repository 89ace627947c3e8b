/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * barrier.h - a combining tree over the nodes of a group. Arrivals and their values go up; the
 * departure with the combined value comes down. A node counts the threads of each of its ranks
 * separately, so that all ranks get an error if they name different numbers of threads.
 *
 * The number of a destroyed barrier is reused in the next generation. The rank that creates
 * barriers counts the generations. Other ranks learn them from the handles of their threads, and
 * each message carries one. An arrival of a generation older than the node's is refused. A newer
 * arrival, of a local thread or of a child of the waiting group, ends the older episode, since no
 * other thread will join it. A local thread sets the node's generation to its own; a child only
 * advances it to the next one. Barrier 0 always has generation 0.
 */
#ifndef CORE_BARRIER_H
#define CORE_BARRIER_H

#include "core/action.h"

#define BAR_FANOUT 8
/* generations have 24 bits, like those of objects; a number that has used all of them is retired */
#define BAR_LIFE_MAX 0xffffffu

/*
 * The threads of one rank that have arrived in the episode `gen`. The counts are stale if gen is
 * another episode.
 */
struct bar_part {
	uint32_t gen, threads, arrived; /* threads 0: never used */
	uint32_t all;                   /* not 0: the next arrival is the last */
};

/* An arrival of another node before any thread of this node has arrived in its generation. */
struct bar_early {
	uint64_t value;
	uint32_t life, threads;
	uint16_t from;
	int16_t status;
	uint8_t op, pad[3];
};
CORE_ASSERT_SIZE(struct bar_early, 24);

struct bar {
	uint32_t gen;    /* episodes that ended; waiters wait for it to change */
	uint32_t life;   /* the barrier's generation: older ones are refused */
	uint32_t before; /* the generation before that */
	/*
	 * threads per rank, the smallest number named here; 0: no thread of this node has arrived
	 */
	uint32_t threads;
	uint32_t expect;  /* threads per rank, named by the first arrival */
	uint32_t arrived; /* ranks of this node that are complete */
	uint8_t children; /* that arrived: from[] */
	uint8_t earlies;  /* in early[] */
	uint8_t any;      /* acc holds a value */
	uint8_t up;       /* this node's arrival has been sent to the parent */
	int16_t status;   /* -errno of this episode */
	int16_t ended;    /* -errno of the last episode */
	uint64_t mask;    /* the group that the first of this node's threads named */
	uint64_t acc;
	uint64_t result;           /* of the last episode */
	uint32_t sleepers;         /* for the host: threads that sleep on gen */
	uint16_t locals;           /* ranks of this node in the group; 0 counts as 1 */
	int16_t undone;            /* -errno of the last episode of the generation `before` */
	uint16_t from[BAR_FANOUT]; /* in order */
	struct bar_part part;      /* of the rank, if the node has only one */
	/*
	 * In order of arrival, each node once. They may turn out not to be children when a local
	 * thread names the group.
	 */
	struct bar_early early[BAR_FANOUT];
};
CORE_ASSERT_SIZE(struct bar, 288);

/* A node's place in the tree of a group (mask 0: all nodes). */
struct bar_tree {
	uint16_t parent; /* SET_NOBODY at the root */
	uint16_t nchildren;
	uint16_t child[BAR_FANOUT];
};

/* The group that a local thread names. */
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

/* Set the group that a local arrival names. Called before its bar_step(), under the same lock. On
 * an error nothing has changed. -ESTALE: older generation; -EINVAL: the episode has another group;
 * -EBADMSG: barrier 0 has no such generation. */
int bar_admit(struct bar *b, const struct msg *m, const struct bar_group *group);

/*
 * Step a barrier with MSG_ARRIVE of a local thread (src is me; object, op, value, aux: threads,
 * generation; part: of its rank, NULL: b->part), MSG_ARRIVE of a child, or MSG_DEPART of the
 * parent. t may be NULL until a local thread has arrived. Returns 0, -EBADMSG, or -ESTALE for a
 * local thread with a generation older than this node's. An arrival of another node is answered by
 * MSG_DEPART with -EINVAL if its generation is older, or if it is no child in the group that this
 * node's threads name. A local thread waits for the end of the episode in which it was counted:
 * part->gen after the return.
 */
int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b,
	     struct bar_part *part, const struct msg *m, struct actions *out);

/*
 * Return how the episode ended for a local thread that arrived in generation `life`: 0 and its
 * result, or -errno. Called without a lock. If another episode has ended since, the thread gets 0
 * without a result.
 */
int bar_ended(const struct bar *b, uint32_t life, uint64_t *result);

#endif
