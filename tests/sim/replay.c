// SPDX-License-Identifier: BSD-2-Clause
/*
 * replay.c - recorded applications (trace.h) on simulated nodes: the duration of the timed part
 * over a network (loggp.c).
 *
 * Each node executes its events in order: it computes, accesses blocks, and synchronises through
 * the core. The time of a node between two synchronisations is spread evenly over the accesses
 * between them. A thread fetches blocks ahead by the library's streams
 * (miss/stream.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "miss/stream.h"
#include "release.h"
#include "trace.h"

struct program {
	struct trace_event *v;
	size_t n, next;
	struct streams streams[2]; /* of reads, of writes */
	bool computed;             /* the computing time before the next event has passed */
};

struct replay {
	unsigned int nodes, pages, mutexes, barriers;
	struct program *programs;
	uint16_t *homes;       /* homes of the mutexes */
	uint16_t *block_pages; /* by page: number of pages of its block */
	uint16_t *writers;     /* by page: nodes that ever write it */
	bool release;          /* blocks of one page have release consistency */
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
	uint8_t *writes = must(calloc(r->pages + 1, 1));
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
		if (e->kind == TR_WRITE && !writes[e->what]) {
			writes[e->what] = 1;
			r->writers[e->what]++;
		}
	}
	free(writes);
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
	r->writers = must(calloc(r->pages + 1, sizeof(*r->writers)));
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
	free(r->writers);
	free(r);
}

void replay_options(struct replay *r, struct options *o)
{
	r->release = o->release;
	o->release = r->release ? r->pages : 0;
	o->nodes = r->nodes;
	o->blocks = r->pages;
	o->threads = 1;
	o->ops = r->barriers + 1;
	o->objects = r->mutexes + 1;
	o->first_touch = true;
	o->replay = r;
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

/* Release blocks have numbers after those of all pages. */
static bool weak(const struct replay *r, uint32_t page)
{
	return r->release && r->block_pages[page] <= 1;
}

/* What the hardware of the node allows. */
static uint8_t allowed(const struct sim *s, uint16_t node, uint32_t page)
{
	return weak(s->o.replay, page) ? rel_copy_of(s, node, s->o.blocks + page)->hw
				       : s->hw[sim_at(s, node, page)];
}

static void prefetch(struct sim *s, uint16_t node, uint32_t block, uint8_t op)
{
	const struct replay *r = s->o.replay;
	const struct thread t = { .block = weak(r, block) ? s->o.blocks + block : block, .op = op };

	if (allowed(s, node, block) < (op == OP_PREFETCH_W ? PROT_RW : PROT_RO))
		thread_prefetch(s, node, &t);
}

static void prefetch_all(struct sim *s, uint16_t node, uint32_t block, uint32_t pages, uint8_t op)
{
	const struct replay *r = s->o.replay;
	uint32_t end = block + pages < r->pages ? block + pages : r->pages, step;

	for (; block < end; block += step) {
		step = r->block_pages[block] ? r->block_pages[block] : 1;
		block -= block % step;
		prefetch(s, node, block, op);
	}
}

/* May a writer take this block ahead? If it wrote it last, or nobody ever did. */
static bool ours(const struct sim *s, uint16_t node, uint32_t block)
{
	const size_t at = sim_at(s, node, block);

	if (weak(s->o.replay, block))
		return rel_home_of(s, s->o.blocks + block) == node;
	if (s->pages[at].state == PG_READ)
		return s->pages[at].flags & PAGE_OWNER;
	return sim_manager(s, block) == node && s->dirs[at].state == DIR_UNTOUCHED;
}

/* A thread whose misses are a stream has the blocks ahead of it requested: together, as it does not
 * wait for them. */
void replay_ahead(struct sim *s, uint16_t node, bool write)
{
	const struct replay *r = s->o.replay;
	struct program *p = &r->programs[node];
	const size_t off = p->v[p->next].what * DIFF_PAGE;
	const unsigned int most = s->o.readahead,
			   farthest = most * STREAM_LONG < STREAM_MOST ? most * STREAM_LONG
								       : STREAM_MOST;
	struct stream *t = stream_missed(&p->streams[write], off,
					 replay_block_bytes(r, p->v[p->next].what), most, farthest);
	unsigned int n;

	loggp_apart(s, node);
	for (n = 0; t && n < t->window; n++) {
		const uint32_t at = (uint32_t)((off + (n + 1) * (size_t)t->distance) / DIFF_PAGE);

		if (at >= r->pages || (write && n >= stream_owed(t) && !ours(s, node, at)))
			break;
		prefetch(s, node, at, write ? OP_PREFETCH_W : OP_PREFETCH_R);
	}
	if (t)
		stream_asked(t, off, n);
}

/* The access itself. Of a block that several nodes write, each has its part. */
void replay_touch(struct sim *s, uint16_t node)
{
	const struct thread *t = sim_thread(s, node, 0);
	const unsigned int n = s->o.replay->writers[t->rblock - s->o.blocks];
	uint8_t *frame = rel_page(&rel_copy_of(s, node, t->rblock)->frame);

	s->st.loads += !t->rstore;
	if (t->rstore)
		memset(frame + node % n * (DIFF_PAGE / n), (int)(++s->st.stores % 251 + 1),
		       DIFF_PAGE / n);
}

/* Of a release block. */
static void access_weak(struct sim *s, uint16_t node, const struct trace_event *e)
{
	const uint8_t hw = allowed(s, node, e->what);
	const struct loggp *net = s->o.net;
	struct thread *t = sim_thread(s, node, 0);

	t->op = e->kind == TR_READ ? OP_LOAD : OP_STORE;
	t->rblock = s->o.blocks + e->what;
	t->rstore = e->kind == TR_WRITE;
	t->touches = 1;
	t->pc = PC_TRY;
	if (hw >= (t->rstore ? PROT_RW : PROT_RO)) {
		release_touch(s, node, 0);
		return;
	}
	t->miss = !t->rstore ? MISS_READ : hw ? MISS_UPGRADE : MISS_WRITE;
	t->asked = s->now;
	/* an upgrade makes a twin, and opens the block, without a message */
	thread_wake_after(s, node, 0, loggp_ticks(net->fault + (hw ? net->open : 0)));
}

static void access_block(struct sim *s, uint16_t node, const struct trace_event *e)
{
	struct thread *t = sim_thread(s, node, 0);

	if (weak(s->o.replay, e->what)) {
		access_weak(s, node, e);
		return;
	}
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
	case TR_WRITE: access_block(s, node, e); return;
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
		prefetch_all(s, node, e->what, e->count,
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
	       ", \"flushes\": %" PRIu64 ", \"barriers\": %" PRIu64 "}\n",
	       misses, s->st.carried - r->at_begin.carried,
	       s->st.messages[MSG_DATA] - r->at_begin.messages[MSG_DATA],
	       s->st.messages[MSG_FLUSH] - r->at_begin.messages[MSG_FLUSH],
	       (s->st.episodes - r->at_begin.episodes) / r->nodes);
	return 0;
}
