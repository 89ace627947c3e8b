/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h - a rank's control segment: everything that the other ranks of its host may step for it.
 *
 * One memfd per rank, mapped by all ranks of the host; sparse, and zero is the right start for all of it. Whoever maps it
 * may run this rank's side of the protocol: the directory and the page states of its blocks, its locks and waiters.
 *
 * Locks: `stripes` guard the state machines (block b: stripe of b; object i: stripe of i). A stripe is held for one step,
 * never two at once, never across an action, a system call that can block, or an access to shared memory. `registry.lock`
 * is a leaf of its own.
 */
#ifndef ENGINE_CTL_H
#define ENGINE_CTL_H

#include "core/barrier.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/page.h"
#include "core/sync.h"
#include "dsm.h"

#define CTL_MAGIC 0x6c74632d6d7364ull /* "dsm-ctl" */
#define CTL_ABI 2

#define CTL_SLOTS 256       /* requests that a rank can wait for at once */
#define CTL_SYNC_SLOTS 128  /* the first of them are for threads that wait, the rest for prefetches */
#define CTL_HOLDS 2048      /* locks that a rank's threads hold or await at once */
#define CTL_OBJECTS 4096    /* synchronisation objects homed at a rank */
#define CTL_BARRIERS 256    /* barriers initialised by a rank */
#define CTL_STRIPES 2048
#define CTL_REGIONS 1024
#define CTL_MAIL 64
#define CTL_TEXT 3584
#define PAGE_SHIFT 12
#define PAGE_BYTES (1ul << PAGE_SHIFT)
#define BLOCK_MAX (2ul << 20)

enum ctl_state { CTL_STARTING = 0, CTL_RUNNING, CTL_FINALIZED, CTL_LOST };

/* One request under way. word is slept on and moves with every event; seq counts completions. */
struct slot {
	uint32_t word;
	uint32_t seq;
	uint32_t sleepers;
	uint32_t turn;        /* a RESUME is to be run by whoever waits here */
	uint32_t turn_object;
	uint16_t turn_home;
	int16_t status;
	uint64_t value;
	uint32_t object;      /* the block that was asked for in it */
	uint8_t prefetch;
	uint8_t pad[3];
	uint8_t line[24];
};
CORE_ASSERT_SIZE(struct slot, 64);

/* A call that only the owning process can serve; its service thread does. */
struct mail {
	uint32_t state;  /* 0 free, 1 being written, 2 posted, 3 answered */
	uint32_t op;
	uint64_t arg;
	int32_t status;
	uint32_t pad;
	uint8_t text[CTL_TEXT];
};

struct region_record {
	char name[DSM_NAME_MAX];
	uint64_t off, size, bytes; /* place in the window, as asked for, as taken */
	uint64_t contents;         /* hash of the initial contents; 0: zeros */
	uint32_t block_size;
	uint16_t home_policy, home_rank;
	uint16_t creator, id;
	uint8_t used;              /* the place is taken */
	uint8_t named;             /* the name is */
	uint8_t ready;             /* its initial contents are in */
	uint8_t pad;
	uint32_t attached;         /* ranks */
	uint32_t gen;              /* of the record */
};

/* At rank 0: the names and places of all regions. */
struct registry {
	uint32_t lock;
	uint32_t pad;
	struct region_record regions[CTL_REGIONS];
};

/* Counters of one region at one rank. */
struct region_stats {
	uint64_t read_faults, write_faults, upgrades, local_faults, prefetched;
	uint64_t invalidations, downgrades, blocks_in, blocks_out, bytes_in, bytes_out;
	uint64_t latency_count[3], latency_sum[3], latency_max[3];
	uint64_t latency[3][DSM_LAT_BUCKETS];
};

struct rank_stats {
	uint64_t messages_out, messages_in, steps, locks, lock_waits, barriers, atomics;
	uint64_t latency_count[3], latency_sum[3], latency_max[3]; /* lock, barrier, atomic */
	uint64_t latency[3][DSM_LAT_BUCKETS];
};

enum favour_op { FAVOUR_LOWER = 1, FAVOUR_SHUT, FAVOUR_TAKE };

/* Asked of a thread that waits: favour.c. */
struct favour {
	uint32_t state, op;
	uint64_t off, len;
	int32_t err;
	uint32_t writable;
	uint8_t data[16 * PAGE_BYTES];
};

struct ctl {
	uint64_t magic;
	uint32_t abi;
	uint16_t rank, size;
	int32_t pid;
	uint32_t state;          /* enum ctl_state, atomic */
	uint32_t abort_status;   /* CTL_LOST: that it ended with */
	uint32_t unused;
	uint64_t slot_free[CTL_SLOTS / 64]; /* set bits are in use */
	uint64_t hold_used[CTL_HOLDS / 64];
	uint64_t object_used[CTL_OBJECTS / 64];
	uint64_t barrier_used[CTL_BARRIERS / 64];
	uint32_t looking;        /* threads of this rank that wait and look about */
	uint32_t pad[15];
	struct favour favour;
	uint32_t stripes[CTL_STRIPES];
	struct slot slots[CTL_SLOTS];
	struct hold holds[CTL_HOLDS];
	struct sync objects[CTL_OBJECTS];
	struct mail mail[CTL_MAIL];
	struct rank_stats stats;
	struct region_stats region_stats[CTL_REGIONS];
	struct registry registry;
};

/* What follows struct ctl, at offsets that depend on the job. */
struct ctl_layout {
	size_t bars;   /* struct bar[size * CTL_BARRIERS] */
	size_t nodes;  /* struct qnode[size * CTL_SLOTS] */
	size_t pages;  /* struct copy[pages of the window] */
	size_t dirs;   /* struct dir[...] */
	size_t moves;  /* uint32_t[...]: write permissions that changed ranks, counted at the home */
	size_t stage;  /* CTL_SLOTS * BLOCK_MAX: contents whose acknowledgements are still to come */
	size_t heap;   /* struct heap_shared */
	size_t total;
};

void ctl_layout(struct ctl_layout *l, uint16_t size, size_t space, size_t heap_part);

#endif
