/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dsm.h - the whole public interface of libdsm, a distributed shared memory runtime.
 *
 * Conventions, for every function unless its comment says otherwise:
 *  - it may be called by any thread of any rank between dsm_init() and dsm_finalize();
 *  - it returns 0 or a non-negative result on success and a negative errno value on failure,
 *    and stores to its output arguments only on success;
 *  - "blocks" means: waits for another rank and uses no CPU while it waits;
 *  - sizes and offsets are in bytes, times in nanoseconds;
 *  - -ENOTCONN before dsm_init() and after dsm_finalize(), -ECHILD in a child made by fork();
 *  - when the job loses a rank the runtime ends the process, with status 70 (dsm(7), EXIT STATUS).
 *
 * The promise to programs is in dsm(7) and docs/memory-model.md: sequential consistency at block
 * level over each rank's own x86-TSO; every synchronisation call below is a full fence.
 */
#ifndef DSM_H
#define DSM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DSM_API __attribute__((visibility("default")))
#define DSM_VERSION_MAJOR 0
#define DSM_VERSION_MINOR 1
#define DSM_VERSION_PATCH 0

#define DSM_NAME_MAX 48    /* bytes in a region's or an allocation's name, with its final NUL */
#define DSM_SMALL_MAX 256  /* bytes that dsm_broadcast() carries */

/* ---- start and end ------------------------------------------------------------------------- */

/* Every field is also a variable of the environment (DSM_HELP=1 lists them); a variable wins over
 * the default and a field set by the program wins over the variable. */
struct dsm_config {
	size_t struct_size;      /* set by dsm_config_init(); lets the struct grow */
	const char *fault;       /* DSM_FAULT: "auto", "uffd", "mprotect" */
	const char *net;         /* DSM_NET: "auto", "ucx", "verbs" */
	const char *host_path;   /* DSM_SHORTCUT: "auto", "on", "off": serve ranks of one host through shared memory */
	const char *stats;       /* DSM_STATS: "off", "table", "json" */
	size_t space;            /* DSM_SPACE: shared address space of the job, 64M to 4T */
	size_t heap;             /* DSM_HEAP: part of it for the shared heap, 0 for none; at most three quarters */
	size_t block_size;       /* DSM_BLOCK: default block size of regions, 4K to 2M, a power of two */
	unsigned hold_us;        /* DSM_HOLD_US: a granted block stays at least so long, 0 to 10000 */
	unsigned spin_us;        /* DSM_SPIN_US: a waiter polls so long before it sleeps, 0 to 10000 */
	unsigned readahead;      /* DSM_READAHEAD: most blocks fetched ahead of a sequential reader, 0 to 64 */
	unsigned lost_ms;        /* DSM_LOST_MS: silence after which a rank of another host is lost, 500 to 600000 */
	const char *backend;     /* DSM_BACKEND: "auto", "kmod", "user": the kernel helper, or this process */
	const char *net_device;  /* DSM_NET_DEVICE: RDMA devices, "NAME[:PORT],..."; "": all with an active port */
	const char *net_gid;     /* DSM_NET_GID: an index, an address, "ipv4" or "ipv6"; "": the best */
	const char *cq_groups;   /* DSM_CQ_GROUPS: completion vectors of each class, "coherence=0-1;data=2;..." or "off" */
	const char *verbs;       /* DSM_VERBS: techniques of the RDMA transport, "NAME=VALUE,..." */
	const char *kmod_mode;   /* DSM_KMOD_MODE: "softirq", "workqueue", "poll": where dsm.ko handles completions */
};

/* Fill *cfg with the defaults and the environment. Any time; never blocks.
 * -EINVAL: a variable is unknown, malformed or out of range (the message names it, its value and the range). */
DSM_API int dsm_config_init(struct dsm_config *cfg);

/* Join the job; collective over all ranks, once per process; blocks. cfg NULL: defaults and environment.
 * Started by no PMIx launcher, the process is a job of one rank.
 * -EALREADY: called before. -EINVAL: bad setting. -EPROTO: ranks differ in version, settings or job key.
 * -ENOSYS: one of several processes, but without a PMIx server.
 * -ENOMEM: address space or memory. -EMFILE: descriptors. -ENODEV: no usable fault backend or transport.
 * -EADDRNOTAVAIL: no address range is free in all ranks. -ETIMEDOUT: a rank did not come. */
DSM_API int dsm_init(const struct dsm_config *cfg);

/* Leave the job; collective, blocks until all ranks call it. Shared memory is unmapped. */
DSM_API int dsm_finalize(void);

DSM_API int dsm_rank(void);             /* this process's rank, or -ENOTCONN; never blocks */
DSM_API int dsm_size(void);             /* ranks in the job, or -ENOTCONN; never blocks */

/* End the whole job with status (1 to 255) and a message; never returns. Any thread. */
DSM_API void dsm_abort(int status, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

DSM_API const char *dsm_version(void);       /* "0.1.0"; static; any time */
DSM_API const char *dsm_strerror(int err);   /* text for a result of this library (either sign); static; any time */

/* ---- shared regions ------------------------------------------------------------------------ */

typedef struct dsm_region dsm_region_t;

enum dsm_home {
	DSM_HOME_FIRST_TOUCH = 0, /* the first rank to touch a block becomes its home (default) */
	DSM_HOME_CYCLIC,          /* blocks dealt out to the ranks in turn */
	DSM_HOME_FIXED            /* all at home_rank */
};

struct dsm_region_options {
	size_t block_size;       /* 4 KiB to 2 MiB, a power of two; 0: the configured default */
	enum dsm_home home;
	int home_rank;           /* for DSM_HOME_FIXED */
	const void *contents;    /* initial contents, copied by the creator; NULL: zeros */
	size_t contents_size;    /* of *contents; the rest is zero */
};

struct dsm_region_info {
	char name[DSM_NAME_MAX];
	void *base;
	size_t size;             /* as asked for */
	size_t block_size;
	enum dsm_home home;
	int home_rank;
	int creator;             /* rank */
	unsigned attached;       /* ranks attached at the time of the call */
};

/* Create a region of size bytes, attached to this rank, at one address on all ranks. opt NULL: defaults. Blocks.
 * -EEXIST: name taken. -EINVAL: empty or long name, size 0, bad option. -ENOMEM: more than the address space
 * or the memory of all hosts. -ENOSPC: too many regions (1,024). */
DSM_API int dsm_region_create(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out);

/* Attach to a region that exists. Blocks for a round trip, and until its contents are in. -ENOENT: no such name.
 * -EALREADY: this rank has it. */
DSM_API int dsm_region_attach(const char *name, dsm_region_t **out);

/* Attach, creating it where it does not exist; for programs in which every rank calls it alike.
 * As dsm_region_create(), but -EEXIST means: there with another size or other options. -EALREADY: this rank has it. */
DSM_API int dsm_region_open(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out);

/* Give up this rank's copies; their newest contents move to their homes. The range may not be touched any more, the
 * handle dies. Blocks.
 * -EINVAL: not a handle of this rank. -EBUSY: part of it is pinned. */
DSM_API int dsm_region_detach(dsm_region_t *r);

/* Take the name away; memory is freed when the last rank detaches. Blocks for a round trip. -ENOENT. */
DSM_API int dsm_region_destroy(const char *name);

DSM_API void *dsm_region_base(const dsm_region_t *r);   /* never blocks */
DSM_API size_t dsm_region_size(const dsm_region_t *r);  /* never blocks */

/* The region that holds addr (attached here, or the heap, whose name is "(heap)"). -ENOENT: none. Blocks for a round trip. */
DSM_API int dsm_region_query(const void *addr, struct dsm_region_info *out);

/* ---- shared heap --------------------------------------------------------------------------- */

/* Shared memory from this rank's part of the heap, valid on all ranks. NULL with errno ENOMEM or EINVAL.
 * They may be called by any number of threads at once, and do not block, save that zeroing memory which was in use before
 * may fetch it. */
DSM_API void *dsm_malloc(size_t size);
DSM_API void *dsm_calloc(size_t n, size_t size);
DSM_API void *dsm_aligned_alloc(size_t alignment, size_t size); /* alignment: a power of two up to 2 MiB */
DSM_API void *dsm_malloc_named(size_t alignment, size_t size, const char *name); /* alignment 0: natural; name shows in statistics */

/* Free memory that any rank allocated; NULL is allowed. Blocks for a round trip if it is another rank's.
 * -EINVAL: not the start of a live allocation (never allocated, or freed before); nothing is changed then. */
DSM_API int dsm_free(void *p);

/* ---- synchronisation ----------------------------------------------------------------------- */

/* Handles are plain values: initialise once, then copy them, send them, or keep them in shared memory.
 * Threads of all ranks may use them alike. All calls on a handle that was never initialised, or was destroyed:
 * -EINVAL (giving up a lock that was destroyed: -EPERM, nobody holds it). *_init() blocks for at most a round trip;
 * -ENOSPC: its home has 4,095 objects already (256 barriers).
 * *_destroy() of an object in use: -EBUSY. A thread that holds 64 locks gets no more: -EAGAIN. Every call is a full fence. */
typedef struct { uint64_t id; } dsm_mutex_t;
typedef struct { uint64_t id; } dsm_rwlock_t;
typedef struct { uint64_t id; } dsm_cond_t;
typedef struct { uint64_t id; } dsm_sem_t;
typedef struct { uint64_t id; } dsm_atomic_t;
typedef struct { uint64_t id, ranks; uint32_t threads, reserved; } dsm_barrier_t;

DSM_API int dsm_mutex_init(dsm_mutex_t *m);
DSM_API int dsm_mutex_destroy(dsm_mutex_t *m);
/* Blocks, first come first served. -EDEADLK: this thread holds it. -EAGAIN: this rank holds or awaits 2,048. */
DSM_API int dsm_mutex_lock(dsm_mutex_t *m);
DSM_API int dsm_mutex_trylock(dsm_mutex_t *m);   /* -EBUSY: held; blocks for a round trip at most */
DSM_API int dsm_mutex_unlock(dsm_mutex_t *m);    /* -EPERM: this thread does not hold it; never blocks */

DSM_API int dsm_rwlock_init(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_destroy(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_rdlock(dsm_rwlock_t *l);  /* blocks; fair: a waiting writer comes before later readers; -EDEADLK */
DSM_API int dsm_rwlock_wrlock(dsm_rwlock_t *l);  /* blocks; -EDEADLK: this thread holds it already */
DSM_API int dsm_rwlock_unlock(dsm_rwlock_t *l);  /* -EPERM: this thread holds it in neither way; blocks for a round trip */

DSM_API int dsm_cond_init(dsm_cond_t *c);
DSM_API int dsm_cond_destroy(dsm_cond_t *c);
/* Release m, wait, lock m again; no spurious wake-ups. -EPERM: m is not this thread's. */
DSM_API int dsm_cond_wait(dsm_cond_t *c, dsm_mutex_t *m);
DSM_API int dsm_cond_timedwait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns); /* -ETIMEDOUT after ns; m is locked again all the same */
DSM_API int dsm_cond_signal(dsm_cond_t *c);      /* wakes one waiter, the longest waiting */
DSM_API int dsm_cond_broadcast(dsm_cond_t *c);   /* wakes all waiters */

DSM_API int dsm_sem_init(dsm_sem_t *s, uint32_t value);
DSM_API int dsm_sem_destroy(dsm_sem_t *s);
DSM_API int dsm_sem_wait(dsm_sem_t *s);          /* blocks, first come first served */
DSM_API int dsm_sem_trywait(dsm_sem_t *s);       /* -EAGAIN: the value is zero, or others wait */
DSM_API int dsm_sem_timedwait(dsm_sem_t *s, uint64_t ns); /* -ETIMEDOUT */
DSM_API int dsm_sem_post(dsm_sem_t *s, uint32_t n);       /* -EOVERFLOW: past 2^31 - 1 */

/* A 64-bit atomic object lives at its home and is operated on there; no page moves. home -1: this rank.
 * Each call blocks for a round trip at most. value and old may be NULL where they are not wanted. */
DSM_API int dsm_atomic_init(dsm_atomic_t *a, uint64_t value, int home);
DSM_API int dsm_atomic_destroy(dsm_atomic_t *a);
DSM_API int dsm_atomic_load(dsm_atomic_t *a, uint64_t *value);
DSM_API int dsm_atomic_store(dsm_atomic_t *a, uint64_t value);
DSM_API int dsm_atomic_fetch_add(dsm_atomic_t *a, uint64_t add, uint64_t *old);
DSM_API int dsm_atomic_exchange(dsm_atomic_t *a, uint64_t value, uint64_t *old);
/* 0: exchanged. -EAGAIN: *a was not *expected, which now holds what it was. */
DSM_API int dsm_atomic_compare_exchange(dsm_atomic_t *a, uint64_t *expected, uint64_t value);

/* A barrier for `threads` threads on each of the ranks listed (ranks NULL: all; a list needs a job of at most
 * 64 ranks). Does not block. -EINVAL: no rank, a rank twice or out of range, threads 0. */
DSM_API int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads);
DSM_API int dsm_barrier_destroy(dsm_barrier_t *b); /* by the rank that initialised it */
/* Blocks until all have come. -EINVAL: this rank is not in the group, more of its threads have come than it is for, or (to
 * all who wait) the ranks disagree about the number of threads. */
DSM_API int dsm_barrier_wait(dsm_barrier_t *b);
DSM_API int dsm_barrier(void);                   /* all ranks, one thread of each */

enum dsm_op { DSM_SUM = 0, DSM_MIN, DSM_MAX, DSM_AND, DSM_OR, DSM_XOR };
enum dsm_type { DSM_INT64 = 0, DSM_UINT64, DSM_DOUBLE };

/* Collectives over all ranks, called by one thread of each. Both are barriers too. -EINVAL: no such root, or an operation
 * that the type does not have. Broadcasting takes a barrier for each 8 bytes; doubles are added in order of arrival. */
DSM_API int dsm_broadcast(void *buf, size_t size, int root);                  /* size up to DSM_SMALL_MAX: -EMSGSIZE */
DSM_API int dsm_reduce(void *value, enum dsm_type type, enum dsm_op op);     /* one 8-byte value; the result comes to all */

/* ---- hints --------------------------------------------------------------------------------- */

enum dsm_access { DSM_READ = 1, DSM_WRITE = 2 };

/* All ranges are widened to whole blocks. -EFAULT: not within one attached region or the heap. */
DSM_API int dsm_prefetch(const void *addr, size_t size, enum dsm_access access); /* start fetching; does not wait */
DSM_API int dsm_acquire(const void *addr, size_t size, enum dsm_access access);  /* fetch and wait; may be taken again later */
DSM_API int dsm_release(const void *addr, size_t size);   /* give newest copies back to their homes; does not wait */
/* Acquire and keep: until dsm_unpin() no other rank gets what conflicts, so that system calls may be handed the
 * range (read(2) into it with the user-level fault backends). Blocks. Pin in one call what is needed together, and
 * for DSM_WRITE what will be written: two ranks that nest pins of conflicting ranges wait for each other for ever.
 * -EAGAIN: over 255 pins on a block. -EINVAL: access is neither. -ENOMEM. Unpin the range that was pinned. */
DSM_API int dsm_pin(const void *addr, size_t size, enum dsm_access access);
DSM_API int dsm_unpin(const void *addr, size_t size);     /* -EINVAL: this range is not pinned; never blocks */
/* Make rank the home of blocks that nobody has touched. -EBUSY: some had been (the others are placed). Blocks. */
DSM_API int dsm_place(const void *addr, size_t size, int rank);
DSM_API int dsm_bind_thread(int node);                    /* run this thread on a NUMA node; -1: anywhere; -EINVAL */
DSM_API int dsm_bind_memory(void *addr, size_t size, int node); /* this rank's frames of the range; -EINVAL */

/* ---- statistics ---------------------------------------------------------------------------- */

enum dsm_latency { DSM_LAT_READ_MISS = 0, DSM_LAT_WRITE_MISS, DSM_LAT_UPGRADE, DSM_LAT_LOCK, DSM_LAT_BARRIER,
		   DSM_LAT_ATOMIC, DSM_LAT_MAX };
#define DSM_LAT_BUCKETS 40  /* bucket i counts waits of [2^i, 2^(i+1)) ns */

struct dsm_stats {
	uint64_t read_faults, write_faults, upgrades;  /* that needed the protocol */
	uint64_t local_faults;                         /* of these and of prefetched: first touches, no contents moved */
	uint64_t prefetched;                           /* blocks fetched ahead of use */
	uint64_t invalidations;                        /* copies that this rank lost */
	uint64_t downgrades;                           /* write permissions that it lost */
	uint64_t blocks_in, blocks_out, bytes_in, bytes_out; /* block data */
	uint64_t messages_out, messages_in;            /* through the transport */
	uint64_t steps;                                /* protocol steps run by this rank's threads, for itself or for others */
	uint64_t locks, lock_waits, barriers, atomics;
	uint64_t allocations, frees, remote_frees;
	uint64_t latency_count[DSM_LAT_MAX], latency_sum_ns[DSM_LAT_MAX], latency_max_ns[DSM_LAT_MAX];
	uint64_t latency[DSM_LAT_MAX][DSM_LAT_BUCKETS];
};

struct dsm_hot_block {           /* a block that moves often between ranks */
	void *addr;
	size_t size;
	uint64_t transfers;      /* times that write permission changed ranks, as its home saw it */
	char name[DSM_NAME_MAX]; /* region, or the allocation's name where it is known */
	void *object;            /* start of the allocation or region that holds it */
	size_t object_size;
	char site[128];          /* "file:line" or "function+offset" of the allocation, or empty */
};

/* Counters of a rank (-1: the sum over all ranks). region NULL: of the whole process; otherwise the fault, block and byte
 * counters and miss latencies of that region. Blocks for a round trip. -EINVAL: no such rank. */
DSM_API int dsm_stats_get(int rank, const dsm_region_t *region, struct dsm_stats *out);
DSM_API int dsm_stats_reset(void);                        /* of this rank, but not the heap's counters and transfers; never blocks */
/* The (at most n, and 64) most transferred blocks of the job, most first; returns how many. Blocks. */
DSM_API int dsm_stats_hot(struct dsm_hot_block *out, int n);

#ifdef __cplusplus
}
#endif
#endif
