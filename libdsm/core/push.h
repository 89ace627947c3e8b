/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * push.h - decides, at the home of a block, whether its writer gives the block back when it
 * synchronises (MSGF_PUSH).
 *
 * A home that has requested a block several times, each time after a write by another node, will
 * probably request it again. From then on, write grants tell the writer to push. No message tells
 * whether the home uses pushed contents, so after a number of writes one is not pushed. If the home
 * requests that block, pushing continues for more writes. If not, the writer keeps the block and
 * pushing ends. Zeroed memory is the initial state.
 */
#ifndef CORE_PUSH_H
#define CORE_PUSH_H

#include "core/types.h"

#define PUSH_AFTER 2u /* reads by the home before pushing begins */
#define PUSH_FEW 7u   /* writes that are then pushed, before one is not */
#define PUSH_MANY 31u /* the same after the home has also read that one */

struct push {
	uint8_t reads : 2; /* consecutive reads by the home, each after a write by another node */
	uint8_t told : 1;  /* the last writer was told to push */
	uint8_t left : 5;  /* writers still to be told, before one is not */
};
CORE_ASSERT_SIZE(struct push, 1);

/* The home requests contents that another node has written. after: PUSH_AFTER, or less for
 * tests. */
static inline void push_missed(struct push *p, uint8_t after)
{
	if (p->told) { /* the push did not happen, or came too late */
		p->reads = (after - 1u) & 3;
		p->left = 0;
	} else if (!p->left) {
		p->reads = (p->reads < 3 ? p->reads + 1u : 3u) & 3;
		if (p->reads >= after)
			p->left = p->reads > after ? PUSH_MANY : PUSH_FEW;
	}
	p->told = 0;
}

/* Another node is granted the block for writing. back: the home has the newest copy; grant: the
 * node has it, too, and needs no contents. True: the grant must tell the node to push. */
static inline bool push_written(struct push *p, bool back, bool grant)
{
	if (!back)
		p->reads = 0, p->left = 0;
	p->told = back && grant && p->left;
	p->left = (p->left - p->told) & 31;
	return p->told;
}

#endif
