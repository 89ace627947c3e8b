/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h - calls with answers: names of regions, statistics, frees. */
#ifndef ENGINE_CALL_H
#define ENGINE_CALL_H

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
	CALL_OPS
};

/*
 * Call a rank, which serves it or has another rank of its node do so. By any thread of the program, which need not be inside the
 * runtime; blocks for a round trip, or until the service thread there has come to it. 0 or -errno of the callee, out filled;
 * calls whose answer has any number of rows: its size. -EMSGSIZE: in and out hold at most WIRE_CALL_MAX, a little less for in.
 * What in and out are of each call is in payload.h; a node that answers with anything else is dropped.
 */
int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size);

/* By whoever handles a message, inside the runtime: MSG_CALL and MSG_RETURN. Neither waits. -EBADMSG: it breaks a rule of
 * payload.h, nobody has asked, or its sender may not ask that now. */
int call_arrived(const struct msg *m, const void *payload, size_t size);
int call_returned(const struct msg *m, const void *payload, size_t size);

/* What CALL_SPAWN and CALL_CANCEL do: with their argument, by the service thread. Set before the job runs. */
extern int (*call_spawn)(uint64_t arg);
extern int (*call_cancel)(uint64_t arg);

/* Is there a call that only this process can serve? Any thread. */
bool call_waits(void);
/* The service thread: some of the calls that only this process can serve. True: there are more. Does not block. */
bool call_serve(void);

#endif
