/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair.h - the protocol by which two owners replace broken queue pairs. Pure.
 *
 * Either side may begin, or both at once. Each creates new queue pairs and sends an ASK with their
 * address and the number of sends that arrived on each lane. On the other's ASK, it connects its
 * queue pairs and sends READY. Each side posts again when both are ready. The messages use the TCP
 * connection of the two owners, which keeps order, so a message of an unexpected epoch violates the
 * protocol.
 */
#ifndef SHARE_REPAIR_H
#define SHARE_REPAIR_H

#include <stdint.h>

#include "share/schedule.h"

#define RS_REPAIR_MAGIC 0x50525352u /* "RSRP" */

/* Address of the queue pairs of one side. */
struct rs_address {
	uint8_t gid[16];
	union {
		uint32_t qpn[RS_LANES];
		struct {
			uint32_t qpn_strict, qpn_weighted;
		};
	};
	union {
		uint32_t psn[RS_LANES];
		struct {
			uint32_t psn_strict, psn_weighted;
		};
	};
	uint16_t lid;
	uint8_t mtu, reserved;
};

enum rs_repair_kind { RS_REPAIR_ASK = 1, RS_REPAIR_READY };

struct rs_repair_message {
	uint32_t magic, kind;
	uint32_t epoch;              /* repairs of these two owners */
	uint32_t received[RS_LANES]; /* ASK: sends that arrived, since the beginning */
	struct rs_address address;   /* ASK */
};

_Static_assert(sizeof(struct rs_repair_message) == 56 && RS_STRICT == 0 && RS_LANES == 2,
	       "the wire format");

enum rs_repair_state {
	RS_WHOLE,     /* nothing is broken */
	RS_BROKEN,    /* has sent ASK */
	RS_AGREED,    /* has received ASK, and connects */
	RS_CONNECTED, /* waits for READY */
	RS_AWAITED,   /* connects; has received READY */
	RS_REPAIR_STATES
};

enum rs_repair_event {
	RS_BREAKS,   /* this side's queue pair failed */
	RS_ASKED,    /* ASK received */
	RS_CONNECTS, /* this side's queue pairs are connected */
	RS_HEARD,    /* READY received */
	RS_REPAIR_EVENTS
};

/* Actions for the caller, in this order. */
enum rs_repair_action {
	RS_DO_ASK = 1,     /* stop, create new queue pairs, send ASK */
	RS_DO_CONNECT = 2, /* apply the peer's counts of arrived sends, connect; then RS_CONNECTS */
	RS_DO_TELL = 4,    /* send READY */
	RS_DO_RESUME = 8   /* post again what has not arrived, and continue */
};

struct rs_repair {
	uint8_t state;
	uint32_t epoch;
};

/* Return the actions. -EBADMSG: the peer's message is unexpected. */
int rs_repair_step(struct rs_repair *r, enum rs_repair_event event);
/* The same for a received message. -EBADMSG: unexpected or malformed. */
int rs_repair_hear(struct rs_repair *r, const struct rs_repair_message *m);

#endif
