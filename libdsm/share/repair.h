/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * repair.h - what two owners tell each other when the queue pairs between them broke. Pure.
 *
 * Either side may begin, and both may at once: each makes new queue pairs and asks with their address and the number of
 * sends that have arrived on each lane. It connects its queue pairs when it has the other's question, and says that they
 * are ready. Each posts again when both sides are ready. The messages take the TCP connection of the two owners, which keeps
 * order: a message of another epoch than is due breaks the rules.
 */
#ifndef SHARE_REPAIR_H
#define SHARE_REPAIR_H

#include <stdint.h>

#include "share/schedule.h"

#define RS_REPAIR_MAGIC 0x50525352u /* "RSRP" */

/* What the ends of the queue pairs tell each other. */
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
	uint32_t received[RS_LANES]; /* ASK: sends that have arrived, since the beginning */
	struct rs_address address;   /* ASK */
};

_Static_assert(sizeof(struct rs_repair_message) == 56 && RS_STRICT == 0 && RS_LANES == 2, "the wire format");

enum rs_repair_state {
	RS_WHOLE,     /* nothing is broken */
	RS_BROKEN,    /* has asked */
	RS_AGREED,    /* has the other's question, and connects */
	RS_CONNECTED, /* waits for the other to be ready */
	RS_AWAITED,   /* connects; the other is ready */
	RS_REPAIR_STATES
};

enum rs_repair_event {
	RS_BREAKS,   /* this side's queue pair failed */
	RS_ASKED,    /* a question */
	RS_CONNECTS, /* this side's queue pairs are connected */
	RS_HEARD,    /* the other is ready */
	RS_REPAIR_EVENTS
};

/* What the caller has to do, in this order. */
enum rs_repair_action {
	RS_DO_ASK = 1,     /* stop, make new queue pairs, send a question */
	RS_DO_CONNECT = 2, /* take the peer's word for what has arrived, connect; RS_CONNECTS when done */
	RS_DO_TELL = 4,    /* send that this side is ready */
	RS_DO_RESUME = 8   /* post again what has not arrived, and go on */
};

struct rs_repair {
	uint8_t state;
	uint32_t epoch;
};

/* Returns actions. -EBADMSG: the peer's message is not due. */
int rs_repair_step(struct rs_repair *r, enum rs_repair_event event);
/* The same for a message. -EBADMSG: not due, or malformed. */
int rs_repair_hear(struct rs_repair *r, const struct rs_repair_message *m);

#endif
