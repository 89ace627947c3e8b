/* SPDX-License-Identifier: BSD-2-Clause */
/* step.h - steps of the core's machines in control segments. All return 0 or -EBADMSG; none blocks but for a stripe. */
#ifndef ENGINE_STEP_H
#define ENGINE_STEP_H

#include "engine/engine.h"

struct page_ctx step_ctx(uint16_t rank);
int step_message(const struct msg *m, const void *payload, size_t size, struct actions *acts);
int step_page(const struct msg *m, const void *data, struct actions *acts); /* data: behind MSG_DATA */
int step_bar(const struct msg *m, struct actions *acts);
int step_unlock(uint16_t index, struct actions *acts); /* of a hold record of this rank */

/* Where contents wait for the acknowledgements of their request. */
static inline char *stage_of(uint16_t rank, uint16_t slot)
{
	return peer_of(rank)->stage + (size_t)slot * BLOCK_MAX;
}

#endif
