/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * world.h - honest ranks with the machines of the core, their host, and what must hold of them. For
 * fuzz_world.c, world.c, line.c.
 */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include "must.h"

#include "core/dispatch.h"
#include "core/set.h"

#define HONEST 3u
#define OTHER HONEST /* the rank that is not */
#define RANKS (HONEST + 1)
#define THREADS 2u
#define ASYNC THREADS /* the slot of a block that is asked for with nobody waiting */
#define BLOCK_SLOTS (THREADS + 1)
#define SLOTS (2 * BLOCK_SLOTS) /* the second half are those of synchronisation */
#define BLOCKS 6u
#define OBJECTS 6u /* places of each rank; 0 is none */
#define MADE 64u   /* objects that are made in all */
#define HOLDS 3u
#define BARRIERS 2u
#define UNDER_WAY 512u
#define SEEN 8u
#define LINE (RANKS * SLOTS) /* that may wait for one object */

enum told {
	TOLD_IN_LINE = 1,
	TOLD_TURN = 2,
	TOLD_OUT = 4,  /* -ETIMEDOUT: no longer in line */
	TOLD_LATE = 8, /* -EALREADY: not in line when SOP_CANCEL came */
	TOLD_NO = 16,  /* refused: there is no such object */
};

/* All in the heap, each by itself: AddressSanitizer sees who leaves his own. */
struct rank {
	struct queue_entry *nodes, *object_nodes;
	struct dir *dirs;
	struct copy *pages;
	struct sync *objects;
	struct object_list list;
	uint64_t *asks;
	struct hold *holds;
	struct bar *bars;
	struct slot {
		uint8_t busy, woken, write;
		uint8_t block; /* + 1; 0: of synchronisation */
		uint8_t home;  /* of a release, the block; of a creation, who is asked */
		uint8_t made;  /* the object that MSG_SYNC is about, + 1 */
		uint8_t op;    /* of MSG_SYNC; SYNC_OPS: of a lock */
		uint8_t flags; /* of MSG_SYNC */
		uint8_t gets;  /* what of a rwlock the answer gives: 1 to read, 2 to write */
		uint8_t told;  /* of a wait, what has come: enum told */
		bool cancels;  /* SOP_CANCEL has left, and its answer not come */
	} slots[SLOTS];
	uint8_t prot[BLOCKS];
	uint32_t frame[BLOCKS];
	uint8_t timer[BLOCKS];
	uint32_t came[BARRIERS]; /* episodes that its threads have arrived in */
	uint8_t rw[MADE];        /* of each rwlock: 1 held to read, 2 to write, 3 asked for */
	bool cut;                /* it talks to the other rank no more */
};

struct letter {
	struct msg m;
	uint16_t from;
	uint32_t data;
};

/*
 * The queue of a condition, a semaphore or a reader-writer lock, and what its first waiter needs to
 * be woken (line.c).
 */
struct line {
	struct {
		uint8_t rank, slot, op;
	} who[LINE];
	uint32_t n;
	/* waiters that signals have counted, and who have not been answered: the first */
	uint32_t due;
	int32_t readers;  /* without a lease */
	uint64_t leased;  /* ranks that have a lease; */
	uint64_t revoked; /* those of them that have been asked for it */
	bool writer;
	uint64_t value; /* of the semaphore */
};

/* An object that was made, at an honest rank; its name is never that of another. */
struct made {
	uint64_t name; /* core/objects.h */
	uint8_t home, kind;
	bool alive;
	bool known; /* the honest ranks have its handle, for good */
	struct line line;
};

extern struct world {
	struct rank r[HONEST];
	struct letter way[UNDER_WAY];
	unsigned int n;
	uint32_t now, version[BLOCKS];
	bool part[BLOCKS]; /* the other rank takes part */
	struct made made[MADE];
	bool part_made[MADE];
	unsigned int nmade;
	struct msg seen[SEEN];
	unsigned int nseen;
} * w;

/* The whole name that a message or a hold record has. */
static inline uint64_t world_name(uint32_t object, uint16_t upper)
{
	return (uint64_t)upper << 32 | object;
}

uint16_t world_manager(uint32_t block);
void world_check_blocks(void);
void world_check_objects(void);
/* An object of this rank is there from now on. */
void world_make(uint16_t home, uint64_t name, uint8_t kind, bool part, bool known);
/* Its number, of the living and of the others; -1: none ever had this name. */
int world_made(uint16_t home, uint64_t name);
/* The newest that was made in this place, or the one so many before it; -1: there is none. */
int world_newest(uint16_t home, uint32_t index, unsigned int before);
/* One step at its home, which has not refused m; of a kind that has a line. */
void line_step(struct line *l, const struct msg *m, const struct actions *out);
/* A waiter that can be woken is being woken, and nobody waits for a destroyed object. */
void line_check(const struct made *x);
/* Its place in line, from 0 on; -1: none. */
int line_find(const struct line *l, uint16_t rank, uint16_t slot);
static inline bool line_has(uint8_t kind)
{
	return kind == SYNC_COND || kind == SYNC_SEM || kind == SYNC_RWLOCK;
}
/* A thread of r reads the block, or writes it: contents are the newest. */
void world_access(struct rank *r, unsigned int block, bool write);
void world_post(uint16_t from, const struct msg *m, uint32_t data);
/* An event of a rank's own, with the slot of who waits. */
void world_local_page(uint16_t me, uint32_t block, enum page_event ev, unsigned int slot);
void world_carry_out(uint16_t me, uint32_t block, const struct actions *out, uint32_t data);
/* 0, -EBADMSG, -ESTALE: as dispatch_step() has it. */
int world_dispatch(uint16_t me, const struct msg *m, uint32_t data);

#endif
