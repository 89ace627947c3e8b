/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events.h - waiting for events of a connection of librshare. An includer may wait for another
 * time: EVENT_MS.
 */
#ifndef SHARE_EVENTS_H
#define SHARE_EVENTS_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "rshare.h"

#ifndef EVENT_MS
#define EVENT_MS 60000
#endif

static inline int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The next event, waiting for it. type 0: none came, or the owner is gone. */
static inline struct rshare_event next(struct rshare_conn *c)
{
	const int64_t end = now_ms() + EVENT_MS;
	struct rshare_event e = { .status = -ETIMEDOUT };
	int n;

	while (!(n = rshare_poll(c, &e, 1)) && now_ms() < end)
		rshare_wait(c, 1000);
	if (n < 0)
		e.status = n;
	return e;
}

/* The next of this type, or RSHARE_CLOSED. */
static inline struct rshare_event next_of(struct rshare_conn *c, enum rshare_event_type type)
{
	struct rshare_event e;

	do
		e = next(c);
	while (e.type && e.type != type && e.type != RSHARE_CLOSED);
	return e;
}

#endif
