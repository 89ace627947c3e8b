/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * host_release.h - what all hosts have in common for release blocks (core/release.h,
 * core/closing.h), beside core/host.h.
 *
 * Misses are those of host.h: core_page_event() steps the block, whatever its kind. READ_REQ and
 * DATA are messages of host.h, too. What comes in addition, and who calls it:
 *
 *   a message that releases      core/host.c, for each message that it sends; core_release(), for
 *                                what the host sends itself. One with a payload cannot be held: its
 *                                thread closes first
 *   a thread that was woken by   core_acquire(), before it returns to the program. If it has given
 *                                up, before the lock that came
 *   a message that acquires      for it is passed on
 *   core_rel_ops.gather()        core_gather(), then CE_SENT and CE_TOLD for each node with diffs
 *                                or notices, then CE_GATHERED
 *   MSG_FLUSH                    CE_FLUSH, core_flush_block() for each diff, CE_SPREAD for each
 *                                node with notices, CE_MERGED
 *   MSG_NOTE                     core_note_block() for each notice, core_tell_block() for each diff
 *                                in it, then CE_NOTE
 *   MSG_AFTER                    core_after()
 *   MSG_FLUSHED, sent            with the names of the blocks of core_given_first() and _next()
 *   MSG_FLUSHED                  core_give_block() for each block in it, then core_deliver()
 *   MSG_NOTED                    core_deliver()
 *
 * Payloads are the host's: it carries diffs and notices in as many pieces as it likes, and steps
 * CE_FLUSH before the first one, CE_MERGED or CE_NOTE after the last.
 */
#ifndef CORE_HOST_RELEASE_H
#define CORE_HOST_RELEASE_H

#include "core/host.h"

struct core_rel_ops {
	/* With the block's lock held; done when they return. */
	void (*twin)(struct core_host *h, uint32_t object);
	void (*untwin)(struct core_host *h, uint32_t object);
	void (*lower)(struct core_host *h, uint32_t object,
		      uint8_t prot); /* each mapping of this node, at most to prot */
	/* Compare the block with its twin, which is then made equal. True: they differed; the diff
	 * is kept for the FLUSH to the home, if that is another node; asks: as one that asks for
	 * the home. *kept: it may be wanted for ACT_TELL; the host keeps it for that, or sets *kept
	 * to false. */
	bool (*diff)(struct core_host *h, uint32_t object, uint16_t home, bool asks, bool *kept);
	/* Store exactly the bytes of the diff, in the block, and in its twin if there is one. */
	void (*merge)(struct core_host *h, uint32_t object, const void *diff, size_t size);
	/* At the home: has this node never touched the block? NULL: it is not known. */
	bool (*fresh)(struct core_host *h, uint32_t object);

	/* Without a lock. */
	uint32_t (*object)(struct core_host *h,
			   /* the name of the block in this place of rel_ctx.blocks */
			   uint32_t index);
	/* ACT_NOTICE, ACT_TELL, because of the FLUSH of `writer`, or this node's own close. */
	void (*notice)(struct core_host *h, uint32_t object, const struct action *a,
		       uint16_t writer);
	void (*gather)(struct core_host *h);
	void (*after)(struct core_host *h, const struct action *a); /* ACT_AFTER */
	void (*deliver)(struct core_host *h, const struct msg *m);  /* ACT_DELIVER */
	/* The host cannot go on, and no node is known to be the reason: it ends, and says why. */
	void (*fail)(struct core_host *h, const char *why);
};

/* Send m after a close, if it releases. */
void core_release(struct core_host *h, const struct msg *m);
/* MSG_AFTER. 0, -EBADMSG; -ENOSPC after fail(). */
int core_after(struct core_host *h, const struct msg *after, const struct msg *inside);
/* Step the node's closes for an event of the host, and carry the actions out. Errors of
 * closing_step(). */
int core_closing_event(struct core_host *h, enum closing_event ev, const struct msg *m);

/* Look at all open blocks: the diffs and notices are with the host afterwards. core_gather_first()
 * and _next() do the same one by one; 0: there is no other. */
void core_gather(struct core_host *h);
uint32_t core_gather_first(struct core_host *h);
uint32_t core_gather_next(struct core_host *h, uint32_t entry);

/*
 * Apply the notices that have come. 0: done. -EAGAIN: call again, soon: another thread applies some
 * of them; a copy has just come for a thread that has not used it yet; a close whose diffs ask for
 * homes has not ended; the next home of a block has not got it yet; a store to a copy has asked for
 * its home; or a close that drops blocks has not looked at all of them yet. In parts:
 * _begin() returns the first notice, or -EAGAIN in *err; _next() applies one and returns the next,
 * 0: none; *stale: a close must drop the block.
 */
int core_acquire(struct core_host *h);
uint32_t core_acquire_begin(struct core_host *h, int *err);
uint32_t core_acquire_next(struct core_host *h, uint32_t entry, bool *stale, int *err);
int core_acquire_end(struct core_host *h, bool stale, int err);

/* A diff, as a FLUSH carries it. */
struct core_change {
	uint32_t object;
	bool asks; /* its writer asks for the home */
	bool kept; /* the host has it for those that are told of it */
	const void *diff;
	size_t size;
};

/* At the home: merge one diff of `src`. 0, or -EBADMSG: not a release block of this home. */
int core_flush_block(struct core_host *h, uint16_t src, const struct core_change *c);
/* The blocks whose home the writer gets, for its FLUSHED: places in rel_ctx.blocks, + 1. 0: there
 * is no other. */
uint32_t core_given_first(struct core_host *h, uint16_t writer);
uint32_t core_given_next(struct core_host *h, uint32_t entry);
/* `src` says that this node is the home. 0, or -EBADMSG: it may not. */
int core_give_block(struct core_host *h, uint32_t object, uint16_t src);
/*
 * A notice of `src`. 0, or -EBADMSG: not a release block of that home. With a coarse copyset it may
 * come to a node that does not know the region, and is ignored.
 */
int core_note_block(struct core_host *h, uint32_t object, uint16_t src);
/* A diff that `src` tells. The same. */
int core_tell_block(struct core_host *h, uint32_t object, uint16_t src, const void *diff,
		    size_t size);

/* For core/host.c. */
int core_rel_message(struct core_host *h, struct core_place *p, const struct msg *m,
		     struct actions *out);
int core_rel_event(struct core_host *h, struct core_place *p, enum page_event ev,
		   const struct msg *about, struct core_waiter *t);
bool core_releases(const struct core_host *h, const struct msg *m);
/* The actions of the node's closes. */
void core_carry_closing(struct core_host *h, struct actions *acts);

#endif
