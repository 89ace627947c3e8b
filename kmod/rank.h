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
 * Lock order: stripe < nothing. slot->wait.lock < the scheduler's. parked_lock < nothing. lane->lock < the driver's. None is
 * held with another.
 *
 * Life: rank_leave() (the last view is closed) sets `dead`, after which messages for the rank are dropped; it waits until no
 * transaction and no softirq is inside. Ranks of this kernel that send here hold a reference to the context.
 */
#ifndef KMOD_RANK_H
#define KMOD_RANK_H

#include <linux/hrtimer.h>
#include <linux/log2.h>
#include <linux/siphash.h>
#include <linux/wait.h>

#include "core/barrier.h"
#include "core/dir.h"
#include "core/dispatch.h"
#include "core/lock.h"
#include "core/page.h"
#include "core/sync.h"
#include "dsm.h"

/* Slots: of blocks that threads wait for, of prefetches, of requests that are answered at once, of those that may stand in line. */
#define SYNC_SLOTS 896u
#define AHEAD_SLOTS \
	1008u /* of prefetches; the rest for blocks that are given back, which must not stand behind pinned ones */
#define SLOTS 1024u /* host_imm() has 10 bits */
#define BRIEF_END 2048u
#define ALL_SLOTS 65536u
#define SLOT_CHUNK SLOTS
#define HOLDS DSM_HOLDS_MAX
#define HOLD_CHUNK 128u
#define KEPT (HOLDS / 2)   /* hold records of locks that a rank keeps */
#define KEPT_PLACES HOLDS  /* where such locks are looked for */
#define OBJECTS (1u << 20) /* their table grows by pieces of OBJECT_CHUNK */
#define BARRIERS DSM_BARRIERS_MAX
#define BAR_CHUNK 64u
#define REGIONS DSM_REGIONS_MAX
#define STRIPES 1024u

/* The protocol's state of 2 MiB of the window at this rank. */
struct state {
	struct copy copies[CHUNK_PAGES];
	struct dir dirs[CHUNK_PAGES];
};

#define STATE_CHARGE ((long)(roundup_pow_of_two(sizeof(struct state)) >> PAGE_SHIFT))

/* One request under way. seq counts answers. */
#define STREAMS 8u

struct slot {
	wait_queue_head_t wait;
	u32 seq;
	u32 object;
	u64 value;
	s16 status;
	u8 nobody;                  /* nobody waits: a prefetch, or its thread was killed; the answer frees the slot */
	u8 want;                    /* protection that was asked for */
	u8 echo;                    /* an echo was asked for */
	const struct mm_struct *mm; /* of who asks: a name, nothing else; NULL: a worker */
	u64 ask;                    /* core/ask.h */
};

struct region {
	u32 page, pages; /* of whole blocks */
	u32 usable;      /* pages, from the first; the rest of the last block is nobody's */
	u8 order;
	u8 home; /* enum dsm_region_home */
	u32 arg;
	u32 views;   /* that have added it */
	u32 parts;   /* 0: one for each rank */
	u16 *owners; /* of parts; NULL: each rank's own */
	struct dsm_ioc_stats stats;
};

void region_free(struct region *g); /* NULL: nothing */

/* Of the 2 MiB from start on. */
static inline u32 region_usable(const struct region *g, u32 start)
{
	return g->page + g->usable > start ? min(g->page + g->usable - start, CHUNK_PAGES) : 0;
}

/* A request for synchronisation that is under way: what its thread waits for next. */
enum call_stage {
	STAGE_ANSWER = 0, /* the first answer */
	STAGE_TURN,       /* in line: the turn, until `end` */
	STAGE_CANCEL,     /* taken back: whether the turn has come all the same */
	STAGE_GRANT,      /* then the turn's own answer */
	STAGE_BARRIER
};

struct call {
	struct dsm_ioc_call in, out; /* as it was made; what has come of it */
	struct msg m;
	u64 end; /* 0: none */
	u32 seq; /* answers before it; of a barrier its generation */
	int slot;
	u16 hold;
	u8 stage;      /* enum call_stage */
	bool killable; /* no memory to park it: a signal must wait */
};

/* What a placement asks next: the block's manager, the rank that is to be the home, the home that this names (call.c). */
enum place_stage { PLACE_MANAGER = 0, PLACE_SETTLE, PLACE_CLAIM };

/* A call for a range that is under way. */
struct range_call {
	struct dsm_ioc_range in;
	u32 page, step; /* what is before this page is done; pages of a block */
	int slot;       /* of PLACE and ECHO: the request for the block at `page`; -1: none */
	u32 seq;
	u8 stage;      /* enum place_stage, of the block at `page` */
	u16 home;      /* that PLACE_CLAIM asks */
	u64 turn;      /* PIN: until then the pins of others have their turn; 0: they need not */
	bool killable; /* as above */
};

struct conn;
struct ib_device;

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
	struct slot
		*slot_chunks[ALL_SLOTS / SLOT_CHUNK]; /* the first is slots; table.c, as the next that are in chunks */
	unsigned long slot_used[BITS_TO_LONGS(ALL_SLOTS)];
	wait_queue_head_t slot_free, brief_free;
	struct region **regions;
	u16 *units; /* 2 MiB of the window -> region + 1 */
	struct mutex region_lock;
	struct qnode *nodes;  /* of blocks */
	struct qnode **lines; /* of synchronisation objects */
	struct hold *holds[HOLDS / HOLD_CHUNK];
	unsigned long hold_used[BITS_TO_LONGS(HOLDS)];
	u16 kept_at[KEPT_PLACES]; /* by hash of a lock's name: the record it was last in, + 1 */
	atomic_t kept_hand;       /* where call.c looks next for one to give back */
	struct sync **objects;    /* pieces, made on demand */
	struct object_list object_list;
	struct bar **bars;
	wait_queue_head_t bar_wait;
	spinlock_t parked_lock;
	struct list_head parked; /* calls whose threads run signal handlers; park.c */
	struct conn *conn;       /* NULL: no RDMA */
	struct rank **here;      /* ranks of this kernel, by number */
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

/* NULL: nobody has ever needed it, which for the index of a peer's message means that it is wrong. */
static inline struct slot *slot_at(struct rank *r, unsigned int i)
{
	struct slot *c = i < ALL_SLOTS ? smp_load_acquire(&r->slot_chunks[i / SLOT_CHUNK]) : NULL;

	return c ? &c[i % SLOT_CHUNK] : NULL;
}

static inline struct hold *hold_at(struct rank *r, u32 i)
{
	struct hold *c = i < HOLDS ? smp_load_acquire(&r->holds[i / HOLD_CHUNK]) : NULL;

	return c ? &c[i % HOLD_CHUNK] : NULL;
}

static inline struct bar *bar_at(struct rank *r, u32 i)
{
	struct bar *c = i < (u32)r->size * BARRIERS ? smp_load_acquire(&r->bars[i / BAR_CHUNK]) : NULL;

	return c ? &c[i % BAR_CHUNK] : NULL;
}

static inline u32 block_page(u32 id)
{
	return (id & (id - 1)) >> 1;
}

static inline u32 block_pages(u32 id)
{
	return id & -id;
}

static inline u32 block_id(u32 page, u32 pages)
{
	return page << 1 | pages;
}

/* Has the view's process added the region that a page is of? Where there are no regions yet, all is open to it. Any context. */
static inline bool view_sees(const struct view *v, u32 page)
{
	const struct rank *r = READ_ONCE(v->ctx->rank);
	u16 id = r ? READ_ONCE(r->units[page / CHUNK_PAGES]) : 0;

	return !r || (id && test_bit(id - 1, v->regions));
}

/* rank.c */
extern struct mutex ranks_lock; /* outside stop_lock and cq.c's list of devices; inside ctx->lock */
extern struct list_head ranks;  /* of this kernel */
/* Calls of the device; `in` is the module's copy of the argument, which check.c has found to be as it may be. */
long rank_join(struct view *v, void *in, void __user *arg);
long rank_region(struct view *v, void *in, void __user *arg);
long rank_stats(struct view *v, void *in, void __user *arg);
long rank_lost(struct view *v, void *in, void __user *arg);
long rank_queues(struct view *v, void *in, void __user *arg);
void rank_stop(struct rank *r);  /* nothing of it is under way any more, its device is free; sleeps, may be repeated */
void rank_leave(struct rank *r); /* sleeps */
void rank_detach(struct rank *r, struct view *v); /* a view is closed, and others are left: its regions; sleeps */
void ranks_leave_device(struct ib_device *dev);
void rank_free(struct rank *r); /* sleeps */
/* NULL: no memory, or no more than this user may lock (ctx->over). */
struct state *rank_state(struct rank *r, u32 page, gfp_t gfp);
bool rank_objects(struct rank *r, u32 index, gfp_t gfp); /* memory behind a place of the table of objects */
void state_free(struct rank *r, struct state *st);       /* sleeps; NULL: nothing */
struct region *rank_region_at(const struct rank *r, u32 page);
u16 rank_home(const struct rank *r, const struct region *g, u32 page);
void rank_peer_lost(struct rank *r, u16 peer, int err);
static inline bool rank_enter(struct rank *r)
{
	return atomic_inc_not_zero(&r->inside);
}
void rank_exit(struct rank *r);

/* job.c */
long rank_key(struct view *v, void *in, void __user *arg);
long rank_connect(struct view *v, void *in, void __user *arg);

struct seq_file;
int ranks_show(struct seq_file *f, void *unused);
int queues_show(struct seq_file *f, void *unused);

/* run.c */
void host_message(struct rank *r, const struct msg *m); /* one message for r, and what follows */
void host_send(struct rank *r, const struct msg *m);    /* from r to anybody */
void host_run(void);                                    /* what is queued on this processor, or some of it */
void run_forget(struct rank *r);                        /* it has died: what is queued for it goes; sleeps not */

/*
 * pool.c: bottom halves go off, and there is memory for whatever one event can take. Sleeps, mmap_lock may be held. Whoever does not
 * come from softirq enters by this, and leaves by local_bh_enable().
 */
void host_begin(void);
void host_later(struct rank *r, const struct msg *m); /* in process context */

/* host.c */
/* A local event of a page; true: open already. Else *wait is the slot to wait for (or -1: nothing was asked). */
bool host_page(struct rank *r, enum page_event ev, const struct msg *ask, int *wait, u32 *seq);
int host_pin(struct rank *r, u32 object, bool write); /* 0, -EAGAIN (acquire first), -ERANGE; these sleep */
int host_unpin(struct rank *r, u32 object, bool write);
int host_quiet(struct rank *r, u32 page, u32 pages);  /* -EAGAIN: a request or an entry of the range is under way */
int host_forget(struct rank *r, u32 page, u32 pages); /* of all ranks before any of them uses the range again */
/*
 * Get a block that nobody ever had, at its home, and up to `most` in all with those behind it, of the same home and 2 MiB: done
 * at once; then slot_complete(), for those who joined. Returns how many; 0: ask for it.
 */
u32 host_first(struct rank *r, const struct msg *ask, bool write, u32 most);
int host_held(struct rank *r, u32 hold, enum hold_event ev, const struct msg *about);
int host_arrive(struct rank *r, const struct msg *m, struct bar_part *part); /* part: core/barrier.h */
void host_landed(struct rank *r, u16 from, u32 imm);                         /* a block has come by RDMA */
u32 host_imm(const struct msg *m);                                           /* what tells of it; 0: does not fit */
int host_start(void);
void host_stop(void);

/* slot.c; all sleep but what says otherwise */
enum slot_kind { SLOT_BLOCK, SLOT_BRIEF, SLOT_LASTING };
/* -EINTR: killed; unless killable, -ERESTARTNOINTR for a signal; -EAGAIN: too many lasting ones; -EIO, -ENOMEM, -EDQUOT */
int slot_get(struct rank *r, enum slot_kind kind, bool killable);
int slot_now(struct rank *r); /* of SLOT_BLOCK. -EAGAIN; does not sleep */
int slot_try(struct rank *r, u32 object,
	     bool back); /* for a prefetch, or a block that is given back; -EAGAIN; does not sleep */
void slot_put(struct rank *r, unsigned int slot);
void slot_complete(struct rank *r, unsigned int slot, s16 status, u64 value);
void slot_answered(struct rank *r, unsigned int slot, s16 status, u64 value,
		   bool last); /* others follow unless it is the last */
/* 0, -ETIMEDOUT, -EINTR: killed, -EIO; unless killable, -ERESTARTNOINTR for a signal: the answer is still to come */
int slot_wait(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable);
bool slot_spin(struct rank *r, unsigned int slot, u32 seq, u32 n); /* its parts: whether the answer comes in spin_us; */
int slot_sleep(struct rank *r, unsigned int slot, u32 seq, u32 n, u64 ns, bool killable); /* the rest */
bool slot_answered_by(const struct slot *s, u32 seq, u32 n);                              /* n answers after seq */
int signal_err(void); /* what a call ends with that a signal has interrupted: -EINTR or -ERESTARTNOINTR */
bool slot_abandon(struct rank *r, unsigned int slot, u32 seq); /* its thread goes; false: the answer has come */

/* fault.c; all sleep */
vm_fault_t host_fault(struct rank *r, struct vm_fault *vmf, u32 page, bool write);
struct msg ask_for(const struct rank *r, const struct region *g, u32 page, u16 slot);
bool ask_around(struct rank *r, u32 page, struct msg *ask); /* for the block around a page; false: of no region */
void start_prefetch(struct rank *r, u32 block, bool write, u8 flags, u16 manager, bool back);
u32 frames_wanted(struct rank *r, u32 page); /* pages of the 2 MiB around a page that are of its region; 0: of none */
int prepare_block(struct rank *r, u32 page, u32 frames); /* frames, state and keys for what may land there */
int prepare_in_fault(struct rank *r, u32 page);          /* the same with mmap_lock held; -EAGAIN: not with it */

/* May it stand in line, until somebody does something? */
static inline bool op_lasts(u8 op)
{
	return op == SOP_WAIT || op == SOP_RDLOCK || op == SOP_WRLOCK || op == SOP_ENQUEUE;
}

/* table.c */
int table_make(struct rank *r);                 /* -ENOMEM: table_free() what there is; sleeps */
size_t table_bytes(unsigned int size);          /* what it makes for a job of so many ranks, besides struct rank */
void table_free(struct rank *r);                /* sleeps */
int table_slot(struct rank *r, unsigned int i); /* there is memory behind it from now on; sleeps. -ENOMEM, -EDQUOT */
bool table_line(struct rank *r, u16 slot);      /* a place in line for one of this rank's own threads; sleeps */
int table_hold(struct rank *r);                 /* a hold record; sleeps. -EAGAIN, -ENOMEM */
void table_wake(struct rank *r);                /* whoever waits in a slot */
/* Is there memory behind the place that a message needs? False: not now, in this context. */
bool table_ready(struct rank *r, const struct msg *m, gfp_t gfp);

/* sync.c */
void sync_send(struct rank *r, const struct msg *m); /* of this rank's own; in process context */
void sync_take_back(struct rank *r, struct call *c); /* it is in line: SOP_CANCEL */
bool sync_lines_up(const struct call *c);            /* its first answer says only that it is in line */
long sync_call(struct rank *r, void *in, void __user *arg);

/* park.c; all sleep */
/* A signal interrupts a call, which its thread will make again. False: no memory. */
bool park(struct rank *r, const struct call *c, void __user *arg);
bool park_range(struct rank *r, const struct range_call *c, void __user *arg);
/* The thread makes a call: the one that it was making? Any other that it has left is given up. */
bool park_take(struct rank *r, const struct dsm_ioc_call *in, void __user *arg, struct call *c);
bool park_take_range(struct rank *r, const struct dsm_ioc_range *in, void __user *arg, struct range_call *c);
void park_free(struct rank *r); /* nobody is inside any more */

/* call.c */
long call_sync(struct view *v, void *in, void __user *arg);
long call_range(struct view *v, void *in, void __user *arg);
void call_range_undo(struct rank *r,
		     struct range_call *c); /* it ends before its end: its pins, and what it has asked */
/* Get the block around a page and keep it until call_access_end(). Sleeps, mmap_lock may be held. 0, -errno. */
int call_access(struct rank *r, u32 page, bool write, u32 *object);
void call_access_end(struct rank *r, u32 object, bool write);

/* conn.c */
struct ib_device *conn_device(const struct conn *c);
size_t conn_peer_bytes(size_t chunks); /* what the connection to a peer takes, in a window of so many 2 MiB */
struct conn *conn_open(struct rank *r, const struct dsm_ioc_join *j, void *address, u32 *size);
/* Sleeps: nothing is sent or received any more, and whoever waits for what was posted goes on. May be repeated. */
void conn_stop(struct conn *c);
void conn_close(struct conn *c);
void conn_drop(struct conn *c, u16 peer); /* any context: nothing more is sent to it, or taken from it */
int conn_connect(struct conn *c, u16 peer, const void *address, u32 size);
void conn_show(struct seq_file *f, struct conn *c); /* lanes that are behind */
void conn_queues(const struct conn *c, struct dsm_ioc_queues *out);
int conn_init(void);
void conn_exit(void);

/* lane.c */
void conn_send(struct conn *c, u16 peer, const struct msg *m);

/* key.c */
void conn_send_block(struct conn *c, u16 peer, const struct msg *m); /* its contents into the peer's frames, and m */
int conn_key(struct conn *c, struct chunk *k);            /* sleeps: make the key of a chunk, if there is none */
bool conn_has_key(struct conn *c, const struct chunk *k); /* it has, or needs none */
void conn_free_key(struct chunk *k);                      /* sleeps: nobody can write there any more */
void conn_forget(struct conn *c, u32 chunk);              /* peers' keys of it: their frames go */

static inline u32 now_us(void)
{
	return (u32)(ktime_get_ns() / 1000);
}

#endif
