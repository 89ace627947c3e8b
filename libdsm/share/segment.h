/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * segment.h - the memory that a client shares with the owner: a page of flags, the rings of its
 * connections, its pool. The owner creates it as a sealed memfd, so that the client cannot shrink
 * it, and keeps its own copy of all sizes.
 */
#ifndef SHARE_SEGMENT_H
#define SHARE_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "share/ring.h"

#define RS_CONNS_MAX 65536u
#define RS_DEPTH_SHIFT_MAX 12u
#define RS_DEPTH_MAX (1u << RS_DEPTH_SHIFT_MAX)
#define RS_PAGE 4096u
/* type of a listener's event; the cookie is the index of the connection */
#define RS_EVENT_ACCEPT 100u
/* completion slots per submission slot: sends, receives, and room for events */
#define RS_CQ_FACTOR 4u

struct rs_seg_head {
	/*
	 * not 0: ring the doorbell after setting a ready bit. Set by the owner; also cleared by the
	 * ringing client
	 */
	uint32_t sleeping;
	uint32_t reserved[15];
	uint32_t armed;   /* set by the client: signal the set with the next bit of events */
	uint32_t signals; /* of the set; incremented by the owner after each */
	uint32_t reserved2[14];
	/* set by the client: connections with entries in a submission ring */
	uint64_t ready[RS_CONNS_MAX / 64];
	/* set by the owner: connections of the set that have events */
	uint64_t events[RS_CONNS_MAX / 64];
};

struct rs_seg_conn {
	uint32_t armed;   /* set by the client: signal the next completion */
	uint32_t signals; /* incremented by the owner after each */
	uint32_t quiet;   /* unsignalled operations that have completed; written by the owner */
	uint32_t reserved[13];
	/* then sq[depth], rq[depth], cq[RS_CQ_FACTOR * depth] */
};

/* Offsets, from the agreed sizes. */
struct rs_layout {
	uint32_t conns, depth;
	uint64_t conn_offset, conn_bytes;
	uint64_t pool_offset, pool_bytes;
	uint64_t bytes;
};

static inline struct rs_layout rs_layout(uint32_t conns, uint32_t depth, uint64_t pool_bytes)
{
	struct rs_layout l = { .conns = conns, .depth = depth, .pool_bytes = pool_bytes };

	l.conn_offset = (sizeof(struct rs_seg_head) + 4095) & ~(uint64_t)4095;
	l.conn_bytes = sizeof(struct rs_seg_conn) +
		depth *
			(sizeof(struct rs_sqe) + sizeof(struct rs_rqe) +
			 RS_CQ_FACTOR * sizeof(struct rs_cqe));
	l.pool_offset = (l.conn_offset + conns * l.conn_bytes + 4095) & ~(uint64_t)4095;
	l.bytes = l.pool_offset + pool_bytes;
	return l;
}

static inline struct rs_seg_conn *rs_seg_conn(const struct rs_layout *l, void *base, uint32_t index)
{
	return (struct rs_seg_conn *)((char *)base + l->conn_offset + index * l->conn_bytes);
}

static inline void *rs_seg_sq(struct rs_seg_conn *c)
{
	return c + 1;
}

static inline void *rs_seg_rq(const struct rs_layout *l, struct rs_seg_conn *c)
{
	return (char *)(c + 1) + l->depth * sizeof(struct rs_sqe);
}

static inline void *rs_seg_cq(const struct rs_layout *l, struct rs_seg_conn *c)
{
	return (char *)rs_seg_rq(l, c) + l->depth * sizeof(struct rs_rqe);
}

#endif
