/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coherence.h - a small world of ranks, threads, blocks and channels around the page and directory
 * machines.
 *
 * Contents are abstract: every write makes a new value, so a copy either has the latest value (1)
 * or not (0). A read must see the latest value, and so must a write, which changes only part of the
 * block.
 *
 * The actions are carried out by core/host.c, as in every host. The search also covers the host's
 * freedom. With `split`, each action that changes this rank's hardware protection is stored, and
 * any other event of this rank may overtake it. Sends need no delay, since an unsent message is
 * like a slow one. Threads may notice late that they were woken, and (with `stale`) may request
 * what they have received since they faulted.
 */
#ifndef MODEL_COHERENCE_H
#define MODEL_COHERENCE_H

#include "core/host.h"
#include "channel.h"

#define R_MAX 4
#define B_MAX 2
#define T_MAX 2
#define S_MAX (T_MAX + 1) /* one slot per thread, and one for requests without a waiting thread */
#define L_MAX 8

enum op {
	OP_READ = 0,
	OP_WRITE,
	OP_PREFETCH_R,
	OP_PREFETCH_W,
	OP_PIN_R,
	OP_PIN_W,
	OP_KEEP,
	OP_EVICT, /* release */
	OP_DROP,
	/*
	 * choose a rank, of this world or not, as the home, whether or not the block has been
	 * touched
	 */
	OP_PLACE,
	OPS
};
#define RW (1u << OP_READ | 1u << OP_WRITE)

struct co_cfg {
	uint8_t nnodes, nblocks, nthreads;
	/* ranks of the job, 64, or more for a coarse copyset; this world has the last ones */
	uint16_t nominal;
	uint8_t manager[B_MAX];
	uint8_t ops[R_MAX];    /* by rank: operations of each thread */
	uint16_t kinds[R_MAX]; /* 1 << enum op */
	/* 1 + rank that is the home of all blocks and has written them; 0: none */
	uint8_t home;
	/* OP_PLACE: 1 << rank; 0: at any rank, or at one that does not exist */
	uint8_t places;
	uint8_t follow; /* writes in a row that make a rank the home; 0: homes stay */
	/* reads by the home after which a writer is told to push; 0: never */
	uint8_t pushes;
	bool confirmed; /* no brief reads */
	bool fifo;      /* channels keep order */
	bool migratory; /* with `home`, which then treats the blocks as migratory */
	/*
	 * each thread's last operation is to pin a block to read; it begins, and ends, when all
	 * threads have come so far
	 */
	bool meet;
	bool split, stale, first_touch, hold;
	/* delay also ACT_LAND beyond the lock: known to be wrong, see docs/protocol.md */
	bool late_land;
	bool early_drop; /* drop a copy that must still be sent: known to be wrong as well */
};

struct wact {
	uint8_t type, prot, from, slot;
	struct wmsg msg;
};

/*
 * What a step has left to do: contents to land; a block to lower, and what is sent then; a block to
 * open, and the slot to wake.
 */
struct wlist {
	uint8_t rank, block, n;
	uint8_t data; /* contents that came with the step's event */
	struct wact v[2];
};

enum pc {
	PC_READY = 0, /* next operation */
	PC_TRY,       /* repeats the access */
	PC_FAULT,     /* has faulted, before the step */
	PC_AGAIN,     /* looks at the state again, with the lock */
	PC_WAIT,      /* waits for its own slot */
	PC_JOIN,      /* waits for another slot */
	PC_REPLY,     /* waits for a reply that needs no PE_USED: of OP_PLACE */
	PC_PINNED,
};

struct thread {
	uint8_t pc, op, block, left, joined;
	/* OP_PLACE: the rank; whether to ask it, or again; 1 + home of its only copy */
	uint8_t where, busy, owns;
};

enum slot_state { SLOT_IDLE = 0, SLOT_PENDING, SLOT_WOKEN };

struct co {
	struct copy pages[R_MAX][B_MAX];
	struct dir dirs[R_MAX][B_MAX];
	struct queue_entry nodes[R_MAX][R_MAX * S_MAX];
	uint8_t hw[R_MAX][B_MAX];     /* enum prot */
	uint8_t latest[R_MAX][B_MAX]; /* is this rank's frame up to date? */
	uint8_t written[B_MAX];       /* 0: the block is still zero */
	uint8_t placed[B_MAX];        /* 1 + rank that was declared the home */
	uint8_t timer[R_MAX][B_MAX];  /* PE_REPLAY comes at some time */
	uint8_t told[R_MAX][B_MAX];   /* this rank should push the block, at some time or never */
	uint8_t slot[R_MAX][S_MAX];
	uint8_t async_block[R_MAX];
	struct thread threads[R_MAX][T_MAX];
	struct chan chan;
	uint8_t nlists;
	struct wlist lists[L_MAX];
};

enum { WHO_HANDLER = -1, WHO_ASYNC = -2 }; /* the origin of a step that is no thread */

/* Differences in a world's state that change how a message is handled, and are not stored. */
enum variant {
	VARIANT_PLAIN = 0,
	VARIANT_EARLY,  /* a block is to be taken away within its hold time */
	VARIANT_SAMPLE, /* a migrating block is read: this time the reader gets only a copy */
};

/* coherence_host.c: carries out what the core asks for. */
void co_local(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block,
	      enum page_event ev, int who);
void co_deliver(const struct co_cfg *cfg, struct co *w, unsigned int index, enum variant v);
void co_continue(const struct co_cfg *cfg, struct co *w, unsigned int list);
void co_again(struct co *w, unsigned int rank, unsigned int block);
/* Must this rank still send the block's contents, by an earlier step? */
bool co_leaves(const struct co *w, unsigned int rank, unsigned int block);
/*
 * May this message be handled now? A release waits until the home's slot for such requests is free.
 */
bool co_deliverable(const struct co_cfg *cfg, const struct co *w, unsigned int index);

/* coherence_check.c */
void co_canon(const void *cfg, void *world);
void co_check(const void *cfg, const void *world);
bool co_final(const void *cfg, const void *world);
void co_show(const void *cfg, const void *world);

static inline uint16_t co_nominal(const struct co_cfg *cfg)
{
	return cfg->nominal ? cfg->nominal : 64;
}

/*
 * Can homes move after the first touch? Then ranks that have lost their copy may remember a former
 * home.
 */
static inline bool co_homes_move(const struct co_cfg *cfg)
{
	unsigned int r;

	for (r = 0; r < cfg->nnodes; r++)
		if (cfg->ops[r] && cfg->kinds[r] >> OP_PLACE & 1)
			return true;
	return cfg->follow;
}

/* The rank's number in the job. */
static inline uint16_t co_rank(const struct co_cfg *cfg, unsigned int rank)
{
	return (uint16_t)(co_nominal(cfg) - cfg->nnodes + rank);
}

static inline struct chan_names co_names(const struct co_cfg *cfg)
{
	return (struct chan_names){ .rank = co_rank(cfg, 0),
				    .ranks = cfg->nnodes,
				    .slot = CHAN_SLOT,
				    .slots = cfg->nthreads + 1u,
				    .object = 0x12345678,
				    .objects = cfg->nblocks,
				    .home = co_rank(cfg, 0),
				    .homes = cfg->nnodes,
				    .value = 1 };
}

/* Only a grant names the home, and only few messages have a rank in their value. */
static inline struct wmsg co_narrow(const struct co_cfg *cfg, const struct msg *m)
{
	struct chan_names n = co_names(cfg);
	struct msg copy = *m;

	if (m->type != MSG_GRANT && m->type != MSG_DATA)
		copy.home = 0;
	/* A message of no request has slot 0. */
	if (!m->req_slot &&
	    (m->type == MSG_MOVE || m->type == MSG_MOVE_ACK || m->type == MSG_ADOPT ||
	     m->type == MSG_HOME_ACK))
		copy.req_slot = (uint16_t)n.slot;
	if (m->type == MSG_ADOPT || m->type == MSG_MOVED || m->type == MSG_CLAIM)
		copy.value = chan_small("manager", m->value, n.rank, n.ranks);
	if (m->type == MSG_REPLY && m->value)
		copy.value = 1 + chan_small("home", m->value - 1, n.rank, n.ranks);
	return chan_narrow(&n, &copy);
}

static inline struct msg co_widen(const struct co_cfg *cfg, const struct wmsg *m)
{
	struct chan_names n = co_names(cfg);
	struct msg wide = chan_widen(&n, m);

	if (m->type == MSG_PLACE || m->type == MSG_CLAIM || m->type == MSG_ADOPT ||
	    m->type == MSG_MOVED)
		wide.value += n.rank;
	return wide;
}

extern const struct model co_model;

#endif
