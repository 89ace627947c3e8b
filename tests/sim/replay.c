// SPDX-License-Identifier: BSD-2-Clause
/*
 * replay.c - recorded applications (trace.h) on simulated nodes: the duration of the timed part
 * over a network (loggp.c).
 *
 * Each node executes its events in order: it computes, accesses blocks, and synchronises through
 * the core. The time of a node between two synchronisations is spread evenly over the accesses
 * between them. Readers read ahead as in the library (miss/block.c): a thread that reads in order
 * requests 1, 3, 7, ... blocks ahead.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "trace.h"

struct program {
	struct trace_event *v;
	size_t n, next;
	/* read-ahead: number of blocks requested last; next block in order */
	uint32_t ahead, expect;
	bool computed; /* the computing time before the next event has passed */
};

struct replay {
	unsigned int nodes, pages, mutexes, barriers;
	struct program *programs;
	uint16_t *homes;       /* homes of the mutexes */
	uint16_t *block_pages; /* by page: number of pages of its block */
	uint64_t begin, end, compute;
	struct stats at_begin;
	bool armed, begun, ended; /* armed: timing begins when the next barrier ends */
};

/* ---- files ----------------------------------------------------------------------------------- */

static void *must(void *p)
{
	if (!p) {
		fprintf(stderr, "sim: out of memory\n");
		exit(1);
	}
	return p;
}

static struct trace_event *load(const char *dir, unsigned int node, const char *what,
				struct trace_header *h)
{
	struct trace_event *v;
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u.%s", dir, node, what);
	f = fopen(path, "r");
	if (!f || fread(h, sizeof(*h), 1, f) != 1 || h->magic != TRACE_MAGIC || h->rank != node) {
		fprintf(stderr, "sim: %s is no trace of node %u\n", path, node);
		exit(2);
	}
	v = must(malloc((h->events + 1) * sizeof(*v)));
	if (fread(v, sizeof(*v), h->events, f) != h->events) {
		fprintf(stderr, "sim: %s is cut short\n", path);
		exit(2);
	}
	fclose(f);
	return v;
}

static bool is_access(const struct trace_event *e)
{
	return e->kind == TR_READ || e->kind == TR_WRITE;
}

/* Spread the recorded times over the accesses that precede them. */
static void join(struct program *p, const struct trace_event *times, size_t n, unsigned int node)
{
	size_t i, start = 0, k, t = 0;

	for (i = 0; i < p->n; i++) {
		if (is_access(&p->v[i]) || p->v[i].kind == TR_REGION)
			continue;
		while (t < n && times[t].kind == TR_REGION)
			t++;
		if (t == n || times[t].kind != p->v[i].kind || times[t].what != p->v[i].what) {
			fprintf(stderr, "sim: the two runs of node %u differ at event %zu\n", node,
				i);
			exit(2);
		}
		for (k = start; k <= i; k++)
			if (p->v[k].kind != TR_REGION)
				p->v[k].ns = times[t].ns / (i - start + 1);
		start = i + 1;
		t++;
	}
}

static void look_over(struct replay *r, unsigned int node)
{
	const struct program *p = &r->programs[node];
	unsigned int barriers = 0;
	size_t i, k;

	for (i = 0; i < p->n; i++) {
		const struct trace_event *e = &p->v[i];

		barriers += e->kind == TR_BARRIER;
		if (e->kind == TR_MUTEX)
			r->homes[e->what] = (uint16_t)node;
		if (e->kind == TR_REGION)
			for (k = e->what; k < e->what + e->ns && k < r->pages; k++)
				r->block_pages[k] = (uint16_t)e->count;
	}
	if (barriers > r->barriers)
		r->barriers = barriers;
}

struct replay *replay_load(const char *dir)
{
	struct replay *r = must(calloc(1, sizeof(*r)));
	struct trace_header h, t;
	unsigned int i;

	free(load(dir, 0, "accesses", &h));
	r->nodes = h.ranks;
	r->pages = h.pages;
	r->mutexes = h.mutexes;
	r->programs = must(calloc(r->nodes, sizeof(*r->programs)));
	r->homes = must(calloc(r->mutexes + 1, sizeof(*r->homes)));
	r->block_pages = must(calloc(r->pages + 1, sizeof(*r->block_pages)));
	for (i = 0; i < r->nodes; i++) {
		struct program *p = &r->programs[i];
		struct trace_event *times;

		p->v = load(dir, i, "accesses", &h);
		p->n = h.events;
		times = load(dir, i, "times", &t);
		join(p, times, t.events, i);
		free(times);
		look_over(r, i);
	}
	return r;
}

void replay_free(struct replay *r)
{
	unsigned int i;

	for (i = 0; i < r->nodes; i++)
		free(r->programs[i].v);
	free(r->programs);
	free(r->homes);
	free(r->block_pages);
	free(r);
}

void replay_options(const struct replay *r, struct options *o)
{
	o->nodes = r->nodes;
	o->blocks = r->pages;
	o->threads = 1;
	o->ops = r->barriers + 1;
	o->objects = r->mutexes + 1;
	o->first_touch = true;
	o->replay = (struct replay *)r;
}

uint16_t replay_home(const struct replay *r, uint32_t mutex)
{
	return r->homes[mutex];
}

unsigned int replay_block_bytes(const struct replay *r, uint32_t block)
{
	return (r->block_pages[block] ? r->block_pages[block] : 1) * 4096u;
}

/* ---- running --------------------------------------------------------------------------------- */

static void prefetch(struct sim *s, uint16_t node, uint32_t block, uint32_t pages, uint8_t op)
{
	const struct replay *r = s->o.replay;
	struct thread *t = sim_thread(s, node, 0);
	uint32_t end = block + pages < r->pages ? block + pages : r->pages, step;

	for (; block < end; block += step) {
		step = r->block_pages[block] ? r->block_pages[block] : 1;
		block -= block % step;
		t->block = block;
		t->op = op;
		if (s->hw[sim_at(s, node, block)] < (op == OP_PREFETCH_W ? PROT_RW : PROT_RO))
			thread_prefetch(s, node, t);
	}
}

/* A reader misses on the next block in order: request the blocks after it. */
static void read_ahead(struct sim *s, uint16_t node, struct program *p, uint32_t block)
{
	uint32_t size = replay_block_bytes(s->o.replay, block) / 4096;

	p->ahead = block == p->expect ? p->ahead * 2 + 1 : 0;
	if (p->ahead > s->o.readahead)
		p->ahead = s->o.readahead;
	if (p->ahead)
		prefetch(s, node, block + size, p->ahead * size, OP_PREFETCH_R);
	p->expect = block + size + p->ahead * size;
}

static void access_block(struct sim *s, uint16_t node, struct program *p,
			 const struct trace_event *e)
{
	struct thread *t = sim_thread(s, node, 0);
	bool miss = s->hw[sim_at(s, node, e->what)] == PROT_CLOSED;

	if (e->kind == TR_READ && miss && s->pages[sim_at(s, node, e->what)].state == PG_INVALID)
		read_ahead(s, node, p, e->what);
	t->block = e->what;
	t->op = e->kind == TR_READ ? OP_READ : OP_WRITE;
	thread_access(s, node, 0);
}

/* Node 0 has executed an event: note the begin and end of the timed part. */
static void mark(struct sim *s, struct replay *r, uint8_t kind)
{
	if (kind == TR_BEGIN)
		r->armed = true;
	if (kind == TR_BARRIER && r->armed && !r->begun) {
		r->begin = s->now;
		r->at_begin = s->st;
		r->begun = true;
	}
	if (kind == TR_END) {
		r->end = s->now;
		r->ended = true;
		s->stop = true;
	}
}

/* Execute the next event of a node. Called again until the event is complete (thread_next()). */
void replay_run(struct sim *s, uint16_t node)
{
	struct replay *r = s->o.replay;
	struct program *p = &r->programs[node];
	struct thread *t = sim_thread(s, node, 0);
	const struct trace_event *e;

	if (t->done) { /* the event is complete */
		t->done = 0;
		if (!node)
			mark(s, r, (uint8_t)p->v[p->next].kind);
		p->computed = false;
		p->next++;
	}
	if (p->next == p->n) {
		t->pc = PC_DONE;
		return;
	}
	e = &p->v[p->next];
	if (!p->computed && e->ns && e->kind != TR_REGION) {
		p->computed = true;
		if (r->begun)
			r->compute += e->ns;
		thread_wake_after(s, node, 0, loggp_ticks((double)e->ns / 1e3));
		return;
	}
	switch ((enum trace_kind)e->kind) {
	case TR_READ:
	case TR_WRITE: access_block(s, node, p, e); return;
	case TR_BARRIER:
		t->op = OP_BARRIER;
		sync_call(s, node, 0);
		return;
	case TR_LOCK:
		t->op = OP_LOCK;
		t->handle = e->what;
		sync_lock(s, node, 0);
		return;
	case TR_UNLOCK:
		t->op = OP_LOCK;
		sync_inside(s, node, 0);
		return;
	case TR_PREFETCH_R:
	case TR_PREFETCH_W:
		prefetch(s, node, e->what, e->count,
			 e->kind == TR_PREFETCH_W ? OP_PREFETCH_W : OP_PREFETCH_R);
		break;
	case TR_BEGIN:
	case TR_END:
	case TR_MUTEX:
	case TR_REGION:
	case TR_KINDS: break;
	}
	thread_next(s, node, 0);
}

/* One line of JSON. */
int replay_report(const struct sim *s)
{
	static const char *const names[MISSES] = { "", "read", "write", "upgrade" };
	const struct replay *r = s->o.replay;
	uint64_t misses = 0;
	unsigned int i;

	if (!r->begun || !r->ended) {
		fprintf(stderr, "sim: the trace has no timed part, or it did not end\n");
		return 1;
	}
	printf("{\"nodes\": %u, \"seconds\": %.9f, \"compute\": %.9f", r->nodes,
	       (double)(r->end - r->begin) / TICKS_PER_US / 1e6, (double)r->compute / 1e9);
	for (i = 1; i < MISSES; i++) {
		uint64_t n = s->st.misses[i] - r->at_begin.misses[i];

		misses += n;
		printf(", \"%s_misses\": %" PRIu64 ", \"%s_us\": %.3f", names[i], n, names[i],
		       n ? (double)(s->st.time[i] - r->at_begin.time[i]) / TICKS_PER_US / (double)n
			 : 0);
	}
	printf(", \"misses\": %" PRIu64 ", \"messages\": %" PRIu64 ", \"blocks\": %" PRIu64
	       ", \"barriers\": %" PRIu64 "}\n",
	       misses, s->st.total - r->at_begin.total,
	       s->st.messages[MSG_DATA] - r->at_begin.messages[MSG_DATA],
	       (s->st.episodes - r->at_begin.episodes) / r->nodes);
	return 0;
}
