// SPDX-License-Identifier: BSD-2-Clause
/*
 * tso.c - x86: a store waits in a buffer of its processor, and leaves it in order, at any time. The
 * processor's own loads see it before. A locked instruction, a full barrier and a system call find
 * the buffer empty. Whether plain accesses race is c11.c's question: here they are part of the step
 * before the next atomic access.
 *
 * While a thread runs, memory has the contents of its buffer as well; they are taken out when
 * another thread runs.
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define BUFFER 256      /* stores */
#define BUFFER_ATOMIC 6 /* of them atomic: a processor's buffer is finite */
#define STORE_BYTES 16

struct store {
	char *at;
	uint8_t size;
	bool atomic;
	bool open; /* plain, and not yet carried out */
	char old[STORE_BYTES], new[STORE_BYTES];
};

static struct buffer {
	struct store v[BUFFER];
	unsigned int n, atomic;
} buffers[ORDER_THREADS];

static void tso_reset(void)
{
	unsigned int t;

	for (t = 0; t < ORDER_THREADS; t++)
		buffers[t].n = buffers[t].atomic = 0;
}

/* Plain stores happen after plain(): learn what they have written. */
static void close_stores(struct buffer *b)
{
	unsigned int i;

	for (i = b->n; i-- && b->v[i].open;) {
		memcpy(b->v[i].new, b->v[i].at, b->v[i].size);
		b->v[i].open = false;
	}
}

static struct store *store_add(struct buffer *b, char *at, size_t size, bool atomic)
{
	struct store *s = &b->v[b->n++];

	if (b->n > BUFFER)
		violation("too many plain stores between two atomic ones");
	*s = (struct store){ .at = at, .size = (uint8_t)size, .atomic = atomic, .open = !atomic };
	memcpy(s->old, at, size);
	b->atomic += atomic;
	return s;
}

static void tso_plain(struct thread *t, const char *at, size_t bytes, bool writes, const void *pc)
{
	struct buffer *b = &buffers[t->number];

	(void)pc;
	close_stores(b);
	if (!writes) {
		t->past = mix_bytes(t->past, at, bytes);
		return;
	}
	for (; bytes; bytes -= bytes < STORE_BYTES ? bytes : STORE_BYTES, at += STORE_BYTES)
		store_add(b, (char *)at, bytes < STORE_BYTES ? bytes : STORE_BYTES, false);
}

static bool empties(const struct op *op)
{
	return !(op->kind == OP_LOAD || (op->kind == OP_STORE && op->order != __ATOMIC_SEQ_CST) ||
		 (op->kind == OP_FENCE && op->order != __ATOMIC_SEQ_CST));
}

static unsigned int tso_outcomes(const struct thread *t)
{
	const struct buffer *b = &buffers[t->number];
	unsigned int i;

	if (t->op.kind == OP_BARRIER) /* it interrupts every processor */
		for (i = 0; i < nthreads; i++)
			if (buffers[i].atomic)
				return 0;
	if (empties(&t->op))
		return !b->atomic;
	return t->op.kind != OP_STORE || b->atomic < BUFFER_ATOMIC;
}

static void tso_perform(struct thread *t, unsigned int n)
{
	struct buffer *b = &buffers[t->number];
	struct op *op = &t->op;

	(void)n;
	close_stores(b);
	if (empties(op))
		b->n = 0; /* plain stores before this: they are in memory now */
	switch (op->kind) {
	case OP_LOAD:
	case OP_SLEEP: op->result = read_value(op->at, op->size); break;
	case OP_STORE:
		if (!empties(op))
			memcpy(store_add(b, op->at, op->size, true)->new, &op->value, op->size);
		write_value(op->at, op->size, op->value);
		break;
	case OP_CHANGE:
		op->result = read_value(op->at, op->size);
		write_value(op->at, op->size, changed(op, op->result));
		break;
	case OP_SWAP:
		op->result = read_value(op->at, op->size);
		op->swapped = op->result == op->expected;
		if (op->swapped)
			write_value(op->at, op->size, op->value);
		break;
	default: break;
	}
}

static bool tso_can_flush(const struct thread *t)
{
	return buffers[t->number].atomic;
}

/*
 * Of the plain stores, those before an atomic one leave with it: a thread that may read them has
 * read that one before.
 */
static void tso_flush(struct thread *t)
{
	struct buffer *b = &buffers[t->number];
	unsigned int i = 0;

	do
		memcpy(b->v[i].at, b->v[i].new, b->v[i].size);
	while (!b->v[i++].atomic);
	b->atomic--;
	b->n -= i;
	memmove(b->v, b->v + i, b->n * sizeof(b->v[0]));
}

static void tso_enter(struct thread *t)
{
	struct buffer *b = &buffers[t->number];
	unsigned int i;

	for (i = 0; i < b->n; i++) {
		memcpy(b->v[i].old, b->v[i].at, b->v[i].size);
		memcpy(b->v[i].at, b->v[i].new, b->v[i].size);
	}
}

static void tso_leave(struct thread *t)
{
	struct buffer *b = &buffers[t->number];
	unsigned int i;

	close_stores(b);
	for (i = b->n; i--;)
		memcpy(b->v[i].at, b->v[i].old, b->v[i].size);
}

static void tso_finish(void)
{
	unsigned int t;

	for (t = 0; t < nthreads; t++)
		tso_enter(&threads[t]);
}

static uint64_t tso_hash(uint64_t h)
{
	unsigned int t, i;

	for (t = 0; t < nthreads; t++) {
		h = mix(h, buffers[t].n);
		for (i = 0; i < buffers[t].n; i++) {
			const struct store *s = &buffers[t].v[i];

			h = mix(h,
				(uint64_t)memory_number(s->at) << 9 | (uint64_t)s->size << 1 |
					s->atomic);
			h = mix_bytes(h, s->new, s->size);
		}
	}
	return h;
}

const struct model model_tso = {
	.name = "tso",
	.what = "x86: store buffers",
	.reset = tso_reset,
	.outcomes = tso_outcomes,
	.perform = tso_perform,
	.can_flush = tso_can_flush,
	.flush = tso_flush,
	.enter = tso_enter,
	.leave = tso_leave,
	.plain = tso_plain,
	.finish = tso_finish,
	.hash = tso_hash,
};
