/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drop.h - copies that this node drops by itself, without a message. Any thread inside the runtime,
 * without a stripe; nothing waits for another rank.
 */
#ifndef MISS_DROP_H
#define MISS_DROP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "miss/span.h"

#define DROP_MOST SPAN_MOST

/* Drop the read copies of n adjacent blocks of `block` bytes, n <= DROP_MOST, the first at off,
 * where the protocol allows it. One call of the fault backend closes adjacent copies. Returns the
 * number of dropped copies. */
unsigned int drop_blocks(size_t off, size_t block, unsigned int n);

/* Drop a clean copy of a release block. False: it is none, or not any more. */
bool drop_release(uint32_t object);

#endif
