/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * machine.h - what the parts of the checker share: the threads' pending operations (search.c), and
 * the memory models.
 *
 * A thread runs until its next atomic access or call of a cell, describes it in `op`, and yields.
 * The scheduler chooses a thread and one of the outcomes that the model counts for its operation;
 * the thread then carries it out and runs on.
 */
#ifndef ORDERS_MACHINE_H
#define ORDERS_MACHINE_H

#include "order.h"

enum op_kind {
	OP_LOAD = 0,
	OP_STORE,
	OP_CHANGE, /* read, modify, write */
	OP_SWAP,   /* compare and exchange */
	OP_FENCE,
	OP_LOCK,
	OP_UNLOCK,
	OP_POST,
	OP_WAIT,
	OP_SLEEP, /* futex: compare, and sleep */
	OP_ASLEEP,
	OP_WAKE,
	OP_BARRIER, /* membarrier(2) */
	OP_FLUSH,   /* of the model, not of the thread */
	OP_KINDS
};

enum change { CHANGE_SET, CHANGE_ADD, CHANGE_SUB, CHANGE_AND, CHANGE_OR, CHANGE_XOR, CHANGE_NAND };

struct op {
	enum op_kind kind;
	enum change change;
	unsigned int size, cell;
	int order, order_fail;
	char *at;
	const void *pc;
	uint64_t value, expected; /* to write; to compare with */
	uint64_t result;          /* what was read */
	bool swapped;
};

struct thread {
	unsigned int number;
	bool done;
	struct op op;
	uint64_t past; /* hash of all that the thread has read: its own state follows from it */
	void *sp;
	char *stack;
};

extern struct thread threads[ORDER_THREADS];
extern unsigned int nthreads;

/* Threads take part in release and acquire through cells, too: locks, semaphores, the start. */
struct model {
	const char *name, *what;
	void (*reset)(void);
	/*
	 * The number of outcomes of t's operation; 0: it cannot run now. Cells and sleepers are
	 * asked for by the search.
	 */
	unsigned int (*outcomes)(const struct thread *t);
	/* t's operation takes effect, with outcome n. In t's own context. */
	void (*perform)(struct thread *t, unsigned int n);
	/*
	 * Can the model itself take a step for t (a store leaves its buffer)? That step. NULL:
	 * never.
	 */
	bool (*can_flush)(const struct thread *t);
	void (*flush)(struct thread *t);
	/* t begins, and stops, to run. */
	void (*enter)(struct thread *t);
	void (*leave)(struct thread *t);
	/* A plain access of the running thread is about to happen. */
	void (*plain)(struct thread *t, const char *at, size_t bytes, bool writes, const void *pc);
	void (*finish)(void); /* all threads have ended */
	uint64_t (*hash)(uint64_t h);
};

extern const struct model model_tso, model_c11;

/* The thread that runs; NULL: the search itself, or a scene's begin() and end(). */
extern struct thread *running;

/* Let the scheduler choose when `op` of the running thread happens. */
void thread_yield(void);

/* A number for each shared byte, below MEMORY_MAX; -1: not shared. */
#define MEMORY_MAX 65536
int memory_number(const void *at);

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ull;
	return h ^ h >> 29;
}

static inline uint64_t mix_bytes(uint64_t h, const void *at, size_t bytes)
{
	const char *c = at;
	uint64_t word;

	for (; bytes >= 8; bytes -= 8, c += 8) {
		__builtin_memcpy(&word, c, 8);
		h = mix(h, word);
	}
	word = 0;
	__builtin_memcpy(&word, c, bytes);
	return mix(h, word);
}

static inline uint64_t read_value(const char *at, unsigned int size)
{
	uint64_t v = 0;

	__builtin_memcpy(&v, at, size);
	return v;
}

static inline void write_value(char *at, unsigned int size, uint64_t v)
{
	__builtin_memcpy(at, &v, size);
}

/* What a read-modify-write stores. */
uint64_t changed(const struct op *op, uint64_t old);

/* Is an order acquire, or release, besides others? */
static inline bool acquires(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME ||
		order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static inline bool releases(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

#endif
