/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * push.h - at the home of a block: is the node that writes it to give it back when it synchronises (MSGF_PUSH)?
 *
 * A home that has asked for a block several times, each time after another node had written it, will ask again. From then on the
 * grants of further writes say that the writer is to push. Whether the home uses what has been pushed no message tells. So after a
 * number of writes one is not pushed. If the home asks for that, pushing goes on for longer; if not, the writer keeps the block,
 * and no grant says so again. Zeroed memory is the start: nothing is known.
 */
#ifndef CORE_PUSH_H
#define CORE_PUSH_H

#include "core/types.h"

#define PUSH_AFTER 2u /* reads by the home */
#define PUSH_FEW 7u   /* writes that are pushed then, before one is not */
#define PUSH_MANY 31u /* and when the home has read that one, too */

struct push {
	uint8_t reads : 2; /* in a row: by the home, each of what another node has written */
	uint8_t told : 1;  /* the last writer was told to push */
	uint8_t left : 5;  /* writers that are to be told, before one is not */
};
CORE_ASSERT_SIZE(struct push, 1);

/* The home has to ask for what another node has written. after: PUSH_AFTER, or less for tests. */
static inline void push_missed(struct push *p, uint8_t after)
{
	if (p->told) { /* it was not pushed, or too late */
		p->reads = (after - 1u) & 3;
		p->left = 0;
	} else if (!p->left) {
		p->reads = (p->reads < 3 ? p->reads + 1u : 3u) & 3;
		if (p->reads >= after)
			p->left = p->reads > after ? PUSH_MANY : PUSH_FEW;
	}
	p->told = 0;
}

/* A node gets the block to write. back: the newest copy is at the home; grant: the node has that, too, and needs no contents. True:
 * the grant says that the node is to push. */
static inline bool push_written(struct push *p, bool back, bool grant)
{
	if (!back)
		p->reads = 0, p->left = 0;
	p->told = back && grant && p->left;
	p->left = (p->left - p->told) & 31;
	return p->told;
}

#endif
