/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * coherence.h - a small world of ranks, threads, blocks and channels around the page and directory machines.
 *
 * Contents are abstract: every write is of a fresh value, so all that matters of a copy is whether it has the latest
 * value (1) or not (0). A read must see the latest; so must a write, which changes a part of the block only.
 *
 * The host's freedom is explored, too. With `split`, every action that touches this rank's hardware protection or the
 * contents waits in a list of its own and may be overtaken by whatever else happens at this rank; sends need not be
 * held back, as a message that is not sent yet is like one that is slow. Threads may be late to notice that they were
 * woken, and (with `stale`) may ask for what they have got since they faulted.
 */
#ifndef MODEL_COHERENCE_H
#define MODEL_COHERENCE_H

#include "core/dispatch.h"
#include "channel.h"

#define R_MAX 4
#define B_MAX 2
#define T_MAX 2
#define S_MAX (T_MAX + 1) /* a slot for each thread and one for requests that nobody waits for */
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
	OP_PLACE, /* some rank, of this world or not, is to be the home, whether the block has been touched or not */
	OPS
};
#define RW (1u << OP_READ | 1u << OP_WRITE)

struct co_cfg {
	uint8_t nnodes, nblocks, nthreads;
	uint16_t nominal; /* ranks of the job, the last of which live in this world: 64, or more for a coarse copyset */
	uint8_t manager[B_MAX];
	uint8_t ops[R_MAX];    /* operations of each thread of the rank */
	uint16_t kinds[R_MAX]; /* 1 << enum op */
	uint8_t home;          /* 1 + the rank that is the home and has written all blocks before; 0: nobody has */
	uint8_t places;        /* OP_PLACE: 1 << where; 0: at any rank, and at none */
	uint8_t follow;        /* so many writes in a row make a rank the home; 0: homes stay */
	uint8_t pushes;        /* after so many reads by the home a writer is told to push; 0: nothing is pushed */
	bool fifo;             /* channels keep order */
	bool migratory;        /* with `home`: the blocks migrate, as far as that knows */
	bool meet; /* each thread's last operation is to pin a block to read; it begins, and ends, when all threads have come so far */
	bool split, stale, first_touch, hold;
	bool late_land;  /* ACT_LAND, too, after the lock is dropped: known to be wrong, see docs/protocol.md */
	bool early_drop; /* a copy is dropped while it is still to be sent: known to be wrong, as well */
};

struct wact {
	uint8_t type, prot, from, slot;
	struct wmsg msg;
};

/* What is left to do of a step's actions. */
struct wlist {
	uint8_t rank, block, n;
	uint8_t data; /* that came with the step's event */
	struct wact v[2];
};

enum pc {
	PC_READY = 0, /* next operation */
	PC_TRY,       /* to access again */
	PC_FAULT,     /* has faulted, the step is still to come */
	PC_AGAIN,     /* to look at the state again under the lock */
	PC_WAIT,      /* for its own slot */
	PC_JOIN,      /* for another's slot */
	PC_REPLY,     /* for a reply that needs no PE_USED: of OP_PLACE */
	PC_PINNED,
};

struct thread {
	uint8_t pc, op, block, left, joined;
	uint8_t where, busy,
		owns; /* OP_PLACE: at which rank; it is to be asked, again; 1 + the home of its only copy */
};

enum slot_state { SLOT_IDLE = 0, SLOT_PENDING, SLOT_WOKEN };

struct co {
	struct copy pages[R_MAX][B_MAX];
	struct dir dirs[R_MAX][B_MAX];
	struct queue_entry nodes[R_MAX][R_MAX * S_MAX];
	uint8_t hw[R_MAX][B_MAX];     /* enum prot */
	uint8_t latest[R_MAX][B_MAX]; /* is this rank's frame up to date? */
	uint8_t written[B_MAX];       /* a block that was never written is zero */
	uint8_t placed[B_MAX];        /* 1 + the rank that was said to be the home from now on */
	uint8_t timer[R_MAX][B_MAX];  /* PE_REPLAY is due some time */
	uint8_t told[R_MAX][B_MAX];   /* this rank is to push the block, some time or never */
	uint8_t slot[R_MAX][S_MAX];
	uint8_t async_block[R_MAX];
	struct thread threads[R_MAX][T_MAX];
	struct chan chan;
	uint8_t nlists;
	struct wlist lists[L_MAX];
};

enum { WHO_HANDLER = -1, WHO_ASYNC = -2 }; /* who steps, when it is not thread 0, 1, ... */

/* A message may find the world in one of two ways that no state tells. */
enum variant {
	VARIANT_PLAIN = 0,
	VARIANT_EARLY,  /* a block is to be taken away: within its hold time */
	VARIANT_SAMPLE, /* a migrating block is read: it is this reader's turn to get a copy only */
};

/* coherence_host.c: what the core asks for is carried out here. */
void co_local(const struct co_cfg *cfg, struct co *w, unsigned int rank, unsigned int block, enum page_event ev,
	      int who);
void co_deliver(const struct co_cfg *cfg, struct co *w, unsigned int index, enum variant v);
void co_continue(const struct co_cfg *cfg, struct co *w, unsigned int list);
void co_again(struct co *w, unsigned int rank, unsigned int block);
/* Has a step of this rank said to send the block, and its contents have not been read yet? */
bool co_leaves(const struct co *w, unsigned int rank, unsigned int block);
/* May this message be taken now? A release waits until the home's slot for such requests is free. */
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

/* May homes move after the first touch? Then ranks that have lost their copy may remember a home that was. */
static inline bool co_homes_move(const struct co_cfg *cfg)
{
	unsigned int r;

	for (r = 0; r < cfg->nnodes; r++)
		if (cfg->ops[r] && cfg->kinds[r] >> OP_PLACE & 1)
			return true;
	return cfg->follow;
}

/* What the job calls this world's rank. */
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

/* Only a grant says where the home is, and only few messages name a rank in their value. */
static inline struct wmsg co_narrow(const struct co_cfg *cfg, const struct msg *m)
{
	struct chan_names n = co_names(cfg);
	struct msg copy = *m;

	if (m->type != MSG_GRANT && m->type != MSG_DATA)
		copy.home = 0;
	/* What is of no request has the slot 0. */
	if (!m->req_slot &&
	    (m->type == MSG_MOVE || m->type == MSG_MOVE_ACK || m->type == MSG_ADOPT || m->type == MSG_HOME_ACK))
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

	if (m->type == MSG_PLACE || m->type == MSG_CLAIM || m->type == MSG_ADOPT || m->type == MSG_MOVED)
		wide.value += n.rank;
	return wide;
}

extern const struct model co_model;

#endif
