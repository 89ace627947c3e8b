/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job.h - the job as this process sees it: the ranks and nodes, the node's memory, and the regions
 * that this rank is attached to.
 *
 * Each process has one `job`. engine_start() (start.c) fills it, and engine_stop() clears it. It is
 * constant in between, except for fields marked atomic, and for regions and units, which change
 * under the lock of api/region.c; units are read without that lock.
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "core/wire.h"
#include "heap/units.h"
#include "job/ctl.h"
#include "launch/launch.h"
#include "util/clock.h"

struct fault_ops;
struct heap_shared;
struct host_ops;
struct net;
struct net_ops;
struct footprint;
struct sharing_page;
struct upcalls;

/* Where the homes of blocks are that neither an option of the region nor dsm_place() places
 * (DSM_HOME). */
enum homes {
	HOMES_FIRST,  /* where they are touched first */
	HOMES_CYCLIC, /* runs of home_run bytes go to the nodes in turn */
	HOMES_BLOCKED /* each node has an equal part of each region, and of each large allocation */
};

#define SETTINGS_TWINS_MOST (1ull << 30) /* maximum of DSM_TWINS, in bytes */

struct settings {
	const char *fault, *net, *stats;
	const char *backend, *kmod_mode, *node, *huge, *place, *deadlock, *stats_skip;
	const char *net_device, *net_gid, *cq_groups, *verbs;
	size_t space, heap, block_size, home_run;
	enum homes homes;
	size_t twins;  /* pages */
	size_t memory; /* bytes of frames of a node; 0: no bound */
	unsigned int hold_us, spin_us, readahead, lost_ms, stall_ms, threads, quantum_ms;
	bool push;
	bool release; /* of a program's heap and variables: DSM_CONSISTENCY */
	bool trust;   /* the program has no atomic instructions on them: DSM_ATOMICS */
};

/* A rank as this process sees it. */
struct rank_info {
	uint16_t local;       /* its place in its node */
	struct rank_ctl *ctl; /* these two: NULL for a rank of another node */
	struct heap_shared *heap;
	int doorbell; /* of a rank of this node: eventfd of its service thread */
	int pidfd;
	/* connection that closes when its process ends or executes another program
	 * (rendezvous.c) */
	int life;
	bool same_host; /* it runs on this host */
	int pid;
	uint64_t token[2]; /* of its start/info.h */
};

/* The memory of this node: pointers into its control segment, and its frames. */
struct memory {
	struct bar *bars;
	struct sync *objects;
	/* queue entries of requests for blocks and for synchronisation objects */
	struct queue_entry *nodes, *lines;
	struct due_call *calls;
	struct copy *pages;
	struct dir *dirs;
	uint32_t *transfers;
	struct sharing_page *sharing;
	struct footprint *chunks;
	uint8_t *recent;  /* miss/recent.h; atomic */
	uint8_t *kept;    /* by unit of the window: miss/reclaim.c; atomic */
	struct rel *rels; /* release blocks; next four: miss/release.h */
	uint32_t *twin_of, *twin_next;
	struct closing_peer *peers;
	struct closing_held *held;
	struct closing_ctx closes; /* of these */
	char *stage;
	struct va_alloc_unit *va_units;
	uint16_t *members; /* at the first node: attached ranks, per region and node */
	/* ranks of this node attached to the region there, per unit of the window; atomic */
	uint16_t *mapped;
	uint16_t *regions; /* the region there: id + 1, per unit of the window; atomic */
	/* the data priority of the region there, per unit of the window; atomic */
	uint8_t *priorities;
	/* bitmap of the heap: where allocations of this node's ranks start (heap/heap.h) */
	uint64_t *live;
	/* bitmaps of the pages of the heap: miss/discard.c; atomic */
	uint64_t *marked, *empty;
	struct units *units; /* the owner of each unit of the heap (heap/units.h) */
	int memfd;           /* the frames */
	int ctlfd;
};

/* A region that this rank is attached to. */
struct dsm_region {
	uint64_t off, size, bytes;
	uint32_t block_size;
	uint16_t id, home_policy, home_rank, creator;
	uint32_t gen;
	uint32_t next;   /* next region with the same hash of its name: id + 1 */
	uint64_t serial; /* number of the attachment in this process */
	char name[DSM_NAME_MAX];
	bool attached;
	bool adopted; /* memory of the program: dsm_region_adopt() */
	bool leaving; /* a thread is detaching from it */
	uint8_t priority;
	uint8_t consistency; /* enum dsm_consistency */
};

struct job {
	struct settings set;
	struct launch launch;
	uint16_t rank, size; /* this rank, and the number of ranks */
	/* this node, and the number of nodes; the core and its messages use node numbers */
	uint16_t node, nodes;
	/* this rank's index in its node, and the number of the node's ranks */
	uint16_t local, locals;
	uint16_t *node_of;         /* the node of each rank */
	uint16_t *first;           /* the first rank of each node */
	uint16_t *pair;            /* the rank of each other node that this one talks to */
	uint16_t *width;           /* the number of ranks of each node */
	struct wire_limits limits; /* for messages of peers */
	uint32_t state;            /* enum ctl_state, of this process; atomic */
	/* this process is in dsm_quit(), past the last barrier: other threads wait for its end;
	 * atomic */
	uint32_t quits;
	uint32_t fenced; /* all ranks have finalized: no rank can be lost any more; atomic */
	char *base;      /* the window: same address on all ranks */
	struct ctl_layout layout;
	size_t heap; /* bytes of the heap: whole units */
	struct units_shape heap_shape;
	/* of the core; host_process until host_choose(), NULL before the start */
	const struct host_ops *host;
	const struct upcalls *up; /* into higher parts of the engine: upcalls.h */
	const struct fault_ops *fault;
	const struct net_ops *netops;
	struct net *net;         /* NULL in a job of one node */
	struct rank_info *ranks; /* `size` entries */
	struct memory mem;
	struct ctl *me;        /* of this node */
	struct rank_ctl *mine; /* of this rank */
	/* this rank's part of each barrier; NULL if it is the node's only rank */
	struct bar_part *parts;
	struct dsm_region *regions; /* by id, CTL_REGIONS entries */
	uint16_t *units;            /* window unit -> region + 1, of attached regions */
	unsigned int spin_us;
	int mypid;
	uint64_t key;    /* of the job: a secret of its ranks */
	uint64_t number; /* of the job, for names that others may see */
	pthread_t service;
	int epoll;
	bool forked; /* this process is a child of fork(), and no rank */
};

extern struct job job;

/*
 * Check that the library can be used now. Any thread. -ENOTCONN: not between dsm_init() and
 * dsm_finalize(). -ECHILD: this is a child process. Blocks if the process is about to end:
 * job_await_quit(), job_await_loss().
 */
int job_ready(void);
/* True if this process is a rank of a running job. Any thread; never blocks. */
bool job_runs(void);
/* Why no memory of this job can have release consistency, for a message. NULL: it can; in one node
 * all memory is coherent. */
const char *job_no_release(void);
/* Block forever if this process is in engine_quit(), for threads that need other ranks. Otherwise
 * return at once. Safe in the fault handler. */
void job_await_quit(void);
/* If another thread is ending the process because a rank is lost, wait for that. Otherwise return
 * at once. Any thread, without a stripe, also in the fault handler. */
void job_await_loss(void);
/* The manager of a block of r, which is asked first. Does not block. */
uint16_t region_home(const struct dsm_region *r, size_t off);
/* Bytes of the upper part of the heap, which has release consistency; 0: there is none. */
static inline size_t heap_upper(void)
{
	return job.heap - (size_t)job.heap_shape.split * UNIT_BYTES;
}

/* Bytes of the region, whole blocks, that have the same home before the next node's turn; 0: homes
 * are not dealt out in turn. */
size_t region_run(const struct dsm_region *r);
/* does the first node to touch a block become its home? */
bool region_first_touch(const struct dsm_region *r);
/* The same for any block. SET_NOBODY: no rank of this node is attached to its region. Does not
 * block. */
uint16_t region_manager(size_t off);
/* The region at an offset, if a rank of this node has ever attached to it; NULL: unknown here. Does
 * not block. */
const struct region_homes *region_known(size_t off);
/* The home of a block of a known region; of a release block, its first home. Does not block. */
uint16_t region_home_of(const struct region_homes *h, size_t off);
/* Wake the service thread of a rank of this host. Any thread, anywhere; does not block. */
void job_ring(uint16_t rank);

/* The bytes of a region that ranks may access: its size in whole pages. */
static inline size_t region_usable(const struct dsm_region *r)
{
	return (r->size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static inline struct rank_info *rank_info(uint16_t rank)
{
	return &job.ranks[rank];
}

/* Is the rank on this node? */
static inline bool is_here(uint16_t rank)
{
	return job.node_of[rank] == job.node;
}

static inline uint16_t node_of(uint16_t rank)
{
	return job.node_of[rank];
}

/* With one node, all ranks share the same memory: there is no protection, no fault, and no block
 * moves. */
static inline bool one_node(void)
{
	return job.nodes == 1;
}

/* The lock of a state machine (ctl.h): an object is a block, or a number with its kind above
 * (core/host.h). */
static inline uint32_t stripe_index(uint32_t object)
{
	return (object * 0x9e3779b1u) >> 21;
}

static inline uint32_t *stripe_of(uint32_t object)
{
	return &job.me->stripes[stripe_index(object)];
}

/* The table entry of a lock: its hold record + 1, a hint. name: hold_name(). */
static inline uint32_t *cached_lock_place(uint64_t name)
{
	return &job.me->cached_at[name * 0x9e3779b97f4a7c15u >> 32 & (CTL_CACHED_PLACES - 1)];
}

/* A block's name in messages: twice its first page, plus a marker bit whose position is the block's
 * order (log2 of its pages). */
static inline uint32_t block_id(size_t off, size_t bytes)
{
	return (uint32_t)(off >> PAGE_SHIFT << 1 | bytes >> PAGE_SHIFT);
}

static inline size_t block_bytes(uint32_t id)
{
	return (size_t)wire_block_pages(id) << PAGE_SHIFT;
}

static inline uint32_t block_page(uint32_t id)
{
	return (id & (id - 1)) >> 1;
}

static inline size_t block_off(uint32_t id)
{
	return (size_t)block_page(id) << PAGE_SHIFT;
}

/* The lock of a block's state, by its first page: if the block is in no region, two nodes may name
 * different sizes. */
static inline uint32_t *block_stripe(uint32_t id)
{
	return stripe_of(block_page(id));
}

/* The node's copy of the block at off. */
static inline struct copy *block_copy(size_t off)
{
	return &job.mem.pages[off >> PAGE_SHIFT];
}

/* Add to a counter that other threads or ranks also add to. */
static inline void count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline struct region_homes region_homes(const struct dsm_region *r)
{
	return (struct region_homes){
		.off = r->off,
		.size = r->size,
		.block_size = r->block_size,
		.id = r->id,
		.policy = r->home_policy,
		.rank = r->home_rank,
		.consistency = r->consistency,
	};
}

/* The region that this rank is attached to at an offset into the window; NULL: none. */
static inline struct dsm_region *region_at(size_t off)
{
	uint16_t id = __atomic_load_n(&job.units[off / UNIT_BYTES], __ATOMIC_ACQUIRE);

	return id ? &job.regions[id - 1] : NULL;
}

/* The time in us, as in messages and in the core. Wraps around. */
static inline uint32_t clock_us(void)
{
	return (uint32_t)(clock_ns() / 1000u);
}

#endif
