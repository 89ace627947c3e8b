/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fifo.h - the posts of a lane that are not known to have arrived, oldest first, and what is posted again after the queue
 * pair broke. Pure.
 *
 * Both ends count the sends of a lane. When its queue pair breaks, the receiver says how many have arrived. Then
 *
 *   sends up to that number    have arrived
 *   writes before the last     have arrived, too: a queue pair executes in order
 *   reads that did not         are read again: the answer may be lost
 *     complete
 *   everything else            is posted again, in order
 */
#ifndef SHARE_FIFO_H
#define SHARE_FIFO_H

#include <stdbool.h>
#include <stdint.h>

#include "share/frame.h"
#include "share/ring.h"

struct rs_conn;

/* Something for the wire: a frame and its payload, or an RDMA write or read. */
struct rs_post {
	uint8_t op; /* enum rs_op */
	struct rs_frame frame;
	char *data;
	uint32_t len, lkey, rkey;
	uint64_t remote;
};

struct rs_sent {
	struct rs_post post;
	struct rs_conn *conn; /* NULL: a frame without payload */
	bool last;            /* of its operation */
	bool arrived;         /* as the peer says; it waits for an older read */
};

struct rs_fifo {
	struct rs_sent *sent;
	uint32_t size, head, tail; /* size: a power of two */
	uint32_t numbered;         /* sends, since the beginning */
	uint32_t received;         /* sends of the peer */
};

/* -ENOMEM. */
int rs_fifo_init(struct rs_fifo *f, uint32_t size);
void rs_fifo_exit(struct rs_fifo *f);

/* The next entry, which must have room; a send gets its number. */
struct rs_sent *rs_fifo_add(struct rs_fifo *f, const struct rs_post *post);
/* The oldest entry if it has arrived, or if *n completions are left, of which it takes one. NULL: neither. It is valid until
 * the next rs_fifo_add(). */
struct rs_sent *rs_fifo_pop(struct rs_fifo *f, unsigned int *n);
/* The oldest entry at or after position *at that has not arrived, whose position is *at then. NULL: none. */
const struct rs_sent *rs_fifo_next(const struct rs_fifo *f, uint32_t *at);

/* The peer says how many sends it has received. -EBADMSG: more than were sent, or fewer than it has acknowledged. */
int rs_fifo_arrived(struct rs_fifo *f, uint32_t received);

/* A send with this number arrives. -EBADMSG: it is not the next. */
int rs_fifo_take(struct rs_fifo *f, uint16_t number);

#endif
