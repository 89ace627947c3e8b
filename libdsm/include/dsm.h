/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * dsm.h - the whole public interface of libdsm, a distributed shared memory runtime.
 *
 * Conventions, for every function unless its comment says otherwise:
 *  - it may be called by any thread of any rank between dsm_init() and dsm_finalize();
 *  - it returns 0 or a non-negative result on success and a negative errno value on failure,
 *    and stores to its output arguments only on success;
 *  - a call "blocks" if it waits for another rank; it polls for DSM_SPIN_US, then sleeps;
 *  - sizes and offsets are in bytes, times in nanoseconds;
 *  - -ENOTCONN before dsm_init() and after dsm_finalize(), -ECHILD in a child created by fork();
 *  - when the job loses a rank the runtime ends the process, with status 70 (dsm(7), EXIT STATUS).
 *
 * dsm(7) and docs/memory-model.md define the memory model: sequential consistency per block over
 * the x86-TSO of each node; every synchronisation call below is a full fence.
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

/* ---- start and end ------------------------------------------------------------------------- */

/* Every field is also an environment variable (DSM_HELP=1 lists them). A variable overrides the
 * default, and a field set by the program overrides the variable. */
struct dsm_config {
	size_t struct_size;      /* set by dsm_config_init(); lets the struct grow */
	const char *fault;       /* DSM_FAULT: "auto", "uffd", "mprotect" */
	const char *net;         /* DSM_NET: "auto", "ucx", "verbs", "shared" */
	const char *stats;       /* DSM_STATS: "off", "table", "json" */
	size_t space;            /* DSM_SPACE: shared address space of the job, 64M to 4T */
	size_t heap;             /* DSM_HEAP: part of it for the shared heap, 0 for none; at most three quarters */
	size_t block_size;       /* DSM_BLOCK: default block size of regions, 4K to 2M, a power of two */
	unsigned hold_us;        /* DSM_HOLD_US: minimum time that a granted block stays, 0 to 10000 */
	unsigned spin_us;        /* DSM_SPIN_US: time that a waiter polls before it sleeps, 0 to 10000 */
	unsigned readahead;      /* DSM_READAHEAD: maximum number of blocks fetched ahead, 0 to 64 */
	unsigned lost_ms;        /* DSM_LOST_MS: silence after which a rank on another host is lost, 500 to 600000 */
	const char *backend;     /* DSM_BACKEND: "auto", "kmod", "user": the kernel helper, or this process */
	const char *net_device;  /* DSM_NET_DEVICE: RDMA devices, "NAME[:PORT],..."; "": all with an active port */
	const char *net_gid;     /* DSM_NET_GID: an index, an address, "ipv4" or "ipv6"; "": the best */
	const char *cq_groups;   /* DSM_CQ_GROUPS: completion vectors of each class, "coherence=0-1;data=2;..." or "off" */
	const char *verbs;       /* DSM_VERBS: techniques of the RDMA transport, "NAME=VALUE,..." */
	unsigned stall_ms;       /* DSM_STALL_MS: waits are reported after this time, 0 to 86400000; 0: never */
	const char *kmod_mode;   /* DSM_KMOD_MODE: "softirq", "workqueue", "poll": where dsm.ko handles completions */
	const char *node;        /* DSM_NODE: "host", "rank", or a number: how many ranks of a host are a node */
	const char *huge;        /* DSM_HUGE: "auto", "on", "off": huge pages in a job of one node */
	const char *place;       /* DSM_PLACE: "spread", "fill", "load": on which ranks dsm_spawn() makes threads */
	unsigned threads;        /* DSM_THREADS: of a rank, before "fill" takes the next rank; no limit; 1 to 4096 */
	const char *stats_skip;  /* DSM_STATS_SKIP: functions that wrap malloc(), "NAME,..."; statistics name their callers */
	const char *deadlock;    /* DSM_DEADLOCK: "report", "abort", "off": when all threads of all ranks wait for each other */
	const char *push;        /* DSM_PUSH: "on", "off": blocks that their home reads again and again come back at barriers */
};

/* Fill *cfg with the defaults and the environment. Any time; never blocks.
 * -EINVAL: a variable is malformed or out of range (the message names it, its value and the range), or it is
 * unknown and DSM_STRICT is 1; otherwise dsm_init() warns about unknown variables. */
DSM_API int dsm_config_init(struct dsm_config *cfg);

/* Join the job; collective over all ranks, once per process; blocks. cfg NULL: defaults and environment.
 * Without a PMIx launcher, the process is a job of one rank.
 * -EALREADY: called before. -EINVAL: bad setting. -EPROTO: ranks differ in version, settings or job key.
 * -ENOSYS: the process is one of several, but has no PMIx server.
 * -ENOMEM: address space or memory. -EMFILE: descriptors. -ENODEV: no usable fault backend or transport.
 * -EADDRNOTAVAIL: no address range is free on all ranks. -ETIMEDOUT: a rank did not call it. */
DSM_API int dsm_init(const struct dsm_config *cfg);

/* Leave the job; collective, blocks until all ranks call it. Shared memory is unmapped. */
DSM_API int dsm_finalize(void);

/* The same for a process that ends right after: its shared memory and its globals stay mapped and as they are, so other threads
 * may still use them, as far as they need no other rank. Collective, blocks. */
DSM_API int dsm_quit(void);

DSM_API int dsm_rank(void);             /* this process's rank, or -ENOTCONN; never blocks */
DSM_API int dsm_size(void);             /* ranks in the job, or -ENOTCONN; never blocks */

/* A node is a set of ranks that have one copy of the shared memory. The hardware keeps memory coherent inside a node, the
 * protocol between nodes. Nodes, not ranks, hold copies and are homes: an argument that names a rank as home or place means the
 * node of that rank. The number of this rank's node, and the number of nodes; -ENOTCONN. Never block. */
DSM_API int dsm_node(void);
DSM_API int dsm_nodes(void);
/* The node of a rank. -EINVAL: there is no such rank; -ENOTCONN. Never blocks. */
DSM_API int dsm_node_of(int rank);

/* End the whole job with status (1 to 255) and a message; never returns. Any thread. */
DSM_API void dsm_abort(int status, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

DSM_API const char *dsm_version(void);       /* "0.1.0"; static; any time */
DSM_API const char *dsm_strerror(int err);   /* text for a result of this library (either sign); static; any time */

/* ---- shared regions ------------------------------------------------------------------------ */

typedef struct dsm_region dsm_region_t;

enum dsm_home {
	DSM_HOME_FIRST_TOUCH = 0, /* the first node to touch a block becomes its home (default) */
	DSM_HOME_CYCLIC,          /* blocks are assigned to the nodes in turn */
	DSM_HOME_FIXED            /* all at the node of home_rank */
};

/* Of the data of a region's blocks; it has an effect with DSM_NET=shared and with the kernel helper. */
enum dsm_priority {
	DSM_PRIORITY_NORMAL = 0, /* default */
	DSM_PRIORITY_LOW,        /* a quarter of the share of normal data */
	DSM_PRIORITY_HIGH,       /* four times the share of normal data */
	DSM_PRIORITY_URGENT      /* before all other data, which waits as long as there is any of it */
};

struct dsm_region_options {
	size_t block_size;       /* 4 KiB to 2 MiB, a power of two; 0: the configured default */
	enum dsm_home home;
	int home_rank;           /* for DSM_HOME_FIXED */
	const void *contents;    /* initial contents, copied by the creator; NULL: zeros */
	size_t contents_size;    /* of *contents; the rest is zero */
	int contents_rank;       /* dsm_region_adopt() only: whose contents all ranks get */
	enum dsm_priority priority; /* of its data */
};

struct dsm_region_info {
	char name[DSM_NAME_MAX];
	void *base;
	size_t size;             /* as requested */
	size_t block_size;
	enum dsm_home home;
	int home_rank;
	int creator;             /* rank */
	unsigned attached;       /* ranks attached at the time of the call */
	enum dsm_priority priority;
};

/* Create a region of size bytes at the same address on all ranks, and attach this rank. opt NULL: defaults. Blocks.
 * -EEXIST: name taken. -EINVAL: empty or long name, size 0, bad option. -ENOMEM: the region does not fit into the address
 * space; memory itself is allocated when blocks are touched. -ENOSPC: too many regions (65,535). */
DSM_API int dsm_region_create(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out);

/* Attach to an existing region. Blocks for a round trip, and until its initial contents are stored. -ENOENT: no such name.
 * -EALREADY: this rank is attached. */
DSM_API int dsm_region_attach(const char *name, dsm_region_t **out);

/* Attach, and create the region if it does not exist; for programs in which every rank makes the same call. Like
 * dsm_region_create(), but -EEXIST: it exists with another size or other options. -EALREADY: this rank is attached. */
DSM_API int dsm_region_open(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out);

/* Leave; with the node's last rank its copies go, and their newest contents move to their homes. The range may not be accessed
 * any more, and the handle becomes invalid. Blocks.
 * -EINVAL: not a handle, or one that is invalid; no later handle is equal to it. -EBUSY: part of it is pinned. */
DSM_API int dsm_region_detach(dsm_region_t *r);

/* Remove the name; the memory is freed when the last rank detaches. Blocks for a round trip. -ENOENT. */
DSM_API int dsm_region_destroy(const char *name);

/* Make memory that exists a region, at the address that it has: [addr, addr + length), whole pages, mapped and readable in every
 * rank. Collective, one thread of each rank with the same arguments; blocks. All ranks then see the contents of rank
 * opt->contents_rank; what the others had there is lost. No thread may use the memory during the call.
 * dsm_region_disown(), or dsm_finalize(), gives each rank private memory there again, with the contents that the region has then.
 * On failure, the memory is as it was. -EINVAL: not whole pages or blocks, bad options, or the ranks' arguments differ. -EFAULT:
 * not mapped. -EEXIST: overlaps shared memory. -ENOMEM: no room in the window. -ENOSPC: 256 such regions exist. -ENOTSUP: the
 * kernel helper hosts the job (DSM_BACKEND=user can). dsm_region_detach() refuses such a region with -EINVAL. */
DSM_API int dsm_region_adopt(void *addr, size_t length, const struct dsm_region_options *opt, dsm_region_t **out);
/* Collective, and as dsm_finalize() does it: every rank keeps a private copy. -EINVAL: not an adopted region. -EBUSY: pinned. */
DSM_API int dsm_region_disown(dsm_region_t *r);

/* dsm_region_adopt() of the program's global and static variables, with the contents of rank 0: all writable data of the executable
 * behind RELRO. Shared libraries keep theirs. Before other threads run. *out may be NULL. As dsm_region_adopt(), and -ENOTSUP: the
 * executable is not linked as this needs (a message says how: dsm-cc(1) does it); -EPROTO: the ranks run different
 * programs, or at different addresses (dsmrun(1) turns address randomisation off). */
DSM_API int dsm_adopt_globals(dsm_region_t **out);

DSM_API void *dsm_region_base(const dsm_region_t *r);   /* never blocks */
DSM_API size_t dsm_region_size(const dsm_region_t *r);  /* never blocks */

/* The region that contains addr (attached here, or the heap, whose name is "(heap)"). -ENOENT: none. Blocks for a round trip. */
DSM_API int dsm_region_query(const void *addr, struct dsm_region_info *out);

/* ---- shared heap --------------------------------------------------------------------------- */

/* Shared memory, valid on all ranks. NULL with errno ENOMEM or EINVAL. The limit of a rank, and of one allocation, is the heap
 * (DSM_HEAP) as a whole. Any number of threads may call them at the same time. They block for a round trip when this rank needs
 * more memory than it has, for all ranks when the heap is full, and where zeroing reused memory fetches blocks. */
DSM_API void *dsm_malloc(size_t size);
DSM_API void *dsm_calloc(size_t n, size_t size);
DSM_API void *dsm_aligned_alloc(size_t alignment, size_t size); /* alignment: a power of two up to 2 MiB */
DSM_API void *dsm_malloc_named(size_t alignment, size_t size, const char *name); /* alignment 0: natural; name shows in statistics */

/* Whole blocks whose home is that node, and stays it: dsm_place(). Also EINVAL: no such node; EBUSY. Blocks for some round trips
 * for each block. */
DSM_API void *dsm_malloc_on(int node, size_t size);

/* Free memory that any rank allocated; NULL is allowed. Blocks for a round trip if another rank allocated it, or if it is large.
 * -EINVAL: not the start of a live allocation (never allocated, or already freed); nothing is changed. */
DSM_API int dsm_free(void *p);

/* ---- threads ------------------------------------------------------------------------------- */

/* Threads of the program on any rank. The function and all that it calls must be at the same address on all ranks (-no-pie, or no
 * address randomisation). Thread-local variables are the thread's own and private. With a shared stack, pointers to the thread's
 * local variables are valid on all ranks; such a thread calls the functions of this library by dsm_call(). */
typedef struct { uint64_t id; } dsm_thread_t;

struct dsm_thread_options {
	size_t stack_size;       /* of a shared stack. 0: 2 MiB; at least 64 KiB */
	int detached;            /* nobody joins it */
	int shared_stack;        /* in the shared heap */
	size_t guard_size;       /* what may not be touched below a shared stack. 0: 4 KiB; DSM_NO_GUARD */
	void *stack;             /* stack_size bytes of shared memory, to be the shared stack, without a guard. NULL: of the heap */
	int signals_blocked;     /* it begins with all signals blocked but SIGSEGV and SIGBUS; 0: with none blocked */
};
#define DSM_NO_GUARD ((size_t)-1)

/* `where` of dsm_spawn(): the rank of this node that runs the fewest threads of dsm_spawn(). */
#define DSM_ON_NODE(node) (-0x40000000 + (node))

/* Run fn(arg) in a new thread of rank `where`, or of DSM_ON_NODE(node); -1: chosen by DSM_PLACE and DSM_THREADS. opt NULL: defaults.
 * Blocks for a round trip, and one more to another node. -EINVAL: no such rank or node; opt->stack is no shared memory, or less
 * than 64 KiB.
 * -EAGAIN: no memory for a stack in the heap, or no thread can be made there. */
DSM_API int dsm_spawn(dsm_thread_t *t, int where, const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg);
/* Wait for its end; *result: what it returned. By one thread, once. -EINVAL: detached. -ESRCH: not a thread, or joined before (so
 * for all functions below). -EDEADLK: this thread. */
DSM_API int dsm_join(dsm_thread_t t, void **result);
/* The same, for so many nanoseconds; 0: it does not wait. -ETIMEDOUT, with 0 -EBUSY: it runs, and may still be joined. */
DSM_API int dsm_timedjoin(dsm_thread_t t, uint64_t ns, void **result);
DSM_API int dsm_detach(dsm_thread_t t);          /* nobody will join it; never blocks. -EINVAL: it is detached */
/* As pthread_cancel(3) with the deferred type; dsm_join() then gives PTHREAD_CANCELED. By any rank; blocks for a round trip. A
 * thread that has ended, and was not joined, is no error. -EINVAL: id 0. */
DSM_API int dsm_cancel(dsm_thread_t t);
DSM_API void dsm_thread_exit(void *result) __attribute__((noreturn)); /* end this thread; only of dsm_spawn() and dsm_run() */
DSM_API dsm_thread_t dsm_self(void);             /* id 0: a thread that dsm_spawn() has not made */
DSM_API int dsm_thread_rank(dsm_thread_t t);     /* where it runs. -EINVAL: id 0 */

struct dsm_thread_info {
	int rank, detached;
	void *stack;             /* lowest byte of its shared stack; NULL: the stack is private */
	size_t stack_size, guard_size;
	char name[16];           /* as dsm_thread_rename() has set it; at first its creator's */
};

/* -EINVAL: id 0. Does not block. */
DSM_API int dsm_thread_query(dsm_thread_t t, struct dsm_thread_info *info);
/* At most 15 characters, else -ERANGE. The kernel knows the name where the thread renames itself, or another of its rank does. */
DSM_API int dsm_thread_rename(dsm_thread_t t, const char *name);
/* fn(thread, arg), with its pthread_t of the C library, by the calling thread. The thread does not end meanwhile: fn must not
 * wait for it, nor touch shared memory. The result is fn's. -EXDEV: it is another rank's. -ESRCH: it has ended. */
DSM_API int dsm_thread_native(dsm_thread_t t, int (*fn)(unsigned long thread, void *arg), void *arg);
/* Run fn(arg) on a shared stack in this thread, which then counts as one of dsm_spawn(). If it ends by dsm_thread_exit() or
 * dsm_cancel(), it is to be joined or detached as such; once fn has returned, it is neither. -EINVAL: it is one already. */
DSM_API int dsm_run(const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg, void **result);
/* fn(arg) on the private stack of a thread that is on a shared one; by other threads, a plain call. The library may not miss a
 * block of the stack that it runs on: fn copies what it needs from *arg, and calls it then. */
DSM_API void dsm_call(void (*fn)(void *), void *arg);

/* ---- synchronisation ----------------------------------------------------------------------- */

/* Handles are plain values: initialise them once, then copy them, send them, or keep them in shared memory. Threads of all
 * ranks may use them. In shared memory, a handle of zero bytes needs no initialisation: the first call that takes, waits or signals
 * makes the object (semaphores and atomic objects begin at 0) and stores the handle; copy it after that. It blocks for a round trip
 * more, and may fail as *_init(). Such objects need not be destroyed, and those that are forgotten count in the limits below.
 * A call on a handle of zeros in private memory, or of a destroyed object, fails with -EINVAL (releasing a
 * destroyed lock: -EPERM, because no thread holds it). *_init() blocks for at most a round trip; -ENOSPC: its home has
 * 16,777,215 objects (65,536 barriers), or fewer with the kernel helper: dsm(7). Any number of threads may wait for an
 * object. *_destroy() of an object in use: -EBUSY. Every call is a full fence. */
typedef struct { uint64_t id; } dsm_mutex_t;
typedef struct { uint64_t id; } dsm_rwlock_t;
typedef struct { uint64_t id; } dsm_cond_t;
typedef struct { uint64_t id; } dsm_sem_t;
typedef struct { uint64_t id; } dsm_atomic_t;
typedef struct { uint64_t id, ranks, threads; } dsm_barrier_t;

DSM_API int dsm_mutex_init(dsm_mutex_t *m);
DSM_API int dsm_mutex_destroy(dsm_mutex_t *m);
/* Blocks; first come, first served, but the threads of a node may pass it on 16 times before another node gets it, and a
 * thread that runs may overtake one that is being woken. Once awake, that thread is next after the present holder.
 * -EDEADLK: this thread holds it. -EAGAIN: the threads of this node hold or wait for 1,048,576 mutexes, or 62,464 of them
 * wait for locks, semaphores and conditions (all these calls then fail so). */
DSM_API int dsm_mutex_lock(dsm_mutex_t *m);
DSM_API int dsm_mutex_trylock(dsm_mutex_t *m);   /* -EBUSY: held; blocks for a round trip at most */
DSM_API int dsm_mutex_timedlock(dsm_mutex_t *m, uint64_t ns); /* -ETIMEDOUT after ns; -EDEADLK, -EAGAIN */
DSM_API int dsm_mutex_unlock(dsm_mutex_t *m);    /* -EPERM: this thread does not hold it; never blocks */

DSM_API int dsm_rwlock_init(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_destroy(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_rdlock(dsm_rwlock_t *l);  /* blocks; fair: a waiting writer comes before later readers; -EDEADLK */
DSM_API int dsm_rwlock_wrlock(dsm_rwlock_t *l);  /* blocks; -EDEADLK: this thread holds it already */
/* -EBUSY: held, also by this thread, or other threads wait; block for a round trip at most. */
DSM_API int dsm_rwlock_tryrdlock(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_trywrlock(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_timedrdlock(dsm_rwlock_t *l, uint64_t ns); /* -ETIMEDOUT after ns; -EDEADLK */
DSM_API int dsm_rwlock_timedwrlock(dsm_rwlock_t *l, uint64_t ns);
DSM_API int dsm_rwlock_unlock(dsm_rwlock_t *l);  /* -EPERM: this thread does not hold it; blocks for a round trip */

DSM_API int dsm_cond_init(dsm_cond_t *c);
DSM_API int dsm_cond_destroy(dsm_cond_t *c);
/* Release m, wait, lock m again; no spurious wake-ups. -EPERM: this thread does not hold m. */
DSM_API int dsm_cond_wait(dsm_cond_t *c, dsm_mutex_t *m);
DSM_API int dsm_cond_timedwait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns); /* -ETIMEDOUT after ns; m is locked again also then */
DSM_API int dsm_cond_signal(dsm_cond_t *c);      /* wakes one waiter, the longest waiting */
DSM_API int dsm_cond_broadcast(dsm_cond_t *c);   /* wakes all waiters */

DSM_API int dsm_sem_init(dsm_sem_t *s, uint32_t value);
DSM_API int dsm_sem_destroy(dsm_sem_t *s);
DSM_API int dsm_sem_wait(dsm_sem_t *s);          /* blocks, first come first served */
DSM_API int dsm_sem_trywait(dsm_sem_t *s);       /* -EAGAIN: the value is zero, or other threads wait */
DSM_API int dsm_sem_timedwait(dsm_sem_t *s, uint64_t ns); /* -ETIMEDOUT */
DSM_API int dsm_sem_post(dsm_sem_t *s, uint32_t n);       /* -EOVERFLOW: past 2^31 - 1 */
DSM_API int dsm_sem_getvalue(dsm_sem_t *s, uint32_t *value); /* 0 while threads wait; it may have changed by then */

/* A 64-bit atomic object is stored at its home, and operations run there; no page moves. home -1: this rank.
 * Each call blocks for at most a round trip. value and old may be NULL if the result is not needed. */
DSM_API int dsm_atomic_init(dsm_atomic_t *a, uint64_t value, int home);
DSM_API int dsm_atomic_destroy(dsm_atomic_t *a);
DSM_API int dsm_atomic_load(dsm_atomic_t *a, uint64_t *value);
DSM_API int dsm_atomic_store(dsm_atomic_t *a, uint64_t value);
DSM_API int dsm_atomic_fetch_add(dsm_atomic_t *a, uint64_t add, uint64_t *old);
DSM_API int dsm_atomic_exchange(dsm_atomic_t *a, uint64_t value, uint64_t *old);
/* 0: exchanged. -EAGAIN: *a differed from *expected, which now holds the value of *a. */
DSM_API int dsm_atomic_compare_exchange(dsm_atomic_t *a, uint64_t *expected, uint64_t value);

/* A barrier for `threads` threads on each of the ranks listed (ranks NULL: all; a list requires a job of at
 * most 64 ranks). Does not block. -EINVAL: no rank, a rank twice or out of range, threads 0. */
DSM_API int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads);
DSM_API int dsm_barrier_destroy(dsm_barrier_t *b); /* by the rank that initialised it */
/* Blocks until all threads have arrived. -EINVAL: this rank is not in the group, more of its threads have arrived than the
 * barrier is for, or (for all waiters) the ranks disagree about the number of threads; or the barrier was destroyed, which
 * the threads of other nodes than its maker's may learn only when the next barrier of its number is used. A waiter that wakes
 * only after two more barriers have had the number gets 0. */
DSM_API int dsm_barrier_wait(dsm_barrier_t *b);
/* Blocks until n threads have come, of whatever ranks; returns 1 to one of them, and 0 to the others. All calls name the same n.
 * *b was zero, in shared memory, and is used by this function only. -EINVAL: it is not, or n is 0. -ENOSPC. */
DSM_API int dsm_barrier_meet(dsm_barrier_t *b, unsigned n);
DSM_API int dsm_barrier(void);                   /* all ranks, one thread of each */

enum dsm_op { DSM_SUM = 0, DSM_MIN, DSM_MAX, DSM_AND, DSM_OR, DSM_XOR, DSM_PROD };
/* Integers by their width: DSM_INT32 is int, DSM_INT64 long, DSM_INT8 signed char. DSM_BOOL: bytes of 0 and 1. */
enum dsm_type {
	DSM_INT64 = 0,
	DSM_UINT64,
	DSM_DOUBLE,
	DSM_INT8,
	DSM_UINT8,
	DSM_INT16,
	DSM_UINT16,
	DSM_INT32,
	DSM_UINT32,
	DSM_FLOAT,
	DSM_LONG_DOUBLE,
	DSM_BOOL
};

/* Collectives over all ranks, called by one thread of each rank with the same size, type, operation and root. Each is
 * also a barrier. They block. */
/* The root's bytes come to all; any size. -EINVAL: no such root. */
DSM_API int dsm_broadcast(void *buf, size_t size, int root);
/* Combine one value of each rank, or n of them, each with those at its place; the result comes to all. Integers have all
 * operations (sums and products wrap), floating types SUM, MIN, MAX and PROD, DSM_BOOL AND, OR and XOR. Floating values
 * are combined in the order in which they arrive. -EINVAL: an operation that the type does not have, or no such type. */
DSM_API int dsm_reduce(void *value, enum dsm_type type, enum dsm_op op);
DSM_API int dsm_reduce_array(void *values, size_t n, enum dsm_type type, enum dsm_op op);

/* ---- what threads wait for ------------------------------------------------------------------- */

/* For layers above this library, as libdsm-pthread.so: what reports of long waits and of deadlocks say (dsm(7)). Never block. */
enum dsm_wait { DSM_WAIT_NONE = 0, DSM_WAIT_MUTEX, DSM_WAIT_COND, DSM_WAIT_RWLOCK, DSM_WAIT_SEM, DSM_WAIT_BARRIER,
		DSM_WAIT_JOIN, DSM_WAIT_IDLE, DSM_WAIT_FUTEX };

/* Until the next call, what this thread waits for in this library is that object of the program's. holder: the thread
 * (gettid(2)) that holds it; 0: not known. DSM_WAIT_NONE: for what the library knows itself. DSM_WAIT_IDLE: for work of the
 * layer's own, not reported. */
DSM_API void dsm_wait_label(enum dsm_wait what, const void *object, int holder);
/* This thread sleeps until another one of the job wakes it by means of its own (a futex in shared memory), without a limit of time.
 * A number for dsm_wait_end(); -1: none is needed. */
DSM_API int dsm_wait_begin(enum dsm_wait what, const void *object, int holder);
DSM_API void dsm_wait_end(int wait);

/* ---- signals --------------------------------------------------------------------------------- */

/* First in a signal handler that accesses shared memory, with its three arguments (SA_SIGINFO). 1: it interrupted a call of
 * this library that does not sleep, and must return at once; the signal is blocked in this thread, and delivered again, with
 * its siginfo_t, when the thread leaves the call or sleeps in it. 0: the handler may go on. Also 0 if the signal cannot be
 * queued (RLIMIT_SIGPENDING). */
DSM_API int dsm_signal_defer(int sig, void *info, void *context);
/* If sig ends this process by its default action: print which thread of which rank, then take that action, with a core file;
 * the job ends with 128 + sig. For SIGSEGV and SIGBUS, to be called before dsm_init(). Never blocks. -EBUSY: its action is not
 * the default one. -EINVAL: no signal, or one that cannot be caught. */
DSM_API int dsm_signal_report(int sig);

/* Call fn in the fault handler of the thread that accesses memory which is not libdsm's and which the kernel refuses (SIGSEGV).
 * fn returns 1 if the access can be tried again, or 0: then the signal takes its course. inside: the thread is in a call
 * of this library, and fn must neither access shared memory nor call any function of it. Else fn may do both, and block. Call it
 * once, after dsm_init(). */
DSM_API void dsm_fault_hook(int (*fn)(void *addr, int write, int inside));

/* ---- hints --------------------------------------------------------------------------------- */

enum dsm_access { DSM_READ = 1, DSM_WRITE = 2 };

/* Ranges are widened to whole blocks. -EFAULT: the range is not within one attached region or the heap. */
DSM_API int dsm_prefetch(const void *addr, size_t size, enum dsm_access access); /* start fetching; does not wait */
DSM_API int dsm_acquire(const void *addr, size_t size, enum dsm_access access);  /* fetch and wait; other nodes may take the blocks later */
DSM_API int dsm_release(const void *addr, size_t size);   /* give newest copies back to their homes; does not wait */
/* Acquire the range and keep it: until dsm_unpin() no other node gets a conflicting copy, so the range may be passed to
 * system calls (such as read(2), with the user-level fault backends). Blocks. Pin in one call all memory that is needed
 * together, and pin memory that will be written for DSM_WRITE: two nodes that nest pins of conflicting ranges deadlock.
 * -EAGAIN: more than 255 pins on a block. -EINVAL: bad access. -ENOMEM. Unpin exactly the range that was pinned. */
DSM_API int dsm_pin(const void *addr, size_t size, enum dsm_access access);
DSM_API int dsm_unpin(const void *addr, size_t size);     /* -EINVAL: this range is not pinned; never blocks */
/* How many bytes from addr on, at most size, a system call may find missing without a pin: they are in shared memory, the job has
 * several nodes, and the kernel helper does not host it. Else 0. addr NULL: whether there is such
 * memory at all. Never blocks; also on a shared stack, and before dsm_init(). */
DSM_API size_t dsm_needs_pin(const void *addr, size_t size);
/* Make rank's node the home of blocks, for good. Those that have been touched move there. -EBUSY: some stay in use, or a part is
 * pinned by this process and would leave it; -ENXIO: some have been touched, and ranks of that node have not attached the region
 * (all others are placed). Blocks. */
DSM_API int dsm_place(const void *addr, size_t size, int rank);
DSM_API int dsm_bind_thread(int node);                    /* run this thread on a NUMA node; -1: anywhere; -EINVAL */
DSM_API int dsm_bind_memory(void *addr, size_t size, int node); /* this node's frames of the range; -EINVAL; over dsm.ko -EOPNOTSUPP */

/* ---- statistics ---------------------------------------------------------------------------- */

enum dsm_latency { DSM_LAT_READ_MISS = 0, DSM_LAT_WRITE_MISS, DSM_LAT_UPGRADE, DSM_LAT_LOCK, DSM_LAT_BARRIER,
		   DSM_LAT_ATOMIC, DSM_LAT_MAX };
#define DSM_LAT_BUCKETS 40  /* bucket i counts waits of [2^i, 2^(i+1)) ns */

struct dsm_stats {
	uint64_t read_faults, write_faults, upgrades;  /* that needed the protocol */
	uint64_t local_faults;                         /* of these and of prefetched: first touches, no contents moved */
	uint64_t prefetched;                           /* blocks fetched ahead of use */
	uint64_t invalidations;                        /* copies that the node lost, counted by the rank that closed them */
	uint64_t downgrades;                           /* write permissions that it lost */
	uint64_t blocks_in, blocks_out, bytes_in, bytes_out; /* block data */
	uint64_t messages_out, messages_in;            /* through the transport */
	uint64_t steps;                                /* protocol steps run by this rank's threads */
	uint64_t locks, lock_waits, barriers, atomics;
	uint64_t allocations, frees, remote_frees;
	uint64_t latency_count[DSM_LAT_MAX], latency_sum_ns[DSM_LAT_MAX], latency_max_ns[DSM_LAT_MAX];
	uint64_t latency[DSM_LAT_MAX][DSM_LAT_BUCKETS];
	uint64_t homes_in;                             /* blocks whose home moved to the rank's node after their first touch */
	uint64_t populated;                            /* 64 KiB chunks that other ranks of the node had touched, mapped ahead */
	uint64_t repeated_faults;                      /* of the first three: blocks that the node lost since its last acquire */
	uint64_t protect_calls;                        /* of invalidations, downgrades and leaving: one for neighbouring blocks together */
	uint64_t pushed;                               /* blocks given back to their homes at barriers (DSM_PUSH) */
};

struct dsm_hot_block {           /* a block that moves often between nodes */
	void *addr;
	size_t size;
	uint64_t transfers;      /* number of times that write permission changed nodes, as seen by its home */
	char name[DSM_NAME_MAX]; /* of the region, or of the allocation if it has one */
	void *object;            /* start of the allocation or region that contains it */
	size_t object_size;
	char site[128];          /* "file:line" or "function+offset" of the allocation, or empty */
};

/* Counters of a rank (-1: the sum over all ranks). region NULL: of the whole process; otherwise the fault, block, byte and
 * home counters and miss latencies of that region. Blocks for a round trip. -EINVAL: no such rank. */
DSM_API int dsm_stats_get(int rank, const dsm_region_t *region, struct dsm_stats *out);
DSM_API int dsm_stats_reset(void);                        /* of this rank, except the heap's counters and transfers; never blocks */
/* The most transferred blocks of the job in descending order, at most n and at most 64; returns their number. Blocks. */
DSM_API int dsm_stats_hot(struct dsm_hot_block *out, int n);

#ifdef __cplusplus
}
#endif
#endif
