/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fifo.h - the unacknowledged posts of a lane, oldest first, and which of them are posted again
 * after the queue pair broke. Pure.
 *
 * Both ends count the sends of a lane. When its queue pair breaks, the receiver reports how many
 * arrived. Then
 *
 *   sends up to that number    have arrived
 *   writes before the last     have arrived, too: a queue pair executes in order
 *   reads that did not         are posted again: the response may be lost
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

/* A part of the memory of a post. */
struct rs_span {
	const void *data;
	uint32_t len;
};

/* One post: a frame and its payload, or an RDMA write or read. */
struct rs_post {
	uint8_t op; /* enum rs_op */
	struct rs_frame frame;
	bool copied;   /* the only span is not registered: the device gets a copy */
	uint8_t spans; /* of len bytes together; 0: none */
	struct rs_span span[RS_PIECES_MAX];
	uint32_t len, lkey, rkey;
	uint64_t remote;
};

struct rs_sent {
	struct rs_post post;
	struct rs_conn *conn; /* NULL: a frame without payload */
	bool last;            /* of its operation */
	bool arrived;         /* reported by the peer; waits for an older read */
};

struct rs_fifo {
	struct rs_sent *sent;
	uint32_t size, head, tail; /* size: a power of two */
	uint32_t numbered;         /* sends, since the beginning */
	uint32_t received;         /* sends of the peer */
};

/* size: a power of two. -ENOMEM. */
int rs_fifo_init(struct rs_fifo *f, uint32_t size);
void rs_fifo_exit(struct rs_fifo *f);

/* Append an entry, for which there must be room; a send gets its number. */
struct rs_sent *rs_fifo_add(struct rs_fifo *f, const struct rs_post *post);
/* Remove the oldest entry if it has arrived, or if *n is not 0, which is then decremented. NULL:
 * neither. The entry is valid until the next rs_fifo_add(). */
struct rs_sent *rs_fifo_pop(struct rs_fifo *f, unsigned int *n);
/* Find the oldest entry at or after position *at that has not arrived, and store its position in
 * *at. NULL: none. */
const struct rs_sent *rs_fifo_next(const struct rs_fifo *f, uint32_t *at);

/* A connection has ended with operations on the lane: none of its entries ends an operation any
 * more, and its writes and reads count as arrived, so that they are not posted again. Its sends
 * are, since the peer counts them, but as resets: no message overtakes a write that failed. */
void rs_fifo_forsake(struct rs_fifo *f, const struct rs_conn *conn);

/* Record the number of sends that the peer received. -EBADMSG: more than were sent, or fewer than
 * it has acknowledged. */
int rs_fifo_arrived(struct rs_fifo *f, uint32_t received);

/* Record the arrival of a send with this number. -EBADMSG: not the next one. */
int rs_fifo_take(struct rs_fifo *f, uint16_t number);

#endif
