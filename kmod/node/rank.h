/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rank.h - a rank: a context that has joined a job. It has the core's state of one node (one rank
 * of the protocol), the requests that wait, and the connections.
 *
 * Contexts of execution. Code that is not documented to sleep runs with bottom halves off: in
 * softirq, or in a process inside local_bh_disable(). A step of the core holds one stripe. Its
 * actions (messages, protections, wake-ups) are carried out after the stripe is dropped. Messages
 * for ranks of this kernel go through a per-CPU queue, which avoids recursion.
 *
 * Lock order: no lock is taken inside a stripe or parked_lock; the scheduler's locks nest inside
 * slot->wait.lock, the driver's inside egress->lock. No two of these four are held together.
 *
 * Life: rank_leave() runs when the last view is closed. It sets `dead`, after which messages for
 * the rank are dropped, and waits until no transaction and no softirq is inside. Ranks of this
 * kernel that send to this rank hold a reference to its context.
 */
#ifndef KMOD_RANK_H
#define KMOD_RANK_H

#include <linux/siphash.h>
#include <linux/wait.h>

#include "core/host.h"
#include "../base/ctx.h"
#include "slot.h"

#define HOLDS DSM_HOLDS_MAX
#define HOLD_CHUNK 128u
#define CACHED (HOLDS / 2)  /* hold records with cached locks that a rank may have */
#define CACHED_PLACES HOLDS /* entries of the hash table of such locks */
#define OBJECTS (1u << 20)  /* their table grows by OBJECT_CHUNK entries at a time */
#define BARRIERS DSM_BARRIERS_MAX
#define BAR_CHUNK 16u
#define REGIONS DSM_REGIONS_MAX
#define STRIPES 1024u
#define STREAMS 8u

struct conn;
struct ib_device;
struct region;
struct seq_file;
struct state;

struct rank {
	struct ctx *ctx;
	struct list_head list; /* in `ranks` */
	siphash_key_t key;     /* of the job; set once, under ranks_lock and ctx->lock */
	bool keyed;
	u32 job; /* identifier of the job in logs; does not reveal the key */
	u16 me, size;
	struct core_host core;     /* the rank as a host of the core; host_rank() */
	struct wire_limits limits; /* on messages from peers */
	u32 spin_us;
	u32 readahead;
	struct {
		u32 next, window;
	} streams[STREAMS]; /* sequential readers, detected by their faults; races are harmless */
	u32 stream_turn;
	/* never dereferenced; NULL: no RDMA. Set before the rank is on the list */
	const struct ib_device *device;
	bool losing; /* its device is removed; under ranks_lock */
	bool dead;
	bool stopped;
	struct mutex stop_lock;
	/* threads, transactions, timers and messages for a worker; + 1 until rank_stop() */
	atomic_t inside;
	atomic_t later; /* messages for a worker */
	wait_queue_head_t empty;
	struct state **states;
	spinlock_t stripes[STRIPES];
	struct slot slots[SLOTS];
	/*
	 * table.c allocates the chunks of this table and of the tables below. The first chunk is
	 * `slots`.
	 */
	struct slot *slot_chunks[ALL_SLOTS / SLOT_CHUNK];
	unsigned long slot_used[BITS_TO_LONGS(ALL_SLOTS)];
	wait_queue_head_t slot_free, brief_free;
	struct region **regions;
	u16 *units; /* region + 1 of each 2 MiB of the window */
	struct mutex region_lock;
	u32 added, added_most; /* units in regions, now and at most so far; under region_lock */
	spinlock_t foreign_lock;
	/*
	 * unit outside all regions: the peer + 1 that has given back blocks of it; under
	 * foreign_lock
	 */
	u16 *foreign;
	u32 *foreign_n;             /* how many of them each peer has */
	struct queue_entry **nodes; /* of blocks */
	struct queue_entry **lines; /* of synchronisation objects */
	struct hold *holds[HOLDS / HOLD_CHUNK];
	unsigned long hold_used[BITS_TO_LONGS(HOLDS)];
	u16 cached_at[CACHED_PLACES]; /* by hash of a lock's name: its last hold record + 1 */
	/* the hold record that sync.c checks next for a lock to give back */
	atomic_t cached_hand;
	struct sync **objects; /* pieces, allocated on demand */
	struct object_list object_list;
	struct bar **bars;
	wait_queue_head_t bar_wait;
	spinlock_t parked_lock;
	struct list_head parked; /* calls whose threads run signal handlers; park.c */
	struct delayed_work parked_check;
	struct conn *conn;  /* NULL: no RDMA */
	struct rank **here; /* ranks of the job in this kernel, by number */
	u64 messages_in, messages_out, steps;
	long charged; /* pages, for these tables and the connections */
	/* lost peers */
	spinlock_t lost_lock;
	s16 lost[DSM_RANKS_MAX];
	int err; /* -errno: why this rank cannot continue */
	unsigned int lost_n;
	DECLARE_BITMAP(gone, DSM_RANKS_MAX); /* peers whose messages are dropped */
	wait_queue_head_t lost_wait;
	struct dsm_ioc_stats none; /* counters for pages outside regions */
#ifdef DSM_INJECT
	struct inject *inject; /* inject.c; NULL: not in use */
#endif
};

/* nests inside ctx->lock; stop_lock nests inside it, but only as mutex_trylock() */
extern struct mutex ranks_lock;
extern struct list_head ranks; /* all ranks of this kernel; under ranks_lock */

/*
 * Calls of the device. `in` is the module's copy of the argument, validated by check.c. All sleep.
 * -EFAULT: arg not writable.
 */
/*
 * Make the view's context a rank. -EINVAL: no window; -EBUSY: is a rank, or has frames; -EUSERS,
 * -EDQUOT; as conn_open(). -EFAULT: it is a rank, but the answer could not be written.
 */
long rank_join(struct view *v, void *in, void __user *arg);
/*
 * Copy, and on request reset, the counters of a region or of the rank. -ENOENT: no such region;
 * -ENOMEM
 */
long rank_stats(struct view *v, void *in, void __user *arg);
/*
 * Copy the transfer counts of the first 2 MiB, from `page` on, that have any. -ENOENT: there are
 * none; -EINTR: killed; -ENOMEM
 */
long rank_hot(struct view *v, void *in, void __user *arg);
/*
 * Return the next lost rank that this view has not been told of, and its -errno; rank -1: there is
 * none.
 */
long rank_lost(struct view *v, void *in, void __user *arg);
/* Return the rank's completion queues; zeros without RDMA. -EINTR: killed */
long rank_queues(struct view *v, void *in, void __user *arg);

/*
 * Set `dead`, wake all threads, wait until none is inside, and close the connections. Sleeps; takes
 * stop_lock; idempotent.
 */
void rank_stop(struct rank *r);
/*
 * Unlink the rank, stop it, and put its references to the other contexts of the job. Sleeps; takes
 * ranks_lock.
 */
void rank_leave(struct rank *r);
/*
 * A device was removed: stop its ranks and mark each as lost (-ENODEV). Sleeps; takes ranks_lock;
 * not inside rank_enter().
 */
void ranks_leave_device(struct ib_device *dev);
/* Free a rank and its tables, after rank_leave(). Sleeps. */
void rank_free(struct rank *r);
/*
 * Report a lost peer to all views, and drop its later messages. peer == r->me: err is why r cannot
 * continue. Any context.
 */
void rank_peer_lost(struct rank *r, u16 peer, int err);

/* Make rank_stop() wait until rank_exit(). False: the rank has stopped. Any context. */
static inline bool rank_enter(struct rank *r)
{
	return atomic_inc_not_zero(&r->inside);
}

/* Undo rank_enter(). The last caller wakes rank_stop(). Any context. */
void rank_exit(struct rank *r);

/*
 * For debugfs: the pending requests of each rank, and its completion queues. Both sleep, and take
 * ranks_lock.
 */
int ranks_show(struct seq_file *f, void *unused);
int queues_show(struct seq_file *f, void *unused);

#endif
