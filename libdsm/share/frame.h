/* SPDX-License-Identifier: BSD-2-Clause */
/* frame.h - the header before every message between two owners. Little-endian, as x86-64 is. */
#ifndef SHARE_FRAME_H
#define SHARE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#define RS_FRAME_VERSION 4

enum rs_frame_kind {
	RS_FRAME_DATA = 1, /* a chunk of a message; payload follows */
	RS_FRAME_CREDIT,   /* only the credit */
	RS_FRAME_OPEN,     /* struct rs_open */
	RS_FRAME_OPENED,   /* from: the sender's id */
	RS_FRAME_REFUSED,  /* total: the reason, an errno */
	/* seq: number of data frames sent on the connection; all of them arrive first */
	RS_FRAME_CLOSE,
	RS_FRAME_CLOSED, /* response to CLOSE */
	RS_FRAME_RESET,  /* the connection no longer exists */
	RS_FRAME_FIRST,  /* first chunk of a message with immediate data, which is in offset */
	/* the writes before are a write of total bytes with immediate data, which is in offset */
	RS_FRAME_WRITTEN,
	RS_FRAME_ATOMIC, /* struct rs_atomic follows */
	/* of atomic operation seq; credit: 1: refused; total, offset: halves of the old value */
	RS_FRAME_RESULT,
	RS_FRAME_KINDS
};

struct rs_frame {
	uint8_t version;
	uint8_t kind;
	uint16_t number; /* number of the send on its lane: see fifo.h */
	uint32_t to;     /* the receiver's connection id */
	uint32_t from;   /* the sender's connection id */
	uint32_t seq;    /* number of this data frame on the connection */
	/* messages that the sender has taken buffers for, since the connection began */
	uint32_t credit;
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

/* An operation on 8 bytes of exported memory, which the peer's owner performs. */
struct rs_atomic {
	uint64_t address;
	uint64_t operand; /* is added, or stored */
	uint64_t compare; /* it is stored where this is */
	uint32_t rkey;
	uint8_t op; /* enum rs_op */
	uint8_t pad, pad2, pad3;
};

_Static_assert(sizeof(struct rs_frame) == 32 && sizeof(struct rs_open) == 32 &&
		       sizeof(struct rs_atomic) == 32,
	       "the wire format");

/* Copy the header of a received frame and check, by rules.h, everything that does not need the
 * connection.
 * bytes: received length, with at most chunk bytes of payload. -EBADMSG: malformed. */
int rs_frame_parse(const void *data, uint32_t bytes, uint32_t chunk, struct rs_frame *out);

#endif
