/* SPDX-License-Identifier: BSD-2-Clause */
/* frame.h - the header before every message between two owners. Little-endian, as x86-64 is. */
#ifndef SHARE_FRAME_H
#define SHARE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#define RS_FRAME_VERSION 3

enum rs_frame_kind {
	RS_FRAME_DATA = 1, /* a chunk of a message; payload follows */
	RS_FRAME_CREDIT,   /* nothing but the credit */
	RS_FRAME_OPEN,     /* struct rs_open */
	RS_FRAME_OPENED,   /* from: the sender's id */
	RS_FRAME_REFUSED,  /* total: why, an errno */
	RS_FRAME_CLOSE,    /* seq: data frames sent on the connection, all of which come first */
	RS_FRAME_CLOSED,   /* the answer */
	RS_FRAME_RESET,    /* the connection is no more */
	RS_FRAME_KINDS
};

struct rs_frame {
	uint8_t version;
	uint8_t kind;
	uint16_t number; /* of the send on its lane: see fifo.h */
	uint32_t to;     /* the receiver's connection id */
	uint32_t from;   /* the sender's */
	uint32_t seq;    /* number of this data frame on the connection */
	uint32_t credit; /* messages that the sender has taken buffers for, since the connection began */
	uint32_t total;  /* bytes of the message */
	uint32_t offset; /* of this chunk */
	uint32_t len;    /* bytes of payload after the header */
};

/* RS_FRAME_OPEN */
struct rs_open {
	uint8_t version;
	uint8_t kind;
	uint16_t number;
	uint32_t to; /* 0 */
	uint32_t from;
	uint32_t service;
	uint32_t credit;
	uint8_t priority, weight;
	uint16_t pad;
	uint32_t offset, len;
};

_Static_assert(sizeof(struct rs_frame) == 32 && sizeof(struct rs_open) == 32, "the wire format");

/* Copy the header of what arrived and check all that can be checked without the connection, by rules.h.
 * bytes: how much arrived, at most chunk bytes of it payload. -EBADMSG: malformed. */
int rs_frame_parse(const void *data, uint32_t bytes, uint32_t chunk, struct rs_frame *out);

#endif
