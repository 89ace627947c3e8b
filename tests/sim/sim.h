/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.h - the protocol core under random schedules in virtual time: up to 1024 nodes, many blocks, delays, reordering.
 *
 * Nothing but the seed decides what happens, so a run can be repeated. Contents are version numbers: a write makes a
 * new one, a read must see the newest. Hardware protections are kept per node and checked at every change.
 */
#ifndef SIM_H
#define SIM_H

#include <setjmp.h>
#include <stdlib.h>

#include "core/dispatch.h"

#define THREADS_MAX 8
#define ASYNC 2  /* slots for requests that nobody waits for, unless the options say how many */
#define KINDS 5u /* of objects: SYNC_MUTEX and the next */
#define OBJECTS (3 * KINDS)
#define TRACE 65536
#define SEM_TOKENS 2

struct options {
	unsigned int nodes, blocks, threads, ops;
	unsigned int hold_us;
	unsigned int follow;           /* so many writes in a row make a node the home */
	unsigned int pushes;           /* after so many reads by the home a writer pushes what it writes; 0: never */
	bool fifo, first_touch, mixed; /* mixed: synchronisation, too */
	bool unit_delay;               /* every message between two nodes takes UNIT, all else no time */
	uint64_t seed;
	unsigned int async, objects; /* 0: ASYNC, OBJECTS */
	unsigned int readahead;      /* blocks */
	const struct loggp *net;     /* not NULL: messages take what this network takes; time is in ticks */
	struct replay *replay;       /* not NULL: threads do what was recorded */
};
#define UNIT 1000u
#define TICKS_PER_US 100u /* so that 32 bits, as the core has them, are 43 seconds */

/* loggp.c: microseconds; G: nanoseconds for each byte */
struct loggp {
	double o, l, g, big_g;
	double fault, open, close,
		step; /* a fault up to its request; from contents to the thread; a copy closed; a message */
};

enum kind { EV_MSG = 1, EV_ACTIONS, EV_THREAD, EV_TIMER, EV_TIMEOUT };

struct event {
	uint64_t at, seq;
	uint8_t kind;
	uint8_t thread;
	uint16_t node;
	uint32_t data;        /* EV_MSG: version of the contents; EV_TIMEOUT: of which wait */
	struct msg msg;       /* EV_TIMER: object only */
	struct actions *rest; /* EV_ACTIONS: what is left, from `from` on */
	unsigned int from;
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
	OP_LOCK,
	OP_TRYLOCK,
	OP_RDLOCK,
	OP_WRLOCK,
	OP_TRYRDLOCK,
	OP_TRYWRLOCK,
	OP_RDLOCK_TIMED,
	OP_WRLOCK_TIMED,
	OP_SEM,
	OP_SEM_TIMED, /* from OP_LOCK on: a thread is inside then */
	OP_COND_TIMED,
	OP_SIGNAL,
	OP_BROADCAST,
	OP_ADD,
	OP_CREATE,
	OP_DESTROY,
	OP_STALE, /* use of an object that is gone */
	OP_BARRIER,
	OPS
};

struct thread {
	uint8_t pc, op, leaving, canceling;
	uint8_t answers, need;
	int16_t status;
	uint16_t joined, hold;
	uint16_t where, owns; /* OP_PLACE: at which node; 1 + the home of its only copy */
	uint32_t block, handle, left, episode, serial, gen;
	uint64_t since; /* when its request to destroy was sent */
	uint64_t asked; /* when the miss under way began, 0 none */
	uint8_t scheduled, miss;
	uint8_t done; /* its operation is over (replay.c) */
};

enum miss { MISS_NONE = 0, MISS_READ, MISS_WRITE, MISS_UPGRADE, MISSES };

struct stats {
	uint64_t messages[MSG_TYPES]; /* between different nodes */
	uint64_t total, steps, events;
	uint64_t misses[MISSES], time[MISSES];
	uint64_t latest; /* when a miss was over last */
	uint64_t locks, episodes, ops;
	uint64_t made, unmade, busy, stale; /* objects; destructions and uses that were refused */
	uint64_t pushes;
};

/* An object that was made, alive or gone; its number is its handle. */
struct made {
	uint64_t name;
	uint64_t value, added; /* an atomic, as its home and as its users know it; value: a semaphore's tokens */
	uint64_t used;         /* in use until then; mutex only */
	uint32_t before;       /* 1 + the handle of what was in its place before; 0: nothing */
	uint32_t line, holders, turns;   /* of which its home knows: waiters, holders of a rwlock, RESUMEs under way */
	uint32_t inside, inside_writers; /* threads */
	uint16_t home;
	uint8_t kind;
	bool alive, known; /* known: its handle was given out */
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
	unsigned int async, nobjects, nholds; /* of each node */
	struct loggp_node *loggp;
	bool stop;

	struct copy *pages; /* [node * blocks + block], as all of these */
	struct dir *dirs;
	uint8_t *hw;
	uint32_t *version;
	uint16_t *leaves;          /* sends of the block that a step has asked for, and that have not read it yet */
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
	uint32_t *first;    /* place of each home, and one more */
	uint32_t *latest;   /* 1 + the handle of what was made there last; 0: nothing was */
	uint32_t *last_gen; /* its generation */
	struct made *made;
	uint32_t nmade, made_room;
	uint32_t *arrived; /* threads, by episode */

	struct trace *trace;
	uint64_t traced;
	jmp_buf *failed;
};

/* world.c: messages, actions, protections */
struct sim *sim_create(const struct options *o);
void sim_destroy(struct sim *s);
void sim_run(struct sim *s); /* until nothing is left to do */
void sim_local(struct sim *s, uint16_t node, uint32_t block, enum page_event ev, uint16_t slot);
void sim_send(struct sim *s, const struct msg *m, uint32_t data);
void sim_step(struct sim *s, const struct msg *m,
	      struct actions *out); /* whatever it is for; fails unless it is taken */
void sim_carry_out(struct sim *s, uint16_t node, uint32_t object, const struct actions *acts, uint32_t data);
void sim_check_rest(struct sim *s);
uint16_t sim_manager(const struct sim *s, uint32_t block);

/* events.c */
void sim_schedule(struct sim *s, const struct event *e, uint64_t delay);
struct event sim_next(struct sim *s); /* the earliest, which is removed: there is one */
uint64_t sim_random(struct sim *s, uint64_t below);
__attribute__((format(printf, 4, 5))) void sim_note(struct sim *s, uint16_t node, uint32_t object, const char *fmt,
						    ...);
__attribute__((format(printf, 3, 4), noreturn)) void sim_fail(struct sim *s, uint32_t object, const char *fmt, ...);

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

/* sync.c: locks, objects, barriers. Numbers of objects, and of the barrier, which is OBJECT, have this bit; those of blocks not. */
#define OBJECT 0x800000u
uint64_t sync_combine(uint8_t op, uint64_t a, uint64_t b);
void sync_call(struct sim *s, uint16_t node, unsigned int thread);
void sync_lock(struct sim *s, uint16_t node, unsigned int thread); /* its handle */
void sync_again(struct sim *s, uint16_t node, unsigned int thread);
void sync_inside(struct sim *s, uint16_t node, unsigned int thread);
void sync_answered(struct sim *s, uint16_t node, unsigned int thread);
void sync_message(struct sim *s, const struct msg *m);
void sync_timeout(struct sim *s, uint16_t node, unsigned int thread, uint32_t serial);
void sync_check_rest(struct sim *s);
bool sync_barrier_ended(const struct sim *s, uint16_t node, unsigned int thread);

/* objects.c: tables of objects, and the specification of their lives */
void objects_create(struct sim *s);
void objects_destroy(struct sim *s);
struct objects objects_of(const struct sim *s, uint16_t home);
uint16_t objects_hub(struct sim *s);                               /* where a program makes an object */
uint32_t objects_handle(struct sim *s, bool gone);                 /* of one that a program has made, or NO_HANDLE */
bool objects_used(const struct made *o);                           /* then it must not be destroyed */
void objects_publish(struct sim *s, uint16_t node, uint64_t name); /* it has come to who made it */
void objects_left(struct sim *s, struct made *o, uint32_t *count); /* one who was counted there */
/* A step of m at its home; before: what was in its place. */
void objects_judge(struct sim *s, const struct msg *m, const struct sync *before, const struct actions *out);
void objects_check_rest(struct sim *s);

static inline bool hold_is(const struct hold *h, const struct made *o)
{
	return h->object == (uint32_t)o->name && h->gen == (uint16_t)(o->name >> 32);
}

/* threads.c: what the simulated programs do */
void thread_run(struct sim *s, uint16_t node, unsigned int thread);
void thread_wake(struct sim *s, uint16_t node, unsigned int thread);
void thread_wake_after(struct sim *s, uint16_t node, unsigned int thread, uint64_t delay);
void thread_access(struct sim *s, uint16_t node, unsigned int thread); /* to its block, as its operation says */
void thread_prefetch(struct sim *s, uint16_t node, const struct thread *t);
void thread_next(struct sim *s, uint16_t node, unsigned int thread); /* its operation is over */
void thread_placed(struct sim *s, uint16_t node, unsigned int thread,
		   uint16_t owns); /* an answer to OP_PLACE has come */

static inline struct thread *sim_thread(const struct sim *s, uint16_t node, unsigned int thread)
{
	return &s->threads[(size_t)node * s->o.threads + thread];
}

static inline struct made *sim_made(const struct sim *s, const struct thread *t)
{
	return &s->made[t->handle];
}

/* The hold record of a thread; in a replay one for each mutex, as a node of the library has, for it may keep them all. */
static inline uint16_t sim_record(const struct sim *s, unsigned int thread, uint32_t handle)
{
	return (uint16_t)(s->o.replay ? handle : thread);
}

static inline struct hold *sim_hold(const struct sim *s, uint16_t node, unsigned int record)
{
	return &s->holds[(size_t)node * s->nholds + record];
}

/* cost.c: of unit delays, or in microseconds over a network */
int cost_table(const struct loggp *net);

/* loggp.c: times in ticks */
int loggp_read(struct loggp *p, const char *path);
struct loggp_node *loggp_create(unsigned int nodes);
uint64_t loggp_send(struct sim *s, uint16_t src, unsigned int bytes);
uint64_t loggp_receive(struct sim *s, uint16_t dst, unsigned int bytes);
void loggp_spend(struct sim *s, uint16_t node, double us);
uint64_t loggp_ticks(double us);

/* replay.c */
struct replay *replay_load(const char *dir); /* or ends the program */
void replay_free(struct replay *r);
void replay_options(const struct replay *r, struct options *o);
uint16_t replay_home(const struct replay *r, uint32_t mutex);
unsigned int replay_block_bytes(const struct replay *r, uint32_t block);
void replay_run(struct sim *s, uint16_t node);
int replay_report(const struct sim *s);

#endif
