/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release_world.h - a world of release blocks, for the files of this model: release.c has its
 * threads and messages, release_host.c the nodes as hosts of the core, release_check.c the
 * invariants.
 */
#ifndef MODEL_RELEASE_WORLD_H
#define MODEL_RELEASE_WORLD_H

#include "release.h"

#include <stdlib.h>
#include <string.h>

#include "show.h"

#define MESSAGES 20
#define HELD 12 /* a sender may have half of them */
#define LEAVES 4

#define NOTED_BLOCK 0x80u
#define ASKS_BLOCK 0x40u
#define GIVEN_BLOCK 0x20u

/* A message in flight: what the machines see of it, and its payload. */
struct rmsg {
	uint64_t close;
	uint8_t type, op, src, dst, object, req_node, slot;
	uint8_t inside, inside_op; /* AFTER */
	/* FLUSH, NOTE: changed bytes; NOTED_BLOCK: a notice; ASKS_BLOCK; FLUSHED: GIVEN_BLOCK */
	uint8_t mask[RC_BLOCKS];
	uint8_t v[RC_BLOCKS][RC_BYTES];
	uint8_t flags;
};

/* ACT_DATA that is not carried out yet. */
struct leave {
	uint8_t used, node, block, from;
	struct rmsg m;
};

enum pc { PC_READY = 0, PC_WAIT, PC_WOKEN, PC_JOIN, PC_ACQUIRE, PC_WALK };

struct thread {
	uint8_t at, pc, entry, stale, again;
	uint8_t clock[RC_THREADS];
};

struct byte_ghost {
	uint8_t value;            /* number of stores */
	uint8_t by, when;         /* the last store: 1 + thread, its clock */
	uint8_t read[RC_THREADS]; /* clocks of the last loads */
};

struct diff_out {
	uint8_t mask;
	uint8_t v[RC_BYTES];
};

struct rnode {
	struct rel blocks[RC_BLOCKS];
	struct rel_lists lists;
	struct closing closing;
	struct closing_peer peers[RC_NODES];
	struct closing_held held[HELD];
	uint8_t hw[RC_BLOCKS], twinned[RC_BLOCKS], dirty[RC_BLOCKS];
	uint8_t frame[RC_BLOCKS][RC_BYTES], twin[RC_BLOCKS][RC_BYTES];
	struct diff_out diffs[RC_BLOCKS]; /* of the close that gathers */
	/* by writer and receiver: blocks that are noted, and those that are told */
	uint8_t notices[RC_NODES][RC_NODES], tells[RC_NODES][RC_NODES];
	struct diff_out told[RC_NODES][RC_BLOCKS]; /* by writer */
	uint8_t gather, entry;                     /* 1: to begin, 2: at this block */
	struct rmsg merging[RC_NODES];             /* FLUSH of this node, partly merged */
	uint8_t applies;                           /* an acquire without a thread is under way */
};

struct world {
	struct rnode nodes[RC_NODES];
	struct thread threads[RC_THREADS];
	struct byte_ghost bytes[RC_BLOCKS][RC_BYTES];
	uint8_t arrived[RC_EDGES]; /* 1: the message has come; 2: and acquires */
	uint8_t edge_clock[RC_EDGES][RC_THREADS];
	uint8_t lock_clock[RC_THREADS];
	/* 1 + thread; threads; 1 + thread, 16: acquires */
	uint8_t lock_holder, lock_line, lock_granted;
	uint8_t chosen; /* 1 + the type of edges, see choices */
	uint8_t drops;  /* of copies that were given up */
	uint8_t n;
	struct rmsg msgs[MESSAGES];
	struct leave leaves[LEAVES];
};
_Static_assert(sizeof(struct world) <= WORLD_MAX, "a world that search.c has no room for");

static inline uint16_t rc_nominal(const struct rc_cfg *cfg)
{
	return cfg->nominal ? cfg->nominal : 64;
}
static inline struct rc_op rc_next_op(const struct rc_cfg *cfg, const struct world *w,
				      unsigned int t)
{
	return cfg->script[t][w->threads[t].at];
}

/* The home of a block, as far as this node knows. */
static inline unsigned int rc_home(const struct rc_cfg *cfg, const struct rnode *n, unsigned int b)
{
	const struct rel_ctx ctx = { .home = cfg->home[b] };

	return rel_home(&ctx, &n->blocks[b]);
}

/* ---- release_host.c -------------------------------------------------------------------------- */

/* A node as a host of the core. */
struct host {
	struct core_host h;
	const struct rc_cfg *cfg;
	struct world *w;
	struct rnode *n;
	const struct rmsg *m; /* the message, with its payload */
	int who;              /* the thread, or -1 */
};

struct host rc_host_at(const struct rc_cfg *cfg, struct world *w, unsigned int node, int who,
		       const struct rmsg *m);
/* At the start of a search: no lock is held. */
void rc_unlock_all(void);
void rc_post(struct world *w, const struct rmsg *m);
struct msg rc_widen(const struct rmsg *m);
/* Send the block's contents with m. */
void rc_send_data(struct world *w, unsigned int node, unsigned int b, struct rmsg *m);
void rc_set_hw(struct host *x, uint32_t b, uint8_t prot);

/* ---- release_check.c ------------------------------------------------------------------------- */

void rc_canon(const void *cfg, void *world);
void rc_check(const void *cfg, const void *world);
bool rc_final(const void *cfg, const void *world);
void rc_show(const void *cfg, const void *world);

#endif
