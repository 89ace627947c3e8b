/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * page.h - one node's view of one block: what it may do with it, and the request it has under way.
 *
 * Zeroed memory is the start: no copy, no request. The rules are a constant table, state x event, printed into
 * docs/protocol.md; what a table cannot say (counting acknowledgements, holding back what would take the block away too
 * early) stands in page.c.
 */
#ifndef CORE_PAGE_H
#define CORE_PAGE_H

#include "core/action.h"
#include "core/push.h"

enum page_state {
	PG_INVALID = 0,
	PG_READ,       /* read copy, shared with others */
	PG_WRITE,      /* the only copy */
	PG_WANT_READ,  /* asked for a read copy */
	PG_WANT_WRITE, /* asked for the block */
	PG_UPGRADE,    /* read copy; asked to write */
	PG_COUNT,      /* granted, contents in place, acknowledgements still to come */
	PG_GOT_READ,   /* granted; the home waits until a thread has come to use it */
	PG_GOT_WRITE,
	PG_STATES
};

enum page_event {
	PE_READ = 0, /* a thread of this node wants to read; msg.req_slot its slot, msg.home where to ask */
	PE_WRITE,
	PE_USED,   /* the thread that asked is awake and about to use the block */
	PE_REPLAY, /* the time of ACT_TIMER has come, or the last pin has gone */
	/* Forget a read copy that is neither pinned nor the owner's (detach). The host closes it under the lock, and steps this
	 * only when all that earlier steps have said to send of the block has been read. */
	PE_DROP,
	PE_DATA,
	PE_GRANT,
	PE_INV,
	PE_INV_ACK,
	PE_FWD_READ,
	PE_FWD_WRITE,
	PE_FWD_MIGRATE,
	PE_MOVED, /* msg.home, the manager, is to be asked again */
	PE_EVENTS
};

#define PAGE_OWNER 1 /* holds the copy that the home forwards requests to: may not be dropped silently */

/* The name is not `page`: the kernel has one. */
struct copy {
	uint8_t state;
	uint8_t flags;
	uint8_t pins_read, pins_write;
	uint16_t home;      /* + 1; 0: not known, ask the manager */
	uint16_t slot;      /* of the request under way */
	int16_t acks;       /* still to come; negative while they overtake the grant */
	uint16_t held_node; /* requester of the held-back message */
	uint16_t held_slot;
	int16_t held_count;
	uint8_t held;       /* enum page_event of the message held back, 0 none */
	struct push push;   /* at the home */
	uint16_t forwarded; /* at the home: requests from the manager that were served since */
	uint32_t hold;      /* us: not taken away before */
};
CORE_ASSERT_SIZE(struct copy, 24);

struct page_ctx {
	uint16_t me;
	uint16_t nnodes;
	uint32_t now;     /* us, wraps */
	uint32_t hold_us; /* Mirage's delta */
};

/* One step. m: the message, or for local events a message with object, req_slot, home set (and flags: MSGF_FIRST_TOUCH, MSGF_PLACE,
 * MSGF_PUSH). 0, or -EBADMSG for an event that no correct peer can cause in this state; nothing has changed then. */
int page_step(const struct page_ctx *ctx, struct copy *p, enum page_event ev, const struct msg *m, struct actions *out);

/* Pin a block that the caller may access now; 0, -EAGAIN (not accessible: acquire first), -ERANGE (255 pins). */
int page_pin(struct copy *p, uint8_t access);
/* 0, 1 (a held-back message is due: step PE_REPLAY), -EINVAL (no such pin). */
int page_unpin(struct copy *p, uint8_t access);

/*
 * Are the contents in place, and may they be used? Not yet in PG_GOT_*: the thread that carries ACT_OPEN out may not have
 * come to it, and whoever opened the block before would see what was there before. OPEN_AGAIN means: under the lock, set
 * the hardware's protection to what these say by then.
 */
bool page_readable(const struct copy *p);
bool page_writable(const struct copy *p);
/* Has this node a request for the block under way that its home has not granted? */
bool page_asks(const struct copy *p);

const char *page_state_name(unsigned int state);
const char *page_event_name(unsigned int event);
const char *page_rule_name(unsigned int state, unsigned int event); /* "-" where illegal */

#endif
