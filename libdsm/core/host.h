/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * host.h - what all hosts of the core have in common: stepping a message or a local event under the
 * lock of its object, and carrying out the actions after the lock is dropped.
 *
 * A host is an engine in user space, the kernel module, the simulator or the model checker. It
 * supplies a table of callbacks. The order in which they are called is decided here, once, and is
 * model-checked with the state machines:
 *
 *   - Actions are carried out in the order of the list. If the host cannot open a block yet, the
 *     rest of the list, which wakes the thread that waits for the block, is left to it:
 *     core_carry_out() continues there.
 *   - A block that leaves this node is lowered before anything is sent that tells another node so:
 *     lower(), then send_block() or send(). If lowering takes time, the host calls core_lowered()
 *     when it is done. The rest of the list does not wait for it.
 *   - Contents that came before the last acknowledgement are stored before the step that counts
 *     them: land(), then the lock.
 *   - What a host cannot do is handed back to the protocol as an event: a grant for which no thread
 *     waits counts as used (PE_USED), and a time that cannot be waited for has come (PE_REPLAY).
 *
 * No function here waits or allocates; callbacks may, if the host's callers permit it. No callback
 * below runs with a lock held, except the ones that say so.
 */
#ifndef CORE_HOST_H
#define CORE_HOST_H

#include "core/dispatch.h"

struct core_ops;
struct core_rel_ops;

/* One node, as its host runs it. Built into a larger struct, or on the stack of a call: the core
 * keeps no pointer to it. */
struct core_host {
	const struct core_ops *ops;
	uint16_t me, nnodes;
	uint8_t follow;   /* DIR_FOLLOW, or less for tests */
	uint8_t pushes;   /* PUSH_AFTER, or less for tests; 0: pushing is off */
	bool brief;       /* struct dir_ctx: send_block() has read the contents when it returns */
	uint8_t passes;   /* LOCK_PASSES; struct hold_ctx */
	uint8_t claim;    /* struct hold_ctx */
	bool fast;        /* struct hold_ctx */
	bool leases;      /* struct sync_ctx */
	uint32_t hold_us; /* struct page_ctx */
};

/* What find() has found. */
struct core_place {
	struct dispatch d;
	/* TARGET_CREATE, TARGET_OBJECT: the table; d.objects points to it */
	struct objects objects;
	/* TARGET_CLOSING: its lists; TARGET_BLOCK of a release block; d.rel_ctx points to it */
	struct rel_ctx rel;
	uint32_t key;        /* TARGET_BLOCK: of its lock */
	uint32_t *transfers; /* TARGET_BLOCK: counts changes of the owner; NULL: not counted */
	bool unknown;        /* for MSG_NOTE: this node does not know the region, and has no copy */
};

/* A block that leaves this node, wholly or in part. */
struct core_leave {
	uint8_t from, to; /* enum prot: the most that this node had, and what it keeps */
	/* to be sent after that: MSG_DATA with the block, or an acknowledgement */
	const struct msg *m;
};

/* A thread that steps a page. */
struct core_waiter {
	void (*also)(void *arg); /* called with the lock held, after the step; may be NULL */
	void *arg;
	int wait;     /* out: the slot whose answer to wait for; unchanged: none */
	uint32_t seq; /* out: answers that this slot had before */
};

struct core_ops {
	/*
	 * Find the object of a message, or of a local event (m->type is 0), and set what dispatch.h
	 * says for this target. d is zeroed for all targets but TARGET_BLOCK, of which these are
	 * set: d.page, d.dir (both NULL: this node has no state for the block), d.manager
	 * (SET_NOBODY unless dispatch_manager()), d.queue, key, transfers; or, of a release block,
	 * d.rel, d.rel_ctx with all but the closes, d.closing, d.closes, key. 0, or an error that
	 * is returned instead of the step's. Nothing has changed then, so a host without memory for
	 * the object may deliver the message again.
	 */
	int (*find)(struct core_host *h, enum target target, uint32_t number, const struct msg *m,
		    struct core_place *p);
	void (*lock)(struct core_host *h, uint32_t key);
	void (*unlock)(struct core_host *h, uint32_t key);
	uint32_t (*now)(struct core_host *h); /* us, wraps */

	/* With the lock held. */
	bool (*again)(struct core_host *h, uint32_t object,
		      /* OPEN_AGAIN; true: a mapping has followed */
		      uint8_t prot);
	uint32_t (*answers)(struct core_host *h, uint16_t slot); /* how many has the slot had? */
	/* ACT_DATA will be carried out; may be NULL */
	void (*leaves)(struct core_host *h, uint32_t object);
	void (*drop)(struct core_host *h, uint32_t object); /* PE_DROP: revoke all access */
	void (*freed)(struct core_host *h, uint32_t index, struct hold *hold);

	/* Keep the contents that came with m; OPEN_LANDED may follow. May be NULL: they are in
	 * place. */
	void (*land)(struct core_host *h, const struct msg *m, const void *data);
	/* Between a step of a message and its actions. err: the step is refused (-EBADMSG, -ESTALE,
	 * or find()'s error). */
	void (*stepped)(struct core_host *h, const struct msg *m, int err,
			const struct actions *acts);

	/* The state of a page does not fit an event of this node: no correct run comes here.
	 * Nothing has changed. */
	void (*damaged)(struct core_host *h, const struct msg *about, enum page_event ev,
			uint8_t state);

	/* The actions. m is the event that caused them, data what came with it. */
	void (*send)(struct core_host *h, const struct msg *m); /* to any node, also to this one */
	void (*send_block)(struct core_host *h, const struct msg *m, const void *contents);
	/* Start to lower the access. True: it is lowered. False: the host calls core_lowered() when
	 * it is, maybe before this returns. *l is not kept. */
	bool (*lower)(struct core_host *h, const struct core_leave *l);
	/* Open the block of m as acts->v[at] says, not OPEN_AGAIN. False: the host does so later,
	 * then calls core_carry_out() with at + 1. */
	bool (*open)(struct core_host *h, const struct actions *acts, unsigned int at,
		     const struct msg *m, const void *data);
	/* Answer the threads that wait for a block or a lock. False: none waits for this block;
	 * nothing was done. */
	bool (*wake)(struct core_host *h, const struct action *a, const struct msg *m);
	/* The same block has been confirmed, since no thread does it: end the request in this
	 * slot. */
	void (*unclaimed)(struct core_host *h, const struct action *a);
	/* PE_REPLAY at that time; false: no memory */
	bool (*timer)(struct core_host *h, uint32_t object, uint32_t at);
	void (*wake_all)(struct core_host *h, uint32_t barrier);
	void (*answer)(struct core_host *h, const struct action *a); /* ACT_REPLY */
	void (*fetch)(struct core_host *h, const struct action *a);  /* ACT_FETCH */
	void (*blame)(struct core_host *h, uint16_t node);

	/* core/host_release.h; NULL: this host has no release blocks, and refuses their messages */
	const struct core_rel_ops *rel;
};

/* The number of an object's lock: holds and barriers have numbers of their own. */
static inline uint32_t core_key_hold(uint32_t index)
{
	return 0x80000000u | index;
}

static inline uint32_t core_key_barrier(uint32_t barrier)
{
	return 0x40000000u | barrier;
}

static inline uint32_t core_key_closing(void)
{
	return 0x20000000u;
}

/* Step the machine that m addresses; not TARGET_HOST. 0, or an error with nothing changed
 * (dispatch_step(), find()). */
int core_step(struct core_host *h, const struct msg *m, const void *data, struct actions *out);
/* Step it and carry the actions out. */
void core_deliver(struct core_host *h, const struct msg *m, const void *data);
/* Carry out the actions from number `at` on. */
void core_carry_out(struct core_host *h, const struct actions *acts, unsigned int at,
		    const struct msg *m, const void *data);
/* lower() has ended later than it returned: send m, with the contents if it is MSG_DATA. */
void core_lowered(struct core_host *h, const struct msg *m, const void *contents);
/* A host that sends m, MSG_DATA, by itself has done so. core_lowered() does the same. */
void core_block_sent(struct core_host *h, const struct msg *m);

enum core_page {
	CORE_ASKED = 0, /* a request is outstanding, or there was nothing to do */
	CORE_OPEN,      /* the node has the block open */
	CORE_FOLLOWED,  /* the same, and again() has changed a mapping */
	CORE_DROPPED    /* PE_DROP: drop() was called */
};

/*
 * Step the page of `about` for a local event, and carry the actions out. about: object, and what
 * page_step() says. t: the thread that waits, or confirms; NULL: none, and PE_USED does not hold
 * the block. Returns enum core_page, or an error of find(), or -EBADMSG after damaged(); of a
 * release block also -EAGAIN: again when the node's close that runs has ended.
 */
int core_page_event(struct core_host *h, enum page_event ev, const struct msg *about,
		    struct core_waiter *t);

/* Step a hold record for an event of a thread, and carry the actions out. about: as for
 * hold_thread(). Returns the number of actions, or -EBADMSG. */
int core_hold_event(struct core_host *h, uint32_t index, enum hold_event ev,
		    const struct msg *about);
/* hold_begin(), hold_want() and hold_leave() under the record's lock. The record exists. `next` has
 * passed wire_check(); its aux names the record. */
void core_hold_begin(struct core_host *h, uint32_t index, const struct msg *ask);
bool core_hold_want(struct core_host *h, const struct msg *next);
bool core_hold_leave(struct core_host *h, uint32_t index, uint16_t slot);

/* A thread of this node arrives at a barrier, as struct dispatch says (part NULL: what find() has
 * set). *gen returns the episode in which it was counted. 0, or an error of the step. */
int core_arrive(struct core_host *h, const struct msg *m, const struct bar_group *group,
		struct bar_part *part, uint32_t *gen);

#endif
