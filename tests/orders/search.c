// SPDX-License-Identifier: BSD-2-Clause
/*
 * search.c - all runs of a scene, depth first. Each run starts again and repeats the choices of the
 * one before, up to the last choice that has another outcome. A state that was reached before is
 * not continued: the hash of a state covers all that the threads have read, shared memory, and the
 * memory model's own state.
 */
#include "search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_BYTES 65536
#define STEPS_MAX 2000 /* a run with more does not end */
#define RANGES 16

struct thread threads[ORDER_THREADS];
struct thread *running;
unsigned int nthreads;

/* ---- memory ---------------------------------------------------------------------------------- */

struct range {
	const char *name;
	char *at;
	size_t bytes;
	int number;  /* of its first byte, if it is shared */
	char *first; /* contents when the program started */
	char *copies[ORDER_THREADS];
};

static struct range shared[RANGES], owned[RANGES];
static unsigned int nshared, nowned;

static struct range *range_add(struct range *v, unsigned int *n, void *at, size_t bytes)
{
	struct range *r = &v[(*n)++];

	if (*n > RANGES)
		abort();
	*r = (struct range){ .at = at, .bytes = bytes, .first = malloc(bytes) };
	memcpy(r->first, at, bytes);
	return r;
}

void share_bytes(const char *name, void *at, size_t bytes)
{
	static int next;
	struct range *r = range_add(shared, &nshared, at, bytes);

	r->name = name;
	r->number = next;
	next += (int)bytes;
	if (next > MEMORY_MAX)
		abort();
}

void own_bytes(void *at, size_t bytes)
{
	struct range *r = range_add(owned, &nowned, at, bytes);
	unsigned int t;

	for (t = 0; t < ORDER_THREADS; t++)
		r->copies[t] = malloc(bytes);
}

static const struct range *range_of(const void *at)
{
	unsigned int i;

	for (i = 0; i < nshared; i++)
		if ((size_t)((const char *)at - shared[i].at) < shared[i].bytes)
			return &shared[i];
	return NULL;
}

int memory_number(const void *at)
{
	const struct range *r = range_of(at);

	return r ? r->number + (int)((const char *)at - r->at) : -1;
}

const char *memory_name(const void *at, size_t *offset)
{
	const struct range *r = range_of(at);

	*offset = r ? (size_t)((const char *)at - r->at) : 0;
	return r ? r->name : "?";
}

static void memory_reset(void)
{
	unsigned int i, t;

	for (i = 0; i < nshared; i++)
		memcpy(shared[i].at, shared[i].first, shared[i].bytes);
	for (i = 0; i < nowned; i++) {
		memcpy(owned[i].at, owned[i].first, owned[i].bytes);
		for (t = 0; t < ORDER_THREADS; t++)
			memcpy(owned[i].copies[t], owned[i].first, owned[i].bytes);
	}
}

/* ---- the state of a run ---------------------------------------------------------------------- */

struct cell {
	bool locked;
	uint8_t posts;
};

static struct {
	const struct scene *scene;
	const struct model *model;
	struct cell cells[ORDER_CELLS];
	bool woken[ORDER_THREADS];   /* of a sleeper */
	unsigned int last, switches; /* the thread that ran last; preemptions so far */
	jmp_buf stop;
	void *sp; /* of the search */
	unsigned int outcome;
	struct step steps[STEPS_MAX];
	unsigned int nsteps;
	char why[200];
} run;

void violation(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run.why, sizeof(run.why), format, args);
	va_end(args);
	_longjmp(run.stop, 1);
}

const struct model *current_model(void)
{
	return run.model;
}

static unsigned int sleepers(const char *word)
{
	unsigned int t, n = 0;

	for (t = 0; t < nthreads; t++)
		n += threads[t].op.kind == OP_ASLEEP && !run.woken[t] && threads[t].op.at == word;
	return n;
}

/* Wake the n-th of those that sleep on a word. */
static void wake_sleeper(const char *word, unsigned int n)
{
	unsigned int t;

	for (t = 0; t < nthreads; t++)
		if (threads[t].op.kind == OP_ASLEEP && !run.woken[t] && threads[t].op.at == word &&
		    !n--) {
			run.woken[t] = true;
			return;
		}
}

static unsigned int outcomes(const struct thread *t)
{
	const struct op *op = &t->op;
	unsigned int n;

	if (t->done || (op->kind == OP_LOCK && run.cells[op->cell].locked) ||
	    (op->kind == OP_WAIT && !run.cells[op->cell].posts))
		return 0;
	if (op->kind == OP_ASLEEP)
		return run.woken[t->number];
	n = run.model->outcomes(t);
	if (n && op->kind == OP_WAKE && op->value < sleepers(op->at))
		return sleepers(op->at); /* which of them */
	return n;
}

/* The part of an operation that is about cells and sleepers. */
static void perform_cell(struct thread *t, unsigned int n)
{
	struct cell *c = &run.cells[t->op.cell];

	switch (t->op.kind) {
	case OP_LOCK: c->locked = true; break;
	case OP_UNLOCK: c->locked = false; break;
	case OP_POST: c->posts++; break;
	case OP_WAIT: c->posts--; break;
	case OP_WAKE:
		if (t->op.value < sleepers(t->op.at))
			wake_sleeper(t->op.at, n);
		else
			while (sleepers(t->op.at))
				wake_sleeper(t->op.at, 0);
		break;
	default: break;
	}
}

static uint64_t state_hash(void)
{
	uint64_t h = mix_bytes(0, run.cells, sizeof(run.cells));
	unsigned int i;

	for (i = 0; i < nthreads; i++) {
		h = mix(h, threads[i].past);
		h = mix(h,
			(uint64_t)threads[i].op.kind << 2 | (uint64_t)threads[i].done << 1 |
				run.woken[i]);
	}
	if (run.scene->switches)
		h = mix(h, run.last << 16 | run.switches);
	for (i = 0; i < nshared; i++)
		h = mix_bytes(h, shared[i].at, shared[i].bytes);
	return run.model->hash(h);
}

/* ---- coroutines ------------------------------------------------------------------------------ */

/* Save the stack pointer and the registers that a call keeps; go on with another stack. */
void stack_switch(void **save, void *to);
__asm__(".text\n"
	".globl stack_switch\n"
	"stack_switch:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
	"	ret\n");

static void own_exchange(const struct thread *t, bool in)
{
	unsigned int i;

	for (i = 0; i < nowned; i++)
		if (in)
			memcpy(owned[i].at, owned[i].copies[t->number], owned[i].bytes);
		else
			memcpy(owned[i].copies[t->number], owned[i].at, owned[i].bytes);
}

/* Run t until its next operation. */
static void resume(struct thread *t)
{
	own_exchange(t, true);
	run.model->enter(t);
	running = t;
	stack_switch(&run.sp, t->sp);
	running = NULL;
	run.model->leave(t);
	own_exchange(t, false);
}

void thread_yield(void)
{
	struct thread *t = running;

	stack_switch(&t->sp, run.sp);
	if (t->op.kind == OP_ASLEEP)
		return;
	run.model->perform(t, run.outcome);
	perform_cell(t, run.outcome);
	t->past = mix(t->past, t->op.result << 1 | t->op.swapped);
	run.steps[run.nsteps - 1].op = t->op;
}

void thread_sleep(void)
{
	struct thread *t = running;

	t->op.kind = OP_ASLEEP;
	run.woken[t->number] = false;
	thread_yield();
}

static void thread_main(void)
{
	run.scene->thread(running->number);
	running->done = true;
	stack_switch(&running->sp, run.sp);
	abort();
}

static void thread_start(struct thread *t)
{
	char *stack = t->stack;
	void **top;

	*t = (struct thread){ .number = (unsigned int)(t - threads), .stack = stack, .past = 1 };
	if (!stack)
		t->stack = malloc(STACK_BYTES);
	top = (void **)(t->stack + STACK_BYTES - 64);
	*--top = NULL; /* so that the stack is aligned as after a call */
	*--top = (void *)thread_main;
	t->sp = top - 6;
	resume(t);
}

/* ---- the search ------------------------------------------------------------------------------ */

struct choice {
	uint16_t at, n;
};

struct visited {
	uint64_t *v;
	size_t size, n;
};

static bool visited_add(struct visited *s, uint64_t h)
{
	size_t i;

	h += !h;
	if (s->n * 2 >= s->size) {
		struct visited more = { .size = s->size ? s->size * 2 : 65536 };

		more.v = calloc(more.size, sizeof(*more.v));
		if (!more.v)
			abort();
		for (i = 0; i < s->size; i++)
			if (s->v[i])
				visited_add(&more, s->v[i]);
		free(s->v);
		*s = more;
	}
	for (i = h & (s->size - 1); s->v[i]; i = (i + 1) & (s->size - 1))
		if (s->v[i] == h)
			return false;
	s->v[i] = h;
	s->n++;
	return true;
}

/*
 * What can happen next: outcome n of a thread's operation, or (n < 0) a step of the model for that
 * thread.
 */
struct next {
	unsigned int thread;
	int outcome;
};

#define NEXTS 256

static unsigned int next_all(struct next *v)
{
	unsigned int n = 0, t, i, k;
	const bool goes_on = outcomes(&threads[run.last]);

	for (t = 0; t < nthreads; t++) {
		if (run.model->can_flush && run.model->can_flush(&threads[t]))
			v[n++] = (struct next){ t, -1 };
		if (run.scene->switches && goes_on && t != run.last &&
		    run.switches >= run.scene->switches)
			continue;
		k = outcomes(&threads[t]);
		for (i = 0; i < k && n < NEXTS; i++)
			v[n++] = (struct next){ t, (int)i };
	}
	return n;
}

static void take_next(const struct next *x)
{
	struct thread *t = &threads[x->thread];

	if (run.nsteps >= STEPS_MAX)
		violation("no end after %d steps", STEPS_MAX);
	run.steps[run.nsteps++] =
		(struct step){ .thread = x->thread,
			       .op = x->outcome < 0 ? (struct op){ .kind = OP_FLUSH } : t->op };
	if (x->outcome < 0) {
		run.model->flush(t);
		return;
	}
	run.switches += x->thread != run.last && outcomes(&threads[run.last]);
	run.last = x->thread;
	run.outcome = (unsigned int)x->outcome;
	resume(t);
}

static void finish(void)
{
	unsigned int t;

	for (t = 0; t < nthreads; t++)
		if (!threads[t].done)
			violation("thread %u waits for ever", t);
	run.model->finish();
	if (run.scene->end)
		run.scene->end();
}

struct search {
	struct visited visited;
	struct choice choices[STEPS_MAX];
	unsigned int nchoices, depth;
};

/* One run. False: a violation. */
static bool run_once(struct search *s)
{
	struct next v[NEXTS];
	unsigned int n, t;

	s->depth = 0;
	running = NULL;
	run.nsteps = run.switches = run.last = 0;
	memset(run.cells, 0, sizeof(run.cells));
	memory_reset();
	if (_setjmp(run.stop))
		return false;
	if (run.scene->begin)
		run.scene->begin();
	run.model->reset();
	nthreads = run.scene->threads;
	for (t = 0; t < nthreads; t++)
		threads[t].done = true;
	for (t = 0; t < nthreads; t++)
		thread_start(&threads[t]);
	while ((n = next_all(v))) {
		if (n > 1 && s->depth == s->nchoices) {
			if (!visited_add(&s->visited, state_hash()))
				return true;
			s->choices[s->nchoices++] = (struct choice){ 0, (uint16_t)n };
		} else if (n > 1 && s->choices[s->depth].n != n) {
			violation("the scene does not repeat itself");
		}
		take_next(&v[n > 1 ? s->choices[s->depth++].at : 0]);
	}
	finish();
	return true;
}

/* The next choices to try. False: none. */
static bool search_advance(struct search *s)
{
	while (s->nchoices && ++s->choices[s->nchoices - 1].at == s->choices[s->nchoices - 1].n)
		s->nchoices--;
	return s->nchoices;
}

struct result search(const struct scene *scene, const struct model *model, double seconds)
{
	const double end = now_seconds() + seconds;
	static struct search s;
	struct result r = { .verdict = HOLDS };

	free(s.visited.v);
	s = (struct search){ .nchoices = 0 };
	run.scene = scene;
	run.model = model;
	do {
		r.runs++;
		if (!run_once(&s)) {
			r.verdict = VIOLATED;
			r.why = run.why;
			r.steps = run.steps;
			r.nsteps = run.nsteps;
			break;
		}
		if (!(r.runs % 256) && now_seconds() > end) {
			r.verdict = GAVE_UP;
			break;
		}
	} while (search_advance(&s));
	running = NULL;
	r.states = s.visited.n;
	return r;
}
