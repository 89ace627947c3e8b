/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * release.h - one block under release consistency, at its home and at other nodes
 * (docs/protocol.md, "Release blocks").
 *
 * Many nodes write a block at the same time, each its own bytes. The home's frame is the *master*.
 * Another node fetches a copy, which registers it at the home. Before it writes, it makes a *twin*,
 * a copy of the copy. When it closes (core/closing.h) it sends the bytes that differ from the twin,
 * the *diff*, to the home. The home merges them and sends a *notice* to the other registered nodes.
 * These apply the notice at their next acquire: they drop their copy.
 *
 * A node that has written a block lately, or has fetched it again after a notice, is *told*: it
 * gets the diff instead of a notice, stores it in its copy, and in its twin, and stays registered.
 * It is told at most twice, or once after a fetch, before it writes or fetches the block again
 * (rel.uses): the home does not see who only reads. But a block that is fetched again soon after
 * each notice (rel.steady) gets fewer of them: at last, one for each 16 changes that are told.
 *
 * At the home, a block that no other node has registered is exclusive: the home writes it without a
 * twin, and a close does not look at it. The first fetch makes it shared.
 *
 * If the home has rewritten a block again and again, soon after it was fetched, and nobody was told
 * (rel.rewrites), it *lends* it at the next fetches: it goes on writing it without a twin, and its
 * next close notes all that have fetched it, written or not. Now and then it does not, to learn
 * whether that is still right: a node that reads the block after that close fetches it again. For
 * closes, a block that is lent is one of the open ones, which needs no comparison.
 *
 * The home moves once, from the *first home*, which all nodes know, to the first other node that
 * writes the block, if no third node has had a copy (rel_ctx.follow). That node asks for it in
 * three ways:
 * - When it writes a block that it does not have, it asks with WRITE_REQ, and the first home
 *   answers with DATA that says GRANT_WRITE.
 * - When it first writes a copy, WRITE_REQ has MSGF_HAS, and the answer is GRANT. The home moves if
 *   that copy is what the home has: the node is registered, and the home has no twin. Else the
 *   node makes one, and does not ask so again (REL_REFUSED). Meanwhile the copy can be read, and
 *   notices wait.
 * - When a second close has changed its copy, and the home has neither told nor noted it between
 *   (REL_CHANGED), the diff asks, and the acknowledgement of the close says that the node is the
 *   home now. It applies no notice between, so its copy is what the home had, and its own stores.
 *
 * What the home has never touched is zeros: its GRANT says so, and no contents travel.
 *
 * The first home keeps a read-only copy. After WRITE_REQ, it notes that itself: its next acquire
 * drops the copy, and the next home is exclusive, and needs no twin, from its first store on. After
 * a diff, it is registered at the next home. It sends requests of others to the next home, which
 * sends them back as long as it does not know that it is. Before DONE has come, the first home
 * neither writes its copy, whose diff would be too early, nor drops it, as the contents may be read
 * from it. A third node might still have a diff for the first home; so there must be none. The home
 * stays, too, while it has a twin: for a diff, always, as the writer has not got its stores; for
 * WRITE_REQ without MSGF_HAS, if a close has found some (REL_WRITTEN), as neither node would be the
 * better one.
 *
 * struct rel is the state at one node. Zeroed memory is the initial state: no copy; at the home:
 * exclusive. The transitions are two constant tables. What differs from core/page.h: nothing is
 * held back, no request waits at the home, and no message confirms a grant but that of the home, so
 * a fetch is two messages.
 *
 * The block's lock is held across a step, and also while the host carries out what
 * core/host_release.c says: making a twin, comparing with it, lowering or revoking the mappings for
 * that, and applying a diff.
 */
#ifndef CORE_RELEASE_H
#define CORE_RELEASE_H

#include "core/action.h"

/* At a node that is not the home. */
enum rel_state {
	REL_NONE = 0, /* no copy */
	REL_FETCH,    /* requested */
	/*
	 * the same; a notice was applied meanwhile, so the contents are requested once more when
	 * they come
	 */
	REL_AGAIN,
	REL_GOT,   /* the contents have come, and the thread that waits has not used them yet */
	REL_CLEAN, /* read-only copy */
	REL_RAISE, /* the same, and this node has asked for the home */
	REL_OPEN,  /* copy with a twin: may be written */
	/* the same; a notice was applied: the next close drops it, after it has sent its diff */
	REL_STALE,
	REL_STATES
};

/* At the home. */
enum rel_home_state {
	RELH_EXCLUSIVE = 0, /* no other node is registered: written without a twin */
	RELH_CLEAN,         /* nodes are registered; read-only here */
	/* nodes are registered; there is a twin, which tells whether this node has written */
	RELH_OPEN,
	/* nodes are registered until the next close; this node may write, without a twin */
	RELH_LENT,
	RELH_STATES
};

enum rel_event {
	/*
	 * a thread wants to read: object, req_slot. -EAGAIN: its node's own diff is not merged yet
	 */
	RE_READ = 0,
	RE_WRITE,
	RE_USED, /* the thread that waited (req_slot) is awake and about to use the copy */
	RE_DATA, /* the contents: MSG_DATA */
	/*
	 * MSG_GRANT; op: GRANT_*. The answer to a node that has asked with a copy; READ: refused.
	 * MSGF_ZERO: the contents, which are zeros
	 */
	RE_GRANT,
	/*
	 * apply a notice. -EAGAIN: not before the copy has been used, the next home has the
	 * contents, or the close whose diff asks for the home has ended
	 */
	RE_APPLY,
	/*
	 * a close: the block differs from its twin, which is up to date again; the diff is kept for
	 * the home
	 */
	RE_CHANGED,
	RE_SAME,  /* a close: there is no difference */
	RE_FETCH, /* MSG_READ_REQ, MSG_WRITE_REQ */
	/* at the home: a diff of m->src is to be merged; op: GRANT_WRITE if it asks for the home */
	RE_FLUSH,
	/*
	 * a diff that the home has told: -EAGAIN: apply a notice instead
	 */
	RE_TOLD,
	RE_GIVEN, /* m->src says that this node is the home, which its last diff has asked for */
	RE_DONE,  /* at the first home: MSG_DONE: the next one knows that it is */
	REL_EVENTS
};

/* flags */
enum {
	REL_ASKS = 1,     /* the diff of the last close that changed the copy asks for the home */
	REL_ASKED = 2,    /* the request under way has asked for it */
	REL_MOVES = 4,    /* GOT: this node is the home when the copy is used */
	REL_MOVING = 8,   /* at the first home: the next one does not know yet that it is */
	REL_CHANGED = 16, /* a close has changed the copy, since it was fetched or told of */
	REL_WRITTEN = 32, /* at the home: it has changed the block since it has its twin */
	REL_FRESH = 32,   /* GOT, CLEAN: a copy of a block that the home had never touched */
	REL_REFUSED = 64, /* the home has stayed when this node asked with a copy */
	/* at the home: it made its twin at most REL_SOON closes after the first copy had left */
	REL_SOON_WRITTEN = 128,
};
#define REL_SEVERAL UINT16_MAX

/* What the home knows of a node's use of a block. */
enum rel_use {
	USE_UNKNOWN = 0,
	USE_NOTED, /* a notice took its copy */
	USE_LAST,  /* it may be told once more, or for as long as rel.steady allows */
	USE_MORE,  /* twice */
};
#define REL_TOLD 16u  /* nodes that may be told: the first ones */
#define REL_STEADY 4u /* who only reads is told of 2^4 changes for each notice, on average */

#define REL_SOON 2u
#define REL_LENDS 8u /* times that a block is lent before its next rewrite is looked at */

#define REL_IDLE 3u /* after so many closes without a difference, an open block is no longer open */

struct rel {
	uint64_t copyset;     /* at the home: the registered nodes */
	uint32_t next_open;   /* next block of the list of open ones, + 1 */
	uint32_t next_notice; /* next block of the list of notices, or of those given, + 1 */
	union {
		uint32_t flushed; /* the close that sent its last diff, its lower half */
		uint32_t uses;    /* at the home: enum rel_use of each of the first 16 nodes */
	};
	union {
		uint16_t slot; /* of the request */
		/* at the home: the only node that has fetched it, + 1; REL_SEVERAL */
		uint16_t only;
	};
	uint8_t state; /* enum rel_state, rel_home_state */
	/*
	 * closes without a difference; a hint, the lower byte of rel_ctx.run: RELH_CLEAN: when the
	 * first copy left; EXCLUSIVE: when a close of the home noted the last one
	 */
	uint8_t same;
	uint8_t listed;  /* is in the list of open blocks */
	uint8_t noticed; /* is in the list of notices, or in one of blocks that are given */
	union {
		uint8_t writes; /* FETCH, AGAIN, GOT: a thread that waits wants to write */
		struct {        /* at the home */
			/*
			 * changes, one after another, that were SOON_WRITTEN, and of which nobody
			 * was told; and the times that the block was lent since
			 */
			uint8_t rewrites : 4;
			/*
			 * times, one after another, that the block was fetched again at most
			 * REL_SOON closes after a notice; at most REL_STEADY
			 */
			uint8_t steady : 4;
		};
	};
	uint8_t flags; /* REL_ASKS ... */
	/* for the host: a node that named the block before its region was known here, + 1 */
	uint16_t early;
	uint16_t home; /* + 1; 0: the first home, as far as this node knows */
};
CORE_ASSERT_SIZE(struct rel, 32);

/*
 * Lists of a node, through its blocks. Threads add to them without a lock, and take a whole list at
 * once, so no entry is removed while others are added. A block is in a list once.
 */
struct rel_lists {
	uint32_t opened; /* first open block, + 1 */
	uint32_t notices;
};

struct rel_ctx {
	uint16_t me, nnodes;
	uint16_t home; /* the first home */
	bool follow;   /* the home may move */
	bool full;     /* this node takes no more homes */
	bool raises;   /* RE_WRITE: a store to a copy may ask for the home */
	bool tells;    /* nodes may be told of changes */
	bool kept;     /* RE_CHANGED, RE_FLUSH: the host has the diff for those that are told */
	bool asks;     /* RE_CHANGED: the diff asks for the home */
	bool fresh;    /* RE_FETCH: this node has never touched the block: it is zeros */
	uint8_t lends; /* the home lends a block after so many rewrites, + 1; 0: never; at most 8 */
	/* for local events, RE_FETCH, RE_CHANGED, RE_APPLY, RE_GIVEN: those of struct closing */
	uint64_t run, ended;
	struct rel_lists *lists; /* of this node */
	/*
	 * RE_FLUSH: list of the blocks that its writer gets the home of, until FLUSHED names them.
	 * A home has no notice, so it goes through next_notice.
	 */
	uint32_t *given;
	struct rel *blocks; /* of this node */
	uint32_t index;     /* of this block among them */
};

/*
 * Step a block. m: the message; for local events, object and req_slot are set. Returns 0; -EAGAIN,
 * with nothing changed; or -EBADMSG, with nothing changed, for an event that no correct node can
 * cause in this state.
 */
int rel_step(const struct rel_ctx *ctx, struct rel *p, enum rel_event ev, const struct msg *m,
	     struct actions *out);

/* The home, as far as this node knows. */
uint16_t rel_home(const struct rel_ctx *ctx, const struct rel *p);
/* May this node send notices for the block? */
bool rel_may_note(const struct rel_ctx *ctx, const struct rel *p, uint16_t src);
/* Is there a twin? A close compares the block with it, and steps RE_CHANGED or RE_SAME. */
bool rel_open(const struct rel_ctx *ctx, const struct rel *p);
/* At the home: is it lent? A close steps RE_CHANGED, and nobody is told. */
bool rel_lent(const struct rel_ctx *ctx, const struct rel *p);
/* At the home: would the first fetch lend it, unless it moves? */
bool rel_lends(const struct rel_ctx *ctx, const struct rel *p);
/* At the home: would a registered node, other than `writer`, be told of a change? */
bool rel_would_tell(const struct rel_ctx *ctx, const struct rel *p, uint16_t writer);
/* At the home: has a node that would be told written the block since it was last told? */
bool rel_told_writes(const struct rel *p);
/*
 * Before a close compares the block: which access must be left to the mappings, so that no store is
 * lost after it?
 */
enum prot rel_lower(const struct rel_ctx *ctx, const struct rel *p);
/*
 * Is it lowered only because former closes have found no difference? Then a close compares it
 * first, and lowers it, and compares it again, if there is none now: most blocks are written again,
 * and would fault.
 */
bool rel_seems_idle(const struct rel_ctx *ctx, const struct rel *p);
/*
 * Does the diff that a close finds ask for the home? A notice may come at any time, so one answer
 * is for the diff and for rel_ctx.asks.
 */
bool rel_asks(const struct rel_ctx *ctx, const struct rel *p);
/* Is it a copy of a block that its home had never touched? */
bool rel_fresh(const struct rel_ctx *ctx, const struct rel *p);
/* Would a store of this node ask for the home, instead of making a twin? */
bool rel_raises(const struct rel_ctx *ctx, const struct rel *p);
/*
 * Memory for twins is short: lower the block with the next close in any case, and end its twin if
 * that finds no difference.
 */
void rel_hurry(struct rel *p);
/* The access that mappings may have. */
enum prot rel_prot(const struct rel_ctx *ctx, const struct rel *p);

/* Note a notice for a block. It is applied by the next acquire. */
void rel_notice(struct rel_lists *lists, struct rel *blocks, uint32_t index);
/* Take all open blocks, or all notices: returns the first one, + 1, or 0. *_next() takes one out of
 * that list, and returns the next. The block may join the list again from then on. */
uint32_t rel_take_open(struct rel_lists *lists);
uint32_t rel_take_notices(struct rel_lists *lists);
uint32_t rel_take_given(uint32_t *given); /* rel_next_notice() follows */
uint32_t rel_next_open(struct rel *p);
uint32_t rel_next_notice(struct rel *p);
/* A close has looked at the block: back into the list if it is open still. */
void rel_list_open(const struct rel_ctx *ctx, struct rel *p);

const char *rel_state_name(bool home, unsigned int state);
const char *rel_event_name(unsigned int event);
/* "-" where illegal */
const char *rel_rule_name(bool home, unsigned int state, unsigned int event);

#endif
