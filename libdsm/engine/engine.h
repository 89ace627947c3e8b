/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - hosts the core in user space: the job as this process sees it, and what the layers above may ask for.
 *
 * Threads: any application thread (also inside the fault handler) and one service thread per rank. Whoever has something
 * to do runs the protocol for its node itself; other nodes get messages.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "engine/ctl.h"
#include "engine/host.h"
#include "fault/fault.h"
#include "heap/heap.h"
#include "launch/launch.h"
#include "net/net.h"

#define REGION_UNIT BLOCK_MAX /* regions start at, and take, whole units */

struct settings {
	const char *fault, *net, *stats;
	const char *backend, *kmod_mode, *node, *huge;
	const char *net_device, *net_gid, *cq_groups, *verbs;
	size_t space, heap, block_size;
	unsigned int hold_us, spin_us, readahead, lost_ms, stall_ms;
};

/* A rank as this process sees it. */
struct peer {
	uint16_t local;       /* its place in its node */
	struct rank_ctl *ctl; /* these two: NULL for a rank of another node */
	struct heap_shared *heap;
	int doorbell; /* of a rank of this node: eventfd of its service thread */
	int pidfd;
	int life;  /* connected to it, closed with its process or when that executes another program (meet.c) */
	bool near; /* it runs on this machine */
	int pid;
};

/* The memory of this node: what lies in its control segment, and its frames. */
struct memory {
	struct bar *bars;
	struct sync *objects;
	struct qnode *nodes, *lines; /* where requests for blocks and for synchronisation objects stand in line */
	struct copy *pages;
	struct dir *dirs;
	uint32_t *moves;
	char *stage;
	struct room_unit *room;
	int memfd; /* the frames */
	int ctlfd;
};

/* A region that this rank is attached to. */
struct dsm_region {
	uint64_t off, size, bytes;
	uint32_t block_size;
	uint16_t id, home_policy, home_rank, creator;
	uint32_t gen;
	uint32_t next; /* with a name of the same hash: its id + 1 */
	char name[DSM_NAME_MAX];
	bool attached;
};

struct dsm_ioc_call;

struct job {
	struct settings set;
	struct launch launch;
	uint16_t rank, size;       /* this process, and all */
	uint16_t node, nodes;      /* the same of nodes, by which the core and its messages know each other */
	uint16_t local, locals;    /* this rank's place in its node, and the node's ranks */
	uint16_t *node_of;         /* of each rank, its node */
	uint16_t *first;           /* of each node, its first rank */
	uint16_t *pair;            /* of each other node, the rank that this one talks to */
	uint16_t *width;           /* of each node, its ranks */
	struct wire_limits limits; /* of what peers may send */
	uint32_t state;            /* enum ctl_state, of this process; atomic */
	uint32_t fenced;           /* all ranks have finalized: nobody can be lost any more; atomic */
	char *base;                /* the window: same address on all ranks */
	struct ctl_layout layout;
	size_t heap_part;            /* bytes of the heap that belong to each rank */
	const struct host_ops *host; /* of the core; before dsm_init() and after it, the process */
	const struct fault_ops *fault;
	const struct net_ops *netops;
	struct net *net;    /* NULL in a job of one node */
	struct peer *peers; /* size of them */
	struct memory mem;
	struct ctl *me;             /* of this node */
	struct rank_ctl *mine;      /* of this rank */
	struct bar_part *parts;     /* this rank's part of each barrier, where the node has others; else NULL */
	struct dsm_region *regions; /* by id, CTL_REGIONS of them */
	uint16_t *units;            /* window unit -> region + 1, of attached regions */
	unsigned int spin_us;
	int mypid;
	uint64_t key; /* of the job */
	pthread_t service;
	int epoll;
};

extern struct job job;

/* What of a region its ranks may touch: its size in whole pages. */
static inline size_t region_usable(const struct dsm_region *r)
{
	return (r->size + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
}

static inline struct peer *peer_of(uint16_t rank)
{
	return &job.peers[rank];
}

/* Is it of this node? */
static inline bool is_here(uint16_t rank)
{
	return job.node_of[rank] == job.node;
}

static inline uint16_t node_of(uint16_t rank)
{
	return job.node_of[rank];
}

/* Then all ranks have the same memory: no protection, no faults, no blocks that move. */
static inline bool one_node(void)
{
	return job.nodes == 1;
}

static inline uint32_t *stripe_of(uint32_t object)
{
	return &job.me->stripes[(object * 0x9e3779b1u) >> 21];
}

static inline void count(uint64_t *counter, uint64_t n)
{
	__atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static inline struct dsm_region *region_at(size_t off)
{
	uint16_t id = __atomic_load_n(&job.units[off / REGION_UNIT], __ATOMIC_ACQUIRE);

	return id ? &job.regions[id - 1] : NULL;
}

/* A block's name in messages: twice its first page, plus a marker bit whose place is the block's order (log2 of its pages). */
static inline uint32_t block_id(size_t off, size_t bytes)
{
	return (uint32_t)(off >> PAGE_SHIFT << 1 | bytes >> PAGE_SHIFT);
}

static inline size_t block_bytes(uint32_t id)
{
	return (size_t)(id & -id) << PAGE_SHIFT;
}

static inline uint32_t block_page(uint32_t id)
{
	return (id & (id - 1)) >> 1;
}

static inline size_t block_off(uint32_t id)
{
	return (size_t)block_page(id) << PAGE_SHIFT;
}

static inline uint32_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint32_t)((uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u);
}

/* ---- run.c: steps and what follows from them ------------------------------------------------ */

/* Deliver m (for this node) and everything that follows at this node. payload: what came behind it. */
void run_message(const struct msg *m, const void *payload, size_t size);
void run_net(void *arg, const struct msg *m, const void *payload, size_t size); /* the transport's handler */
/* Send m: this node is stepped here and now, another gets a message. */
void run_send(const struct msg *m);

/* HE_UNLOCK, HE_TAKE or HE_GIVE in a hold record. about: only if the record is of the lock that this message
 * is for. 0 or -EPERM: the record is in no state for that. */
int run_held(uint32_t index, enum hold_event ev, const struct msg *about);
/* A thread of this rank arrives at a barrier. 0, or -EBADMSG: one too many for this episode. */
int run_arrive(const struct msg *m);

/* Step a page of this node for a local event. ask names the block, the slot, and whom to ask. True: the block is
 * open already. False: something is under way; *wait is the slot to wait for, *seq its count before (wait NULL: nobody
 * waits, and PE_USED does not hold the block). What follows is queued: call run_work(). */
bool run_page(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq);
void run_work(void);  /* everything queued by this thread */
int work_start(void); /* before any other thread uses the engine */
void work_stop(void);
bool work_timers(bool hand_over); /* what is due; true: more will be. hand_over: give the rest to the service thread */
bool work_late(void);             /* the service thread: timers handed over. true: more will be */

/* ---- kernel.c: calls of the kernel helper, only where it is the host (host.h) ----------------------------- */

/* One request; *q holds what comes back. */
int kernel_call(struct dsm_ioc_call *q);
int kernel_wait(struct dsm_ioc_call *q, uint64_t now); /* the same, where the thread may wait for others' doing */

/* ---- slot.c: request slots, hold records ---------------------------------------------------- */

enum slot_kind { SLOT_BLOCK, SLOT_AHEAD, SLOT_BACK, SLOT_BRIEF, SLOT_LASTING };

int slot_get(
	enum slot_kind
		kind); /* SLOT_BLOCK, _BRIEF, _LASTING; waits for one where all are in use (-EINTR); SLOT_LASTING: -EAGAIN then */
/* A slot for a block that nobody waits for: SLOT_AHEAD or SLOT_BACK. -EAGAIN. */
int slot_try_prefetch(uint32_t object, enum slot_kind kind);
bool slot_is_prefetch(uint16_t slot);
bool slot_any_prefetch(size_t off, size_t end); /* is one in use for a block of that range? */
void slot_put(uint16_t slot);
uint32_t slot_object(void *arg, uint16_t slot); /* the block that was asked for in a slot */
int64_t hold_take(void);                        /* a hold record, or -EAGAIN */
void hold_give(uint32_t index);

/* ---- wait.c: waiting ------------------------------------------------------------------------ */

uint32_t slot_seq(uint16_t slot);
bool slot_waited(const struct msg *m); /* does a thread of its receiver wait for it? */
void slot_complete(uint16_t slot, int16_t status, uint64_t value);
/* The answer has come, and is about to be told. False: nobody waits. */
bool slot_woken(uint16_t slot);
/* The thread that waits for a block in a slot of this rank goes away; whoever brings the answer gives the slot back. False: the
 * answer has come, stay for it. */
bool slot_leave(uint16_t slot);
/* Wait until slot has completed n times more than seq says; ns 0: no limit. 0, or -ETIMEDOUT; in the fault handler, -EINTR:
 * a signal waits. */
int wait_slot(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns);
/* The same as a cancellation point. The caller, who has a cleanup handler in place, is in the runtime just once. */
int wait_slot_point(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns);
/* Wait until *word differs from old, as wait_slot() does. 0 or -EINTR. */
int wait_word(uint32_t *word, uint32_t old, uint32_t *sleepers);

/* ---- block.c: faults, fetching ahead, giving back ------------------------------------------- */

enum fault_answer block_fault(void *addr, bool write);
/* Members of host_process. */
int block_attach(const struct dsm_region *r);
enum fault_answer block_miss(struct dsm_region *r, void *addr, bool write);
uint16_t block_home(const struct dsm_region *r, size_t off);
int block_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait);
void block_release(struct dsm_region *r, size_t off, size_t len, bool evict);
int block_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_place(struct dsm_region *r, size_t off, size_t len, uint16_t rank);
int block_leave(struct dsm_region *r); /* drop or give back every block of it; -EBUSY: pinned */
void block_start_prefetch(uint32_t block, bool write, uint8_t flags, uint16_t manager, enum slot_kind kind);

/* ---- stray.c: an access to no memory ------------------------------------------------------------ */

void stray_say(const char *addr, bool write);

/* ---- stall.c: who waits where, when a wait lasts long ------------------------------------------------- */

#define STALL_ROWS 100 /* of one rank */

struct stall_row {
	struct wait_about about;
	uint64_t age_ms;
	uint16_t rank;
	uint8_t pad[6];
};
_Static_assert(STALL_ROWS * sizeof(struct stall_row) <= 4096, "they fit in an answer");

/* What this thread is about to wait for; whoever sets it sets it back to none. */
extern __thread struct wait_about wait_about __attribute__((tls_model("initial-exec")));

static inline void about(enum about kind, uint16_t home, uint32_t object)
{
	wait_about = (struct wait_about){ .kind = (uint8_t)kind, .home = home, .object = object };
}

static inline void about_none(void)
{
	wait_about.kind = ABOUT_CALL;
	wait_about.object = wait_about.home = 0;
}

int stall_begin(uint32_t block,
		uint64_t now); /* this thread goes to sleep, for a block or what it has said: a note, or -1 */
void stall_end(int note);
void stall_look(uint64_t since, uint64_t now); /* a waiter since then: report if it is time */
void stall_look_kernel(void);                  /* the service thread, for waits in the kernel helper */
uint64_t stall_nap(uint64_t since, uint64_t now,
		   uint64_t ns); /* how long to sleep, of ns, to be awake when a report is due */
unsigned int stall_serve(uint16_t rank, struct stall_row *out, unsigned int most);

/* ---- nodes.c ------------------------------------------------------------------------------------ */

/* Deal the ranks of each host (host[rank]) out to nodes of at most so many (0: any number), in the order of ranks. -ENOMEM. */
int nodes_make(const uint64_t *host, uint16_t most);
void nodes_forget(void);

/* ---- backend.c ---------------------------------------------------------------------------------- */

int backend_choose(void);        /* job.fault, by the setting and what the kernel offers */
void backend_without_uffd(void); /* a rank of this node has no userfaultfd */
size_t backend_shared(void);     /* bytes of the control segment that it needs */
int backend_open(void);          /* where all ranks of the node have its memory */
bool backend_close(void);        /* false: it was not open, and the window is as it was reserved */

/* ---- reach.c ------------------------------------------------------------------------------------ */

int reach_others(void); /* at the start; job.net stays NULL where all ranks share memory */

/* ---- memory.c, start.c, service.c, lost.c ----------------------------------------------------- */

int engine_start(const struct settings *set);
int start_fence_failed(
	int err,
	unsigned int seconds); /* err of a fence, after a message; ends the process for a rank that died in it */
int engine_stop(void);
void engine_undo(void); /* after engine_start() or what follows it has failed: leave nothing behind */
int memory_start(void); /* this rank's doorbell, and the node's memory where it is the node's first rank */
int memory_map(void);   /* the control segment, whose descriptor job.mem has */
int memory_no_descriptors(const char *what); /* -errno, said */
void meet_forked(void); /* a child made by fork() is no rank, and must not keep up the looks of one */
void memory_stop(void);
int meet_listen(void);                                           /* be there for the ranks of this machine */
int meet_swap(int fd, void (*join)(unsigned int local, int fd)); /* with each rank of this node: one descriptor more */
int meet_all(void);   /* know them, watch them, share memory with some of them */
void meet_look(void); /* for a while: is any of them dead? */
void meet_stop(void);
/* The next offset at or after off with a page state that was ever touched (of this rank); end if none. */
size_t memory_next_used(size_t off, size_t end);
bool memory_quiet(size_t off, size_t end);    /* no request and no directory entry of the range is under way */
void memory_forget(size_t off, size_t bytes); /* zero all state of a range of the window */
int service_start(void);
void service_stop(void);
void service_ring(uint16_t rank); /* wake a service thread of this host */
void service_thread(void *arg);   /* a thread of the runtime says so of itself, first of all */

void threads_before(void); /* before and after the start: which threads are the runtime's (threads.c) */
void threads_after(void);
void threads_end(void);  /* a thread ends that was in the runtime */
bool threads_look(void); /* the service thread: ends the process with the last of the program's; true: look again */

void lost_rank(uint16_t rank, const char *how); /* reports and ends this process */
void lost_process(uint16_t rank);             /* its pidfd or its line says that it has ended, or is another program */
void lost_launcher(int rank);                 /* the launcher's report; -1: of its own end */
void lost_connection(uint16_t rank, int err); /* the transport's error */
void lost_look(void);                         /* is any rank of this machine gone? */
void lost_alive(uint16_t node);               /* a message of it came */
void lost_heard(const struct msg *m);         /* PING, BYE */
void lost_check(void);                        /* waits for the end if the process is ending */
void lost_silence(void);                      /* ping the other nodes, judge their silence */
void lost_goodbye(void);                      /* this rank has finalized */
void lost_net(void *arg, uint16_t rank, int err); /* the transport's report */
void lost_abort(int status, const char *why) __attribute__((noreturn));

/* ---- call.c: calls with answers -------------------------------------------------------------- */

enum call_op {
	CALL_CREATE = 1,
	CALL_PUBLISH,
	CALL_ATTACH,
	CALL_DETACH,
	CALL_DESTROY,
	CALL_QUERY,
	CALL_VACATE,
	CALL_QUIET,
	CALL_PURGE,
	CALL_FREE,
	CALL_STATS,
	CALL_HOT,
	CALL_FIND,
	CALL_VECTORS,
	CALL_STALLS,
	CALL_ALLOC,
	CALL_OPS
};

/* Call a rank: 0 or -errno of the callee, out filled. Blocks for a round trip. */
int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size);
int call_serve(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size);
void call_arrived(const struct msg *m, const void *payload, size_t size);
int call_returned(const struct msg *m, const void *payload, size_t size);
void call_mail(void); /* the service thread: calls only this process can serve */

/* ---- region.c: the registry at rank 0 --------------------------------------------------------- */

int region_serve(struct registry *g, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size);
int region_quiet(uint64_t off, uint64_t bytes); /* 0, or -EAGAIN: something is still under way */
int region_purge(uint64_t off, uint64_t bytes);
/* Record 0, before any other: the heap. */
void region_add_heap(struct registry *g, uint64_t bytes);
uint32_t region_hash(const char *name); /* below CTL_NAMES */
/* The last user is gone: all ranks forget the range, then its place is free. */
int region_bury(const struct region_record *r);

/* ---- stats.c ------------------------------------------------------------------------------------ */

void stats_latency(uint64_t *count_, uint64_t *sum, uint64_t *max, uint64_t *buckets, uint64_t ns);
/* What CALL_VECTORS answers: the completion vectors that a rank's transport and the kernel helper use. */
#define STATS_VECTORS 44

struct stats_vectors {
	uint32_t n, pad;
	struct stats_vector {
		char class[16], device[32];
		int32_t vector;
		uint32_t pad;
		uint64_t events, completions;
		uint64_t softirq; /* completions that the kernel helper handled there */
	} rows[STATS_VECTORS];
};
void stats_vectors(struct stats_vectors *out); /* this rank's */
int stats_serve(uint16_t rank, uint32_t region, struct dsm_stats *out);
/* The hottest blocks of a home. */
struct hot {
	uint64_t off, bytes, transfers;
};
int stats_hot_serve(struct hot *out, int n);

/*
 * Is this thread inside the runtime? A fault then comes from a signal handler that interrupted it.
 *
 * No thread is cancelled in there, where it holds slots and blocks: what it calls (read, splice, write) are cancellation
 * points. The state that the program had chosen is back before it goes on. In leaving, it is read before the depth falls:
 * a handler may run between, fault, and save a state of its own.
 */
extern __thread int engine_depth __attribute__((tls_model("initial-exec")));
extern __thread int engine_cancel __attribute__((tls_model("initial-exec")));

static inline void engine_enter(void)
{
	if (!engine_depth++)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &engine_cancel);
}

static inline void engine_leave(void)
{
	int before = engine_cancel, old;

	if (!--engine_depth)
		pthread_setcancelstate(before, &old);
}

/* As enter and leave, for calls that touch shared memory between their visits to the runtime, or hold a lock across them. */
static inline int engine_keep(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void engine_let(int before)
{
	int old;

	pthread_setcancelstate(before, &old);
}

#endif
