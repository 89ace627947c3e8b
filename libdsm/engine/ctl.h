/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h - a node's control segment: the state of the node, and what its ranks tell each other.
 *
 * One memfd per node, made by its first rank and mapped by all of them; sparse, and zero is the right start for all of it. Any
 * thread of any rank of the node runs the node's side of the protocol in it: the directory and the page states of its blocks,
 * its locks and waiters. It holds indices, never pointers.
 *
 * Locks: `stripes` guard the state machines (block b: stripe of b; object i: stripe of i). A stripe is held for one step,
 * never two at once, never across an action, a system call that can block, or an access to shared memory. The exception is
 * run_drop(): it takes several in ascending order and closes mappings under them. `registry.lock` is a leaf of its own.
 */
#ifndef ENGINE_CTL_H
#define ENGINE_CTL_H

#include "core/ask.h"
#include "core/barrier.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/objects.h"
#include "core/page.h"
#include "core/sync.h"
#include "dsm.h"
#include "engine/pool.h"
#include "engine/room.h"

#define CTL_MAGIC 0x6c74632d6d7364ull /* "dsm-ctl" */
#define CTL_ABI 19

/* Slots of a node (slot.c). The first 256 are those that a transport may write blocks for. */
#define CTL_BLOCK_SLOTS 128 /* blocks that threads wait for */
#define CTL_AHEAD_SLOTS 240 /* blocks fetched ahead */
#define CTL_SLOTS 256       /* blocks given back */
#define CTL_BLOCK_END 2048  /* more blocks that threads wait for: others may have them pinned */
#define CTL_BRIEF_END 3072  /* requests that are answered at once */
#define CTL_ALL_SLOTS 65536 /* requests that may wait for somebody's doing, still more blocks; messages have 16 bits */

#define CTL_HOLDS (1u << 20)       /* locks that a node's threads hold or await at once */
#define CTL_KEPT (1u << 16)        /* of them, kept for locks that nobody else has asked for */
#define CTL_KEPT_PLACES (1u << 18) /* where such locks are looked for */
#define CTL_OBJECTS (1u << 24)     /* synchronisation objects homed at a node: what their names have room for */
#define CTL_BARRIERS 65536         /* barriers initialised by a rank */
#define CTL_STRIPES 2048
#define CTL_REGIONS 65535 /* the window's units have 16 bits for one */
#define CTL_NAMES 65536   /* chains of names of regions */
#define CTL_LANES 256     /* threads of a rank that count on their own */
#define CTL_NOTES 256     /* sleeping threads that say what they wait for */
#define CTL_PUSHES 8192u  /* blocks that a rank is to push; of more, the oldest are forgotten */
/* Calls that a node can have under way: one for each slot of theirs. */
#define CTL_CALLS (CTL_BRIEF_END - CTL_BLOCK_END)
#define PAGE_SHIFT 12
#define PAGE_BYTES (1ul << PAGE_SHIFT)
#define BLOCK_MAX (2ul << 20)

enum ctl_state { CTL_STARTING = 0, CTL_RUNNING, CTL_FINALIZED, CTL_LOST };

enum { SLOT_LEFT = 1, SLOT_WOKEN = 2, SLOT_QUIT = 4 };

/* One request under way. */
struct slot {
	uint32_t seq; /* completions; slept on */
	uint32_t sleepers;
	uint64_t value;
	uint64_t ask;    /* core/ask.h */
	uint32_t object; /* the block that was asked for in it; SLOT_QUIT: the hold record */
	int16_t status;
	uint8_t prefetch; /* SLOT_LEFT: nobody waits; SLOT_QUIT: nor for a lock; SLOT_WOKEN: the answer has come; atomic */
	uint8_t kind;     /* enum slot_kind, where a slot may be of several */
	uint16_t by;      /* the rank that asks in it, by its place in the node */
	uint8_t pad2[30];
};
CORE_ASSERT_SIZE(struct slot, 64);

/* Threads that wait for something to be given back. */
struct queue_word {
	uint32_t word; /* changes when something was */
	uint32_t waiting;
	uint32_t sleepers;
	uint32_t pad;
};

/* A call that only one process of the node can serve, until its service thread has come to it (call.c). */
struct due_call {
	uint64_t arg;
	uint32_t next; /* for the same rank: its number + 1 */
	uint16_t room;
	uint8_t op;
	uint8_t waits; /* of another node: it is here; atomic */
};

struct region_record {
	char name[DSM_NAME_MAX];
	uint64_t contents;         /* hash of the initial contents; 0: zeros */
	uint64_t size, off, bytes; /* as asked for; place in the window, as taken */
	uint32_t block_size;
	uint16_t home_policy, home_rank;
	uint16_t creator, id;
	uint8_t used;  /* the place is taken */
	uint8_t named; /* the name is */
	uint8_t ready; /* its initial contents are in */
	uint8_t priority;
	uint32_t attached; /* ranks */
	uint32_t gen;      /* of the record */
	uint32_t next;     /* with a name of the same hash: its id + 1 */
	uint16_t buries;   /* the node + 1 that took away its name or its last rank, where both are gone */
	uint16_t pad2;
};

/* At the first node: the names and places of all regions. The places are in the control segment's room. */
struct registry {
	uint32_t lock;
	uint32_t pad;
	struct pool ids;
	uint32_t next_id[CTL_REGIONS];
	uint32_t names[CTL_NAMES]; /* by hash: id + 1 */
	struct room room;
	struct region_record regions[CTL_REGIONS];
};

/* By what the first home of a block of a region is found. */
struct region_homes {
	uint64_t off;
	uint32_t block_size;
	uint16_t id, policy, rank;
};

/* Counters of one region at one rank. */
struct region_stats {
	uint64_t read_faults, write_faults, upgrades, local_faults, prefetched;
	uint64_t invalidations, downgrades, blocks_in, blocks_out, bytes_in, bytes_out, homes_in;
	uint64_t repeated_faults, protect_calls, pushed;
	uint64_t latency_count[3], latency_sum[3], latency_max[3];
	uint64_t latency[3][DSM_LAT_BUCKETS];
};

struct rank_stats {
	uint64_t messages_out, messages_in, steps, locks, lock_waits, barriers, atomics, populated;
	uint64_t latency_count[3], latency_sum[3], latency_max[3]; /* lock, barrier, atomic */
	uint64_t latency[3][DSM_LAT_BUCKETS];
};

/* What one thread counts on its own, without an atomic addition; others only read it. */
struct lane {
	uint64_t locks;
	uint64_t pad[7];
} __attribute__((aligned(64)));

enum about { ABOUT_CALL = 0, ABOUT_BLOCK, ABOUT_OBJECT, ABOUT_BARRIER, ABOUT_HOLDS, ABOUT_DONE };

/* What a thread waits for, or holds: stall.c. */
struct wait_about {
	uint64_t mask; /* a barrier's ranks; 0: all */
	uint32_t object;
	uint32_t threads; /* of each rank in a barrier */
	uint16_t home;
	uint8_t kind; /* enum about */
	uint8_t sync; /* enum sync_kind of an object */
	uint32_t pad;
};

/* The same as the program knows it: dsm_wait_label(). */
struct wait_label {
	uint64_t object;
	uint32_t holder; /* thread; 0: not known */
	uint8_t what;    /* enum dsm_wait */
	uint8_t pad[3];
};

struct wait_note {
	uint64_t since; /* clock_ns(); 0: nobody's */
	struct wait_about about;
	struct wait_label label;
	uint32_t tid;
	uint32_t lasting; /* until another thread of the program does something, without a limit of time */
};

/*
 * A piece of a collective (chunk.c), in a ring: number n is in chunks[n % CTL_CHUNKS]. A multiple of the size of each type.
 */
#define CTL_CHUNK_BYTES 4080u
#define CTL_CHUNKS 64u

struct chunk {
	uint32_t lock; /* of begun to came, and of data while parts are combined */
	uint32_t word; /* changes when it is done */
	uint32_t sleepers;
	uint32_t parts; /* ranks of this node whose part is in it */
	uint64_t begun; /* the number that the parts are of, + 1 */
	uint64_t done;  /* the number that is complete, + 1 */
	uint32_t came;  /* children whose part is in it, a bit each */
	uint32_t pad[7];
	uint8_t data[CTL_CHUNK_BYTES + 16];
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct chunk, data) % 64 == 0, "values of all types are aligned");

/* The answer to a call, in the request's slot. */
struct answer {
	uint32_t room, size; /* room 0: none is wanted, or it has come; atomic */
	uint32_t op;         /* of the call */
	uint32_t pad;
	uint8_t text[WIRE_CALL_MAX];
};

/* Blocks that a rank is to push (push.c): number n is in blocks[n % CTL_PUSHES]. Any thread of the node adds. */
struct push_list {
	uint32_t noted; /* in all; atomic */
	uint32_t taken; /* of them; atomic */
	uint32_t lock;  /* of taken: a thread of the rank pushes */
	uint32_t pad;
	uint32_t blocks[CTL_PUSHES]; /* 0: none; atomic */
};

/* What is of one rank, for the other ranks of its node. */
struct rank_ctl {
	int32_t pid;
	uint32_t state;        /* enum ctl_state, atomic */
	uint32_t abort_status; /* not 0: it has ended with it (CTL_LOST), or is about to; atomic */
	uint32_t region_end;   /* ids of regions that this rank was ever attached to are below */
	struct pool barrier_pool;
	uint32_t barrier_life[CTL_BARRIERS]; /* the generation that each number has now, or had last: sync/barrier.c */
	uint32_t barrier_next[CTL_BARRIERS];
	uint64_t note_used[CTL_NOTES / 64];
	struct wait_note notes[CTL_NOTES];
	uint64_t sync_out,
		sync_in;    /* messages that may wake a thread of the program, to and from other nodes; never reset */
	uint32_t calls_in;  /* calls for its service thread: the number + 1 of the one that came last; atomic */
	uint32_t calls_due; /* those that it has taken from there, in the order in which they came; its own */
	uint32_t threads;   /* of dsm_spawn() that run here; atomic */
	struct rank_stats stats;
	uint64_t lane_used[CTL_LANES / 64];
	struct lane lanes[CTL_LANES]; /* a thread that begins goes on where one that ended has ceased */
	struct push_list pushes;
	struct region_stats region_stats[CTL_REGIONS];
};

struct ctl {
	uint64_t magic;
	uint32_t abi;
	uint16_t node, ranks;
	uint64_t slot_used[CTL_BLOCK_END / 64];
	struct pool brief_slots, lasting_slots;
	struct queue_word block_queue, brief_queue; /* threads that wait for a slot */
	uint32_t left_last; /* slots of the last kind in use for blocks that nobody waits for any more */
	struct pool hold_pool;
	struct object_list object_list;
	uint64_t stall_due, stall_step; /* when the node's next report of a stall may come, and after that */
	uint32_t stripes[CTL_STRIPES];
	uint32_t outgoing[CTL_STRIPES]; /* blocks that steps have said to send, and that are not read yet; atomic */
	struct slot slots[CTL_ALL_SLOTS];
	uint32_t slot_next[CTL_ALL_SLOTS];
	uint32_t hold_next[CTL_HOLDS];
	uint32_t acquires;                 /* by this node's threads, without what needed no other node: sharing.h */
	uint32_t kept_hand;                /* where sync/kept.c looks next for one to give back */
	uint32_t kept_at[CTL_KEPT_PLACES]; /* by hash of a lock's name: hold record + 1, which may have another */
	struct hold holds[CTL_HOLDS];
	struct chunk chunks[CTL_CHUNKS];
	uint16_t hold_by[CTL_HOLDS];            /* the rank whose thread took the record, by its place in the node */
	uint32_t users[CTL_REGIONS];            /* ranks of this node that are attached to a region */
	struct region_homes homes[CTL_REGIONS]; /* of the regions that are in `regions` of the layout */
	struct answer answers[CTL_BRIEF_END - CTL_BLOCK_END];
	struct registry registry;
};

/* What follows struct ctl, at offsets that depend on the job. */
struct ctl_layout {
	size_t ranks;     /* struct rank_ctl[ranks of the node] */
	size_t bars;      /* struct bar[ranks of the job * CTL_BARRIERS] */
	size_t objects;   /* struct sync[CTL_OBJECTS] */
	size_t nodes;     /* struct queue_entry[nodes * ctl_block_slots()]: of blocks */
	size_t lines;     /* struct queue_entry[nodes * CTL_ALL_SLOTS]: of synchronisation objects */
	size_t calls;     /* struct due_call[nodes * CTL_CALLS]: by who calls, and in which slot */
	size_t pages;     /* struct copy[pages of the window] */
	size_t dirs;      /* struct dir[...] */
	size_t transfers; /* uint32_t[...]: write permissions that changed nodes, counted at the home */
	size_t sharing;   /* struct sharing_page[pages of the window] */
	size_t stage;     /* CTL_BLOCK_END * BLOCK_MAX: contents whose acknowledgements are still to come */
	size_t room;      /* struct room_unit[units of the window]: the first node's */
	size_t members; /* uint16_t[nodes * CTL_REGIONS], the first node's: ranks of each node that are attached to a region */
	size_t mapped; /* uint16_t[units of the window]: ranks of this node that are attached to what is there */
	size_t regions; /* uint16_t[units of the window]: id + 1 of the region there, once a rank of this node has attached */
	size_t priorities; /* uint8_t[units of the window]: of the data of the region there; 0 where this node knows none */
	size_t heap;       /* for each rank of the node, struct heap_shared in heap_each bytes */
	size_t heap_each;
	size_t live;       /* a bit for each grain of the heap */
	size_t units;      /* struct units of the heap */
	size_t fault;      /* the fault backend's */
	size_t total;      /* what is mapped */
	size_t stage_last; /* BLOCK_MAX for each slot of the last kind: in the file only, mapped while it is used */
	size_t file;
};

/* Of a job: how many ranks and nodes it has; of the node: its ranks. */
struct ctl_shape {
	uint16_t size, nodes, ranks;
	size_t space, heap;
	size_t fault; /* bytes for the fault backend */
};

/* Slots below this may be for blocks: struct dir has 22 bits for node and slot of a request. */
static inline uint32_t ctl_block_slots(uint16_t nodes)
{
	const uint32_t each = ((1u << 22) - 1) / nodes;

	return each < CTL_ALL_SLOTS ? each : CTL_ALL_SLOTS;
}

void ctl_layout(struct ctl_layout *l, const struct ctl_shape *of);

#endif
