// SPDX-License-Identifier: BSD-2-Clause
/*
 * c11.c - the memory model of C11. Each atomic object has a list of the values stored in it. A load
 * returns any of them that is not older than what the thread knows: its view. Release attaches the
 * view to the value, acquire adds the view that comes with a value to the reader's. Plain accesses
 * must not race: each must be ordered by the views with every other one of which one writes, or it
 * is a violation.
 *
 * Left out: a load never returns a value that is stored later in the run, and the stores of one
 * object take effect in the order in which they run. A load with __ATOMIC_SEQ_CST sees the last
 * store with it; there is no further order of those.
 */
#include <stdlib.h>
#include <string.h>

#include "machine.h"

#define OBJECTS 56
#define VALUES 200 /* stored in one object in one run */

/*
 * For each object the oldest value that may be read, and for each thread how many of its operations
 * are known.
 */
struct view {
	uint8_t at[OBJECTS];
	uint16_t clock[ORDER_THREADS];
};

struct value {
	uint64_t value;
	struct view view; /* for those that acquire it */
};

struct object {
	char *at;
	unsigned int size;
	unsigned int n;          /* values; 0: not accessed in this run */
	unsigned int sequential; /* the last one stored with __ATOMIC_SEQ_CST */
	struct value v[VALUES];
};

static struct object objects[OBJECTS]; /* the same in each run */
static unsigned int nobjects;

/* A thread: its view; what fences add to it, and attach to its stores. */
static struct view views[ORDER_THREADS], acquired[ORDER_THREADS], released[ORDER_THREADS];
static struct view sequential; /* of fences */
static struct view cells[ORDER_CELLS];

/* Accesses of a byte: when each thread's last one of each kind was. */
struct byte {
	uint16_t read[ORDER_THREADS], wrote[ORDER_THREADS], loaded[ORDER_THREADS],
		stored[ORDER_THREADS];
};
static struct byte bytes_of[MEMORY_MAX];
static bool is_loose[MEMORY_MAX];
static int touched[MEMORY_MAX];
static unsigned int ntouched;

/* A plain store happens after plain(); it is a value of the atomic object there. */
static struct {
	const char *at;
	size_t bytes;
} unseen[ORDER_THREADS];

static void c11_reset(void)
{
	unsigned int i;

	for (i = 0; i < nobjects; i++)
		objects[i].n = 0;
	for (i = 0; i < ntouched; i++)
		memset(&bytes_of[touched[i]], 0, sizeof(bytes_of[0]));
	ntouched = 0;
	memset(views, 0, sizeof(views));
	memset(acquired, 0, sizeof(acquired));
	memset(released, 0, sizeof(released));
	memset(cells, 0, sizeof(cells));
	memset(unseen, 0, sizeof(unseen));
	memset(&sequential, 0, sizeof(sequential));
	for (i = 0; i < ORDER_THREADS; i++)
		views[i].clock[i] = 1;
}

static void join(struct view *a, const struct view *b)
{
	unsigned int i;

	for (i = 0; i < OBJECTS; i++)
		a->at[i] = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
	for (i = 0; i < ORDER_THREADS; i++)
		a->clock[i] = a->clock[i] > b->clock[i] ? a->clock[i] : b->clock[i];
}

void loose_bytes(const void *at, size_t bytes)
{
	memset(&is_loose[memory_number(at)], true, bytes);
}

/* ---- races ----------------------------------------------------------------------------------- */

/* Does t know all accesses of this kind? */
static bool knows(const struct thread *t, const uint16_t *times)
{
	unsigned int i;

	for (i = 0; i < nthreads; i++)
		if (times[i] > views[t->number].clock[i])
			return false;
	return true;
}

static void touch(struct thread *t, const char *at, size_t n, bool writes, bool atomic)
{
	const uint16_t now = views[t->number].clock[t->number];
	int first = memory_number(at), i;

	for (i = first; i < first + (int)n; i++) {
		struct byte *b = &bytes_of[i];
		static const struct byte none;

		if (is_loose[i])
			continue;
		if (!memcmp(b, &none, sizeof(none)))
			touched[ntouched++] = i;
		if (!knows(t, b->wrote) || (!atomic && !knows(t, b->stored)) ||
		    (writes && !knows(t, b->read)) || (writes && !atomic && !knows(t, b->loaded)))
			violation("data race: %s %s by thread %u", atomic ? "atomic" : "plain",
				  writes ? "store" : "load", t->number);
		(atomic           ? writes ? b->stored : b->loaded
			 : writes ? b->wrote
				  : b->read)[t->number] = now;
	}
}

/* ---- objects --------------------------------------------------------------------------------- */

/* part: a part of an object will do. */
static struct object *object_find(const char *at, unsigned int size, bool part)
{
	unsigned int i;

	for (i = 0; i < nobjects; i++)
		if (at < objects[i].at + objects[i].size && objects[i].at < at + size) {
			if ((objects[i].at != at || objects[i].size != size) &&
			    !(part && at >= objects[i].at && size < objects[i].size))
				violation("atomic accesses of different sizes overlap");
			return &objects[i];
		}
	if (nobjects == OBJECTS)
		violation("more than %d atomic objects", OBJECTS);
	objects[nobjects] = (struct object){ .at = (char *)at, .size = size };
	return &objects[nobjects++];
}

/* The object of an operation. The kernel may compare a part of it (OP_SLEEP). */
static struct object *object_of(const struct op *op)
{
	struct object *o = object_find(op->at, op->size, op->kind == OP_SLEEP);

	if (!o->n) {
		o->n = 1;
		o->sequential = 0;
		o->v[0] = (struct value){ .value = read_value(o->at, o->size) };
	}
	return o;
}

/* Values of o that t may read now, from this one on. */
static unsigned int oldest(const struct thread *t, const struct object *o, int order)
{
	unsigned int i = views[t->number].at[o - objects];

	return order == __ATOMIC_SEQ_CST && i < o->sequential ? o->sequential : i;
}

static void see(struct thread *t, const struct object *o, unsigned int i, int order)
{
	views[t->number].at[o - objects] = (uint8_t)i;
	join(acquires(order) ? &views[t->number] : &acquired[t->number], &o->v[i].view);
}

static void append(struct thread *t, struct object *o, uint64_t value, int order, bool changes)
{
	const unsigned int i = o->n++, k = (unsigned int)(o - objects);
	struct value *v = &o->v[i];

	if (o->n >= VALUES)
		violation("more than %d values", VALUES);
	views[t->number].at[k] = (uint8_t)i;
	*v = (struct value){ .value = value,
			     .view = releases(order) ? views[t->number] : released[t->number] };
	if (changes) /* it continues the release sequence */
		join(&v->view, &o->v[i - 1].view);
	v->view.at[k] = (uint8_t)i;
	if (order == __ATOMIC_SEQ_CST)
		o->sequential = i;
	write_value(o->at, o->size, value);
}

/* The values that a plain store of t has written into atomic objects. */
static void see_plain(struct thread *t)
{
	const char *at = unseen[t->number].at;
	unsigned int i;

	for (i = 0; at && i < nobjects; i++)
		if (objects[i].n && at < objects[i].at + objects[i].size &&
		    objects[i].at < at + unseen[t->number].bytes)
			append(t, &objects[i], read_value(objects[i].at, objects[i].size),
			       __ATOMIC_RELAXED, false);
	unseen[t->number].at = NULL;
}

static void c11_plain(struct thread *t, const char *at, size_t bytes, bool writes, const void *pc)
{
	t->op.pc = pc;
	see_plain(t);
	touch(t, at, bytes, writes, false);
	if (writes) {
		unseen[t->number].at = at;
		unseen[t->number].bytes = bytes;
	} else {
		t->past = mix_bytes(t->past, at, bytes);
	}
}

/* ---- operations ------------------------------------------------------------------------------ */

/*
 * The n-th outcome of a compare and exchange: first the failures, by age; last the success. The
 * value that is read.
 */
static unsigned int swap_reads(const struct thread *t, const struct object *o, unsigned int n,
			       unsigned int *count)
{
	unsigned int i, k = 0, found = 0;

	for (i = oldest(t, o, t->op.order_fail); i < o->n; i++)
		if (o->v[i].value != t->op.expected || i == o->n - 1) {
			if (k == n)
				found = i;
			k++;
		}
	*count = k;
	return found;
}

static unsigned int c11_outcomes(const struct thread *t)
{
	struct object *o;
	unsigned int n;

	switch (t->op.kind) {
	case OP_LOAD: o = object_of(&t->op); return o->n - oldest(t, o, t->op.order);
	case OP_SWAP: swap_reads(t, object_of(&t->op), 0, &n); return n;
	default: return 1;
	}
}

static void perform_swap(struct thread *t, struct object *o, unsigned int n)
{
	struct op *op = &t->op;
	unsigned int count, i = swap_reads(t, o, n, &count);

	op->result = o->v[i].value;
	op->swapped = op->result == op->expected;
	touch(t, op->at, op->size, op->swapped, true);
	see(t, o, i, op->swapped ? op->order : op->order_fail);
	if (op->swapped)
		append(t, o, op->value, op->order, true);
}

static void perform_access(struct thread *t, unsigned int n)
{
	struct op *op = &t->op;
	struct object *o = object_of(op);

	switch (op->kind) {
	case OP_LOAD:
		touch(t, op->at, op->size, false, true);
		n += oldest(t, o, op->order);
		op->result = o->v[n].value;
		see(t, o, n, op->order);
		break;
	case OP_STORE:
		touch(t, op->at, op->size, true, true);
		append(t, o, op->value, op->order, false);
		break;
	case OP_CHANGE:
		touch(t, op->at, op->size, true, true);
		op->result = o->v[o->n - 1].value;
		see(t, o, o->n - 1, op->order);
		append(t, o, changed(op, op->result), op->order, true);
		break;
	case OP_SWAP: perform_swap(t, o, n); break;
	default:
		/*
		 * OP_SLEEP: the kernel compares the newest value, and the thread does not see older
		 * ones after it
		 */
		memcpy(&op->result, (const char *)&o->v[o->n - 1].value + (op->at - o->at),
		       op->size);
		see(t, o, o->n - 1, __ATOMIC_RELAXED);
		break;
	}
}

static void perform_fence(struct thread *t, int order)
{
	struct view *v = &views[t->number];

	if (acquires(order))
		join(v, &acquired[t->number]);
	if (order == __ATOMIC_SEQ_CST) {
		join(v, &sequential);
		sequential = *v;
	}
	if (releases(order))
		released[t->number] = *v;
}

/* Every thread executes a full barrier. */
static void perform_barrier(void)
{
	unsigned int i;

	for (i = 0; i < 2 * nthreads; i++)
		perform_fence(&threads[i % nthreads], __ATOMIC_SEQ_CST);
}

static void c11_perform(struct thread *t, unsigned int n)
{
	struct op *op = &t->op;
	struct view *v = &views[t->number];

	see_plain(t);
	switch (op->kind) {
	case OP_LOCK:
	case OP_WAIT: join(v, &cells[op->cell]); break;
	case OP_UNLOCK: cells[op->cell] = *v; break;
	case OP_POST: join(&cells[op->cell], v); break;
	case OP_FENCE: perform_fence(t, op->order); break;
	case OP_WAKE: break;
	case OP_BARRIER: perform_barrier(); break;
	default: perform_access(t, n); break;
	}
	v->clock[t->number]++;
}

static void c11_switch(struct thread *t)
{
	see_plain(t);
}

static void c11_nothing(struct thread *t)
{
	(void)t;
}

static void c11_finish(void)
{
}

static uint64_t c11_hash(uint64_t h)
{
	unsigned int i, k;

	h = mix_bytes(h, views, sizeof(views));
	h = mix_bytes(h, acquired, sizeof(acquired));
	h = mix_bytes(h, released, sizeof(released));
	h = mix_bytes(h, cells, sizeof(cells));
	h = mix_bytes(h, &sequential, sizeof(sequential));
	for (i = 0; i < nobjects; i++) {
		if (objects[i].n > 1)
			h = mix(h, (uint64_t)i << 16 | objects[i].n << 8 | objects[i].sequential);
		for (k = 1; k < objects[i].n; k++)
			h = mix_bytes(h, &objects[i].v[k], sizeof(objects[i].v[k]));
	}
	return h;
}

const struct model model_c11 = {
	.name = "c11",
	.what = "C11: stale values, data races",
	.reset = c11_reset,
	.outcomes = c11_outcomes,
	.perform = c11_perform,
	.enter = c11_nothing,
	.leave = c11_switch,
	.plain = c11_plain,
	.finish = c11_finish,
	.hash = c11_hash,
};
