/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.h - the protocol core under random schedules in virtual time: up to 1024 nodes, many blocks,
 * delays, reordering.
 *
 * Nothing but the seed decides what happens, so a run can be repeated. Contents are version
 * numbers: a write makes a new one, a read must see the newest. Hardware protections are kept per
 * node and checked at every change.
 */
#ifndef SIM_H
#define SIM_H

#include <setjmp.h>
#include <stdlib.h>

#include "core/host.h"

#define THREADS_MAX 8
#define ASYNC 2  /* slots for requests without a waiting thread, by default */
#define KINDS 5u /* kinds of objects, from SYNC_MUTEX on */
#define OBJECTS (3 * KINDS)
#define TRACE 65536
#define SEM_TOKENS 2
#define NO_VERSION UINT32_MAX /* the frame is empty */

struct options {
	unsigned int nodes, blocks, threads, ops;
	unsigned int hold_us;
	unsigned int follow; /* writes in a row that make a node the home */
	/* reads by the home after which a writer pushes its writes; 0: never */
	unsigned int pushes;
	bool fifo, first_touch, mixed; /* mixed: with synchronisation */
	/* a message between two nodes takes UNIT; everything else takes no time */
	bool unit_delay;
	unsigned int release; /* release blocks, beside `blocks` sequential ones */
	bool slow;            /* every fourth channel delays its messages by SLOW */
	uint64_t seed;
	unsigned int async, objects; /* 0: defaults (ASYNC, OBJECTS) */
	unsigned int readahead;      /* in blocks */
	const struct loggp *net;     /* not NULL: the times of this network apply, in ticks */
	struct replay *replay;       /* not NULL: threads replay a recording */
};
#define UNIT 1000u
#define SLOW 1000u        /* us */
#define TICKS_PER_US 100u /* so the core's 32 bits of microseconds last long enough */

/* LogGP parameters (loggp.c): microseconds; G: nanoseconds per byte */
struct loggp {
	double o, l, g, big_g;
	/* durations: fault to request; contents to thread; closing a copy; comparing or merging a
	 * page of a release block */
	double fault, open, close, diff;
};

enum kind { EV_MSG = 1, EV_LOWER, EV_OPEN, EV_THREAD, EV_TIMER, EV_TIMEOUT, EV_GATHER, EV_MERGE };

/* The payload of a message, for release blocks. */
struct load {
	size_t used, room;
	uint8_t *bytes;
};

struct event {
	uint64_t at, seq;
	uint8_t kind;
	uint8_t thread;
	bool joined; /* EV_MSG: it travels with the message before it */
	uint16_t node;
	uint32_t data;        /* EV_MSG: version of the contents; EV_TIMEOUT: number of the wait */
	struct msg msg;       /* EV_TIMER: only the object is set */
	struct actions *rest; /* EV_OPEN: the actions from `from` on are left */
	unsigned int from;    /* EV_LOWER: enum prot; the other one is in `thread` */
	struct load *load;    /* EV_MSG, EV_OPEN: NULL, or the payload */
};

enum pc {
	PC_READY = 0,
	PC_TRY,
	PC_WAIT,
	PC_JOIN,
	PC_PINNED,
	PC_REPLY,
	PC_PLACE,
	PC_AGAIN,
	PC_INSIDE,
	PC_BARRIER,
	PC_ACQUIRE,
	PC_DONE
};

enum op {
	OP_READ = 0,
	OP_WRITE,
	OP_PREFETCH_R,
	OP_PREFETCH_W,
	OP_PIN_R,
	OP_PIN_W,
	OP_RELEASE,
	OP_DROP,
	OP_PLACE,
	OP_LOAD, /* of a release block */
	OP_STORE,
	OP_LOCK,
	OP_TRYLOCK,
	OP_RDLOCK,
	OP_WRLOCK,
	OP_TRYRDLOCK,
	OP_TRYWRLOCK,
	OP_RDLOCK_TIMED,
	OP_WRLOCK_TIMED,
	OP_SEM,
	OP_SEM_TIMED, /* from OP_LOCK on, a thread is inside afterwards */
	OP_COND_TIMED,
	OP_SIGNAL,
	OP_BROADCAST,
	OP_ADD,
	OP_CREATE,
	OP_DESTROY,
	OP_STALE, /* use of a destroyed object */
	OP_BARRIER,
	OPS
};

struct thread {
	uint8_t pc, op, leaving, canceling;
	uint8_t answers, need;
	int16_t status;
	uint16_t joined, hold;
	uint16_t where, owns; /* OP_PLACE: the new home; 1 + home of its only copy */
	uint32_t block, handle, left, episode, serial, gen;
	uint64_t since; /* time at which its request to destroy was sent */
	uint64_t asked; /* time at which the current miss began; 0: no miss */
	uint8_t scheduled, miss;
	uint8_t done; /* the operation is complete (replay.c) */
	/*
	 * races.c: an access, which is under way or of which a holder of a lock makes `inside`
	 * more; an acquire
	 */
	uint8_t touches, rstore, rbyte, inside;
	uint8_t then, walks, stale, again;
	uint32_t rblock, entry;
};

enum miss { MISS_NONE = 0, MISS_READ, MISS_WRITE, MISS_UPGRADE, MISSES };

struct stats {
	uint64_t messages[MSG_TYPES]; /* between different nodes */
	uint64_t total, steps, events;
	uint64_t carried; /* of total, those that did not travel with another one */
	uint64_t misses[MISSES], time[MISSES];
	uint64_t latest; /* end of the last miss */
	uint64_t locks, episodes, ops;
	/* objects created and destroyed; refused destructions, refused uses */
	uint64_t made, unmade, busy, stale;
	uint64_t pushes;
	uint64_t closes, loads, stores, seen,
		left_out; /* release blocks; seen: loads of what another node has stored */
};

/* An object that was created, and may be gone; its index here is its handle. */
struct made {
	uint64_t name;
	/* atomic: its value, its completed additions; semaphore: its tokens */
	uint64_t value, added;
	uint64_t used;   /* mutex: in use until then */
	uint32_t before; /* 1 + handle of the last object at its index; 0: none */
	/* counts known to the home: waiters, holders of a rwlock, RESUMEs in flight */
	uint32_t line, holders, turns;
	uint32_t inside, inside_writers; /* threads inside */
	uint16_t home;
	uint8_t kind;
	bool alive, known; /* known: a program has its handle */
};
#define NO_HANDLE UINT32_MAX

struct trace {
	uint64_t at;
	uint32_t object;
	uint16_t node;
	char text[90];
};

struct sim {
	struct options o;
	struct stats st;
	uint64_t now, seq, rng;
	struct event *heap;
	size_t nheap, heap_room;
	uint16_t nslots;
	unsigned int async, nobjects, nholds; /* per node */
	struct loggp_node *loggp;
	bool stop;

	struct copy *pages; /* [node * blocks + block], also the next ones */
	struct dir *dirs;
	uint8_t *hw;
	uint32_t *version;
	/* ACT_DATAs of the block whose contents have not been read yet */
	uint16_t *leaves;
	struct queue_entry *nodes; /* [node][nodes * nslots] */
	uint8_t *slots;            /* [node * nslots + slot] */
	uint32_t *async_block;
	uint64_t *asks;         /* core/ask.h: [node * nslots + slot] */
	uint64_t *last;         /* ordered channels: [from * nodes + to] */
	struct thread *threads; /* [node * o.threads + thread] */
	struct hold *holds;
	struct bar *bars;
	struct bar_tree *trees;

	uint32_t *newest;            /* version of each block */
	uint16_t *readers, *writers; /* hardware protections of each block */
	struct sync *objects;        /* objects.c: [place], as latest and last_gen */
	struct sync **chunks;
	struct object_list *lists;
	uint32_t *first;    /* first index of each home, and the end */
	uint32_t *latest;   /* 1 + handle of the last object created there; 0: none */
	uint32_t *last_gen; /* generation of that object */
	struct made *made;
	uint32_t nmade, made_room;
	uint32_t *arrived; /* threads that have arrived, by episode */

	struct releases *rel; /* release.c; NULL: no release blocks */

	struct trace *trace;
	uint64_t traced;
	jmp_buf *failed;
};

/* world.c: messages, events */
struct sim *sim_create(const struct options *o);
void sim_destroy(struct sim *s);
void sim_run(struct sim *s); /* run until nothing is left to do */
void sim_send(struct sim *s, const struct msg *m, uint32_t data);
/* takes the payload */
void sim_send_load(struct sim *s, const struct msg *m, uint32_t data, struct load *load);
/* a message that leaves */
void sim_check_sent(struct sim *s, const struct msg *m);
void sim_check_rest(struct sim *s);
uint16_t sim_manager(const struct sim *s, uint32_t block);

/* host.c: the host of the nodes */

/* One node during one event. */
struct host_node {
	struct core_host h;
	struct sim *s;
	const struct msg *m; /* the message that is stepped, or NULL */
	enum target target;
	struct sync before; /* the object, before the step */
	const struct copy *page;
	const struct dir *dir;
};

struct host_node sim_node(struct sim *s, uint16_t node, const struct msg *m);

static inline struct sim *sim_of(struct core_host *h)
{
	return ((struct host_node *)h)->s; /* its first member */
}

void sim_request(struct sim *s, const struct msg *m); /* of a thread: it may wait for a close */
void sim_local(struct sim *s, uint16_t node, uint32_t block, enum page_event ev, uint16_t slot);
/* fails if the message is refused */
void sim_step(struct sim *s, const struct msg *m, struct actions *out);
/* The same, and carry the actions out. */
void sim_deliver(struct sim *s, const struct msg *m, uint32_t data, const struct load *load);
void sim_hold_event(struct sim *s, uint16_t node, uint16_t record, enum hold_event ev,
		    const struct msg *about);
void sim_lower_late(struct sim *s, const struct event *e); /* EV_LOWER, EV_OPEN */
void sim_open_late(struct sim *s, const struct event *e);

/* The slot in MSG_RELEASE: no thread waits for its answer, which may be held for a close. */
static inline uint16_t sim_release_slot(const struct sim *s)
{
	return (uint16_t)(s->nslots - 1);
}

/* events.c */
void sim_schedule(struct sim *s, const struct event *e, uint64_t delay);
struct event sim_next(struct sim *s); /* removes the earliest event; there must be one */
uint64_t sim_random(struct sim *s, uint64_t below);
__attribute__((format(printf, 4, 5))) void sim_note(struct sim *s, uint16_t node, uint32_t object,
						    const char *fmt, ...);
__attribute__((format(printf, 3, 4), noreturn)) void sim_fail(struct sim *s, uint32_t object,
							      const char *fmt, ...);

static inline void *zeroed(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		abort();
	return p;
}

static inline size_t sim_at(const struct sim *s, uint16_t node, uint32_t block)
{
	return (size_t)node * s->o.blocks + block;
}

/*
 * sync.c: locks, objects, barriers. This bit marks the numbers of objects, and of the barrier,
 * which is OBJECT itself.
 */
#define OBJECT 0x800000u
uint64_t sync_combine(uint8_t op, uint64_t a, uint64_t b);
void sync_call(struct sim *s, uint16_t node, unsigned int thread);
void sync_lock(struct sim *s, uint16_t node, unsigned int thread); /* uses the thread's handle */
void sync_again(struct sim *s, uint16_t node, unsigned int thread);
void sync_inside(struct sim *s, uint16_t node, unsigned int thread);
void sync_answered(struct sim *s, uint16_t node, unsigned int thread);
void sync_reply(struct sim *s, uint16_t node, const struct action *a);
void sync_timeout(struct sim *s, uint16_t node, unsigned int thread, uint32_t serial);
void sync_check_rest(struct sim *s);
bool sync_barrier_ended(const struct sim *s, uint16_t node, unsigned int thread);
/* What follows when an operation that acquires is over. */
enum settle { SETTLE_NEXT, SETTLE_GOT, SETTLE_NOT };
void sync_settled(struct sim *s, uint16_t node, unsigned int thread, enum settle then);

/* objects.c: tables of objects, and the specification of their lifetimes */
void objects_create(struct sim *s);
void objects_destroy(struct sim *s);
struct objects objects_of(const struct sim *s, uint16_t home);
/* a home where programs create objects */
uint16_t objects_hub(struct sim *s);
/* of an object that a program made, or NO_HANDLE */
uint32_t objects_handle(struct sim *s, bool gone);
/* true: it must not be destroyed */
bool objects_used(const struct made *o);
/* the creator has received the name */
void objects_publish(struct sim *s, uint16_t node, uint64_t name);
/* one thread counted there has left */
void objects_left(struct sim *s, struct made *o, uint32_t *count);
/* Check a step of m at its home. before: the object at that index before the step. */
void objects_judge(struct sim *s, const struct msg *m, const struct sync *before,
		   const struct actions *out);
void objects_check_rest(struct sim *s);

static inline bool hold_is(const struct hold *h, const struct made *o)
{
	return h->object == (uint32_t)o->name && h->gen == (uint16_t)(o->name >> 32);
}

/* threads.c: what the simulated programs do */
void thread_run(struct sim *s, uint16_t node, unsigned int thread);
void thread_wake(struct sim *s, uint16_t node, unsigned int thread);
void thread_wake_after(struct sim *s, uint16_t node, unsigned int thread, uint64_t delay);
void thread_access(struct sim *s, uint16_t node, unsigned int thread); /* as its operation says */
void thread_prefetch(struct sim *s, uint16_t node, const struct thread *t);
void thread_next(struct sim *s, uint16_t node, unsigned int thread); /* the operation is complete */
void thread_placed(struct sim *s, uint16_t node, unsigned int thread,
		   uint16_t owns); /* the answer to OP_PLACE has arrived */

static inline struct thread *sim_thread(const struct sim *s, uint16_t node, unsigned int thread)
{
	return &s->threads[(size_t)node * s->o.threads + thread];
}

static inline struct made *sim_made(const struct sim *s, const struct thread *t)
{
	return &s->made[t->handle];
}

/*
 * The hold record of a thread. In a replay each mutex has one, as on a node of the library, which
 * may keep them all.
 */
static inline uint16_t sim_record(const struct sim *s, unsigned int thread, uint32_t handle)
{
	return (uint16_t)(s->o.replay ? handle : thread);
}

static inline struct hold *sim_hold(const struct sim *s, uint16_t node, unsigned int record)
{
	return &s->holds[(size_t)node * s->nholds + record];
}

/* release.c: blocks with numbers from options.blocks on */
#define RELEASE_CLOSES UINT32_MAX
#define RELEASE_BYTES 24u /* of a block are used */
extern const struct core_rel_ops release_ops;
struct load *load_add(struct load *l, const void *bytes, size_t n);
void load_free(struct load *l);
void release_create(struct sim *s);
void release_destroy(struct sim *s);
void release_check_rest(struct sim *s);
bool release_block(const struct sim *s, uint32_t block);
/* RELEASE_CLOSES: the node's closes */
void release_find(const struct sim *s, uint16_t node, uint32_t block, struct core_place *p);
void release_note(struct sim *s, uint16_t node, uint32_t block, const char *what);
/* As the callbacks of the host. */
void release_open(struct sim *s, uint16_t node, uint32_t block, uint8_t prot,
		  const struct load *data);
/* The contents are zeros. */
void release_zero(struct sim *s, uint16_t node, uint32_t block);
void release_lower(struct sim *s, uint16_t node, uint32_t block, uint8_t prot);
void release_leaves(struct sim *s, uint16_t node, uint32_t block);
/* of a copy that leaves now */
struct load *release_contents(struct sim *s, uint16_t node, uint32_t block);
struct load *release_payload(struct sim *s, const struct msg *m); /* NULL: it has none */
/* true: nothing is left to do */
bool release_arrives(struct sim *s, struct event *e);
/* EV_GATHER, EV_MERGE */
void release_gather(struct sim *s, const struct event *e);
void release_merge(struct sim *s, const struct event *e);
void release_close(struct sim *s, uint16_t node); /* begin a close */
/* A thread makes one access, tries it again, acquires: then sync_settled(). */
void release_access(struct sim *s, uint16_t node, unsigned int thread, bool store);
void release_touch(struct sim *s, uint16_t node, unsigned int thread);
void release_settle(struct sim *s, uint16_t node, unsigned int thread, enum settle then);
void release_acquire(struct sim *s, uint16_t node, unsigned int thread);
/* What synchronisation tells of clocks. */
void release_unlocks(struct sim *s, uint16_t node, unsigned int thread, const struct made *o);
void release_locked(struct sim *s, uint16_t node, unsigned int thread, const struct made *o);
void release_meets(struct sim *s, uint16_t node, unsigned int thread, uint32_t episode,
		   bool leaves);
/* of all that others have done, by whatever */
void release_told(struct sim *s, uint16_t node, unsigned int thread);
void release_ordered(struct sim *s, const struct made *o, const struct msg *m,
		     const struct actions *out);

/* growth.c: messages of closes by number of nodes; the exit status */
int growth_table(void);

/* cost.c: costs in unit delays, or in microseconds over a network */
int cost_table(const struct loggp *net);

/* loggp.c: times in ticks */
int loggp_read(struct loggp *p, const char *path);
struct loggp_node *loggp_create(unsigned int nodes);
uint64_t loggp_send(struct sim *s, const struct msg *m, unsigned int bytes, bool *joined);
void loggp_apart(struct sim *s, uint16_t node);
uint64_t loggp_receive(struct sim *s, uint16_t dst, unsigned int bytes, bool joined);
/* Occupy the node's processor; the time from now until it is free. */
uint64_t loggp_spend(struct sim *s, uint16_t node, double us);
uint64_t loggp_ticks(double us);

/* replay.c */
struct replay *replay_load(const char *dir); /* ends the program on error */
void replay_free(struct replay *r);
/* o->release, if not 0: the blocks of one page have release consistency. */
void replay_options(struct replay *r, struct options *o);
uint16_t replay_home(const struct replay *r, uint32_t mutex);
unsigned int replay_block_bytes(const struct replay *r, uint32_t block);
void replay_touch(struct sim *s, uint16_t node); /* its thread's access to a release block */
void replay_run(struct sim *s, uint16_t node);
/* Its thread has asked for a block. */
void replay_ahead(struct sim *s, uint16_t node, bool write);
int replay_report(const struct sim *s);

#endif
