/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * raises.h - may stores to copies of release blocks ask for their homes (core/release.h, RE_GRANT)?
 *
 * That costs a round trip, and, if the first home goes on writing the block, a fetch by it. So the
 * node counts what it has asked for in vain, against what it has got and the closes that pass. Any
 * thread of the node; a race loses a count.
 */
#ifndef MISS_RAISES_H
#define MISS_RAISES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/wire.h"

struct region_homes;

bool raises_pay(void);
/* If a store may ask, would it to this block? With its stripe held; without, a hint. */
bool raises_asks(const struct region_homes *known, size_t off);
/* MSG_GRANT has come. */
void raises_answered(const struct msg *m);
/* The first home has sent a diff for a block whose home is this node now. */
void raises_shared(void);
/* This node has closed. */
void raises_closed(void);

#endif
