/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h - calls with answers: names of regions, statistics, frees. */
#ifndef CALLS_CALL_H
#define CALLS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

enum call_op {
	CALL_CREATE = 1,
	CALL_PUBLISH,
	CALL_ATTACH,
	CALL_DETACH,
	CALL_DESTROY,
	CALL_QUERY,
	CALL_VACATE,
	CALL_QUIET,
	CALL_PURGE,
	CALL_MAY_PURGE,
	CALL_FREE,
	CALL_STATS,
	CALL_HOT,
	CALL_FIND,
	CALL_VECTORS,
	CALL_STALLS,
	CALL_TRIM,
	CALL_SPAWN,
	CALL_CANCEL,
	CALL_ASLEEP,
	CALL_SHARING,
	CALL_UNITS_TAKE,
	CALL_UNITS_GIVE,
	CALL_UNITS_OWNER,
	CALL_UNITS_WHICH,
	CALL_UNITS_BEGIN,
	CALL_UNITS_END,
	CALL_LANES,
	CALL_WITHDRAW,
	CALL_LOAD,
	CALL_MEMORY,
	CALL_OPS
};

/*
 * Call a rank; it or another rank of its node serves the call. Any thread of the program, inside or
 * outside the runtime. Blocks for a round trip, or until the service thread there serves the call.
 * Returns 0, with out filled, or -errno of the callee. If the answer has a variable number of rows,
 * returns its size. -EMSGSIZE: in or out exceeds WIRE_CALL_MAX (a little less for in). payload.h
 * defines in and out of each call; a node that answers with anything else is dropped.
 */
int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out,
	      size_t out_size);

/* Handle MSG_CALL and MSG_RETURN. Inside the runtime; neither waits. -EBADMSG: the message violates
 * payload.h, is an unrequested answer, or its sender may not make this call now. */
int call_arrived(const struct msg *m, const void *payload, size_t size);
int call_returned(const struct msg *m, const void *payload, size_t size);

/* The service thread calls these with the argument of CALL_SPAWN and CALL_CANCEL. Set before the
 * job runs. */
extern int (*call_spawn)(uint64_t arg);
extern int (*call_cancel)(uint64_t arg);

/* Is there a queued call that only this process can serve? Any thread. */
bool call_waits(void);
/* Serve some of the calls that only this process can serve. For the service thread. True: there are
 * more. Does not block. */
bool call_serve(void);

#endif
