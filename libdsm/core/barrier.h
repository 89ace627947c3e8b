/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * barrier.h - a combining tree over the nodes of a group: arrivals and their values go up, the departure with the
 * combined value comes down. The threads of a node's ranks arrive at that node; each rank's are counted on their own, so that
 * ranks that name different numbers of threads are all told.
 */
#ifndef CORE_BARRIER_H
#define CORE_BARRIER_H

#include "core/action.h"

#define BAR_FANOUT 8

/* The threads of one rank that have come to the episode `gen`; those of another episode count for nothing. */
struct bar_part {
	uint32_t gen, threads, arrived; /* threads 0: never used */
};

struct bar {
	uint32_t gen;      /* episodes that ended; waiters wait for it to move */
	uint32_t threads;  /* a rank, the smallest number that was said here; 0: no thread of this node has come yet */
	uint32_t expect;   /* threads a rank, as the first arrival said */
	uint32_t arrived;  /* ranks of this node that are complete */
	uint16_t children; /* that arrived: from[] */
	uint8_t any;       /* acc holds a value */
	uint8_t up;        /* this node's arrival has been sent to the parent */
	int16_t status;    /* -errno of this episode */
	int16_t ended;     /* -errno of the last */
	uint64_t mask;     /* the group, as the first of this node's threads named it; the host's */
	uint64_t acc;
	uint64_t result;   /* of the last episode */
	uint32_t sleepers; /* the host's: threads that sleep on gen */
	uint16_t locals;   /* ranks of this node in the group; 0 counts as 1; the host's */
	uint16_t pad;
	/* In order; whether they are this node's children is known once one of its own threads has come. */
	uint16_t from[BAR_FANOUT];
	struct bar_part part; /* of the only rank of a node of one */
	uint32_t pad2;
};
CORE_ASSERT_SIZE(struct bar, 88);

/* A node's place in the tree of a group (mask 0: all nodes). */
struct bar_tree {
	uint16_t parent; /* SET_NOBODY at the root */
	uint16_t nchildren;
	uint16_t child[BAR_FANOUT];
};

/* -EINVAL: me is not in the group. */
int bar_tree(uint64_t mask, uint16_t nranks, uint16_t me, struct bar_tree *t);

typedef uint64_t (*bar_combine)(uint8_t op, uint64_t a, uint64_t b);

/* A thread of this node arrives (m: MSG_ARRIVE from me: object, op, value, aux threads; part: of its rank, NULL: b->part), or
 * MSG_ARRIVE of a child, or MSG_DEPART of the parent. t may be NULL as long as none of this node's threads has come. 0 or
 * -EBADMSG. Who arrives here as a child, and in the group that this node's threads name is none, departs with -EINVAL. */
int bar_step(uint16_t me, const struct bar_tree *t, bar_combine combine, struct bar *b, struct bar_part *part,
	     const struct msg *m, struct actions *out);

#endif
