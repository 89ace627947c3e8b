/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * page.h - the state of one block at one node: its access rights and its outstanding request.
 *
 * Zeroed memory is the initial state: no copy, no request. The transitions are a constant table,
 * state x event, printed into docs/protocol.md. What the table cannot express (counting
 * acknowledgements, delaying a message that would take the block away too early) is in page.c.
 */
#ifndef CORE_PAGE_H
#define CORE_PAGE_H

#include "core/action.h"
#include "core/push.h"

enum page_state {
	PG_INVALID = 0,
	PG_READ,       /* read copy, shared with others */
	PG_WRITE,      /* the only copy */
	PG_WANT_READ,  /* read copy requested */
	PG_WANT_WRITE, /* block requested for writing */
	PG_UPGRADE,    /* read copy; write permission requested */
	PG_COUNT,      /* granted, contents in place, acknowledgements outstanding */
	/* granted; the home waits until a thread uses it, or an invalidation does (PAGE_BRIEF) */
	PG_GOT_READ,
	PG_GOT_WRITE,
	PG_STATES
};

enum page_event {
	/* a thread of this node wants to read; msg.req_slot its slot, msg.home the node to ask */
	PE_READ = 0,
	PE_WRITE,
	PE_USED,   /* the requesting thread is awake and about to use the block */
	PE_REPLAY, /* the timer of ACT_TIMER has expired, or the last pin is gone */
	/* Drop a read copy that is neither pinned nor the owner's (detach). The host closes it
	 * under the lock. It steps this only after it has read all contents that earlier steps told
	 * it to send. */
	PE_DROP,
	PE_DATA,
	PE_GRANT,
	PE_INV,
	PE_INV_ACK,
	PE_FWD_READ,
	PE_FWD_WRITE,
	PE_FWD_MIGRATE,
	PE_MOVED, /* the home has moved: ask msg.home, the manager, again */
	PE_EVENTS
};

#define PAGE_OWNER 1 /* the home forwards requests to this copy: it must not be dropped silently */
#define PAGE_BRIEF 2 /* got by a brief read: the home may want it back before it has been used */
#define PAGE_OVERTAKEN 4 /* an invalidation has come: what a brief read brings now may be old */

/* Does MSG_DATA answer a brief read (struct dir_ctx)? */
static inline bool data_is_brief(const struct msg *m)
{
	return m->op == GRANT_READ && m->count;
}

/* The end of that read, which its sender, the home, steps when it has sent it. */
static inline struct msg data_done(const struct msg *m)
{
	return (struct msg){ .version = WIRE_VERSION,
			     .type = MSG_DONE,
			     .src = m->src,
			     .dst = m->src,
			     .object = m->object,
			     .req_node = m->req_node,
			     .req_slot = m->req_slot };
}

/* Not named `page`: the kernel has a struct page. */
struct copy {
	uint8_t state;
	uint8_t flags;
	uint8_t pins_read, pins_write;
	uint16_t home;      /* + 1; 0: unknown, ask the manager */
	uint16_t slot;      /* of the outstanding request */
	int16_t acks;       /* outstanding; negative if they arrived before the grant */
	uint16_t held_node; /* requester of the delayed message */
	uint16_t held_slot;
	int16_t held_count;
	uint8_t held;     /* enum page_event of the delayed message, 0: none */
	struct push push; /* at the home */
	/* at the home: forwarded requests served since this node became the home */
	uint16_t forwarded;
	uint32_t hold; /* us: time before which the block is not taken away */
};
CORE_ASSERT_SIZE(struct copy, 24);

struct page_ctx {
	uint16_t me;
	uint16_t nnodes;
	uint32_t now;     /* us, wraps */
	uint32_t hold_us; /* Mirage's delta */
};

/* Step a page. m: the message; for local events, object, req_slot, home are set (and flags:
 * MSGF_FIRST_TOUCH, MSGF_PLACE, MSGF_PUSH). Returns 0, or -EBADMSG, with nothing changed, for an
 * event that no correct peer can cause in this state. */
int page_step(const struct page_ctx *ctx, struct copy *p, enum page_event ev, const struct msg *m,
	      struct actions *out);

/* Pin a block. 0; -EAGAIN: not accessible, acquire it first; -ERANGE: 255 pins already. */
int page_pin(struct copy *p, uint8_t access);
/* Unpin a block. 0; 1: a delayed message is due, step PE_REPLAY; -EINVAL: no such pin. */
int page_unpin(struct copy *p, uint8_t access);

/*
 * Are the contents in place and accessible? False in PG_GOT_*: ACT_OPEN may not have been carried
 * out yet, and a thread that opened the block earlier would see the old contents. OPEN_AGAIN means:
 * under the lock, set the hardware protection to what these functions return then.
 */
bool page_readable(const struct copy *p);
bool page_writable(const struct copy *p);
/* Does this node have a request for the block that the home has not granted yet? */
bool page_asks(const struct copy *p);

const char *page_state_name(unsigned int state);
const char *page_event_name(unsigned int event);
const char *page_rule_name(unsigned int state, unsigned int event); /* "-" where illegal */

#endif
