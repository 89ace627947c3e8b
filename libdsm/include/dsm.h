/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * dsm.h - the public interface of libdsm, a distributed shared memory runtime.
 *
 * Conventions, unless the comment of a function says otherwise:
 *  - Any thread of any rank may call a function between dsm_init() and dsm_finalize().
 *  - A function returns 0 or a non-negative result on success, and a negative errno value on
 *    failure.
 *    It stores to its output arguments only on success.
 *  - A call "blocks" if it waits for another rank. It polls for DSM_SPIN_US, then sleeps. A
 *    function that blocks says so. Any function may wait for the block of an argument that is in
 *    shared memory.
 *  - Sizes and offsets are in bytes, times in nanoseconds.
 *  - A function returns -ENOTCONN before dsm_init() and after dsm_finalize(), and -ECHILD in a
 *    child of fork(2).
 *  - If the job loses a rank, the runtime ends the process with status 70 (dsm(7), EXIT STATUS).
 *
 * dsm(7) and docs/memory-model.md define the memory model: sequential consistency per block over
 * the x86-TSO of each node. Every synchronisation call below is a full fence.
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

#define DSM_NAME_MAX 48    /* bytes of the name of a region or an allocation, including the final NUL */

/* ---- start and end ------------------------------------------------------------------------- */

/* Each field has an environment variable (DSM_HELP=1 lists them). The variable overrides the
 * default. A field that the program sets overrides the variable. dsm(7), SETTINGS, describes
 * them. */
struct dsm_config {
	size_t struct_size;      /* set by dsm_config_init(); lets the struct grow */
	const char *fault;       /* DSM_FAULT: "auto", "uffd", "mprotect" */
	const char *net;         /* DSM_NET: "auto", "ucx", "verbs", "shared" */
	const char *stats;       /* DSM_STATS: "off", "table", "json" */
	size_t space;            /* DSM_SPACE: shared address space of the job, 64M to 4T */
	size_t heap;             /* DSM_HEAP: part of the space for the shared heap, 0 to three quarters; 0: no heap */
	size_t block_size;       /* DSM_BLOCK: default block size of regions, 4K to 2M, a power of two */
	unsigned hold_us;        /* DSM_HOLD_US: minimum time that a node keeps a granted block, 0 to 10000 */
	unsigned spin_us;        /* DSM_SPIN_US: time that a waiter polls before it sleeps, 0 to 10000 */
	unsigned readahead;      /* DSM_READAHEAD: maximum number of blocks fetched ahead (dsm(7): of long streams more), 0 to 64 */
	unsigned lost_ms;        /* DSM_LOST_MS: a rank on another host is lost after this silence, 500 to 600000 */
	const char *backend;     /* DSM_BACKEND: "auto", "kmod" (the kernel helper), "user" (this process) */
	const char *net_device;  /* DSM_NET_DEVICE: RDMA devices, "NAME[:PORT],..."; "": all with an active port */
	const char *net_gid;     /* DSM_NET_GID: an index, an address, "ipv4" or "ipv6"; "": the best */
	const char *cq_groups;   /* DSM_CQ_GROUPS: completion vectors per class, "coherence=0-1;data=2;..." or "off" */
	const char *verbs;       /* DSM_VERBS: techniques of the RDMA transport, "NAME=VALUE,..." */
	unsigned stall_ms;       /* DSM_STALL_MS: report waits that last this long, 0 to 86400000; 0: never */
	const char *kmod_mode;   /* DSM_KMOD_MODE: dsm.ko handles completions in "softirq", "workqueue" or "poll" */
	const char *node;        /* DSM_NODE: ranks of a host per node: "host" (all), "rank" (one), or a number */
	const char *huge;        /* DSM_HUGE: "auto", "on", "off": huge pages in a job of one node */
	const char *place;       /* DSM_PLACE: "spread", "fill", "load": how dsm_spawn() chooses ranks */
	unsigned threads;        /* DSM_THREADS: with "fill", threads per rank before the next rank; 1 to 4096 */
	const char *stats_skip;  /* DSM_STATS_SKIP: wrappers of malloc(), "NAME,..."; statistics name their callers */
	const char *deadlock;    /* DSM_DEADLOCK: "report", "abort", "off": action if all threads wait for each other */
	const char *push;        /* DSM_PUSH: "on", "off": return blocks to homes that read them, at barriers */
	const char *home;        /* DSM_HOME: "first", "cyclic[:SIZE]", "blocked": homes that the program does not choose */
	size_t twins;            /* DSM_TWINS: memory of a node for twins of release blocks, 16K to 2G */
	size_t memory;           /* DSM_MEMORY: bound of a node's shared memory, at least 16M; 0: from its host and cgroup */
	const char *consistency; /* DSM_CONSISTENCY: "sequential", "release": of dsm_malloc_program(), dsm_adopt_globals() */
	const char *atomics;     /* DSM_ATOMICS: "check", "trust": with release, programs with atomic instructions */
	unsigned quantum_ms;     /* DSM_QUANTUM_MS: maximum length of a node's turn with mutexes that bounce, 0 to 10000; 0: no turns */
};

/* Fill *cfg from the defaults and the environment. The strings belong to the library or the
 * environment. May be called at any time; does not block.
 * -EINVAL: a variable is malformed or out of range (a message names it, its value and the range),
 * or DSM_STRICT is 1 and a variable is unknown. Without DSM_STRICT, dsm_init() warns about unknown
 * variables. */
DSM_API int dsm_config_init(struct dsm_config *cfg);

/* Join the job. Collective over all ranks, once per process; blocks. cfg NULL: defaults and
 * environment. Without a PMIx launcher, the process becomes a job of one rank. -EALREADY: it was
 * called before, successfully or not. -EINVAL: bad setting, cfg was not filled by
 * dsm_config_init(), or more than 1,024 ranks. -EPROTO: the ranks differ in version, settings or
 * job key. -ENOSYS: the process is one of several, but no PMIx server is reachable. -ENOMEM:
 * address space or memory. -EMFILE: descriptors. -ENODEV: no usable fault backend or transport.
 * -EADDRNOTAVAIL: no address range is free on all ranks. -ETIMEDOUT: a rank did not call it.
 * -EOPNOTSUPP: valgrind, and several nodes or space > 1 GiB. */
DSM_API int dsm_init(const struct dsm_config *cfg);

/* Leave the job. Collective, one thread of each rank; blocks until all ranks call it. The call
 * unmaps shared memory and invalidates all handles. Other threads of the process must not use
 * shared memory or this library any more. */
DSM_API int dsm_finalize(void);

/* Like dsm_finalize(), but shared and adopted memory stay mapped. For a process that calls _exit(2)
 * next. Collective; blocks. Other threads may continue; one that needs another rank waits until the
 * process ends. */
DSM_API int dsm_quit(void);

DSM_API int dsm_rank(void);             /* return the rank of this process, from 0 */
DSM_API int dsm_size(void);             /* return the number of ranks in the job */

/* A node is a set of ranks that share one copy of the shared memory. The hardware keeps memory
 * coherent inside a node, the protocol keeps it coherent between nodes. Nodes hold copies and are
 * homes; if an argument names a rank as a home, it means the node of that rank. */
DSM_API int dsm_node(void);             /* return the number of this rank's node, from 0 */
DSM_API int dsm_nodes(void);            /* return the number of nodes */
DSM_API int dsm_node_of(int rank);      /* return the node of a rank. -EINVAL: no such rank */

/* Print a message (like printf(3), at most 511 bytes) and end all ranks with status (1 to 255;
 * other values mean 1). Does not return. May be called at any time; outside of a job, it ends only
 * this process. */
DSM_API void dsm_abort(int status, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

DSM_API const char *dsm_version(void);       /* return "0.1.0"; static string; any time */
DSM_API const char *dsm_strerror(int err);   /* describe an error (either sign); static string; any time */

/* ---- shared regions ------------------------------------------------------------------------ */

typedef struct dsm_region dsm_region_t;

enum dsm_home {
	DSM_HOME_FIRST_TOUCH = 0, /* default: the first node to touch a block becomes its home, unless DSM_HOME is set */
	DSM_HOME_CYCLIC,          /* the nodes in turn */
	DSM_HOME_FIXED            /* the node of home_rank */
};

/* Send priority of the data of a region's blocks. Only DSM_NET=shared and the kernel helper use
 * it. */
enum dsm_priority {
	DSM_PRIORITY_NORMAL = 0, /* default */
	DSM_PRIORITY_LOW,        /* a quarter of the share of normal data */
	DSM_PRIORITY_HIGH,       /* four times the share of normal data */
	DSM_PRIORITY_URGENT      /* strictly before all other data to the same node */
};

enum dsm_consistency {
	DSM_CONSISTENCY_SEQUENTIAL = 0, /* one writer of a block at a time (default) */
	DSM_CONSISTENCY_RELEASE,        /* several; other nodes see stores after synchronisation: docs/memory-model.md */
	DSM_CONSISTENCY_SETTING         /* an option only: what DSM_CONSISTENCY says, "sequential" or "release" */
};

struct dsm_region_options {
	size_t block_size;       /* 4 KiB to 2 MiB, a power of two; 0: DSM_BLOCK */
	enum dsm_home home;
	int home_rank;           /* for DSM_HOME_FIXED */
	const void *contents;    /* initial contents, which the creator copies; NULL: zeros */
	size_t contents_size;    /* size of *contents; the rest of the region is zero */
	int contents_rank;       /* for dsm_region_adopt(): the rank whose contents all ranks get */
	enum dsm_priority priority;
	enum dsm_consistency consistency; /* DSM_CONSISTENCY_RELEASE: blocks of 4 KiB, whose homes move once */
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
	enum dsm_consistency consistency;
};

/* Create a region of size bytes at the same address on all ranks, and attach this rank. opt NULL:
 * defaults. Blocks for a round trip. Memory is allocated when blocks are touched. -EEXIST: the name
 * is taken. -EINVAL: the name is empty or too long, size is 0, or an option is invalid. -ENOMEM: no
 * address range is left in DSM_SPACE, or no mapping (vm.max_map_count). -ENOSPC: 65,535 regions
 * exist (16,384 with the kernel helper). -ENOTSUP: release consistency with larger blocks, or with
 * the kernel helper (a message says which). */
DSM_API int dsm_region_create(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out);
/* Attach this rank to a region. Blocks for a round trip, and until the creator has stored the
 * contents.
 * -ENOENT: no such name. -EALREADY: this rank is attached. -ENOMEM: as for dsm_region_create(). */
DSM_API int dsm_region_attach(const char *name, dsm_region_t **out);
/* Attach to a region, or create it if it does not exist. For programs in which every rank makes the
 * same call. Blocks. Errors of dsm_region_create(), except -EEXIST: the region exists with another
 * size, other options or other contents. -EALREADY: this rank is attached. */
DSM_API int dsm_region_open(const char *name, size_t size, const struct dsm_region_options *opt, dsm_region_t **out);
/* Detach this rank and invalidate the handle. No thread of the rank may access the region
 * afterwards. If the last rank of a node detaches, the newest contents move to their homes, and the
 * node drops its copies. Blocks.
 * -EINVAL: invalid handle (a later region never gets the same handle). -EBUSY: this process has
 * pinned part of it. */
DSM_API int dsm_region_detach(dsm_region_t *r);
/* Remove the name of a region. Its memory is freed when the last rank detaches. Any rank may call
 * it, attached or not. Blocks for a round trip; if no rank is attached, until all ranks have
 * forgotten the region. -ENOENT: no such name. */
DSM_API int dsm_region_destroy(const char *name);

/* Turn existing memory [addr, addr + length) into a shared region without moving it. The range must
 * be mapped, readable and at the same address on all ranks. Collective, one thread of each rank
 * with the same arguments; blocks. All ranks then see the contents of rank opt->contents_rank;
 * those of the other ranks are lost. No thread may use the memory during the call. out may be NULL.
 * dsm_region_detach() refuses the region with -EINVAL. On failure, the memory is unchanged.
 * -EINVAL: not whole pages or blocks, an invalid option, or the arguments of the ranks differ.
 * -EFAULT: not mapped. -EEXIST: overlaps shared memory. -ENOMEM: no room in DSM_SPACE, or no
 * memory. -ENOSPC: 512 regions are adopted. -ENOTSUP: the kernel helper hosts the job (use
 * DSM_BACKEND=user). */
DSM_API int dsm_region_adopt(void *addr, size_t length, const struct dsm_region_options *opt, dsm_region_t **out);
/* End the sharing of an adopted region: each rank gets private memory at the same address, with the
 * current contents. dsm_finalize() does this for the regions that are left. Collective; blocks.
 * -EINVAL: not an adopted region. -EBUSY: pinned on some rank. -ENOMEM. */
DSM_API int dsm_region_disown(dsm_region_t *r);
/* Adopt the global and static variables of the program, with the contents of rank 0: the writable
 * data of the executable after RELRO. Variables of shared libraries stay private. Call it before
 * other threads run. out may be NULL. Collective; blocks. Errors of dsm_region_adopt(). -ENOTSUP:
 * the executable is not linked as required (a message says how; dsm-cc(1) links it so). -EPROTO:
 * the ranks run different executables, or have them or libraries at different addresses (dsmrun(1)
 * turns address randomisation off). */
DSM_API int dsm_adopt_globals(dsm_region_t **out);

DSM_API void *dsm_region_base(const dsm_region_t *r);   /* return the address; NULL: invalid handle */
DSM_API size_t dsm_region_size(const dsm_region_t *r);  /* return the requested size; 0: invalid handle */

/* Describe the region that contains addr. The heap counts as a region named "(heap)". Blocks for a
 * round trip. -ENOENT: addr is in no region that this rank is attached to. */
DSM_API int dsm_region_query(const void *addr, struct dsm_region_info *out);

/* ---- shared heap --------------------------------------------------------------------------- */

/* Allocate shared memory, valid on all ranks. Any rank may free it. NULL on failure, with errno
 * set. The whole heap is available to each rank. A call blocks for a round trip if the rank needs
 * more memory than it has, and asks all ranks if the heap is full. dsm_calloc() may fetch blocks to
 * zero them. Statistics show the name of dsm_malloc_named(). ENOMEM: no room in the heap, DSM_HEAP
 * is 0, or the process is not a rank. EINVAL: bad alignment. */
DSM_API void *dsm_malloc(size_t size);                          /* aligned to 16; contents are undefined */
DSM_API void *dsm_calloc(size_t n, size_t size);
DSM_API void *dsm_aligned_alloc(size_t alignment, size_t size); /* alignment: a power of two up to 2 MiB */
DSM_API void *dsm_malloc_named(size_t alignment, size_t size, const char *name); /* alignment 0: 16 */
/* Allocate memory for data of a program with threads: with DSM_CONSISTENCY=release, it has release
 * consistency (docs/memory-model.md), and handles and atomic objects of libdsm cannot be in it.
 * Else as dsm_malloc_named(). zero: as dsm_calloc(). */
DSM_API void *dsm_malloc_program(size_t alignment, size_t size, int zero);
/* Allocate whole blocks and place them permanently at a node, like dsm_place(). Blocks for some
 * round trips per block. EINVAL: no such node. EBUSY: some of the memory was in use and could not
 * be placed. ENOMEM. */
DSM_API void *dsm_malloc_on(int node, size_t size);
/* Free memory that any rank allocated. NULL is allowed. Blocks for a round trip if another rank
 * allocated the memory, or if it is larger than 4 MiB. -EINVAL: p is not the start of a live
 * allocation; nothing is changed. */
DSM_API int dsm_free(void *p);

/* ---- threads ------------------------------------------------------------------------------- */

/* Threads of the program on any rank. The thread function and all that it calls must be at the same
 * address on all ranks (link with -no-pie, or disable address randomisation). Thread-local
 * variables stay private. With a shared stack, pointers to the thread's local variables are valid
 * on all ranks; such a thread calls this library by dsm_call(). All calls that take a dsm_thread_t:
 * -EINVAL: its id is 0. -ESRCH: it is not a thread, or was joined. */
typedef struct { uint64_t id; } dsm_thread_t;

struct dsm_thread_options {
	size_t stack_size;       /* of a shared stack, at least 64 KiB; 0: 2 MiB */
	int detached;            /* 1: the thread cannot be joined */
	int shared_stack;        /* 1: the stack is in the shared heap */
	size_t guard_size;       /* inaccessible memory below a shared stack; 0: 4 KiB; DSM_NO_GUARD: none */
	void *stack;             /* shared memory of stack_size bytes for a shared stack without guard; NULL: heap */
	int signals_blocked;     /* 1: it starts with all signals but SIGSEGV and SIGBUS blocked; 0: with none */
};
#define DSM_NO_GUARD ((size_t)-1)

/* `where` of dsm_spawn(): the rank of this node that runs the fewest threads of dsm_spawn(). */
#define DSM_ON_NODE(node) (-0x40000000 + (node))

/* Run fn(arg) in a new thread of rank `where`, of DSM_ON_NODE(node), or (-1) of a rank that
 * DSM_PLACE chooses. opt NULL: defaults. Blocks for a round trip; DSM_ON_NODE() of another node
 * takes one more, DSM_PLACE=load one per other node. -EINVAL: no such rank or node; opt->stack is
 * not shared memory or is smaller than 64 KiB. -EAGAIN: the heap has no room for the stack, or the
 * rank cannot create a thread. */
DSM_API int dsm_spawn(dsm_thread_t *t, int where, const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg);
/* Wait until a thread ends and store its result. One thread of any rank joins a thread, once.
 * Blocks. -EINVAL: the thread is detached. -EDEADLK: the thread is the caller. */
DSM_API int dsm_join(dsm_thread_t t, void **result);
/* Like dsm_join(), for at most ns; 0: do not wait. -ETIMEDOUT (-EBUSY if ns is 0): the thread still
 * runs. */
DSM_API int dsm_timedjoin(dsm_thread_t t, uint64_t ns, void **result);
DSM_API int dsm_detach(dsm_thread_t t);          /* no thread will join t. -EINVAL: t is already detached */
/* Cancel a thread of any rank, like pthread_cancel(3) with deferred type; dsm_join() then stores
 * PTHREAD_CANCELED. Blocks for a round trip, not for the end of the thread. Returns 0 also if the
 * thread has ended and was not joined. */
DSM_API int dsm_cancel(dsm_thread_t t);
DSM_API void dsm_thread_exit(void *result) __attribute__((noreturn)); /* end this thread of dsm_spawn() or dsm_run() */
DSM_API dsm_thread_t dsm_self(void);             /* return the calling thread; id 0: not of dsm_spawn() or dsm_run() */
DSM_API int dsm_thread_rank(dsm_thread_t t);     /* return the rank on which t runs */

struct dsm_thread_info {
	int rank, detached;
	void *stack;             /* lowest byte of the shared stack; NULL: the stack is private */
	size_t stack_size, guard_size;
	char name[16];           /* set by dsm_thread_rename(); initially the name of the creator */
};

DSM_API int dsm_thread_query(dsm_thread_t t, struct dsm_thread_info *info);
/* Set the name, at most 15 characters (-ERANGE). The kernel shows it if a thread of the same rank
 * makes the call. */
DSM_API int dsm_thread_rename(dsm_thread_t t, const char *name);
/* Call fn(thread, arg) in the calling thread and return its result. thread is the pthread_t of t,
 * which must be of this rank. t does not end during the call, so fn must not wait for it. fn and
 * arg must not use shared memory. -EXDEV: t is of another rank. -ESRCH: t has ended. */
DSM_API int dsm_thread_native(dsm_thread_t t, int (*fn)(unsigned long thread, void *arg), void *arg);
/* Run fn(arg) on a shared stack in the calling thread, which then counts as a thread of
 * dsm_spawn(). A stack that it allocates is memory of dsm_malloc_program(). If fn ends by dsm_thread_exit() or
 * dsm_cancel(), dsm_run() returns, and a thread must join or detach it; if fn returns, neither is
 * possible. Errors of dsm_spawn(); -EINVAL: also if the caller is such a thread already. */
DSM_API int dsm_run(const struct dsm_thread_options *opt, void *(*fn)(void *), void *arg, void **result);
/* Call fn(arg) on the private stack of a thread that has a shared one; in other threads, call it
 * directly. fn must copy what it needs from *arg before it calls this library, which must not miss
 * a block of the stack on which it runs. */
DSM_API void dsm_call(void (*fn)(void *), void *arg);

/* ---- synchronisation ----------------------------------------------------------------------- */

/* Threads of all ranks may use an object. Its handle is a plain value: initialise it once, then
 * copy it, send it, or keep it in shared memory. Any number of threads may wait for an object. A
 * zeroed handle in shared memory needs no *_init(), except for barriers: the first call that uses
 * it creates the object, with the value 0, and stores the handle. Copy the handle only afterwards.
 * This call takes one round trip more, and may return the errors of *_init(). Such an object need
 * not be destroyed, but counts towards the limits until it is.
 *
 * *_init() makes this rank the home, and does not block; dsm_atomic_init() takes a home, and blocks
 * for a round trip if that is on another node. -ENOSPC: the home's node has 16,777,215 objects, or
 * fewer with the kernel helper (dsm(7)). *_destroy() blocks for a round trip; any rank may call it.
 * -EBUSY: a thread holds the object or waits for it. All calls: -EINVAL: zeroed handle in private
 * memory, other kind of handle, or destroyed object (-EPERM when a copy of the handle unlocks it).
 * Calls that wait: -EAGAIN: 62,464 threads of the node wait for locks, semaphores and conditions,
 * or there is no memory to record the lock. */
typedef struct { uint64_t id; } dsm_mutex_t;
typedef struct { uint64_t id; } dsm_rwlock_t;
typedef struct { uint64_t id; } dsm_cond_t;
typedef struct { uint64_t id; } dsm_sem_t;
typedef struct { uint64_t id; } dsm_atomic_t;
typedef struct { uint64_t id, ranks, threads; } dsm_barrier_t;

DSM_API int dsm_mutex_init(dsm_mutex_t *m);
DSM_API int dsm_mutex_destroy(dsm_mutex_t *m);
/* Lock the mutex; blocks while another thread holds it. First come, first served, except that the
 * threads of a node may pass it on 16 times before another node gets it, that a node may keep it
 * for about 2 ms or 128 critical sections although another waits (DSM_QUANTUM_MS), and that a
 * running thread may overtake one that is being woken, which is next then. -EDEADLK: this thread
 * holds it. -EAGAIN: also if threads of this node hold or await 1,048,576 mutexes. */
DSM_API int dsm_mutex_lock(dsm_mutex_t *m);
DSM_API int dsm_mutex_trylock(dsm_mutex_t *m);   /* blocks for at most a round trip. -EBUSY: held. -EAGAIN */
DSM_API int dsm_mutex_timedlock(dsm_mutex_t *m, uint64_t ns); /* as dsm_mutex_lock(). -ETIMEDOUT: not free within ns */
DSM_API int dsm_mutex_unlock(dsm_mutex_t *m);    /* does not block. -EPERM: this thread does not hold it */

DSM_API int dsm_rwlock_init(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_destroy(dsm_rwlock_t *l);
/* Lock for reading or for writing; blocks. A waiting writer precedes readers that arrive later.
 * -EDEADLK: this thread already holds the lock, in either mode. */
DSM_API int dsm_rwlock_rdlock(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_wrlock(dsm_rwlock_t *l);
/* Lock without waiting for other threads; blocks for at most a round trip. -EBUSY: this thread
 * holds the lock, another thread holds it in a conflicting mode, or other threads wait. */
DSM_API int dsm_rwlock_tryrdlock(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_trywrlock(dsm_rwlock_t *l);
DSM_API int dsm_rwlock_timedrdlock(dsm_rwlock_t *l, uint64_t ns); /* blocks; -ETIMEDOUT: not free within ns; -EDEADLK */
DSM_API int dsm_rwlock_timedwrlock(dsm_rwlock_t *l, uint64_t ns);
DSM_API int dsm_rwlock_unlock(dsm_rwlock_t *l);  /* blocks for a round trip. -EPERM: this thread does not hold it */
/* Positive: the threads of this node lock it for reading without a message. What a thread loads
 * between two calls that return the same positive number, it has loaded as a reader, although it has
 * not locked it. 0: they do not. Does not block. -EINVAL, also for a handle that is zero bytes. */
DSM_API int dsm_rwlock_leased(const dsm_rwlock_t *l);

DSM_API int dsm_cond_init(dsm_cond_t *c);
DSM_API int dsm_cond_destroy(dsm_cond_t *c);
/* Unlock m, wait until woken, and lock m again; blocks. There are no spurious wake-ups. A
 * cancellation point. -EPERM: this thread does not hold m. -ETIMEDOUT: no wake-up within ns; m is
 * locked again in this case, too. */
DSM_API int dsm_cond_wait(dsm_cond_t *c, dsm_mutex_t *m);
DSM_API int dsm_cond_timedwait(dsm_cond_t *c, dsm_mutex_t *m, uint64_t ns);
DSM_API int dsm_cond_signal(dsm_cond_t *c);      /* wake the thread that waited longest; blocks for a round trip */
DSM_API int dsm_cond_broadcast(dsm_cond_t *c);   /* wake all waiting threads; blocks for a round trip */
/* As dsm_cond_signal(), or, all, dsm_cond_broadcast(). *found is set on success only: 1 if threads
 * were waiting, even if an earlier call wakes them, otherwise 0. */
DSM_API int dsm_cond_wake(dsm_cond_t *c, int all, int *found);

/* A semaphore is a number from 0 to 2^31 - 1. All calls block for a round trip; the waiting calls
 * block until the number is positive, and are cancellation points. Waiters are served first come,
 * first served. */
DSM_API int dsm_sem_init(dsm_sem_t *s, uint32_t value);   /* -EINVAL: value is greater than 2^31 - 1 */
DSM_API int dsm_sem_destroy(dsm_sem_t *s);
DSM_API int dsm_sem_wait(dsm_sem_t *s);          /* decrement */
DSM_API int dsm_sem_trywait(dsm_sem_t *s);       /* decrement. -EAGAIN: the number is 0, or other threads wait */
DSM_API int dsm_sem_timedwait(dsm_sem_t *s, uint64_t ns); /* decrement. -ETIMEDOUT: not possible within ns */
/* The same, also without a limit (ns 0). -EINTR: a signal handler of this thread has set *stop, and
 * the number is as it was. */
DSM_API int dsm_sem_stopwait(dsm_sem_t *s, uint64_t ns, const uint32_t *stop);
DSM_API int dsm_sem_post(dsm_sem_t *s, uint32_t n);       /* add n. -EOVERFLOW: above 2^31 - 1; adds nothing */
DSM_API int dsm_sem_getvalue(dsm_sem_t *s, uint32_t *value); /* store the number; 0 while threads wait */

/* An atomic object is a 64-bit number at its home. Operations run there, and no block moves. home
 * -1: this rank. Each call blocks for at most a round trip. value and old may be NULL.
 * dsm_atomic_init(): -EINVAL: no such rank. */
DSM_API int dsm_atomic_init(dsm_atomic_t *a, uint64_t value, int home);
DSM_API int dsm_atomic_destroy(dsm_atomic_t *a); /* the caller ensures that no thread uses the object */
DSM_API int dsm_atomic_load(dsm_atomic_t *a, uint64_t *value);
DSM_API int dsm_atomic_store(dsm_atomic_t *a, uint64_t value);
DSM_API int dsm_atomic_fetch_add(dsm_atomic_t *a, uint64_t add, uint64_t *old); /* wraps around */
DSM_API int dsm_atomic_exchange(dsm_atomic_t *a, uint64_t value, uint64_t *old);
/* Store value if the number equals *expected. -EAGAIN: it differs; the call stores the number in
 * *expected. */
DSM_API int dsm_atomic_compare_exchange(dsm_atomic_t *a, uint64_t *expected, uint64_t value);

/* Create a barrier for `threads` threads on each of the nranks ranks listed; the caller need not be
 * one of them. ranks NULL: all ranks. Does not block. -EINVAL: empty list, rank listed twice or out
 * of range, list in a job of more than 64 ranks, threads 0. -ENOSPC: this rank has 65,536 barriers,
 * or fewer with the kernel helper. */
DSM_API int dsm_barrier_init(dsm_barrier_t *b, const int *ranks, int nranks, unsigned threads);
/* Destroy a barrier. Call it on the rank that created the barrier. -EBUSY: a thread of this node
 * waits. */
DSM_API int dsm_barrier_destroy(dsm_barrier_t *b);
/* Wait until all threads of the barrier have called this function; blocks. -EINVAL: this rank is
 * not in the group, more of its threads have arrived than the barrier is for, the ranks disagree
 * about the number of threads (for all waiters), or the barrier was destroyed, which other nodes
 * may notice late (dsm_barrier(3), NOTES). */
DSM_API int dsm_barrier_wait(dsm_barrier_t *b);
/* Wait until n threads of any ranks have called this function; blocks. Returns 1 in exactly one
 * thread, 0 in the others. All callers must pass the same n. *b must be zero-initialised shared
 * memory used only for this function. -EINVAL: it is not, or n is 0 or greater than 2^31 - 1.
 * -ENOSPC, -EAGAIN: as for a condition. */
DSM_API int dsm_barrier_meet(dsm_barrier_t *b, unsigned n);
/* Wait until one thread of each rank has called this; blocks. Same order on all ranks, also with
 * the collectives. */
DSM_API int dsm_barrier(void);

enum dsm_op { DSM_SUM = 0, DSM_MIN, DSM_MAX, DSM_AND, DSM_OR, DSM_XOR, DSM_PROD };
/* Integer types are named by width: DSM_INT8 is signed char, DSM_INT32 int, DSM_INT64 long.
 * DSM_BOOL: bytes, 0 or 1. */
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

/* Collectives. One thread of each rank calls them, with the same size, type, operation and root.
 * They block, and are barriers. -EINVAL: more than one thread of this rank called. */
/* Copy size bytes from rank root to all others. -EINVAL: no such rank. */
DSM_API int dsm_broadcast(void *buf, size_t size, int root);
/* Combine the values of all ranks, element by element, and store the result on each rank. n may be
 * 0. Integers support all operations (sums and products wrap around), floating types SUM, MIN, MAX
 * and PROD, DSM_BOOL AND, OR and XOR. Floating values are combined in the order of arrival.
 * -EINVAL: no such type, unsupported operation, n too large. */
DSM_API int dsm_reduce(void *value, enum dsm_type type, enum dsm_op op);
DSM_API int dsm_reduce_array(void *values, size_t n, enum dsm_type type, enum dsm_op op);

/* ---- what threads wait for ------------------------------------------------------------------- */

/* For layers above this library, such as libdsm-pthread.so: name the objects of the program in
 * reports of long waits and deadlocks (dsm(7)). These functions do not block, and a signal handler
 * may call them. */
enum dsm_wait { DSM_WAIT_NONE = 0, DSM_WAIT_MUTEX, DSM_WAIT_COND, DSM_WAIT_RWLOCK, DSM_WAIT_SEM, DSM_WAIT_BARRIER,
		DSM_WAIT_JOIN, DSM_WAIT_IDLE, DSM_WAIT_FUTEX };

/* Until the next call, name the object that this thread's calls wait for. holder: gettid(2) of the
 * thread that holds it; 0: unknown. DSM_WAIT_NONE: no name. DSM_WAIT_IDLE: the thread waits for
 * work of the layer; not reported. */
DSM_API void dsm_wait_label(enum dsm_wait what, const void *object, int holder);
/* Announce that this thread sleeps without a time limit until another thread of the job wakes it by
 * means of the layer (a futex in shared memory). Returns a number for dsm_wait_end(); -1: not
 * recorded. */
DSM_API int dsm_wait_begin(enum dsm_wait what, const void *object, int holder);
DSM_API void dsm_wait_end(int wait);

/* ---- signals --------------------------------------------------------------------------------- */

/* A signal handler (SA_SIGINFO) that accesses shared memory calls this first, with its three
 * arguments. 1: the signal interrupted a call of this library that does not sleep. The handler must
 * return at once; the signal is delivered again when the thread leaves the call or sleeps in it. 0:
 * the handler may continue, or the signal cannot be queued (RLIMIT_SIGPENDING). Does not block. */
DSM_API int dsm_signal_defer(int sig, void *info, void *context);
/* Report sig if it ends this process by its default action: print the rank and thread, take that
 * action (with a core file), and end the job with 128 + sig. Any time; for SIGSEGV and SIGBUS,
 * before dsm_init(). Does not block. -EBUSY: its action is not the default. -EINVAL: not a signal,
 * or it cannot be caught. */
DSM_API int dsm_signal_report(int sig);

/* Install a handler for accesses outside of libdsm's memory that raise SIGSEGV. fn runs in the
 * thread that made the access. It returns 1 to repeat the access, 0 to let the signal take its
 * course. inside 1: the access was made in a call of this library; fn must not access shared memory
 * or call this library. inside 0: fn may do both, and block. Call it once, after dsm_init(). */
DSM_API void dsm_fault_hook(int (*fn)(void *addr, int write, int inside));

/* ---- hints --------------------------------------------------------------------------------- */

enum dsm_access { DSM_NO_ACCESS = 0, DSM_READ = 1, DSM_WRITE = 2 };

/* Ranges are widened to whole blocks. -EFAULT: empty, or not in one attached region or the heap.
 * -EINVAL: no access. */
DSM_API int dsm_prefetch(const void *addr, size_t size, enum dsm_access access); /* start to fetch; does not block */
DSM_API int dsm_acquire(const void *addr, size_t size, enum dsm_access access);  /* fetch; blocks until all is here */
DSM_API int dsm_release(const void *addr, size_t size);   /* send newest copies home; blocks if 128 are in flight */
/* Fetch the range and keep it until dsm_unpin(): no other node gets a conflicting copy, so the
 * range may be passed to system calls. Blocks. Pins belong to the rank, and nest. Pin all memory
 * that is needed together in one call, and pin memory that will be written with DSM_WRITE: nodes
 * that nest pins of conflicting ranges deadlock.
 * -EAGAIN: a block has 255 pins of this kind. -ENOMEM: no memory to record the pin. */
DSM_API int dsm_pin(const void *addr, size_t size, enum dsm_access access);
DSM_API int dsm_unpin(const void *addr, size_t size);     /* remove the latest pin of this range. -EINVAL: none */
/* Return how many of the size bytes at addr the kernel may be unable to access without dsm_pin();
 * otherwise 0. addr NULL: return size if such memory exists. May be called at any time, also on a
 * shared stack. */
DSM_API size_t dsm_needs_pin(const void *addr, size_t size);
/* Make the node of rank the permanent home of the blocks; touched blocks move there. Blocks, for at
 * most 2 s per block. -EINVAL: no such rank. -EBUSY: some blocks stayed pinned or in use (the
 * others are placed), or this process has pinned part of the range (none is placed). -ENXIO: no
 * rank of that node is attached, so touched blocks stay. */
DSM_API int dsm_place(const void *addr, size_t size, int rank);
/* Limit the access of this process to the whole pages (4 KiB) of the range, as mprotect(2) limits
 * that to private memory: any other access raises SIGSEGV. access: DSM_READ, or DSM_NO_ACCESS, or
 * DSM_READ | DSM_WRITE for no limit. What other ranks may do, and where blocks are, does not
 * change. Lift the limit before the memory is freed. Does not block. Returns 1 if the limit of a
 * page has changed, otherwise 0. -EINVAL: not whole pages, or no such access. -EBUSY: the guard
 * page of a stack is among them. -ENOTSUP: the kernel helper. -ENOMEM: too many mappings
 * (vm.max_map_count); pages of the range may have no limit. */
DSM_API int dsm_guard(void *addr, size_t size, enum dsm_access access);
/* Return what dsm_guard() allows for the page of addr. Any thread; does not block. */
DSM_API enum dsm_access dsm_guard_get(const void *addr);
DSM_API int dsm_bind_thread(int node);                    /* run this thread on a NUMA node; -1: on any. -EINVAL */
/* Prefer a NUMA node for new frames of the range. -EINVAL: no such NUMA node. -EOPNOTSUPP: dsm.ko
 * has the frames. */
DSM_API int dsm_bind_memory(void *addr, size_t size, int node);

/* ---- statistics ---------------------------------------------------------------------------- */

enum dsm_latency { DSM_LAT_READ_MISS = 0, DSM_LAT_WRITE_MISS, DSM_LAT_UPGRADE, DSM_LAT_LOCK, DSM_LAT_BARRIER,
		   DSM_LAT_ATOMIC, DSM_LAT_MAX };
#define DSM_LAT_BUCKETS 40  /* bucket i counts waits of [2^i, 2^(i+1)) ns */

struct dsm_stats {
	uint64_t read_faults, write_faults, upgrades;  /* faults that requested a block */
	uint64_t local_faults;                         /* first touches among these and prefetched: no contents moved */
	uint64_t prefetched;                           /* blocks requested before use */
	uint64_t invalidations;                        /* copies that the node lost, counted by the closing rank */
	uint64_t downgrades;                           /* write permissions that the node lost while it kept a copy */
	uint64_t blocks_in, blocks_out, bytes_in, bytes_out; /* block data */
	uint64_t messages_out, messages_in;            /* through the transport */
	uint64_t steps;                                /* protocol steps run by this rank's threads */
	uint64_t locks, lock_waits, barriers, atomics;
	uint64_t allocations, frees, remote_frees;
	uint64_t latency_count[DSM_LAT_MAX], latency_sum_ns[DSM_LAT_MAX], latency_max_ns[DSM_LAT_MAX];
	uint64_t latency[DSM_LAT_MAX][DSM_LAT_BUCKETS];
	uint64_t homes_in;                             /* touched blocks whose home moved to this node */
	uint64_t populated;                            /* 64 KiB chunks touched on the node, mapped ahead */
	uint64_t repeated_faults;                      /* faults on blocks that the node lost since its last acquire */
	uint64_t protect_calls;                        /* calls that closed copies; one per run of blocks */
	uint64_t pushed;                               /* blocks returned to their homes at barriers (DSM_PUSH) */
	uint64_t closes, flushes, flushed_bytes;       /* release blocks: closes, diffs sent: messages and bytes */
	uint64_t notices, drops, refetches;            /* notices received, copies dropped, and fetched again later */
	uint64_t twins, twins_most;                    /* of the node, counted at its first rank: now, and at most */
	uint64_t evicted_clean, evicted_owned;         /* DSM_MEMORY: copies and freed memory dropped, and blocks that their homes were to take */
	uint64_t evict_short;                          /* DSM_MEMORY: looks that found nothing to give up */
	uint64_t empty_invalidations;                  /* for copies that the node had dropped */
	uint64_t told;                                 /* changes of release blocks that came instead of notices */
	uint64_t lent;                                 /* release blocks that this home lent until a close */
	uint64_t locks_kept;                           /* requests for mutexes that were delayed (DSM_QUANTUM_MS) */
};

struct dsm_hot_block {           /* a block that moves often between nodes */
	void *addr;
	size_t size;
	uint64_t transfers;      /* times that write permission changed nodes, counted by the home */
	char name[DSM_NAME_MAX]; /* of the allocation if it has one, otherwise of the region */
	void *object;            /* start of the allocation or region that contains the block */
	size_t object_size;
	char site[128];          /* "file:line" or "function+offset" of the allocation, or empty */
};

/* Read the counters of a rank; -1: the sum over all ranks. region NULL: of the process. Otherwise
 * the fault, block, byte and home counters and the miss latencies of that region. Blocks for a
 * round trip per rank.
 * -EINVAL: no such rank, invalid region, or out is NULL. */
DSM_API int dsm_stats_get(int rank, const dsm_region_t *region, struct dsm_stats *out);
DSM_API int dsm_stats_reset(void);   /* reset this rank, except heap counters and transfers; does not block */
/* Store the most transferred blocks of the job in descending order, at most n and at most 64.
 * Returns their number. Blocks. -EINVAL: out is NULL or n is less than 1. */
DSM_API int dsm_stats_hot(struct dsm_hot_block *out, int n);

#ifdef __cplusplus
}
#endif
#endif
