/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ctl.h - a node's control segment: the state of the node, and data shared by its ranks.
 *
 * Each node has one memfd, created by its first rank and mapped by all its ranks. It is sparse, and
 * all of it is initially zero. Any thread of any rank of the node runs the node's side of the
 * protocol in it: the directory and the page states of its blocks, its locks and waiters. It holds
 * indices, never pointers.
 *
 * Locks: `stripes` guard the state machines (block b: stripe of b; object i: stripe of i). A stripe
 * is held for one step, never two at once, never across an action, a system call that can block, or
 * an access to shared memory. The exception is drop_blocks(): it takes several in ascending order
 * and closes mappings under them. `registry.lock` and `keep.lock` are leaves of their own.
 */
#ifndef JOB_CTL_H
#define JOB_CTL_H

#include "core/ask.h"
#include "core/barrier.h"
#include "core/closing.h"
#include "core/dir.h"
#include "core/lease.h"
#include "core/lock.h"
#include "core/objects.h"
#include "core/page.h"
#include "core/quantum.h"
#include "core/release.h"
#include "core/sync.h"
#include "dsm.h"
#include "job/pool.h"
#include "job/usage.h"
#include "job/va_alloc.h"
#include "util/sizes.h"

#define CTL_MAGIC 0x6c74632d6d7364ull /* "dsm-ctl" */
#define CTL_ABI 29

/* Ends of the ranges of a node's slots (slot.c). A transport may write blocks for the first 256. */
#define CTL_BLOCK_SLOTS 128 /* blocks that threads wait for */
#define CTL_AHEAD_SLOTS 240 /* prefetched blocks */
#define CTL_SLOTS 256       /* blocks given back */
/* more blocks that threads wait for: other nodes may have them pinned */
#define CTL_BLOCK_END 2048
#define CTL_BRIEF_END 3072 /* requests that are answered at once */
/* requests that may wait for other threads, and more blocks; messages have 16 bits */
#define CTL_ALL_SLOTS 65536

/* messages that wait for closes: struct closing counts them in 16 bits */
#define CTL_HELD 65535u
#define CTL_HOLDS (1u << 20) /* locks that a node's threads hold or await at once */
/* of them, records of cached locks, which no other node has requested */
#define CTL_CACHED_LOCKS (1u << 16)
#define CTL_CACHED_PLACES (1u << 18) /* size of the hash table of such locks */
#define CTL_LEASES (1u << 12)        /* most leases of reader-writer locks */
/* synchronisation objects homed at a node: limit of their names */
#define CTL_OBJECTS (1u << 24)
#define CTL_BARRIERS 65536 /* barriers initialised by a rank */
#define CTL_STRIPES 2048
#define CTL_REGIONS 65535 /* the window's units have 16 bits for a region */
#define CTL_NAMES 65536   /* hash chains of region names */
#define CTL_LANES 256     /* threads of a rank with counters of their own */
#define CTL_NOTES 256     /* sleeping threads that record what they wait for */
/* blocks that a rank has to push; if there are more, the oldest are dropped */
#define CTL_PUSHES 8192u
/* Most calls of a node at once: one for each slot for calls. */
#define CTL_CALLS (CTL_BRIEF_END - CTL_BLOCK_END)
#define BLOCK_MAX UNIT_BYTES

enum ctl_state { CTL_STARTING = 0, CTL_RUNNING, CTL_FINALIZED, CTL_LOST };

enum { SLOT_LEFT = 1, SLOT_WOKEN = 2, SLOT_QUIT = 4 };

/* One outstanding request. */
struct slot {
	uint32_t seq; /* completions; a futex */
	uint32_t sleepers;
	uint64_t value;
	uint64_t ask;    /* core/ask.h */
	uint32_t object; /* the requested block; SLOT_QUIT: the hold record */
	int16_t status;
	/*
	 * SLOT_LEFT: no thread waits; SLOT_QUIT: the same for a lock; SLOT_WOKEN: answer arrived;
	 * atomic
	 */
	uint8_t prefetch;
	uint8_t kind; /* enum slot_kind, for slots that may have several kinds */
	uint16_t by;  /* the requesting rank, by its index in the node */
	uint8_t pad2[30];
};
CORE_ASSERT_SIZE(struct slot, 64);

/* Threads that wait for a free slot. */
struct queue_word {
	uint32_t word; /* changes when a slot is freed */
	uint32_t waiting;
	uint32_t sleepers;
	uint32_t pad;
};

/* A call that only one process of the node can serve, queued for its service thread (call.c). */
struct due_call {
	uint64_t arg;
	uint32_t next; /* next call for the same rank: number + 1 */
	uint16_t room;
	uint8_t op;
	uint8_t waits; /* call of another node: it is queued; atomic */
};

struct region_record {
	char name[DSM_NAME_MAX];
	uint64_t contents;         /* hash of the initial contents; 0: zeros */
	uint64_t size, off, bytes; /* as requested; range in the window, as allocated */
	uint32_t block_size;
	uint16_t home_policy, home_rank;
	uint16_t creator, id;
	uint8_t used;  /* the range is allocated */
	uint8_t named; /* the name is in use */
	uint8_t ready; /* its initial contents are in place */
	uint8_t priority;
	uint32_t attached; /* ranks */
	uint32_t gen;      /* of the record */
	uint32_t next;     /* next region with the same hash of its name: id + 1 */
	/* once name and ranks are gone: the node + 1 that removed the last of them */
	uint16_t buries;
	uint16_t consistency;
};

/* At the first node: the names and places of all regions. va_alloc.h gives out the places. */
struct registry {
	uint32_t lock;
	uint32_t pad;
	struct pool ids;
	uint32_t next_id[CTL_REGIONS];
	uint32_t names[CTL_NAMES]; /* by hash: id + 1 */
	struct va_alloc va;
	struct region_record regions[CTL_REGIONS];
};

/* The data from which the first home of a region's block is computed. */
struct region_homes {
	uint64_t off, size;
	uint32_t block_size;
	uint16_t id, policy, rank;
	uint16_t consistency; /* enum dsm_consistency */
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
	uint64_t messages_out, messages_in, steps, locks, lock_waits, locks_kept, barriers, atomics,
		populated;
	uint64_t closes, flushes, flushed_bytes, notices, told, lent, drops, refetches;
	uint64_t evicted_clean, evicted_owned, evict_short, empty_invalidations;
	uint64_t latency_count[3], latency_sum[3], latency_max[3]; /* lock, barrier, atomic */
	uint64_t latency[3][DSM_LAT_BUCKETS];
};

/* Counters of one thread, which adds without atomic operations. Other threads only read them. */
struct lane {
	uint64_t locks;
	uint64_t pad[7];
} __attribute__((aligned(64)));

enum about { ABOUT_CALL = 0, ABOUT_BLOCK, ABOUT_OBJECT, ABOUT_BARRIER, ABOUT_HOLDS, ABOUT_DONE };

struct lease_place {
	uint32_t word; /* its lock */
	/* read without the lock, too: */
	uint32_t revoked; /* times */
	uint64_t held;    /* lease.lock, if it is HELD, or 0 */
	struct lease lease;
};

/* An object that a thread waits for or holds: stall.c. */
struct wait_about {
	uint64_t mask; /* a barrier's ranks; 0: all */
	uint32_t object;
	uint32_t threads; /* threads per rank in a barrier */
	uint16_t home;
	uint8_t kind; /* enum about */
	uint8_t sync; /* enum sync_kind of an object */
	uint32_t pad;
};

/* The same object as named by the program: dsm_wait_label(). */
struct wait_label {
	uint64_t object;
	uint32_t holder; /* thread; 0: unknown */
	uint8_t what;    /* enum dsm_wait */
	uint8_t pad[3];
};

struct wait_note {
	uint64_t since; /* clock_ns(); 0: unused */
	struct wait_about about;
	struct wait_label label;
	uint32_t tid;
	uint32_t lasting; /* ends only when another thread of the program acts, without a timeout */
};

/*
 * A piece of a collective (chunk.c), in a ring: number n is in chunks[n % CTL_CHUNKS]. Its size is
 * a multiple of every type's.
 */
#define CTL_CHUNK_BYTES 4080u
#define CTL_CHUNKS 64u

struct chunk {
	uint32_t lock; /* guards begun to came, and data while parts are combined */
	uint32_t word; /* changes when it is done */
	uint32_t sleepers;
	uint32_t parts; /* ranks of this node whose part is included */
	uint64_t begun; /* the number of the chunk being combined, + 1 */
	uint64_t done;  /* the number of the complete chunk, + 1 */
	uint32_t came;  /* bitmap of children whose part is included */
	uint32_t pad[7];
	uint8_t data[CTL_CHUNK_BYTES + 16];
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct chunk, data) % 64 == 0, "values of all types are aligned");

/* The answer to a call, in the request's slot. */
struct answer {
	uint32_t room, size; /* room 0: no answer is expected, or it has arrived; atomic */
	uint32_t op;         /* of the call */
	uint32_t pad;
	uint8_t text[WIRE_CALL_MAX];
};

/* A node's bound of shared memory (miss/reclaim.c): marks are in recent and kept of the layout. */
struct reclaim {
	uint32_t lock; /* held by the thread that gives up blocks; nobody waits for it */
	/*
	 * too much is left: first touches leave the home to other nodes, and no home is asked for;
	 * atomic
	 */
	uint32_t over;
	/* looks in a row that found nothing to give up; these two: with the lock */
	uint32_t shorts;
	uint32_t said;   /* atomic */
	uint64_t came;   /* bytes of blocks; atomic */
	uint64_t due;    /* look again when so many have come; atomic */
	uint32_t rounds; /* of the second hand, for marks of units that keep all they have */
	uint32_t pad;
	size_t hands[3]; /* offset into the window of the unit where each goes on; with the lock */
	/* these two: miss/discard.c, atomic */
	uint64_t marked; /* pages of free memory that may still have frames */
	/* where frames of such pages are being freed; with the lock. Each allocation reads it. */
	uint64_t going __attribute__((aligned(64)));
};

#define CTL_KEPT 64u /* messages; a further lock is passed on at once */

struct kept_next {
	struct msg m; /* MSG_NEXT */
	uint64_t due; /* clock_ns() */
	/* of the lock by threads of this node since the message came */
	uint32_t releases;
	uint32_t pad;
};

/* Mutexes that the node keeps: miss/keep.h. */
struct keep {
	uint32_t lock;
	uint32_t idle; /* threads that wait for other threads; atomic, without the lock */
	/* messages, and when the first of them is due, the earliest; atomic for readers without the
	 * lock */
	uint32_t n, pad;
	uint64_t due;
	struct quantum quantum;
	struct kept_next kept[CTL_KEPT];
};

/*
 * Blocks that a rank has to push (push.c): number n is in blocks[n % CTL_PUSHES]. Any thread of the
 * node may add one.
 */
struct push_list {
	uint32_t noted; /* number of blocks added; atomic */
	uint32_t taken; /* number of blocks removed; atomic */
	uint32_t lock;  /* guards taken: held by the thread of the rank that pushes */
	uint32_t pad;
	uint32_t blocks[CTL_PUSHES]; /* 0: none; atomic */
};

/* The data of one rank, shared with the other ranks of its node. */
struct rank_ctl {
	int32_t pid;
	uint32_t state; /* enum ctl_state, atomic */
	/* not 0: exit status of a rank that has ended (CTL_LOST) or is about to end; atomic */
	uint32_t abort_status;
	/* above the ids of all regions that this rank was ever attached to */
	uint32_t region_end;
	struct pool barrier_pool;
	/* the current or last generation of each number: sync/barrier.c */
	uint32_t barrier_life[CTL_BARRIERS];
	uint32_t barrier_next[CTL_BARRIERS];
	uint64_t note_used[CTL_NOTES / 64];
	struct wait_note notes[CTL_NOTES];
	uint64_t sync_out,
		/*
		 * messages that may wake a thread of the program, to and from other nodes; never
		 * reset
		 */
		sync_in;
	uint32_t calls_in; /* calls for its service thread: number + 1 of the latest; atomic */
	/* calls that the service thread has taken from there, in order of arrival; private to it */
	uint32_t calls_due;
	uint32_t threads; /* threads of dsm_spawn() that run here; atomic */
	struct rank_stats stats;
	uint64_t lane_used[CTL_LANES / 64];
	struct lane lanes[CTL_LANES]; /* a new thread continues the counts of one that has ended */
	struct push_list pushes;
	uint64_t memory_most[USAGE_KINDS - USAGE_OF_NODE]; /* usage.h; atomic */
	uint64_t tables, tables_came; /* its parts of ctl's; private to its service thread */
	struct region_stats region_stats[CTL_REGIONS];
};

struct ctl {
	uint64_t magic;
	uint32_t abi;
	uint16_t node, ranks;
	uint64_t slot_used[CTL_BLOCK_END / 64];
	struct pool brief_slots, lasting_slots;
	struct queue_word block_queue, brief_queue; /* threads that wait for a slot */
	uint32_t left_last; /* lasting slots in use for blocks that no thread waits for any more */
	struct pool hold_pool;
	struct object_list object_list;
	/* earliest time of the node's next stall report, and the report interval */
	uint64_t stall_due, stall_step;
	uint64_t memory_most[USAGE_OF_NODE]; /* usage.h; atomic */
	/* sums over the ranks: page tables for shared memory when the rank last counted them, and
	 * reclaim.came then; usage.h; atomic */
	uint64_t tables, tables_came;
	uint32_t stripes[CTL_STRIPES];
	/* blocks that steps told to send and that are not read yet; atomic */
	uint32_t outgoing[CTL_STRIPES];
	struct slot slots[CTL_ALL_SLOTS];
	uint32_t slot_next[CTL_ALL_SLOTS];
	uint32_t hold_next[CTL_HOLDS];
	/* by this node's threads, only those that involved another node: sharing.h */
	uint32_t acquires;
	uint32_t cached_hand; /* where sync/cached_lock.c next looks for a lock to return */
	/* by hash of a lock's name: hold record + 1; it may be another lock's */
	uint32_t cached_at[CTL_CACHED_PLACES];
	struct lease_place leases[CTL_LEASES]; /* miss/lease.h; by hash of a lock's name */
	struct hold holds[CTL_HOLDS];
	struct chunk chunks[CTL_CHUNKS];
	/* the rank whose thread allocated the record, by its index in the node */
	uint16_t hold_by[CTL_HOLDS];
	uint32_t users[CTL_REGIONS]; /* ranks of this node that are attached to a region */
	/* for the regions listed in `regions` of the layout */
	struct region_homes homes[CTL_REGIONS];
	struct answer answers[CTL_BRIEF_END - CTL_BLOCK_END];
	/* Release blocks: miss/release.h. */
	uint32_t releases; /* not 0: this node has, or had, a release block; atomic */
	/* closes that lower all blocks, since memory for twins is short; atomic */
	uint32_t pressed;
	uint32_t asked_in_vain; /* for homes, of late: miss/raises.h; atomic */
	struct rel_lists rel_lists;
	struct closing closing;
	struct pool twin_pool, twin_holes; /* the second: numbers of free twins without memory */
	uint64_t twins, twins_most;        /* in use now, and at most; atomic */
	struct reclaim reclaim;
	struct keep keep;
	struct registry registry;
};

/* Misses on one block of the node, at its first page (miss/sharing.h, miss/temporal.h). */
struct sharing_page {
	uint32_t lost; /* twice the count of acquires, + 1 if it was writable; 0: never lost */
	uint32_t misses, repeated;
	uint32_t next; /* page of the block that was missed after it, + 1; 0: none; atomic */
};

#define FOOTPRINT_PAGES 16u

/* Of so many pages, which of them the node uses together (miss/footprint.h). Sets have a bit for
 * each. Atomic, as a whole. */
struct footprint {
	_Alignas(8) uint16_t used; /* missed, or counted as used */
	uint16_t tested;           /* left out, and not missed since */
	uint8_t first;             /* the page whose miss begins a round, + 1; 0: none */
	uint8_t rest : 7;          /* rounds until the next test */
	uint8_t dropped : 1;       /* the first page was dropped, and not missed since */
	uint8_t pause;             /* rounds between the last two tests */
	/* asks: this round has a test, or is a sample */
	uint8_t doubt : 3, turn : 4, asks : 1;
};
CORE_ASSERT_SIZE(struct footprint, 8);

/* What follows struct ctl, at offsets that depend on the job. */
struct ctl_layout {
	size_t ranks;   /* struct rank_ctl[ranks of the node] */
	size_t bars;    /* struct bar[ranks of the job * CTL_BARRIERS] */
	size_t objects; /* struct sync[CTL_OBJECTS] */
	size_t nodes;   /* struct queue_entry[nodes * ctl_block_slots()]: of blocks */
	/* struct queue_entry[nodes * CTL_ALL_SLOTS]: of synchronisation objects */
	size_t lines;
	size_t calls; /* struct due_call[nodes * CTL_CALLS]: by calling node and slot */
	size_t pages; /* struct copy[pages of the window] */
	size_t dirs;  /* struct dir[...] */
	/* uint32_t[...]: transfers of the write permission between nodes, counted at the home */
	size_t transfers;
	size_t sharing;   /* struct sharing_page[pages of the window] */
	size_t chunks;    /* struct footprint[pages of the window / FOOTPRINT_PAGES] */
	size_t recent;    /* uint8_t[pages of the window]: miss/recent.h */
	size_t kept;      /* uint8_t[units of the window]: miss/reclaim.c */
	size_t rels;      /* struct rel[pages of the window] */
	size_t twin_of;   /* uint32_t[pages of the window]: miss/twin.c */
	size_t twin_next; /* uint32_t[pages of the window]: of twin_pool */
	size_t peers;     /* struct closing_peer[nodes] */
	size_t held;      /* struct closing_held[CTL_HELD] */
	/* CTL_BLOCK_END * BLOCK_MAX: contents whose acknowledgements are outstanding */
	size_t stage;
	size_t va_units; /* struct va_alloc_unit[units of the window]: at the first node */
	/*
	 * uint16_t[nodes * CTL_REGIONS], at the first node: ranks of each node that are attached to
	 * a region
	 */
	size_t members;
	/*
	 * uint16_t[units of the window]: ranks of this node that are attached to the region there
	 */
	size_t mapped;
	/*
	 * uint16_t[units of the window]: id + 1 of the region there, once a rank of this node has
	 * attached
	 */
	size_t regions;
	/*
	 * uint8_t[units of the window]: data priority of the region there; 0 if unknown to this
	 * node
	 */
	size_t priorities;
	size_t heap; /* for each rank of the node, struct heap_shared in heap_each bytes */
	size_t heap_each;
	size_t live;   /* a bit for each grain of the heap */
	size_t marked; /* a bit for each page of the heap; these two: miss/discard.c */
	size_t empty;
	size_t units; /* struct units of the heap */
	size_t fault; /* for the fault backend */
	size_t total; /* end of the mapped part */
	/* BLOCK_MAX for each lasting slot: only in the file, mapped during use */
	size_t stage_last;
	/*
	 * a page for each page of the window: only in the file, mapped with the first release block
	 */
	size_t twins;
	size_t file;
};

/* The number of the job's ranks and nodes, and of this node's ranks. */
struct ctl_shape {
	uint16_t size, nodes, ranks;
	size_t space, heap;
	size_t fault; /* bytes for the fault backend */
};

/* Slots below this may request blocks: struct dir has 22 bits for node and slot of a request. */
static inline uint32_t ctl_block_slots(uint16_t nodes)
{
	const uint32_t each = ((1u << 22) - 1) / nodes;

	return each < CTL_ALL_SLOTS ? each : CTL_ALL_SLOTS;
}

void ctl_layout(struct ctl_layout *l, const struct ctl_shape *of);

#endif
