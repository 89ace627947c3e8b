/* SPDX-License-Identifier: BSD-2-Clause */
/* barrier_arrive.h - arrivals at barriers, for tests of core/barrier. */
#ifndef UNIT_BARRIER_ARRIVE_H
#define UNIT_BARRIER_ARRIVE_H

#include "core.h"

static uint64_t larger(uint8_t op, uint64_t a, uint64_t b)
{
	(void)op;
	return a > b ? a : b;
}

static struct msg arrive(uint16_t src, uint32_t threads, uint64_t value)
{
	struct msg m = unit_msg(MSG_ARRIVE, src, 0, src, 0);

	m.home = 0;
	m.aux = threads;
	m.value = value;
	return m;
}

static struct msg departure(uint16_t src, uint16_t dst)
{
	struct msg m = unit_msg(MSG_DEPART, src, dst, src, 0);

	m.home = 0;
	return m;
}

#endif
