/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rank.h - a context that has joined a job: the core's state of one node, which the job counts as a rank of the protocol, who
 * waits, and its connections.
 *
 * Contexts of execution. Everything below that is not said to sleep runs with bottom halves off: in softirq, or in a
 * process inside local_bh_disable(). A step of the core holds one stripe; what follows from it (messages, protections,
 * wake-ups) is done after the stripe is dropped. Messages for ranks of this kernel go through a queue of the processor, so
 * that nothing recurses.
 *
 * Lock order: stripe < nothing. slot->wait.lock < the scheduler's. parked_lock < nothing. egress->lock < the driver's. None is
 * held with another.
 *
 * Life: rank_leave() (the last view is closed) sets `dead`, after which messages for the rank are dropped; it waits until no
 * transaction and no softirq is inside. Ranks of this kernel that send here hold a reference to the context.
 */
#ifndef KMOD_RANK_H
#define KMOD_RANK_H

#include <linux/siphash.h>
#include <linux/wait.h>

#include "core/barrier.h"
#include "core/dispatch.h"
#include "core/lock.h"
#include "core/sync.h"
#include "ctx.h"
#include "slot.h"

#define HOLDS DSM_HOLDS_MAX
#define HOLD_CHUNK 128u
#define KEPT (HOLDS / 2)   /* hold records of locks that a rank keeps */
#define KEPT_PLACES HOLDS  /* where such locks are looked for */
#define OBJECTS (1u << 20) /* their table grows by pieces of OBJECT_CHUNK */
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
	struct list_head list; /* of all ranks of this kernel */
	siphash_key_t key;     /* of the job; set once, under ranks_lock and ctx->lock */
	bool keyed;
	u32 job; /* a name of it for people, that does not give the key away */
	u16 me, size;
	struct wire_limits limits; /* of what peers may send */
	u32 hold_us, spin_us;
	u32 readahead;
	struct {
		u32 next, window;
	} streams[STREAMS]; /* sequential readers, as far as their faults tell; races do no harm */
	u32 stream_turn;
	bool dead;
	bool stopped;
	struct mutex stop_lock;
	atomic_t inside; /* threads, transactions, timers and messages for a worker, + 1 while it lives */
	atomic_t later;  /* messages for a worker */
	wait_queue_head_t empty;
	struct state **states;
	spinlock_t stripes[STRIPES];
	struct slot slots[SLOTS];
	/* table.c allocates the chunks, of this table and of those below. The first chunk is `slots`. */
	struct slot *slot_chunks[ALL_SLOTS / SLOT_CHUNK];
	unsigned long slot_used[BITS_TO_LONGS(ALL_SLOTS)];
	wait_queue_head_t slot_free, brief_free;
	struct region **regions;
	u16 *units; /* 2 MiB of the window -> region + 1 */
	struct mutex region_lock;
	struct queue_entry **nodes; /* of blocks */
	struct queue_entry **lines; /* of synchronisation objects */
	struct hold *holds[HOLDS / HOLD_CHUNK];
	unsigned long hold_used[BITS_TO_LONGS(HOLDS)];
	u16 kept_at[KEPT_PLACES]; /* by hash of a lock's name: the record it was last in, + 1 */
	atomic_t kept_hand;       /* where sync.c looks next for one to give back */
	struct sync **objects;    /* pieces, made on demand */
	struct object_list object_list;
	struct bar **bars;
	wait_queue_head_t bar_wait;
	spinlock_t parked_lock;
	struct list_head parked; /* calls whose threads run signal handlers; park.c */
	struct delayed_work parked_check;
	struct conn *conn;  /* NULL: no RDMA */
	struct rank **here; /* ranks of this kernel, by number */
	u64 messages_in, messages_out, steps;
	long charged; /* for all these tables, and the connections */
	/* peers that are gone */
	spinlock_t lost_lock;
	s16 lost[DSM_RANKS_MAX];
	int err; /* why this rank cannot go on */
	unsigned int lost_n;
	DECLARE_BITMAP(gone, DSM_RANKS_MAX); /* peers that nothing is taken from any more */
	wait_queue_head_t lost_wait;
	struct dsm_ioc_stats none; /* counts for pages of no region */
#ifdef DSM_INJECT
	struct inject *inject; /* inject.c; NULL: nobody has */
#endif
};

extern struct mutex ranks_lock; /* outside stop_lock and cq.c's list of devices; inside ctx->lock */
extern struct list_head ranks;  /* of this kernel */
/* Calls of the device; `in` is the module's copy of the argument, which check.c has found to be as it may be. */
long rank_join(struct view *v, void *in, void __user *arg);
long rank_stats(struct view *v, void *in, void __user *arg);
long rank_hot(struct view *v, void *in, void __user *arg);
long rank_lost(struct view *v, void *in, void __user *arg);
long rank_queues(struct view *v, void *in, void __user *arg);
void rank_stop(struct rank *r);  /* nothing of it is under way any more, its device is free; sleeps, may be repeated */
void rank_leave(struct rank *r); /* sleeps */
void ranks_leave_device(struct ib_device *dev);
void rank_free(struct rank *r); /* sleeps */
void rank_peer_lost(struct rank *r, u16 peer, int err);

static inline bool rank_enter(struct rank *r)
{
	return atomic_inc_not_zero(&r->inside);
}

void rank_exit(struct rank *r);

/* For debugfs. */
int ranks_show(struct seq_file *f, void *unused);
int queues_show(struct seq_file *f, void *unused);

#endif
