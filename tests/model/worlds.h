/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * worlds.h - the worlds of synchronisation objects, of handles and of mappings, which configs.c
 * lists. coherence.h and release.h have those of blocks.
 */
#ifndef MODEL_WORLDS_H
#define MODEL_WORLDS_H

#include "core/map.h"
#include "core/sync.h"
#include "search.h"

/* ---- objects.c ------------------------------------------------------------------------------- */

/*
 * Worlds of one reader-writer lock, semaphore or condition queue, with its home and the threads
 * that use it.
 */
enum use {
	USE_READ = 0,
	USE_WRITE,
	USE_TRY_READ,
	USE_TRY_WRITE,
	USE_TIMED_READ,
	USE_TIMED_WRITE, /* reader-writer lock */
	USE_WAIT,
	USE_TIMED,
	USE_TRY,
	USE_POST,
	USE_POST2, /* from USE_WAIT on: semaphore; USE_WAIT and USE_TIMED also: condition */
	USE_SIGNAL,
	USE_BROADCAST,
	USE_DROP, /* semaphore: a wait without limit, whose thread is cancelled */
	USE_DESTROY,
	USE_MEET, /* condition: with all threads */
	USES
};

struct obj_cfg {
	uint8_t kind; /* enum sync_kind */
	uint8_t nnodes, nthreads;
	uint8_t initial;
	uint8_t ops[4];   /* by rank: operations of each thread */
	uint16_t uses[4]; /* 1 << enum use */
	bool fifo;
	bool leases; /* nodes ask for leases of a reader-writer lock */
};

extern const struct model obj_model;

/* ---- locks.c --------------------------------------------------------------------------------- */

/*
 * Worlds of one queue lock: its home, the hold records of the ranks, and threads that lock and
 * unlock.
 */
struct lock_cfg {
	uint8_t nnodes, nthreads;
	uint8_t records; /* hold records per rank: few, so that they are reused soon */
	uint8_t home;
	uint8_t ops[4]; /* by rank: operations of each thread */
	bool try, fifo;
	/* threads of a rank queue behind each other; passes while another rank waits */
	uint8_t passes;
	bool give; /* ranks give back locks that they keep */
	/* threads lock and unlock by the record's word, and are woken without the lock */
	bool fast;
};

extern const struct model lock_model;

/* ---- barriers.c ------------------------------------------------------------------------------ */

/* Worlds of one barrier and its threads, or of two successive barriers with the same number. */

/*
 * What a thread does with the old handle: one call; or one call, then all episodes with the new
 * handle.
 */
enum bar_old { BAR_OLD = 1, BAR_OLD_FIRST };

struct bar_cfg {
	uint8_t nnodes;
	uint8_t locals;     /* ranks per node; thread t is one of rank t % locals; 0: one */
	uint8_t threads[4]; /* threads of each node */
	uint8_t says[4][4]; /* number of threads of a rank, as each thread claims */
	uint8_t parent[4];  /* the tree; node 0 is the root */
	uint8_t episodes;
	/* The barrier was destroyed and made again, maybe with other members and another tree. */
	bool remade;
	uint8_t old[4][4];  /* by thread: enum bar_old */
	uint8_t members[2]; /* members of the new and of the old barrier; 0: all */
	uint8_t was[4];     /* the old tree */
	bool spoiled;       /* the threads contradict each other: all must get an error */
	bool fifo;
};

extern const struct model bar_model;

/* ---- handles.c ------------------------------------------------------------------------------- */

/*
 * Worlds of one home's table of objects, with ranks that make, use and destroy objects by shared
 * handles.
 */
struct handle_cfg {
	uint8_t nnodes;
	uint8_t places; /* indices of the table */
	uint8_t ops[3]; /* operations of each rank */
	uint32_t gen;   /* generation of all indices at the start */
	/* number of objects made and destroyed there before each object of a rank */
	uint32_t skip;
	bool give;       /* ranks give back mutexes that they have kept */
	bool lock, fifo; /* lock: objects are mutexes; else atomics */
};

extern const struct model handle_model;

/* ---- maps.c ---------------------------------------------------------------------------------- */

/* Worlds of one page of one node, whose ranks map the same copy of it. */
struct map_cfg {
	uint8_t nranks;
	uint16_t rank[3]; /* the ranks' indices: some share a bit */
	uint8_t kind;     /* enum map_kind */
	uint8_t ops[3];   /* accesses of each rank */
	/* markers are set before they are needed, as when a neighbour is filled */
	bool early;
	bool ahead; /* ranks map the page before they touch it */
	/* Violations of the host's contract. */
	bool unlocked;  /* again() does not wait for a change in progress */
	bool wrong_way; /* the contents leave before the mappings are lowered */
};

extern const struct model map_model;

#endif
