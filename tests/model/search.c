// SPDX-License-Identifier: BSD-2-Clause
/*
 * search.c - see search.h. One thread; memory grows with the number of worlds (some 150 bytes
 * each).
 */
#include "search.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

FILE *model_trace;

static char complaint[512];

void model_fail(const char *fmt, ...)
{
	va_list ap;

	if (complaint[0])
		return;
	va_start(ap, fmt);
	vsnprintf(complaint, sizeof(complaint), fmt, ap);
	va_end(ap);
}

void model_say(const char *fmt, ...)
{
	va_list ap;

	if (!model_trace)
		return;
	va_start(ap, fmt);
	vfprintf(model_trace, fmt, ap);
	va_end(ap);
}

/* A known world: where it is packed, and the event that first led to it. */
struct node {
	uint64_t at;
	uint32_t parent;
	uint32_t event;
};

struct search {
	const struct config *c;
	uint8_t *arena;
	uint64_t used, room;
	struct node *nodes;
	uint32_t count, nodes_room;
	uint64_t *table; /* upper half of the hash, and node + 1; 0: free */
	uint64_t table_size;
	uint32_t *edges; /* successors of each node, in the order of nodes */
	uint64_t nedges, edges_room;
	uint64_t *first; /* index of the node's first edge */
	uint8_t *good;   /* the world is final, or can reach a final one */
};

static void *grown(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	if (!p) {
		fprintf(stderr, "model: out of memory (%zu bytes)\n", bytes);
		exit(2);
	}
	return p;
}

/*
 * Packing: for each 64 bytes, a mask of the non-zero words; for each of these, a mask of bytes;
 * then the bytes.
 */
static size_t pack(const uint8_t *w, size_t size, uint8_t *out)
{
	const uint64_t low = 0x7f7f7f7f7f7f7f7fULL;
	uint8_t *o = out;
	size_t i, j;

	for (i = 0; i < size; i += 64) {
		uint8_t *words = o++;
		unsigned int mask = 0;

		for (j = 0; j < 8; j++) {
			uint64_t v, bytes;

			memcpy(&v, w + i + j * 8, 8);
			if (!v)
				continue;
			mask |= 1u << j;
			/* The upper bit of each byte that is not 0. */
			bytes = (((v & low) + low) | v) & ~low;
			*o++ = (uint8_t)((bytes >> 7) * 0x0102040810204080ULL >> 56);
			for (; bytes; bytes &= bytes - 1)
				*o++ = (uint8_t)(v >> (__builtin_ctzll(bytes) - 7));
		}
		*words = (uint8_t)mask;
	}
	return (size_t)(o - out);
}

static void unpack(const uint8_t *in, size_t size, uint8_t *w)
{
	size_t i;

	memset(w, 0, size);
	for (i = 0; i < size; i += 64) {
		unsigned int words = *in++, bytes;

		for (; words; words &= words - 1) {
			uint8_t *word = w + i + (size_t)__builtin_ctz(words) * 8;

			for (bytes = *in++; bytes; bytes &= bytes - 1)
				word[__builtin_ctz(bytes)] = *in++;
		}
	}
}

static uint64_t hash(const uint8_t *p, size_t n)
{
	uint64_t h = n * 0x9e3779b97f4a7c15ULL, v;

	while (n) {
		size_t k = n < 8 ? n : 8;

		v = 0;
		memcpy(&v, p, k);
		h = (h ^ v) * 0xff51afd7ed558ccdULL;
		h ^= h >> 29;
		p += k;
		n -= k;
	}
	return h * 0xc4ceb9fe1a85ec53ULL;
}

static void rehash(struct search *s)
{
	uint64_t *old = s->table, i, n = s->table_size;

	s->table_size = n ? n * 2 : 1 << 16;
	s->table = grown(NULL, s->table_size * sizeof(*s->table));
	memset(s->table, 0, s->table_size * sizeof(*s->table));
	for (i = 0; i < n; i++) {
		uint64_t at;

		if (!old[i])
			continue;
		/*
		 * The table position is taken from the upper half of the hash, which the entry
		 * stores.
		 */
		at = (old[i] >> 32) & (s->table_size - 1);
		while (s->table[at])
			at = (at + 1) & (s->table_size - 1);
		s->table[at] = old[i];
	}
	free(old);
}

/* A world that was met, packed, and what led to it. */
struct met {
	uint8_t packed[WORLD_MAX * 2];
	size_t size;
	uint64_t hash; /* its upper half */
	uint32_t parent, event;
};

static uint64_t slot_of(const struct search *s, uint64_t hash)
{
	return hash & (s->table_size - 1);
}

static void meet(struct search *s, const uint8_t *world, uint32_t parent, uint32_t event,
		 struct met *m)
{
	m->size = pack(world, s->c->model->size, m->packed);
	m->hash = hash(m->packed, m->size) >> 32;
	m->parent = parent;
	m->event = event;
	if (s->table)
		__builtin_prefetch(&s->table[slot_of(s, m->hash)]);
}

/* The number of the world, which may be new. */
static uint32_t intern(struct search *s, const struct met *m)
{
	uint64_t at;

	if ((uint64_t)s->count * 2 >= s->table_size)
		rehash(s);
	for (at = slot_of(s, m->hash); s->table[at]; at = slot_of(s, at + 1)) {
		uint32_t id = (uint32_t)s->table[at] - 1;
		uint64_t end;

		if (s->table[at] >> 32 != m->hash)
			continue;
		end = id + 1 < s->count ? s->nodes[id + 1].at : s->used;
		if (end - s->nodes[id].at == m->size &&
		    !memcmp(s->arena + s->nodes[id].at, m->packed, m->size))
			return id;
	}
	if (s->count == s->nodes_room) {
		s->nodes_room = s->nodes_room ? s->nodes_room * 2 : 1 << 14;
		s->nodes = grown(s->nodes, s->nodes_room * sizeof(*s->nodes));
		s->first = grown(s->first, (s->nodes_room + 1) * sizeof(*s->first));
	}
	if (s->used + m->size > s->room) {
		s->room = s->room ? s->room * 2 : 1 << 20;
		s->arena = grown(s->arena, s->room);
	}
	memcpy(s->arena + s->used, m->packed, m->size);
	s->nodes[s->count] = (struct node){ .at = s->used, .parent = m->parent, .event = m->event };
	s->used += m->size;
	s->table[at] = m->hash << 32 | (s->count + 1);
	return s->count++;
}

static void edge(struct search *s, uint32_t to)
{
	if (s->nedges == s->edges_room) {
		s->edges_room = s->edges_room ? s->edges_room * 2 : 1 << 16;
		s->edges = grown(s->edges, s->edges_room * sizeof(*s->edges));
	}
	s->edges[s->nedges++] = to;
}

/*
 * A node that cannot reach a final world, or `count` if there is none. Reverse breadth-first order
 * needs few sweeps.
 */
static uint32_t hopeless(struct search *s, const uint8_t *final)
{
	bool changed = true;
	uint32_t i;
	uint64_t e;

	s->good = grown(NULL, s->count);
	memcpy(s->good, final, s->count);
	while (changed) {
		changed = false;
		for (i = s->count; i-- > 0;)
			for (e = s->first[i]; !s->good[i] && e < s->first[i + 1]; e++)
				if (s->good[s->edges[e]])
					s->good[i] = changed = true;
	}
	for (i = 0; i < s->count && s->good[i]; i++)
		;
	return i;
}

/* Replay the path to node, then last_event if there was one. */
static void trace(struct search *s, uint32_t node, bool last, uint32_t last_event)
{
	static uint8_t world[WORLD_MAX];
	const struct model *m = s->c->model;
	uint32_t n = 0, at, i, *way;

	for (at = node; at; at = s->nodes[at].parent)
		n++;
	way = grown(NULL, (n + 1) * sizeof(*way));
	way[n] = last_event;
	for (at = node, i = n; at; at = s->nodes[at].parent)
		way[--i] = s->nodes[at].event;
	model_trace = stdout;
	memset(world, 0, m->size);
	m->start(s->c->cfg, world);
	m->canon(s->c->cfg, world);
	for (at = 0; at < n + last; at++) {
		printf("%3u ", at + 1);
		m->fire(s->c->cfg, world, way[at]);
		m->canon(s->c->cfg, world);
	}
	printf("in the end:\n");
	m->show(s->c->cfg, world);
	model_trace = NULL;
	free(way);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * Find all successors of a node. False: complaint is set; if *fired, *event led to it. A successor
 * is looked up when the next one has been computed: by then its entry in the table is in the cache.
 */
static bool expand(struct search *s, uint32_t node, uint8_t *final, bool *fired, uint32_t *event)
{
	static uint8_t world[WORLD_MAX], next[WORLD_MAX];
	static struct met met[2];
	const struct model *m = s->c->model;
	uint32_t events[EVENTS_MAX];
	unsigned int i, n;

	unpack(s->arena + s->nodes[node].at, m->size, world);
	*final = m->final(s->c->cfg, world);
	*fired = false;
	n = m->list(s->c->cfg, world, events);
	if (!n && !*final)
		model_fail("deadlock: nothing can happen any more");
	for (i = 0; i < n && !complaint[0]; i++) {
		memcpy(next, world, m->size);
		m->fire(s->c->cfg, next, events[i]);
		if (!complaint[0]) {
			m->canon(s->c->cfg, next);
			m->check(s->c->cfg, next);
		}
		*fired = true;
		*event = events[i];
		if (complaint[0])
			break;
		meet(s, next, node, events[i], &met[i % 2]);
		if (i)
			edge(s, intern(s, &met[(i - 1) % 2]));
	}
	if (i)
		edge(s, intern(s, &met[(i - 1) % 2]));
	return !complaint[0];
}

static void search_free(struct search *s)
{
	free(s->arena);
	free(s->nodes);
	free(s->table);
	free(s->edges);
	free(s->first);
	free(s->good);
}

static void report(const struct search *s, uint32_t depth, double seconds, const char *verdict)
{
	printf("%-26s %9u states %10llu transitions  depth %3u  %6.2f s  %s\n", s->c->name,
	       s->count, (unsigned long long)s->nedges, depth, seconds, verdict);
	fflush(stdout);
}

enum verdict search(const struct config *c, const struct limits *limits, bool quiet)
{
	static uint8_t world[WORLD_MAX];
	static struct met first;
	struct search s = { .c = c };
	uint8_t *final = NULL;
	uint32_t at, depth = 0, level_end = 1, event = 0;
	enum verdict v = HOLDS;
	double start = now();
	bool fired = false;

	complaint[0] = 0;
	memset(world, 0, sizeof(world));
	c->model->start(c->cfg, world);
	c->model->canon(c->cfg, world);
	meet(&s, world, 0, 0, &first);
	intern(&s, &first);
	for (at = 0; at < s.count && v == HOLDS; at++) {
		if (at == level_end) {
			depth++;
			level_end = s.count;
		}
		if (!(at & (at - 1)) || !final)
			final = grown(final, at ? (size_t)at * 2 : 1);
		s.first[at] = s.nedges;
		if (!expand(&s, at, &final[at], &fired, &event))
			v = VIOLATED;
		else if (s.count > limits->states ||
			 (!(at & 0xfff) && now() - start > limits->seconds))
			v = GAVE_UP;
	}
	if (v == HOLDS) {
		s.first[at] = s.nedges;
		at = hopeless(&s, final) + 1;
		fired = false;
		if (at <= s.count) {
			model_fail("livelock: no way from here to the end");
			v = VIOLATED;
		}
	}
	report(&s, depth, now() - start,
	       v == HOLDS             ? "holds"
		       : v == GAVE_UP ? "GAVE UP (limit)"
				      : complaint);
	if (v == VIOLATED && !quiet)
		trace(&s, at - 1, fired, event);
	search_free(&s);
	free(final);
	return v;
}
