/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check.h - is what another process of the node wrote as rules.h says? Of its rings the owner, and of the owner's rings the
 * process, looks at a copy. And what another owner said over TCP before a link is up. (Frames: frame.h. Later messages between
 * owners: repair.h.) Pure.
 */
#ifndef SHARE_CHECK_H
#define SHARE_CHECK_H

#include "share/rules.h"

/* A submission, with a pool of so many bytes. */
static inline bool rs_op_ok(const struct rs_sqe *e, uint64_t pool)
{
	const struct rs_limits x = { .pool = pool, .len = e->len };

	return e->op == RS_OP_SEND ? rs_is_SEND(e, &x) : rs_is_MOVE(e, &x);
}

/* A receive */
static inline bool rs_receive_ok(const struct rs_rqe *e, uint64_t pool)
{
	const struct rs_limits x = { .pool = pool, .len = e->len };

	return rs_is_RECEIVE(e, &x);
}

/* A completion, of a process with so many connections. */
static inline bool rs_event_ok(const struct rs_cqe *e, uint32_t conns)
{
	const struct rs_limits x = { .conns = conns };

	return rs_is_EVENT(e, &x) || rs_is_ACCEPT(e, &x);
}

static inline bool rs_index_ok(uint32_t index, uint32_t conns)
{
	const struct rs_limits x = { .conns = conns };

	return rs_holds_INDEX(index, &x);
}

/* Of a process with so many connections, 0: it is not attached. -EPROTO: it cannot ask this now, or speaks another version. -EINVAL. */
int rs_request_check(const struct rs_request *q, uint32_t conns);
/* The owner's status, or -EPROTO: this is no answer to q. */
int rs_answer_check(const struct rs_request *q, const struct rs_answer *a, uint32_t conns);

/* May another owner ask this? -EPROTO: it is none of this version. -EACCES: its key is another. */
int rs_hello_asks(const struct rs_hello *h, uint64_t key);
/* The status of an answer; the same errors if it is none. */
int rs_hello_answers(const struct rs_hello *h, uint64_t key);

#endif
