/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim.h - the protocol core under random schedules in virtual time: up to 1024 ranks, many blocks, delays, reordering.
 *
 * Nothing but the seed decides what happens, so a run can be repeated. Contents are version numbers: a write makes a
 * new one, a read must see the newest. Hardware protections are kept per rank and checked at every change.
 */
#ifndef SIM_H
#define SIM_H

#include <setjmp.h>

#include "core/barrier.h"
#include "core/dir.h"
#include "core/lock.h"
#include "core/page.h"

#define THREADS_MAX 8
#define ASYNC 2 /* slots for requests that nobody waits for */
#define OBJECTS 12
#define TRACE 65536
#define SEM_TOKENS 2

struct options {
	unsigned int ranks, blocks, threads, ops;
	unsigned int hold_us;
	bool fifo, first_touch, mixed; /* mixed: synchronisation, too */
	bool unit_delay;               /* every message between two ranks takes UNIT, all else no time */
	uint64_t seed;
};
#define UNIT 1000u

enum kind { EV_MSG = 1, EV_ACTIONS, EV_THREAD, EV_TIMER, EV_TIMEOUT };

struct event {
	uint64_t at, seq;
	uint8_t kind;
	uint8_t thread;
	uint16_t rank;
	uint32_t data;        /* EV_MSG: version of the contents; EV_TIMEOUT: of which wait */
	struct msg msg;       /* EV_TIMER: object only */
	struct actions *rest; /* EV_ACTIONS: what is left, from `from` on */
	unsigned int from;
};

enum pc { PC_READY = 0, PC_TRY, PC_WAIT, PC_JOIN, PC_PINNED, PC_REPLY, PC_INSIDE, PC_BARRIER, PC_DONE };

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
	OP_SEM,
	OP_SEM_TIMED,
	OP_ADD,
	OP_BARRIER,
	OPS
};

struct thread {
	uint8_t pc, op, leaving, canceling;
	uint8_t answers, need;
	int16_t status;
	uint16_t joined, hold;
	uint32_t block, object, left, episode, serial, gen;
	uint64_t asked; /* when the miss under way began, 0 none */
	uint8_t scheduled, miss;
};

enum miss { MISS_NONE = 0, MISS_READ, MISS_WRITE, MISS_UPGRADE, MISSES };

struct stats {
	uint64_t messages[MSG_TYPES]; /* between different ranks */
	uint64_t total, steps, events;
	uint64_t misses[MISSES], time[MISSES];
	uint64_t locks, episodes, ops;
};

struct trace {
	uint64_t at;
	uint32_t object;
	uint16_t rank;
	char text[90];
};

struct sim {
	struct options o;
	struct stats st;
	uint64_t now, seq, rng;
	struct event *heap;
	size_t nheap, heap_room;
	uint16_t nslots;

	struct copy *pages; /* [rank * blocks + block], as all of these */
	struct dir *dirs;
	uint8_t *hw;
	uint32_t *version;
	struct qnode *nodes; /* [rank][ranks * nslots] */
	uint8_t *slots;      /* [rank * nslots + slot] */
	uint32_t *async_block;
	uint64_t *last;         /* ordered channels: [from * ranks + to] */
	struct thread *threads; /* [rank * o.threads + thread] */
	struct hold *holds;
	struct bar *bars;
	struct bar_tree *trees;

	uint32_t *newest;            /* version of each block */
	uint16_t *readers, *writers; /* hardware protections of each block */
	struct sync objects[OBJECTS];
	uint32_t inside[OBJECTS], inside_writers[OBJECTS]; /* specification: who holds it */
	uint64_t added[OBJECTS];
	uint32_t *arrived; /* threads, by episode */

	struct trace *trace;
	uint64_t traced;
	jmp_buf *failed;
};

/* world.c: messages, actions, protections */
struct sim *sim_create(const struct options *o);
void sim_destroy(struct sim *s);
void sim_run(struct sim *s); /* until nothing is left to do */
void sim_local(struct sim *s, uint16_t rank, uint32_t block, enum page_event ev, uint16_t slot);
void sim_send(struct sim *s, const struct msg *m, uint32_t data);
void sim_carry_out(struct sim *s, uint16_t rank, uint32_t object, const struct actions *acts, uint32_t data);
void sim_check_rest(struct sim *s);
void sim_schedule(struct sim *s, const struct event *e, uint64_t delay);
uint16_t sim_manager(const struct sim *s, uint32_t block);
uint16_t sim_home(const struct sim *s, uint32_t object);
uint64_t sim_random(struct sim *s, uint64_t below);
__attribute__((format(printf, 4, 5))) void sim_note(struct sim *s, uint16_t rank, uint32_t object, const char *fmt,
						    ...);
__attribute__((format(printf, 3, 4), noreturn)) void sim_fail(struct sim *s, uint32_t object, const char *fmt, ...);

static inline size_t sim_at(const struct sim *s, uint16_t rank, uint32_t block)
{
	return (size_t)rank * s->o.blocks + block;
}

/* sync.c: locks, objects, barriers; object numbers are OBJECT + index */
#define OBJECT 0x80000000u
void sync_call(struct sim *s, uint16_t rank, unsigned int thread);
void sync_inside(struct sim *s, uint16_t rank, unsigned int thread);
void sync_answered(struct sim *s, uint16_t rank, unsigned int thread);
void sync_message(struct sim *s, const struct msg *m);
void sync_timeout(struct sim *s, uint16_t rank, unsigned int thread, uint32_t serial);
void sync_check_rest(struct sim *s);
bool sync_barrier_ended(const struct sim *s, uint16_t rank, unsigned int thread);

/* threads.c: what the simulated programs do */
void thread_run(struct sim *s, uint16_t rank, unsigned int thread);
void thread_wake(struct sim *s, uint16_t rank, unsigned int thread);
void thread_next(struct sim *s, uint16_t rank, unsigned int thread); /* its operation is over */

static inline struct thread *sim_thread(const struct sim *s, uint16_t rank, unsigned int thread)
{
	return &s->threads[(size_t)rank * s->o.threads + thread];
}

/* cost.c */
int cost_table(void);

#endif
