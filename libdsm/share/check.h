/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * check.h - checks, by rules.h, of data written by another process of the node. The owner checks
 * copies of entries of a process's rings; the process, of the owner's. Also checks what another
 * owner sent over TCP before a link is up. (Frames: frame.h. Later messages between owners:
 * repair.h.) Pure.
 */
#ifndef SHARE_CHECK_H
#define SHARE_CHECK_H

#include "share/rules.h"

_Static_assert(RS_INLINE_MAX == RSHARE_INLINE_MAX && RS_PIECES_MAX == RSHARE_PIECES_MAX,
	       "what the entries hold");

static inline bool rs_op_in_pieces_ok(const struct rs_sqe *e, const struct rs_limits *x)
{
	switch (e->op) {
	case RS_OP_SEND: return rs_is_SEND_PIECES(e, x);
	case RS_OP_WRITE: return rs_is_WRITE_PIECES(e, x);
	default: return rs_is_READ_PIECES(e, x);
	}
}

/* Check a submission; pool: size of the pool in bytes; pieces: that the device takes. */
static inline bool rs_op_ok(const struct rs_sqe *e, uint64_t pool, uint32_t pieces)
{
	const struct rs_limits x = { .pool = pool, .len = e->len, .pieces = pieces };
	const bool data = e->flags & RSHARE_INLINE;

	if (e->pieces)
		return rs_op_in_pieces_ok(e, &x);
	switch (e->op) {
	case RS_OP_SEND: return data ? rs_is_SEND_INLINE(e, &x) : rs_is_SEND(e, &x);
	case RS_OP_WRITE: return data ? rs_is_WRITE_INLINE(e, &x) : rs_is_WRITE(e, &x);
	case RS_OP_FETCH_ADD: return rs_is_FETCH_ADD(e, &x);
	case RS_OP_COMPARE_SWAP: return rs_is_COMPARE_SWAP(e, &x);
	default: return rs_is_READ(e, &x);
	}
}

/* Check the pieces of a submission that rs_op_ok() allows: each lies in the pool, and together they
 * have its length. */
static inline bool rs_pieces_ok(const struct rs_sqe *e, const struct rs_piece *v, uint64_t pool)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < e->pieces; i++) {
		const struct rs_limits x = { .pool = pool, .len = (uint32_t)v[i].len };

		if (!rs_is_PIECE(&v[i], &x))
			return false;
		sum += v[i].len;
	}
	return !e->pieces || sum == e->len;
}

/* Check what a peer asks for in a frame ATOMIC. */
static inline bool rs_atomic_ok(const struct rs_atomic *a)
{
	return a->op == RS_OP_FETCH_ADD ? rs_is_ADD(a, NULL) : rs_is_SWAP(a, NULL);
}

/* Check a receive; pool: size of the pool in bytes. */
static inline bool rs_receive_ok(const struct rs_rqe *e, uint64_t pool)
{
	const struct rs_limits x = { .pool = pool, .len = e->len };

	return rs_is_RECEIVE(e, &x);
}

/* Check a completion, for a process with conns connections. */
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

/*
 * Check a request of a process with conns connections, 0: not attached. -EPROTO: not allowed now,
 * or another version. -EINVAL.
 */
int rs_request_check(const struct rs_request *q, uint32_t conns);
/* Return the owner's status, or -EPROTO: not an answer to q. */
int rs_answer_check(const struct rs_request *q, const struct rs_answer *a, uint32_t conns);

/*
 * Check the request of another owner. -EPROTO: malformed, or another version. -EACCES: another key.
 */
int rs_hello_asks(const struct rs_hello *h, uint64_t key);
/* Return the status of an answer, or the same errors if it is invalid. */
int rs_hello_answers(const struct rs_hello *h, uint64_t key);

#endif
