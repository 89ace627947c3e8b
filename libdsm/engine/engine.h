/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h - hosts the core in user space: the job as this process sees it, and what the layers above may ask for.
 *
 * Threads: any application thread (also inside the fault handler) and one service thread per rank. Whoever has something
 * to do runs the protocol for every rank of this host itself; ranks of other hosts get messages.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "engine/ctl.h"
#include "fault/fault.h"
#include "heap/heap.h"
#include "launch/launch.h"
#include "net/net.h"

#define REGION_UNIT BLOCK_MAX /* regions start at, and take, whole units */

struct settings {
	const char *fault, *net, *host_path, *stats;
	const char *backend, *kmod_mode;
	const char *net_device, *net_gid, *cq_groups, *verbs;
	size_t space, heap, block_size;
	unsigned int hold_us, spin_us, readahead, lost_ms, hosts;
};

/* A rank as this process sees it. All pointers NULL for a rank that is not served through shared memory. */
struct peer {
	struct ctl *ctl;
	struct bar *bars;
	struct qnode *nodes;
	struct copy *pages;
	struct dir *dirs;
	uint32_t *moves;
	char *stage;
	struct heap_shared *heap;
	struct frames frames;
	int ctlfd;
	int doorbell;  /* eventfd of its service thread */
	int pidfd;
	int pid;
	int host;      /* number of its host in the job; the same number shares memory */
};

/* A region that this rank is attached to. */
struct dsm_region {
	uint64_t off, size, bytes;
	uint32_t block_size;
	uint16_t id, home_policy, home_rank, creator;
	uint32_t gen;
	char name[DSM_NAME_MAX];
	bool attached;
};

struct dsm_ioc_call;

struct job {
	struct settings set;
	struct launch launch;
	uint16_t rank, size;
	uint32_t state;         /* enum ctl_state, of this process; atomic */
	uint32_t fenced;        /* all ranks have finalized: nobody can be lost any more; atomic */
	char *base;             /* the window: same address on all ranks */
	struct ctl_layout layout;
	size_t heap_part;       /* bytes of the heap that belong to each rank */
	const struct fault_ops *fault;
	const struct net_ops *netops;
	struct net *net;        /* NULL when every rank is served through shared memory */
	struct peer *peers;     /* size of them */
	struct ctl *me;
	struct dsm_region regions[CTL_REGIONS];
	uint16_t *units;        /* window unit -> region + 1, of attached regions */
	unsigned int spin_us;
	int ranks_here;
	int mypid;
	uint64_t key;           /* of the job */
	pthread_t service;
	int epoll;
	int kernel;             /* /dev/dsm, which resolves faults and synchronisation; -1: this process does */
};

extern struct job job;

static inline struct peer *peer_of(uint16_t rank)
{
	return &job.peers[rank];
}

static inline bool is_here(uint16_t rank)
{
	return job.peers[rank].ctl;
}

static inline uint32_t *stripe_of(uint16_t rank, uint32_t object)
{
	return &job.peers[rank].ctl->stripes[(object * 0x9e3779b1u) >> 21];
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

/* Deliver m (for a rank of this host) and everything that follows on this host. payload: what came behind it. */
void run_message(const struct msg *m, const void *payload, size_t size);
void run_net(void *arg, const struct msg *m, const void *payload, size_t size); /* the transport's handler */
/* Send m: a rank of this host is stepped here and now, another gets a message. */
void run_send(const struct msg *m);

/* Release the lock of a hold record of this rank. */
int run_unlock(uint16_t index);
/* A thread of this rank arrives at a barrier. 0, or -EBADMSG: one too many for this episode. */
int run_arrive(const struct msg *m);

/* Step a page of a rank of this host for a local event. ask names the block, the slot, and whom to ask. True: the block is
 * open already. False: something is under way; *wait is the slot to wait for, *seq its count before (wait NULL: nobody
 * waits, and PE_USED does not hold the block). What follows is queued: call run_work(). */
bool run_page(uint16_t rank, enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq);
void run_work(void);             /* everything queued by this thread */
int run_start(void);             /* before any other thread uses the engine */
void run_stop(void);
bool run_timers(bool hand_over); /* what is due; true: more will be. hand_over: give the rest to the service thread */
bool run_late(void);            /* the service thread: timers handed over. true: more will be */

/* ---- kernel.c: the same through dsm.ko; only where job.kernel >= 0 ------------------------------------- */

/* Before the cards: open the device and join as this rank. 0 with job.kernel -1: there is none, and the setting allows that. */
int kernel_open(void *address, size_t *size);
int kernel_connect(uint16_t rank, bool here, const void *address, size_t size);
int kernel_region(const struct dsm_region *r, bool add);
int kernel_leave(const struct dsm_region *r); /* drop or give back every block of it */
int kernel_range(unsigned int op, size_t off, size_t len, uint32_t arg);
/* One request; *q holds what comes back. */
int kernel_call(struct dsm_ioc_call *q);
void kernel_stats(void);          /* add what the kernel has counted to this rank's counters */
void kernel_no_block(const void *addr, bool write); /* say why an access failed */
void kernel_lost(void);           /* the device says that a peer is gone */
void kernel_close(void);

/* ---- wait.c: slots and waiting -------------------------------------------------------------- */

int bits_take(uint64_t *words, unsigned int from, unsigned int to); /* a clear bit in [from, to), now set; -EAGAIN */
uint16_t slot_get(void);
int slot_try_prefetch(uint16_t rank, uint32_t object); /* a prefetch slot of a rank of this host, or -EAGAIN */
bool slot_is_prefetch(uint16_t rank, uint16_t slot);
bool slot_any_prefetch(size_t off, size_t end); /* is one of this rank's in use for a block of that range? */
void slot_put(uint16_t rank, uint16_t slot);
uint32_t slot_seq(uint16_t slot);
bool slot_waited(const struct msg *m);                /* does a thread of its receiver wait for it? */
uint32_t slot_object(void *arg, uint16_t slot);       /* the block that was asked for in a slot of this rank */
void slot_complete(uint16_t rank, uint16_t slot, int16_t status, uint64_t value);
void slot_turn(uint16_t rank, uint16_t slot, uint16_t home, uint32_t object);
/* Wait until slot has completed n times more than seq says; ns 0: no limit. 0, or -ETIMEDOUT. */
int slot_wait(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns);
/* Wait until *word differs from old, as slot_wait() does. */
void wait_word(uint32_t *word, uint32_t old, uint32_t *sleepers);

/* ---- favour.c: protection of a rank of this host, by its own waiting thread if there is one --------- */

void favour_look(void); /* a waiting thread: is something asked of this rank? */
int favour_lower(uint16_t rank, size_t off, size_t len);
int favour_shut(uint16_t rank, size_t off, size_t len);
int favour_take(uint16_t rank, size_t off, size_t len, void *to, bool writable, const int *pipe);

/* ---- block.c: faults, fetching ahead, giving back ------------------------------------------- */

bool block_fault(void *addr, bool write);
uint16_t block_home(const struct dsm_region *r, size_t off);
int block_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait);
void block_release(struct dsm_region *r, size_t off, size_t len, bool evict);
int block_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_place(struct dsm_region *r, size_t off, size_t len, uint16_t rank);
int block_leave(struct dsm_region *r); /* drop or give back every block of it; -EBUSY: pinned */
void block_start_prefetch(uint16_t rank, uint32_t block, bool write, uint8_t flags, uint16_t manager);

/* ---- host.c, start.c, service.c, lost.c ----------------------------------------------------- */

int engine_start(const struct settings *set);
int engine_stop(void);
void engine_undo(void);               /* after engine_start() or what follows it has failed: leave nothing behind */
int host_start(void);                 /* own segment and frames */
int host_listen(void);                /* be there for the ranks of this host */
int host_exchange(void);              /* swap descriptors with the ranks of this host */
int host_watch(uint16_t rank);        /* be told of the end of a rank of this machine */
void host_stop(void);
/* The next offset at or after off with a page state that was ever touched (of this rank); end if none. */
size_t host_next_used(size_t off, size_t end);
bool host_quiet(uint16_t rank, size_t off, size_t end); /* no request and no directory entry of the range is under way */
void host_forget(uint16_t rank, size_t off, size_t bytes); /* zero all state of a range of the window */
int service_start(void);
void service_stop(void);
void service_ring(uint16_t rank);     /* wake a service thread of this host */
void service_thread(void *arg);       /* a thread of the runtime says so of itself, first of all */

void lost_rank(uint16_t rank, const char *how);   /* reports and ends this process */
void lost_process(uint16_t rank);                 /* its pidfd says that it has ended */
void lost_launcher(int rank);                     /* the launcher's report; -1: of its own end */
void lost_look(void);                             /* is any rank of this machine gone? */
void lost_alive(uint16_t rank);                   /* a message of it came */
void lost_heard(const struct msg *m);             /* PING, BYE */
void lost_check(void);                            /* waits for the end if the process is ending */
void lost_silence(void);                          /* ping the other hosts, judge their silence */
void lost_goodbye(void);                          /* this rank has finalized */
void net_lost_rank(void *arg, uint16_t rank, int err); /* the transport's report */
void lost_abort(int status, const char *why) __attribute__((noreturn));

/* ---- call.c: calls with answers -------------------------------------------------------------- */

enum call_op { CALL_CREATE = 1, CALL_PUBLISH, CALL_ATTACH, CALL_DETACH, CALL_DESTROY, CALL_QUERY, CALL_VACATE, CALL_QUIET, CALL_PURGE, CALL_FREE, CALL_STATS, CALL_HOT,
	       CALL_FIND, CALL_VECTORS, CALL_OPS };

/* Call a rank: 0 or -errno of the callee, out filled. Blocks for a round trip. */
int call_rank(uint16_t rank, enum call_op op, const void *in, size_t in_size, void *out, size_t out_size);
int call_serve(uint16_t rank, uint16_t from, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size);
void call_arrived(const struct msg *m, const void *payload, size_t size);
void call_returned(const struct msg *m, const void *payload, size_t size);
void call_mail(void);                 /* the service thread: calls only this process can serve */

/* ---- region.c: the registry at rank 0 --------------------------------------------------------- */

int region_serve(struct registry *g, uint16_t from, enum call_op op, const void *in, size_t in_size, void *out, size_t *out_size);
int region_quiet(uint16_t rank, uint64_t off, uint64_t bytes); /* 0, or -EAGAIN: something is still under way */
int region_purge(uint16_t rank, uint64_t off, uint64_t bytes);
/* Record 0, before any other: the heap. */
void region_add_heap(struct registry *g, uint64_t bytes);
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
void kernel_queues(struct stats_vectors *out); /* rows for its completion queues */
int stats_serve(uint16_t rank, uint32_t region, struct dsm_stats *out);
/* The hottest blocks of a home. */
struct hot {
	uint64_t off, bytes, transfers;
};
int stats_hot_serve(uint16_t rank, struct hot *out, int n);

/* Is this thread inside the runtime? A fault then comes from a signal handler that interrupted it. */
extern __thread int engine_depth __attribute__((tls_model("initial-exec")));

#endif
