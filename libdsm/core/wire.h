/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * wire.h - the messages of the protocol: 32 bytes, fixed layout, little endian, the same in every host of the core.
 *
 * A message names the object it is for (a block, a sync object) and the request it belongs to (req_rank, req_slot).
 * Channels need not keep order: every machine is correct when messages of one pair of ranks overtake each other.
 */
#ifndef CORE_WIRE_H
#define CORE_WIRE_H

#include "core/types.h"

#define WIRE_VERSION 1
#define WIRE_MAX_RANKS 1024

enum msg_class { CLASS_COHERENCE = 0, CLASS_DATA, CLASS_SYNC, CLASS_BULK, CLASS_MAX };

enum msg_type {
	MSG_NONE = 0,
	/* requester -> home */
	MSG_READ_REQ,  /* wants a read copy */
	MSG_WRITE_REQ, /* wants to write; MSGF_HAS: holds a read copy */
	MSG_DONE,      /* the grant has arrived and been used */
	/* home -> holders */
	MSG_FWD_READ,  /* send a copy to req_rank, keep one */
	MSG_FWD_WRITE, /* send the block to req_rank, keep none; count travels on */
	MSG_INV,       /* drop the copy, acknowledge to req_rank */
	/* -> requester */
	MSG_INV_ACK,
	MSG_GRANT,     /* permission without data; MSGF_ZERO: nobody ever wrote the block */
	MSG_DATA,      /* permission with the block; count: acknowledgements to wait for */
	/* homes */
	MSG_HOME,      /* manager -> first toucher: be the home, serve yourself (op: the request's type) */
	MSG_HOME_ACK,
	MSG_PLACE,     /* -> manager: let value be the home, if the block is untouched */
	MSG_RELEASE,   /* holder -> home: take the newest copy back (op: RELEASE_*; aux: frames to make where the region is not known) */
	MSG_RESUME,    /* home -> itself: serve the next waiter; never on the wire */
	/* locks */
	MSG_LOCK,      /* requester -> home; hold: the requester's hold record */
	MSG_TRYLOCK,
	MSG_UNLOCK,    /* holder -> home: nobody is known to come next */
	MSG_NEXT,      /* home -> last in line (hold): next are req_rank, req_slot, value (its hold) */
	MSG_LOCKED,    /* -> requester: the lock is yours; sent by the home or by the last holder */
	MSG_FREED,     /* home -> holder: answer to MSG_UNLOCK; value 0: forget the record, 1: MSG_NEXT is coming */
	/* other sync objects: one request, one reply */
	MSG_SYNC,      /* op: enum sync_op */
	MSG_REPLY,     /* count: -errno; value */
	MSG_ARRIVE,    /* barrier, child -> parent; value, op, aux: threads a rank */
	MSG_DEPART,    /* barrier, parent -> child; value, count: -errno */
	/* the runtime's own calls, with a payload of any length */
	MSG_CALL,      /* op: enum call_op of the engine */
	MSG_RETURN,    /* count: -errno */
	MSG_PING,      /* liveness between hosts */
	MSG_BYE,       /* the sender has finalized (op 0) or aborts the job (op 1, aux: status, payload: text) */
	MSG_TYPES
};

enum {
	MSGF_HAS = 1,         /* WRITE_REQ: requester holds a read copy */
	MSGF_FIRST_TOUCH = 2, /* requests: the first toucher of this block becomes its home */
	MSGF_ZERO = 4,        /* GRANT: contents are zero */
	MSGF_TIMED = 8,       /* WAIT: say when in line, as ENQUEUE does; only then may SOP_CANCEL follow */
};

enum { GRANT_READ = 1, GRANT_WRITE = 2 };
enum { RELEASE_KEEP = 0, RELEASE_EVICT = 1 };

struct msg {
	uint8_t version;
	uint8_t type;
	uint8_t flags;
	uint8_t op;       /* GRANT_*, RELEASE_*, sync_op ... by type */
	uint16_t src;     /* the rank whose object sent it */
	uint16_t dst;
	uint32_t object;  /* block number, or index of a sync object at its home */
	uint16_t req_rank;
	uint16_t req_slot;
	union {
		struct {
			uint16_t home;  /* coherence: the block's home; locks: hold record */
			int16_t count;  /* acknowledgements to expect; replies: -errno */
			uint32_t aux;
		};
		uint64_t value2; /* compare-exchange: the new value */
	};
	uint64_t value;
};
CORE_ASSERT_SIZE(struct msg, 32);

/* Is it a message that a peer may send to rank me in a job of nranks? 0 or -EBADMSG. Checks ranges, not meaning. */
int wire_check(const struct msg *m, uint16_t me, uint16_t nranks, uint32_t nslots);

enum msg_class wire_class(uint8_t type);
const char *wire_name(uint8_t type);

#endif
