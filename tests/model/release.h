/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release.h - a small world of release blocks: their machines, the closes of the nodes, threads
 * that follow scripts, and messages that overtake each other in any way.
 *
 * Scripts are free of data races; vector clocks check that. So each load has one correct value,
 * that of the last store. Messages that order threads are of any type: the search asks the table of
 * messages whether they release and acquire. They may be passed on by a third node, without a
 * thread.
 */
#ifndef MODEL_RELEASE_H
#define MODEL_RELEASE_H

#include "core/host_release.h"
#include "search.h"

#define RC_NODES 4
#define RC_BLOCKS 2
#define RC_BYTES 3
#define RC_THREADS 5 /* in all */
#define RC_OPS 20
#define RC_EDGES 8
#define RC_LOCKS 1

enum rc_do {
	RC_END = 0,
	RC_LOAD,  /* block << 4 | byte */
	RC_STORE, /* the same */
	RC_SEND,  /* edge */
	RC_RECV,  /* edge */
	RC_LOCK,
	RC_UNLOCK,
};

struct rc_op {
	uint8_t what, arg;
};

/* From one thread to another. Of the same node: without a message. */
struct rc_edge {
	uint8_t from, to; /* threads */
	uint8_t hop;      /* 1 + the node that passes it on; 0: none */
	uint8_t type, op; /* the message; 0: chosen by the search */
	uint8_t then;     /* with a hop: the second message */
};

struct rc_cfg {
	uint8_t nnodes, nthreads;
	uint16_t nominal; /* nodes of the job; 0: 64 */
	uint8_t home[RC_BLOCKS];
	uint8_t lock_home;
	uint8_t node[RC_THREADS];
	struct rc_op script[RC_THREADS][RC_OPS];
	struct rc_edge edges[RC_EDGES];
	uint64_t before; /* closes that every node has behind it */
	bool choose;     /* the search chooses the type of edges without one */
	bool follow;     /* homes move */
	bool raises;     /* stores to copies ask for them */
	bool unknown;    /* not before the first home has sent a copy: then it knows the region */
	uint8_t lends;   /* rel_ctx.lends */
	bool fresh;      /* homes have not touched their blocks yet */
	bool tells;      /* homes tell who uses a block of its changes */
	bool late;       /* a home lowers its mappings, and sends, some time after the step */
	/* So many times, a node of these (a mask) gives up a copy: drops it, or has it closed. */
	uint8_t drops, droppers;
	/* Hosts that break their contract: */
	bool lowers_after; /* the block is lowered after it was compared */
	bool twins_after;  /* the mapping is opened before the twin is made */
	bool merges_copy;  /* a diff is not stored in the twin */
	bool merges_words; /* a diff is stored by whole words */
	bool notes_after;  /* the notice is acknowledged before it is in the list */
	bool drops_open;   /* a copy that was written is dropped without a close */
};

extern const struct model rc_model;

#endif
