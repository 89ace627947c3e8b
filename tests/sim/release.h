/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release.h - the state of release blocks in the simulator, for release.c, which hosts them, and
 * races.c, which uses them.
 */
#ifndef SIM_RELEASE_H
#define SIM_RELEASE_H

#include "core/diff.h"
#include "core/host_release.h"
#include "sim.h"

struct note {
	uint32_t block;
	uint16_t writer, to;
	struct load *told; /* the diff; NULL: a notice */
};

/* What a node sends at the end of a close, or of a service. */
struct rel_node {
	struct rel_lists lists;
	struct closing closing;
	struct closing_ctx ctx;
	struct closing_peer *peers;
	struct load **merging; /* by source: the FLUSH that is being merged */
	size_t *merged;        /* bytes of it */
	struct load **diffs;   /* by home */
	struct note *notes;
	size_t nnotes, notes_room;
	uint8_t told[DIFF_MAX]; /* the last diff that may be told */
	size_t told_size;
	uint32_t entry; /* of the close that looks at blocks */
	bool first;
};

struct rel_block {
	uint8_t *frame, *twin;
	uint32_t late; /* copies that leave, whose block is not lowered yet */
	uint8_t hw;
};

/* A byte of a block: its last store, and the last load of each thread. */
struct byte {
	uint32_t by, when, *read; /* by: 1 + thread */
	uint8_t value;
};

struct releases {
	unsigned int blocks, threads; /* threads of all nodes */
	struct rel *rels;             /* [node * blocks + block] */
	struct rel_block *copies;
	struct rel_node *nodes;
	struct byte *bytes; /* [block * RELEASE_BYTES + byte]; none in a replay */
	size_t nbytes;
	uint32_t *clocks;  /* [thread * threads + thread] */
	uint32_t *pending; /* what the answers of its call have told a thread */
	uint32_t *barrier[2];
	uint32_t **objects; /* by handle */
	uint32_t nobjects;
};

static inline struct rel_node *rel_node_of(const struct sim *s, uint16_t node)
{
	return &s->rel->nodes[node];
}

static inline struct rel *rel_of(const struct sim *s, uint16_t node, uint32_t block)
{
	return &s->rel->rels[(size_t)node * s->rel->blocks + block - s->o.blocks];
}

static inline struct rel_block *rel_copy_of(const struct sim *s, uint16_t node, uint32_t block)
{
	return &s->rel->copies[(size_t)node * s->rel->blocks + block - s->o.blocks];
}

static inline uint16_t rel_home_of(const struct sim *s, uint32_t block)
{
	return (uint16_t)((block - s->o.blocks) % s->o.nodes);
}

static inline uint8_t *rel_page(uint8_t **p)
{
	if (!*p)
		*p = zeroed(1, DIFF_PAGE);
	return *p;
}

static inline unsigned int rel_thread(const struct sim *s, uint16_t node, unsigned int thread)
{
	return node * s->o.threads + thread;
}

static inline uint32_t *rel_clock(const struct sim *s, unsigned int number)
{
	return &s->rel->clocks[(size_t)number * s->rel->threads];
}

static inline uint32_t *rel_pending(const struct sim *s, unsigned int number)
{
	return &s->rel->pending[(size_t)number * s->rel->threads];
}

static inline unsigned int rel_place(unsigned int byte)
{
	return byte < 16 ? byte : byte * 167 % DIFF_PAGE;
}

static inline struct byte *rel_byte(const struct sim *s, uint32_t block, unsigned int byte)
{
	return &s->rel->bytes[(block - s->o.blocks) * RELEASE_BYTES + byte];
}

#endif
