/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * closing.h - the closes of a node: when the diffs of its release blocks are sent, and which
 * messages wait for them (docs/protocol.md, "Release blocks").
 *
 * A message that *releases* (closing_releases()) tells another node, directly or not, that stores
 * were made. It leaves after a close that began after the step that decided to send it. A close
 * looks at all open blocks, once (*gathers*), sends one FLUSH to each home of a block that has
 * changed, and one NOTE to each node that is registered for a changed block of this home. It has
 * ended when all of these are acknowledged. Closes of a node run one after the other. Messages that
 * come while one runs share the next.
 *
 * A home *serves* a FLUSH: it merges the diffs, notes the other registered nodes (NOTE), and
 * acknowledges (FLUSHED) when all NOTEs are acknowledged, and all services that began earlier have
 * ended. The second condition is needed because a node is unregistered when its NOTE is sent.
 * Without it:
 *
 *   home: merges a diff of A, NOTE to E                  E: has a copy, is no longer registered
 *         merges a diff of B for the same block: nobody is left to note; FLUSHED to B
 *   B:    passes a lock to E                             E: reads its old copy; the NOTE has not come yet
 *
 * The node's own close has its place among the services for the same reason, and a node with a
 * service under way has something to close, even if it has no open block: it may have written a
 * block that has just become exclusive.
 *
 * A message does not wait for acknowledgements of its own destination if nothing else is
 * outstanding. It then leaves inside MSG_AFTER, which names the close, and the receiver holds it
 * back until it has served that close. So two nodes pay no round trip.
 *
 * Closes are numbered from 1. Nothing here waits for a thread: a node serves FLUSH and NOTE at
 * once, in any state. Zeroed memory is the initial state.
 */
#ifndef CORE_CLOSING_H
#define CORE_CLOSING_H

#include "core/action.h"
#include "core/release.h"

enum closing_phase {
	CLOSING_IDLE = 0,
	CLOSING_GATHER, /* the host looks at the open blocks: ACT_GATHER */
	CLOSING_WAIT,   /* acknowledgements are outstanding */
	CLOSING_PHASES
};

enum closing_event {
	CE_RELEASE = 0, /* send m once everything is closed: at once, or later */
	/* an acquire needs a close: it ends when closing.due has gathered; m is not used */
	CE_CLOSE,
	CE_SENT,     /* gathering: the diffs for m->dst are complete: FLUSH follows */
	CE_TOLD,     /* gathering: the notices for m->dst are complete: NOTE follows */
	CE_GATHERED, /* all open blocks were looked at */
	CE_FLUSHED,  /* MSG_FLUSHED */
	CE_FLUSH,    /* MSG_FLUSH has come: before its first diff is merged */
	/* the notices that the FLUSH of m->src causes at m->dst are complete: NOTE follows */
	CE_SPREAD,
	CE_MERGED, /* all diffs of the FLUSH of m->src are merged */
	CE_NOTE,   /* MSG_NOTE: after all its notices are in the list */
	CE_NOTED,  /* MSG_NOTED */
	CE_DRAIN,  /* ACT_DRAIN */
	CLOSING_EVENTS
};

/* A message that waits. */
struct closing_held {
	struct msg m;
	uint64_t close; /* of this node; in: of m.src */
	uint8_t used;   /* 0: free */
	uint8_t in;     /* for this node: AFTER_*; 0: it is to be sent */
	uint8_t pad[6];
};
CORE_ASSERT_SIZE(struct closing_held, 48);

/* What a node knows of another, or of itself. */
struct closing_peer {
	uint64_t asked;   /* service: the nodes that have not acknowledged its NOTE */
	uint64_t flushed; /* the last close of the peer that was served */
	uint64_t noted;   /* the last close of the peer whose NOTE has come */
	uint64_t serving; /* service: the close, 0: none */
	uint64_t sent;    /* this node's close whose FLUSH the peer has not acknowledged; 0: none */
	uint16_t notes;   /* service: NOTEs that are not acknowledged */
	uint16_t held;    /* messages that wait here: of the peer, or of this node */
	uint16_t next[2]; /* service: what follows its places in the line */
	uint8_t merging;  /* service: diffs are being merged, or gathered */
	uint8_t pad[3];
	uint32_t given; /* service: list of the blocks whose home the peer gets (rel_ctx.given) */
};
CORE_ASSERT_SIZE(struct closing_peer, 56);

struct closing {
	uint64_t run;         /* the close that runs, or was the last */
	uint64_t ended;       /* the last one that has ended */
	uint64_t asked;       /* the last one that somebody waits for: run or run + 1 */
	uint64_t due;         /* an acquire ends when this close has gathered: it drops blocks */
	uint16_t flushes;     /* not acknowledged, of the one that runs */
	uint16_t first, last; /* the line of services */
	uint16_t held;        /* messages that wait */
	uint8_t phase;
	uint8_t applying; /* a thread applies notices */
	uint8_t pad[6];
};
CORE_ASSERT_SIZE(struct closing, 48);

#define CLOSING_DRAIN 8u /* most messages that one step sends for those that have waited */

struct closing_ctx {
	uint16_t me, nnodes;
	const struct rel_lists *lists;
	struct closing_peer *peers; /* by node; that of this node: its own close */
	/* nheld of them. Enough for every request that may be outstanding here */
	struct closing_held *held;
	uint32_t nheld; /* at most UINT16_MAX */
};

/*
 * Step the closes of a node. m: the message, or as the events say. Returns 0; -ENOSPC: no room for
 * a message that must wait; -EBADMSG: no correct node sends this now, or the host's event does not
 * fit. On an error nothing has changed.
 */
int closing_step(const struct closing_ctx *ctx, struct closing *n, enum closing_event ev,
		 const struct msg *m, struct actions *out);

/* MSG_AFTER has come, with `inside`: deliver that, or hold it back. Errors as above; -EBADMSG also
 * if messages of this sender have half of the places: the closes that it names do not come. */
int closing_after(const struct closing_ctx *ctx, struct closing *n, const struct msg *after,
		  const struct msg *inside, struct actions *out);

/*
 * Must the sender close before this message leaves? Must a thread that it wakes apply the notices
 * that have come?
 */
bool closing_releases(const struct msg *m);
bool closing_acquires(const struct msg *m);

/* Has this close looked at all open blocks? */
bool closing_gathered(const struct closing *n, uint64_t close);

const char *closing_phase_name(unsigned int phase);
const char *closing_event_name(unsigned int event);
const char *closing_rule_name(unsigned int phase, unsigned int event); /* "-" where illegal */

#endif
