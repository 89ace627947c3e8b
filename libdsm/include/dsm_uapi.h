/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * dsm_uapi.h - the interface of /dev/dsm. Layouts are fixed and little endian; addresses are 64-bit
 * integers.
 *
 * An open file is a view: one process and its mapping of a window. The memory behind the window is
 * a context: frames, their protections, and a rank of a job. WINDOW creates a context; the other
 * processes of the node ATTACH to it. The kernel frees the context with its last file, however the
 * processes end.
 */
#ifndef DSM_UAPI_H
#define DSM_UAPI_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* unused fields must be zero; dsm_uapi_rules.h defines the valid values of each field */
#define DSM_UAPI_VERSION 19

#define DSM_FEATURE_PROTECT 1u /* DSM_IOC_PROTECT */

#define DSM_PROTECT_MAX 4096u /* maximum number of items per call */

#define DSM_UNIT_PAGES 512u /* pages of a unit: the window consists of units of 2 MiB */
#define DSM_UNIT (2ull << 20)
#define DSM_ORDER_MAX 9u /* log2 of the pages of the largest block, a unit */
#define DSM_REGIONS_MAX 16384u
#define DSM_READAHEAD_MAX 64u
#define DSM_US_MAX 1000000u
#define DSM_HOLDS_MAX 32768u          /* locks that a rank holds or waits for at a time */
#define DSM_BARRIERS_MAX 65536u       /* created by one rank */
#define DSM_BARRIER_GEN_MAX 0xffffffu /* barriers that use one number, one after the other */
#define DSM_VIEWS_MAX 256u            /* views of a context */

/* A process maps the window by mmap(2) of the file: whole, shared, readable and writable, at offset
 * 0, at the same address in all views. */
struct dsm_ioc_info {
	__u32 version;      /* out: DSM_UAPI_VERSION */
	__u32 features;     /* out: DSM_FEATURE_* */
	__u64 frames;       /* out: pages that the context has allocated */
	__u64 frames_limit; /* out: limit of frames, from RLIMIT_MEMLOCK at open(2); ~0: none */
};

#define DSM_WINDOW_MAX (8ull << 40) /* a block is named by its first page, in 31 bits */

struct dsm_ioc_window {
	__u64 size;     /* in: bytes, a multiple of DSM_UNIT, up to DSM_WINDOW_MAX */
	__u64 reserved; /* in: 0 */
};

#define DSM_FEATURE_ATTACH 8u /* DSM_IOC_ATTACH */

/*
 * Instead of WINDOW: turn this file into another view of a context. The caller must have a file of
 * the context, and belong to the user that created the context (or have CAP_SYS_ADMIN). -EBUSY:
 * this file has a context already. -EBADF: fd is not open.
 * -ENXIO: fd is not a file of a context. -EACCES: the context belongs to another user. -EUSERS: the
 * context has DSM_VIEWS_MAX views.
 */
struct dsm_ioc_attach {
	__s32 fd;       /* in: file of a view */
	__u32 reserved; /* in: 0 */
};

enum dsm_prot { DSM_PROT_NONE = 0, DSM_PROT_READ = 1, DSM_PROT_WRITE = 2 };

struct dsm_prot_item {
	__u32 page; /* in the window */
	/* enum dsm_prot; other than DSM_PROT_NONE: a page without a frame gets a zeroed one */
	__u32 prot;
};

#define DSM_PROTECT_SOFTIRQ 1u /* change the pages in softirq context, as for a message */

struct dsm_ioc_protect {
	__u64 items;    /* in: address of struct dsm_prot_item[count] */
	__u32 count;    /* in: up to DSM_PROTECT_MAX */
	__u32 flags;    /* in: DSM_PROTECT_* */
	__u32 deferred; /* out: items that were finished in process context */
	__u32 flushed;  /* out: processors that flushed translations, including this one */
};

#define DSM_FEATURE_PROTECT_PAGE 16u /* DSM_IOC_PROTECT_PAGE */

/*
 * PROTECT_PAGE is a PROTECT of one item, and costs less. The argument of ioctl(2) is the item
 * itself, not its address. -ENOTTY: a 32-bit process calls; an argument of 32 bits has no room for
 * an item.
 */
static inline __u64 dsm_page_item(__u32 page, __u32 prot)
{
	return page | (__u64)prot << 32; /* struct dsm_prot_item, little endian */
}

/* ---- the protocol ---------------------------------------------------------------------------
 *
 * A context joins a job as one of its ranks, before its window is mapped. JOIN returns the address
 * of the rank, which the launcher passes to all other ranks. CONNECT takes their addresses. From
 * then on the module resolves faults on the window. / */
#define DSM_FEATURE_RANK 2u /* JOIN and the calls that follow it */

#define DSM_ADDRESS_MAX 4096u
#define DSM_RANKS_MAX 64u

enum dsm_mode { DSM_MODE_SOFTIRQ = 0, DSM_MODE_WORKQUEUE = 1, DSM_MODE_POLL = 2 };

/* Values of `cpus` in JOIN that do not name a processor. */
/* vector n: the n-th processor, beginning with the NUMA node of the device */
#define DSM_CPU_OF_VECTOR -1
#define DSM_CPU_ANY -2 /* the processor on which the driver calls */

struct dsm_ioc_join {
	__u16 rank, size; /* in */
	__u16 mode;       /* in: enum dsm_mode: context that handles completions */
	__u16 readahead;  /* in: maximum number of blocks fetched ahead of a sequential reader */
	__u32 hold_us;    /* in: minimum time that the rank keeps a granted block */
	__u32 spin_us;    /* in: time that a fault polls before it sleeps */
	/* in: RDMA device; "": the first with an active port; "none": all ranks are on this host */
	char device[32];
	__s32 gid;          /* in: index; -1: the best */
	__u32 address_size; /* in: bytes of the buffer; out: bytes stored */
	__u64 address;      /* in: address of the buffer for the address of the rank */
	__s16 vectors[4];   /* in: completion vector of each class; -1: the first, not steered */
	/* in: processor of each class in softirq mode, if the device ignores vectors; or
	 * DSM_CPU_* */
	__s16 cpus[4];
};

/*
 * Set the secret that the ranks of a job share: 128 random bits, not all 0. Once, after JOIN and
 * before CONNECT. -EEXIST: another context of this kernel is this rank of this job. -EBUSY: the
 * context has a key.
 */
struct dsm_ioc_key {
	__u8 key[16]; /* in */
};

/*
 * Connect to a rank. Both ranks must have the same key. -ENOKEY: KEY was not called. -EEXIST:
 * already connected. With DSM_CONNECT_HERE: -ENOENT: this kernel has no such rank with this key.
 * -EACCES: the rank belongs to another user.
 */
#define DSM_CONNECT_HERE 1u /* the context of the rank is in this kernel: no RDMA */

struct dsm_ioc_connect {
	__u16 rank;         /* in */
	__u16 flags;        /* in: DSM_CONNECT_* */
	__u32 address_size; /* in */
	__u64 address;      /* in: address of the bytes that JOIN returned to the rank */
};

/* The address of a rank: this struct, then a struct dsm_address_qp for each rank of the job and
 * each of the four classes. */
struct dsm_address {
	__u32 magic, version; /* DSM_ADDRESS_MAGIC, DSM_UAPI_VERSION */
	__u16 rank, size;     /* as in JOIN */
	__u16 lid;            /* on InfiniBand; otherwise 0 */
	__u8 mtu;             /* enum ib_mtu */
	__u8 global;          /* 1: RoCE, routed by gid; 0: InfiniBand, routed by lid */
	__u8 gid[16];
};

#define DSM_ADDRESS_MAGIC 0x346b6d73u /* "smk4" */
#define DSM_MTU_MIN 1u                /* 256 bytes */
#define DSM_MTU_MAX 5u                /* 4,096 bytes */
#define DSM_LID_MAX 0xbfffu           /* maximum unicast LID */
#define DSM_QPN_MIN 2u                /* lower numbers are the special queue pairs of a port */
#define DSM_QPN_MAX 0xffffffu

struct dsm_address_qp {
	__u32 qpn; /* queue pair for this rank and class; 0 for the rank itself */
};

#define DSM_PARTS_MAX 1024u

/* Add a region that the process of this view may access, or remove it. The first view to add a
 * region adds it to the context; the last to remove it removes it. -EEXIST: the region overlaps
 * another, or another view described it differently. -ENOENT: this view has not added it. */
enum dsm_region_op { DSM_REGION_ADD = 0, DSM_REGION_REMOVE = 1 };
enum dsm_region_home {
	DSM_REGION_FIRST_TOUCH = 0,
	DSM_REGION_CYCLIC = 1,
	DSM_REGION_FIXED = 2,
	DSM_REGION_PARTS = 3
};

/* Priority of the blocks of a region that are sent to other hosts; see enum dsm_priority
 * (dsm.h). */
enum dsm_region_priority {
	DSM_REGION_NORMAL = 0,
	DSM_REGION_LOW = 1,
	DSM_REGION_HIGH = 2,
	DSM_REGION_URGENT = 3
};
#define DSM_REGION_PRIORITIES 4u

struct dsm_ioc_region {
	__u32 op; /* in: enum dsm_region_op */
	/* in: range; page is a multiple of 512; the rest of the last block is inaccessible */
	__u32 page, pages;
	__u16 id;    /* in: less than DSM_REGIONS_MAX */
	__u16 order; /* in: log2 of the pages of a block, up to 9 */
	__u32 home;  /* in: enum dsm_region_home */
	/* in: FIXED: the rank; PARTS, CYCLIC: pages of a part (CYCLIC: 0 is a block); otherwise
	 * 0 */
	__u32 arg;
	/* in: PARTS: number of parts, which repeat; 0: one per rank, in order; otherwise 0 */
	__u32 parts;
	__u32 priority; /* in: enum dsm_region_priority */
	__u64 owners;   /* in: PARTS: address of struct dsm_owner[parts] */
};

/* The home of the untouched blocks of a part. */
struct dsm_owner {
	__u16 rank;
};

/* Values of enum sync_op and enum sync_kind (core/sync.h), and of enum dsm_op | enum dsm_type << 4
 * (dsm.h). */
#define DSM_SYNC_CREATE 0u
#define DSM_SYNC_CAS 19u           /* value2: the new value */
#define DSM_SYNC_WAITS 0x10090cull /* bit mask of the operations that may wait in a queue */
/* bit mask of the other operations; only the module sends CANCEL */
#define DSM_SYNC_ONCE 0x7b6f2ull
#define DSM_OBJECT_INDEX 0xffffffu /* index in the name of an object, from 1 */
#define DSM_SYNC_KIND_SEM 4u       /* this kind and those above are created with a value */
#define DSM_SYNC_KIND_MAX 5u
#define DSM_REDUCE_OPS 0x7f007full

/* A request of the synchronisation protocol and its answer. The fields are those of a message
 * (core/wire.h). */
enum dsm_call_op {
	DSM_CALL_SYNC = 0, /* op: enum sync_op; ns: cancel after this time; hold: DSM_SYNC_POINT */
	DSM_CALL_LOCK,     /* hold: out; ns: -ETIMEDOUT after this time */
	DSM_CALL_TRYLOCK,  /* hold: out */
	DSM_CALL_UNLOCK,   /* hold: in */
	/* Arrive at a barrier. value2: mask of ranks; threads: number of the barrier; op: enum
	 * dsm_op | enum dsm_type << 4; hold: DSM_BARRIER_*. threads 0: do not arrive; -EBUSY:
	 * threads of this rank wait. -EINVAL: this rank knows a later generation of the barrier. A
	 * waiting thread gets -EINVAL when the rank learns of a later generation, or 0 if the rank
	 * learns of two more before the thread runs. */
	DSM_CALL_BARRIER,
	/* Take back a SYNC of this thread with DSM_SYNC_POINT that has not ended. value: address of
	 * its argument. It ends with status -ETIMEDOUT, unless its answer came first. -ENOENT:
	 * there is no such call. */
	DSM_CALL_CANCEL,
	DSM_CALLS
};

/* Flag for a SYNC that may wait in a cancellable thread. Instead of sleeping, the first call
 * returns -EINPROGRESS. The thread repeats the call, which continues the request, or makes
 * CANCEL. */
#define DSM_SYNC_POINT 1u

#define DSM_BARRIER_ALL 1u    /* this thread arrives for all threads of the rank */
#define DSM_BARRIER_DIFFER 2u /* the threads passed different numbers: -EINVAL for all ranks */

struct dsm_ioc_call {
	__u16 call;          /* in: enum dsm_call_op */
	__u16 home;          /* in: rank that is the home of the object */
	__u32 object;        /* in */
	__u64 value, value2; /* in */
	__u64 ns;            /* in: time limit of LOCK, or of a SYNC that may wait; 0: none */
	/* in: SYNC of a condition: 1 + hold of the mutex to release when queued */
	__u64 mutex;
	__u64 result;  /* out */
	__s32 status;  /* out: 0 or -errno from the home of the object */
	__u32 threads; /* in */
	__u16 hold;    /* in, out */
	__u8 op;       /* in */
	__u8 waited;   /* out: 1: the thread waited for the answer */
	/* in: generation without the 8 bits in `object`, below 65536; BARRIER: all 24 bits */
	__u32 gen;
};

/*
 * ECHO measures the minimum cost of a miss: a message to the home of the block on another host,
 * which writes the frame of the block as it is into the frame of this rank. -EBUSY: this rank has
 * the block or requests it. It must not request the block during the call, so disable read-ahead.
 */
enum dsm_range_op {
	DSM_RANGE_PREFETCH = 0, /* start to fetch */
	DSM_RANGE_ACQUIRE,      /* fetch and wait */
	DSM_RANGE_RELEASE,      /* send newest copies to their homes, keep read copies */
	DSM_RANGE_EVICT,        /* send newest copies to their homes, do not keep them */
	DSM_RANGE_PIN,          /* pin all blocks or none. -EAGAIN: too many pins on a block */
	DSM_RANGE_UNPIN,
	DSM_RANGE_PLACE, /* -EBUSY: a touched block is moving to its new home; call again */
	DSM_RANGE_LEAVE, /* EVICT, drop read copies, and wait. -EBUSY: a block is pinned */
	DSM_RANGE_ECHO,
	DSM_RANGE_QUIET,  /* -EAGAIN: requests for the range are pending */
	DSM_RANGE_FORGET, /* free frames and state */
	DSM_RANGES
};

/* Flags of PIN. */
#define DSM_PIN_WRITE 1u
/* the thread has no pins: if another rank waits for the first block, wait 10 ms for other threads'
 * pins */
#define DSM_PIN_TURNS 2u

struct dsm_ioc_range {
	__u32 op; /* in: enum dsm_range_op */
	/* in: whole blocks of one region (QUIET, FORGET: whole units of the window) */
	__u32 page, pages;
	/* in: PREFETCH, ACQUIRE, UNPIN: 1 for writing; PIN: DSM_PIN_*; PLACE: the rank; otherwise
	 * 0 */
	__u32 write;
};

#define DSM_BUCKETS 40u
#define DSM_STATS_RESET 1u /* read the counters and set them to zero */
#define DSM_STATS_RANK 0xffffu

/* Counters of a region, or of the rank (region DSM_STATS_RANK; only the last row). */
struct dsm_ioc_stats {
	__u32 region; /* in */
	__u32 flags;  /* in: DSM_STATS_* */
	/* out, like all that follow */
	__u64 read_faults, write_faults, upgrades, local_faults, prefetched;
	__u64 invalidations, downgrades, blocks_in, blocks_out, bytes_in, bytes_out, homes_in;
	/* ns; read, write, upgrade */
	__u64 latency_count[3], latency_sum[3], latency_max[3], latency[3][DSM_BUCKETS];
	__u64 messages_in, messages_out, steps;
};

/*
 * Count the transfers of write permission between ranks, for blocks whose home is this rank. Finds
 * the first unit of the window, from `page` on, in which a block has changed ranks. The count of a
 * block is at its first page. FORGET resets the counts.
 * -ENOENT: there is no such unit.
 */
struct dsm_ioc_hot {
	__u32 page;      /* in: start of the search; out: first page of the unit found */
	__u32 reserved;  /* in: 0 */
	__u64 transfers; /* in: address of __u32[DSM_UNIT_PAGES]: one count per page, modulo 2^32 */
};

struct dsm_ioc_lost {
	__s32 rank; /* out: a lost peer; -1: none. Reported once to each view; poll(2) reports it */
	__s32 err;  /* out: -errno */
};

#define DSM_FEATURE_QUEUES 4u /* DSM_IOC_QUEUES */

/* Counters of the completion queue of a protocol class. */
struct dsm_ioc_queue {
	__s32 vector; /* vector of the queue */
	__s32 cpu;    /* processor to which its handler is steered; -1: none */
	__u64 events; /* calls from the driver */
	/* completions handled in softirq, in ksoftirqd, in a process */
	__u64 softirq, ksoftirqd, process;
	__u64 sent, received; /* messages and blocks */
};

struct dsm_ioc_queues {  /* all fields: out */
	char device[32]; /* "": no device */
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
#define DSM_IOC_PROTECT_PAGE _IO(DSM_IOC_MAGIC, 14) /* by value: struct dsm_prot_item */

#endif
