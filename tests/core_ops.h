/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core_ops.h - what the hosts of the core (core/host.h) in the model checker, the simulator and the
 * unit tests share: their table. Each has static functions with the names of these callbacks; `...`
 * sets the others.
 */
#ifndef TESTS_CORE_OPS_H
#define TESTS_CORE_OPS_H

#include "core/host.h"

#define CORE_OPS(...)                                                                           \
	{                                                                                       \
		.find = find, .now = now, .again = again, .drop = drop, .land = land,           \
		.stepped = stepped, .damaged = damaged, .send = send, .send_block = send_block, \
		.lower = lower, .open = open, .timer = timer, .fetch = fetch, __VA_ARGS__       \
	}

/* Callbacks of a host in which one event happens at a time. */
static inline void core_no_lock(struct core_host *h, uint32_t key)
{
	(void)h, (void)key;
}

static inline uint32_t core_no_answers(struct core_host *h, uint16_t slot)
{
	(void)h, (void)slot;
	return 0;
}

#endif
