/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * dsm_uapi.h - what /dev/dsm understands. Fixed layouts, little endian, no pointers but as 64-bit integers.
 *
 * One open file is one view: a process and its mapping of a window. The memory behind the window is a context: frames, their
 * protections, and a rank of a job. WINDOW creates a context; the other processes of a node ATTACH to it. It is freed with the
 * last of its files, however their processes end.
 */
#ifndef DSM_UAPI_H
#define DSM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define DSM_UAPI_VERSION 16 /* fields that are not used are zero: dsm_uapi_rules.h says what each may be */

#define DSM_FEATURE_PROTECT 1u /* DSM_IOC_PROTECT */

#define DSM_PROTECT_MAX 4096u /* items of one call */

#define DSM_UNIT_PAGES 512u /* the window is made of units of 2 MiB */
#define DSM_UNIT (2ull << 20)
#define DSM_ORDER_MAX 9u /* a block is at most a unit */
#define DSM_REGIONS_MAX 16384u
#define DSM_READAHEAD_MAX 64u
#define DSM_US_MAX 1000000u
#define DSM_HOLDS_MAX 32768u          /* locks that a rank holds or awaits at once */
#define DSM_BARRIERS_MAX 65536u       /* made by one rank */
#define DSM_BARRIER_GEN_MAX 0xffffffu /* of one number, one after the other */
#define DSM_VIEWS_MAX 256u            /* of a context */

/* The window is mapped by mmap(2) of the file: whole, shared, readable and writable, at offset 0, at one address in all views. */
struct dsm_ioc_info {
	__u32 version;      /* out: DSM_UAPI_VERSION */
	__u32 features;     /* out: DSM_FEATURE_* */
	__u64 frames;       /* out: pages this context has allocated */
	__u64 frames_limit; /* out: of them, by RLIMIT_MEMLOCK when the file was opened; ~0: none */
};

#define DSM_WINDOW_MAX (8ull << 40) /* the name of a block has 31 bits for its first page */

struct dsm_ioc_window {
	__u64 size;     /* in: bytes, a multiple of DSM_UNIT, up to DSM_WINDOW_MAX */
	__u64 reserved; /* in: 0 */
};

#define DSM_FEATURE_ATTACH 8u /* DSM_IOC_ATTACH */

/*
 * Instead of WINDOW: this file becomes another view of a context. The caller must have a file of the context, and be of the same
 * user as its maker (or have CAP_SYS_ADMIN). -EBUSY: it has a context; -EBADF; -ENXIO: no file of a context; -EACCES: another user's; -EUSERS: the
 * context has DSM_VIEWS_MAX.
 */
struct dsm_ioc_attach {
	__s32 fd;       /* in: of a view */
	__u32 reserved; /* in: 0 */
};

enum dsm_prot { DSM_PROT_NONE = 0, DSM_PROT_READ = 1, DSM_PROT_WRITE = 2 };

struct dsm_prot_item {
	__u32 page; /* of the window */
	__u32 prot; /* enum dsm_prot; other than none: a page without a frame gets a zeroed one */
};

#define DSM_PROTECT_SOFTIRQ 1u /* change them in softirq context, as for a message */

struct dsm_ioc_protect {
	__u64 items;    /* in: address of struct dsm_prot_item[count] */
	__u32 count;    /* in: up to DSM_PROTECT_MAX */
	__u32 flags;    /* in: DSM_PROTECT_* */
	__u32 deferred; /* out: items that had to be finished in process context */
	__u32 flushed;  /* out: processors that were asked to forget translations, the caller's own included */
};

/* ---- the protocol ---------------------------------------------------------------------------
 *
 * A context joins a job as one of its ranks, before its window is mapped; the address that JOIN returns goes to all other
 * ranks by whatever launched them, and theirs come back by CONNECT. From then on faults on the window are resolved here.
 */
#define DSM_FEATURE_RANK 2u /* JOIN and what follows it */

#define DSM_ADDRESS_MAX 4096u
#define DSM_RANKS_MAX 64u

enum dsm_mode { DSM_MODE_SOFTIRQ = 0, DSM_MODE_WORKQUEUE = 1, DSM_MODE_POLL = 2 };

/* Instead of a processor in JOIN's `cpus`. */
#define DSM_CPU_OF_VECTOR -1 /* the n-th for vector n, of those of the device's NUMA node first */
#define DSM_CPU_ANY -2       /* wherever the driver calls */

struct dsm_ioc_join {
	__u16 rank, size;   /* in */
	__u16 mode;         /* in: enum dsm_mode: where completions are handled */
	__u16 readahead;    /* in: most blocks that are fetched ahead of a sequential reader, up to 64 */
	__u32 hold_us;      /* in: a granted block stays at least so long */
	__u32 spin_us;      /* in: a fault polls so long before it sleeps */
	char device[32];    /* in: RDMA device, "": the first with an active port; "none": all ranks are on this host */
	__s32 gid;          /* in: index, or -1: the best */
	__u32 address_size; /* in: room; out: bytes */
	__u64 address;      /* in: where to put it */
	__s16 vectors[4];   /* in: completion vector of each class; -1: the first, without steering */
	__s16 cpus[4]; /* in: for softirq where the device ignores vectors: the processor of each class, or DSM_CPU_* */
};

/*
 * A secret of the ranks of a job: 128 random bits, not all 0. Once, after JOIN and before CONNECT. -EEXIST:
 * another context is this rank of this job; -EBUSY: has a key.
 */
struct dsm_ioc_key {
	__u8 key[16]; /* in */
};

/*
 * Ranks connect only where both have the same key. Of this kernel: -ENOENT, no such rank with this key; -EACCES, another user's.
 * Before KEY: -ENOKEY.
 */
#define DSM_CONNECT_HERE 1u /* the rank's context is in this kernel: no RDMA to it */

struct dsm_ioc_connect {
	__u16 rank;         /* in */
	__u16 flags;        /* in: DSM_CONNECT_* */
	__u32 address_size; /* in */
	__u64 address;      /* in: of the bytes that the rank's JOIN returned */
};

/* A rank's address: this, and a struct dsm_address_qp for each rank of the job and each of its four classes, in this order. */
struct dsm_address {
	__u32 magic, version; /* DSM_ADDRESS_MAGIC, DSM_UAPI_VERSION */
	__u16 rank, size;     /* as in JOIN */
	__u16 lid;            /* InfiniBand; else 0 */
	__u8 mtu;             /* enum ib_mtu */
	__u8 global;          /* 1: RoCE, packets are routed by `gid`; 0: InfiniBand, by `lid` */
	__u8 gid[16];
};

#define DSM_ADDRESS_MAGIC 0x346b6d73u /* "smk4" */
#define DSM_MTU_MIN 1u                /* 256 bytes */
#define DSM_MTU_MAX 5u                /* 4,096 bytes */
#define DSM_LID_MAX 0xbfffu           /* of one port; those above are multicast */
#define DSM_QPN_MIN 2u                /* below are a port's special queue pairs */
#define DSM_QPN_MAX 0xffffffu

struct dsm_address_qp {
	__u32 qpn; /* of the queue pair that is for this rank and class; the rank itself: 0 */
};

#define DSM_PARTS_MAX 1024u

/* Each view adds the regions that its process may touch, and removes them; the first adds them to the context, and all name
 * them alike (-EEXIST). The last to remove one removes it from the context. -ENOENT: this view has not added it. */
enum dsm_region_op { DSM_REGION_ADD = 0, DSM_REGION_REMOVE = 1 };
enum dsm_region_home { DSM_REGION_FIRST_TOUCH = 0, DSM_REGION_CYCLIC = 1, DSM_REGION_FIXED = 2, DSM_REGION_PARTS = 3 };

/* Of the blocks of a region that are sent to other hosts, as enum dsm_priority (dsm.h). */
enum dsm_region_priority { DSM_REGION_NORMAL = 0, DSM_REGION_LOW = 1, DSM_REGION_HIGH = 2, DSM_REGION_URGENT = 3 };
#define DSM_REGION_PRIORITIES 4u

struct dsm_ioc_region {
	__u32 op; /* in: enum dsm_region_op */
	__u32 page,
		pages; /* in: of the window; page a multiple of 512; what the last block has beyond them is not accessible */
	__u16 id;      /* in: below DSM_REGIONS_MAX */
	__u16 order;    /* in: log2 of a block's pages, up to 9 */
	__u32 home;     /* in: enum dsm_region_home */
	__u32 arg;      /* in: FIXED: the rank; PARTS: pages of each part; else 0 */
	__u32 parts;    /* in: PARTS: how many, which take turns; 0: one for each rank, in order; else 0 */
	__u32 priority; /* in: enum dsm_region_priority */
	__u64 owners;   /* in: PARTS: address of struct dsm_owner[parts] */
};

/* Of a part: the rank that is the home of its blocks until they are touched. */
struct dsm_owner {
	__u16 rank;
};

/* What the module knows of enum sync_op and enum sync_kind (core/sync.h), and of enum dsm_op | enum dsm_type << 4 (dsm.h). */
#define DSM_SYNC_CREATE 0u
#define DSM_SYNC_CAS 19u           /* value2: the new value */
#define DSM_SYNC_WAITS 0x90cull    /* a bit for each that may stand in line */
#define DSM_SYNC_ONCE 0x7b6f2ull   /* a bit for each of the others but CANCEL, which is the module's */
#define DSM_OBJECT_INDEX 0xffffffu /* the part of an object's name that is its place, from 1 on */
#define DSM_SYNC_KIND_SEM 4u       /* and above: objects that are made with a value */
#define DSM_SYNC_KIND_MAX 5u
#define DSM_REDUCE_OPS 0x7f007full

/* One request of the synchronisation protocol and its answer; the fields are those of a message (core/wire.h). */
enum dsm_call_op {
	DSM_CALL_SYNC = 0, /* op: enum sync_op; ns: then cancel; hold: DSM_SYNC_POINT */
	DSM_CALL_LOCK,     /* hold: out; ns: then -ETIMEDOUT */
	DSM_CALL_TRYLOCK,  /* hold: out */
	DSM_CALL_UNLOCK,   /* hold: in */
	/* threads 0: only ask, -EBUSY if threads of this rank wait there; value2: mask of ranks; threads; gen: -EINVAL if this rank
	 * knows a later generation of the barrier, also for threads that wait already, when it gets to know it
	 * (0 if it knows two more before such a thread runs);
	 * op: of enum dsm_op | enum dsm_type << 4; hold: DSM_BARRIER_* */
	DSM_CALL_BARRIER,
	/* value: address of the argument of a SYNC with DSM_SYNC_POINT that this thread has made, and that has not ended: it ends
	 * now, with status -ETIMEDOUT unless its answer has come meanwhile. -ENOENT: there is none. */
	DSM_CALL_CANCEL,
	DSM_CALLS
};

/* In SYNC of what may stand in line, by a thread that can be cancelled while it waits. Where the thread would sleep: -EINPROGRESS,
 * once; it then makes the same call again, which goes on with the request, or CANCEL. */
#define DSM_SYNC_POINT 1u

#define DSM_BARRIER_ALL 1u    /* all threads of this rank have come: this one speaks for them */
#define DSM_BARRIER_DIFFER 2u /* they have not named the same number: -EINVAL for all ranks */

struct dsm_ioc_call {
	__u16 call;          /* in: enum dsm_call_op */
	__u16 home;          /* in: rank the object lives at */
	__u32 object;        /* in */
	__u64 value, value2; /* in */
	__u64 ns;            /* in: time limit, 0: none (LOCK; SYNC of what may stand in line) */
	__u64 mutex;         /* in: SYNC of a condition: hold of the mutex to release once in line, + 1 */
	__u64 result;        /* out */
	__s32 status;        /* out: 0 or -errno of the object's home */
	__u32 threads;       /* in */
	__u16 hold;          /* in, out */
	__u8 op;             /* in */
	__u8 waited;         /* out: the answer was not there at once */
	__u32 gen; /* in: the object's generation, without the 8 bits of it that are in `object`; below 65536. BARRIER: all 24 bits of it */
};

/*
 * ECHO measures what a miss costs at the least: a message to the block's home on another host, which writes the block's
 * frame as it is into this rank's frame. -EBUSY: this rank has the block or asks for it, which it may not meanwhile (so: no
 * read-ahead).
 */
enum dsm_range_op {
	DSM_RANGE_PREFETCH = 0,
	DSM_RANGE_ACQUIRE,
	DSM_RANGE_RELEASE,
	DSM_RANGE_EVICT,
	DSM_RANGE_PIN, /* all of it, or nothing */
	DSM_RANGE_UNPIN,
	DSM_RANGE_PLACE, /* -EBUSY: a block has been touched, and is on its way to its new home: call again */
	DSM_RANGE_LEAVE,
	DSM_RANGE_ECHO,
	DSM_RANGE_QUIET,
	DSM_RANGE_FORGET,
	DSM_RANGES
};

/* PIN */
#define DSM_PIN_WRITE 1u
#define DSM_PIN_TURNS \
	2u /* the thread has no pins: while another rank waits for the first block, pins of others end first (10 ms) */

struct dsm_ioc_range {
	__u32 op;          /* in: enum dsm_range_op */
	__u32 page, pages; /* in: whole blocks of one region (QUIET, FORGET: whole 2 MiB of the window) */
	__u32 write; /* in: PREFETCH, ACQUIRE, UNPIN: for writing, 0 or 1; PIN: DSM_PIN_*; PLACE: the rank; else 0 */
};

#define DSM_BUCKETS 40u
#define DSM_STATS_RESET 1u /* read and set to zero */
#define DSM_STATS_RANK 0xffffu

/* Of one region, or of the rank (region DSM_STATS_RANK: only the last part). */
struct dsm_ioc_stats {
	__u32 region;                                                        /* in */
	__u32 flags;                                                         /* in: DSM_STATS_* */
	__u64 read_faults, write_faults, upgrades, local_faults, prefetched; /* out, as all that follow */
	__u64 invalidations, downgrades, blocks_in, blocks_out, bytes_in, bytes_out, homes_in;
	__u64 latency_count[3], latency_sum[3], latency_max[3], latency[3][DSM_BUCKETS]; /* ns; read, write, upgrade */
	__u64 messages_in, messages_out, steps;
};

/*
 * How often the write permission of blocks has changed ranks, as their home has counted, which is this rank: of 2 MiB of the
 * window, by the first page of each block. Forgotten with the range. -ENOENT: no block from `page` on has changed ranks.
 */
struct dsm_ioc_hot {
	__u32 page;      /* in: where to begin; out: first page of the next 2 MiB in which a block has changed ranks */
	__u32 reserved;  /* in: 0 */
	__u64 transfers; /* in: address of __u32[DSM_UNIT_PAGES]: one per page, modulo 2^32 */
};

struct dsm_ioc_lost {
	__s32 rank; /* out: a peer that is gone, -1: none; each view is told of each once. poll(2) says when there is one. */
	__s32 err; /* out */
};

#define DSM_FEATURE_QUEUES 4u /* DSM_IOC_QUEUES */

/* The completion queue of a protocol class: what it handled, and where. */
struct dsm_ioc_queue {
	__s32 vector;                      /* that it was made for */
	__s32 cpu;                         /* that its handler is steered to; -1: none */
	__u64 events;                      /* calls by the driver */
	__u64 softirq, ksoftirqd, process; /* completions */
	__u64 sent, received;              /* messages and blocks */
};

struct dsm_ioc_queues {  /* out, all of it */
	char device[32]; /* "": there is none */
	__u32 mode;      /* enum dsm_mode */
	__u32 reserved;
	struct dsm_ioc_queue of[4]; /* by class: coherence, data, sync, bulk */
};

#ifdef __cplusplus
#define DSM_LAYOUT(type, size) static_assert(sizeof(struct type) == (size), "layout")
#else
#define DSM_LAYOUT(type, size) _Static_assert(sizeof(struct type) == (size), "layout")
#endif
DSM_LAYOUT(dsm_ioc_info, 24);
DSM_LAYOUT(dsm_ioc_window, 16);
DSM_LAYOUT(dsm_ioc_attach, 8);
DSM_LAYOUT(dsm_prot_item, 8);
DSM_LAYOUT(dsm_ioc_protect, 24);
DSM_LAYOUT(dsm_ioc_join, 80);
DSM_LAYOUT(dsm_ioc_key, 16);
DSM_LAYOUT(dsm_ioc_connect, 16);
DSM_LAYOUT(dsm_address, 32);
DSM_LAYOUT(dsm_address_qp, 4);
DSM_LAYOUT(dsm_ioc_region, 40);
DSM_LAYOUT(dsm_owner, 2);
DSM_LAYOUT(dsm_ioc_call, 64);
DSM_LAYOUT(dsm_ioc_range, 16);
DSM_LAYOUT(dsm_ioc_stats, 8 + 12 * 8 + 9 * 8 + 3 * 40 * 8 + 24);
DSM_LAYOUT(dsm_ioc_hot, 16);
DSM_LAYOUT(dsm_ioc_lost, 8);
DSM_LAYOUT(dsm_ioc_queue, 56);
DSM_LAYOUT(dsm_ioc_queues, 40 + 4 * 56);

#define DSM_IOC_MAGIC 0xd5
#define DSM_IOC_INFO _IOR(DSM_IOC_MAGIC, 0, struct dsm_ioc_info)
#define DSM_IOC_WINDOW _IOW(DSM_IOC_MAGIC, 1, struct dsm_ioc_window)
#define DSM_IOC_PROTECT _IOWR(DSM_IOC_MAGIC, 2, struct dsm_ioc_protect)
#define DSM_IOC_JOIN _IOWR(DSM_IOC_MAGIC, 3, struct dsm_ioc_join)
#define DSM_IOC_CONNECT _IOW(DSM_IOC_MAGIC, 4, struct dsm_ioc_connect)
#define DSM_IOC_REGION _IOW(DSM_IOC_MAGIC, 5, struct dsm_ioc_region)
#define DSM_IOC_CALL _IOWR(DSM_IOC_MAGIC, 6, struct dsm_ioc_call)
#define DSM_IOC_RANGE _IOW(DSM_IOC_MAGIC, 7, struct dsm_ioc_range)
#define DSM_IOC_STATS _IOWR(DSM_IOC_MAGIC, 8, struct dsm_ioc_stats)
#define DSM_IOC_LOST _IOR(DSM_IOC_MAGIC, 9, struct dsm_ioc_lost)
#define DSM_IOC_QUEUES _IOR(DSM_IOC_MAGIC, 10, struct dsm_ioc_queues)
#define DSM_IOC_KEY _IOW(DSM_IOC_MAGIC, 11, struct dsm_ioc_key)
#define DSM_IOC_ATTACH _IOW(DSM_IOC_MAGIC, 12, struct dsm_ioc_attach)
#define DSM_IOC_HOT _IOWR(DSM_IOC_MAGIC, 13, struct dsm_ioc_hot)

#endif
