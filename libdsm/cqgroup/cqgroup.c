// SPDX-License-Identifier: BSD-2-Clause
/*
 * cqgroup.c - one group: its vectors, the CQs on them, and their counters.
 *
 * The lock guards the list of CQs and the numbers of CQs per vector. It is held for a search, never
 * during a call of libibverbs. The lock of the host's loads (load.c) is taken inside it. A CQ is in
 * the list from after it was made until before it is destroyed, so an address that libibverbs uses
 * again is never there twice. Events and completions are counted without the lock.
 */
#include "cqgroup.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cqgroup/group.h"
#include "cqgroup/load.h"

/* Each has a cache line: threads of different vectors count at the same time. */
struct slot {
	uint64_t events, completions;
	unsigned int vector;
	int cpu;          /* CPU of its interrupt; -ENODATA: none */
	unsigned int cqs; /* under the lock */
	uint64_t made;    /* under the lock */
} __attribute__((aligned(64)));

struct member {
	struct member *next;
	const struct ibv_cq *cq;
	struct slot *slot;
};

struct cqgroup {
	struct ibv_context *ctx;
	struct cqset cpus;
	char name[CQGROUP_NAME_MAX];
	pthread_mutex_t lock;
	struct member *members; /* under the lock */
	struct cqload *load;
	unsigned int turn; /* under the lock: index of the slot whose turn is next */
	bool placed;       /* under the lock: the first turn was chosen, by the host's loads */
	unsigned int nslots;
	struct slot *slots; /* by ascending vector */
	uint16_t *index;    /* by vector: its slot + 1; 0: not of this group */
	unsigned int nindex;
};

void cqgroup_why(char *why, const char *fmt, ...)
{
	va_list ap;

	if (!why)
		return;
	va_start(ap, fmt);
	vsnprintf(why, CQGROUP_WHY_MAX, fmt, ap);
	va_end(ap);
}

/* ---- making -------------------------------------------------------------------------------- */

int cqgroup_vectors(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors,
		    char *why)
{
	unsigned int beyond = cqset_next(vectors, dev->nvectors);

	if (beyond == CQSET_MAX)
		return 0;
	if (dev->nvectors == 1)
		cqgroup_why(why, "%s: there is no vector %u: %s has one completion vector, 0", name,
			    beyond, dev->name);
	else
		cqgroup_why(why, "%s: there is no vector %u: %s has %u completion vectors, 0 to %u",
			    name, beyond, dev->name, dev->nvectors, dev->nvectors - 1);
	return -ERANGE;
}

int cqgroup_cpus(const struct cqgroup_device *dev, const char *name, const struct cqset *vectors,
		 const char *text, size_t len, struct cqgroup_place *out, char *why)
{
	struct cqset cpus = { { 0 } };
	bool listed = false;
	char words[CQGROUP_WHY_MAX / 2], online[64];
	unsigned int n;

	if (!len || (len == 4 && !memcmp(text, "auto", 4))) {
		for (n = cqset_next(vectors, 0); n < CQSET_MAX; n = cqset_next(vectors, n + 1))
			cqset_add(&cpus, cqgroup_device_cpu(dev, n));
	} else if (len != 4 || memcmp(text, "none", 4)) {
		listed = true;
		if (cqset_parse(text, len, &cpus, words, sizeof(words))) {
			cqgroup_why(why, "CPUs of %s: %s", name, words);
			return -EINVAL;
		}
		for (n = cqset_next(&cpus, 0); n < CQSET_MAX; n = cqset_next(&cpus, n + 1)) {
			if (cqset_has(&dev->online, n))
				continue;
			cqset_print(&dev->online, online, sizeof(online));
			cqgroup_why(why, "CPUs of %s: CPU %u is not online, %s are", name, n,
				    online);
			return -ERANGE;
		}
	}
	*out = (struct cqgroup_place){ .cpus = cpus, .listed = listed };
	return 0;
}

/* The CPU for the i-th vector of a group, as scripts/irq-affinity chooses it. */
static int interrupt_cpu(const struct cqgroup_device *dev, const struct cqgroup_place *place,
			 unsigned int i, unsigned int vector)
{
	const unsigned int n = cqset_count(&place->cpus);

	if (!n)
		return -ENODATA;
	return (int)(place->listed ? cqset_nth(&place->cpus, i % n)
				   : cqgroup_device_irq_cpu(dev, vector));
}

int cqgroup_make(struct ibv_context *ctx, const struct cqgroup_device *dev, const char *name,
		 const struct cqset *vectors, const struct cqgroup_place *place,
		 struct cqgroup **out)
{
	struct cqgroup *g = calloc(1, sizeof(*g));
	unsigned int i, v = 0;

	if (!g)
		return -ENOMEM;
	g->ctx = ctx;
	g->cpus = place->cpus;
	snprintf(g->name, sizeof(g->name), "%s", name);
	g->nslots = cqset_count(vectors);
	g->nindex = cqset_nth(vectors, g->nslots - 1) + 1;
	g->slots = aligned_alloc(sizeof(*g->slots), g->nslots * sizeof(*g->slots));
	g->index = calloc(g->nindex, sizeof(*g->index));
	if (!g->slots || !g->index)
		goto free_group;
	g->load = cqload_of(ctx->device->name, dev->nvectors);
	if (!g->load)
		goto free_group;
	memset(g->slots, 0, g->nslots * sizeof(*g->slots));
	for (i = 0; i < g->nslots; i++, v++) {
		v = cqset_next(vectors, v);
		g->slots[i].vector = v;
		g->slots[i].cpu = interrupt_cpu(dev, place, i, v);
		g->index[v] = (uint16_t)(i + 1);
	}
	pthread_mutex_init(&g->lock, NULL);
	*out = g;
	return 0;

free_group:
	free(g->index);
	free(g->slots);
	free(g);
	return -ENOMEM;
}

int cqgroup_create(struct ibv_context *ctx, const char *name, const char *vectors, const char *cpus,
		   struct cqgroup **out, char *why)
{
	char words[CQGROUP_WHY_MAX / 2];
	struct cqset vs = { { 0 } };
	struct cqgroup_place place;
	struct cqgroup_device dev;
	int err;

	if (!name || !*name || strlen(name) >= CQGROUP_NAME_MAX) {
		cqgroup_why(why, "a group's name has 1 to %d bytes", CQGROUP_NAME_MAX - 1);
		return -EINVAL;
	}
	cqgroup_device_of(ctx, &dev);
	if (!vectors) {
		cqset_range(&vs, 0, dev.nvectors);
	} else if (cqset_parse(vectors, strlen(vectors), &vs, words, sizeof(words))) {
		cqgroup_why(why, "vectors of %s: %s", name, words);
		return -EINVAL;
	}
	err = cqgroup_vectors(&dev, name, &vs, why);
	if (!err)
		err = cqgroup_cpus(&dev, name, &vs, cpus ? cpus : "", cpus ? strlen(cpus) : 0,
				   &place, why);
	if (!err) {
		err = cqgroup_make(ctx, &dev, name, &vs, &place, out);
		if (err)
			cqgroup_why(why, "no memory for %s", name);
	}
	return err;
}

void cqgroup_destroy(struct cqgroup *g)
{
	struct member *m, *next;

	if (!g)
		return;
	for (m = g->members; m; m = next) {
		next = m->next;
		free(m);
	}
	pthread_mutex_destroy(&g->lock);
	free(g->index);
	free(g->slots);
	free(g);
}

/* ---- vectors and CQs ----------------------------------------------------------------------- */

static struct slot *group_slot(const struct cqgroup *g, unsigned int vector)
{
	return vector < g->nindex && g->index[vector] ? &g->slots[g->index[vector] - 1] : NULL;
}

static uint64_t counted(const uint64_t *c)
{
	return __atomic_load_n(c, __ATOMIC_RELAXED);
}

/*
 * Chooses the vector with the fewest CQs on the host, then with the fewest completions here, then
 * the first from g->turn on.
 */
static unsigned int least_loaded(const struct cqgroup *g)
{
	unsigned int best = 0, best_load = 0, i;

	for (i = 0; i < g->nslots; i++) {
		const unsigned int at = (g->turn + i) % g->nslots,
				   load = cqload_get(g->load, g->slots[at].vector);

		if (i &&
		    (load > best_load ||
		     (load == best_load &&
		      counted(&g->slots[at].completions) >= counted(&g->slots[best].completions))))
			continue;
		best = at;
		best_load = load;
	}
	return best;
}

int cqgroup_take(struct cqgroup *g, enum cqgroup_policy policy)
{
	struct slot *s;

	if (policy != CQGROUP_ROUND_ROBIN && policy != CQGROUP_LEAST_LOADED)
		return -EINVAL;
	pthread_mutex_lock(&g->lock);
	cqload_begin(g->load);
	if (policy == CQGROUP_LEAST_LOADED) {
		s = &g->slots[least_loaded(g)];
	} else {
		if (!g->placed)
			g->turn = least_loaded(g);
		g->placed = true;
		s = &g->slots[g->turn++ % g->nslots];
	}
	cqload_add(g->load, s->vector);
	cqload_end(g->load);
	s->cqs++;
	s->made++;
	pthread_mutex_unlock(&g->lock);
	return (int)s->vector;
}

void cqgroup_give(struct cqgroup *g, unsigned int vector)
{
	struct slot *s = group_slot(g, vector);

	if (!s)
		return;
	pthread_mutex_lock(&g->lock);
	if (s->cqs) {
		s->cqs--;
		cqload_begin(g->load);
		cqload_remove(g->load, vector);
		cqload_end(g->load);
	}
	pthread_mutex_unlock(&g->lock);
}

void cqgroup_set_turn(struct cqgroup *g, unsigned int turn)
{
	pthread_mutex_lock(&g->lock);
	g->turn = turn % g->nslots;
	pthread_mutex_unlock(&g->lock);
}

static void member_add(struct cqgroup *g, struct member *m)
{
	pthread_mutex_lock(&g->lock);
	m->next = g->members;
	g->members = m;
	pthread_mutex_unlock(&g->lock);
}

static struct member *member_take(struct cqgroup *g, const struct ibv_cq *cq)
{
	struct member **at, *m;

	pthread_mutex_lock(&g->lock);
	for (at = &g->members; *at && (*at)->cq != cq;)
		at = &(*at)->next;
	m = *at;
	if (m)
		*at = m->next;
	pthread_mutex_unlock(&g->lock);
	return m;
}

int cqgroup_create_cq(struct cqgroup *g, int cqe, void *cq_context,
		      struct ibv_comp_channel *channel, enum cqgroup_policy policy,
		      struct ibv_cq **out)
{
	struct member *m;
	struct ibv_cq *cq;
	int vector, err;

	vector = cqgroup_take(g, policy);
	if (vector < 0)
		return vector;
	m = malloc(sizeof(*m));
	if (!m) {
		err = -ENOMEM;
		goto give;
	}
	errno = 0;
	cq = ibv_create_cq(g->ctx, cqe, cq_context, channel, vector);
	if (!cq) {
		err = errno ? -errno : -EIO;
		goto free_member;
	}
	*m = (struct member){ .cq = cq, .slot = group_slot(g, (unsigned int)vector) };
	member_add(g, m);
	*out = cq;
	return 0;

free_member:
	free(m);
give:
	cqgroup_give(g, (unsigned int)vector);
	return err;
}

int cqgroup_destroy_cq(struct cqgroup *g, struct ibv_cq *cq)
{
	struct member *m = member_take(g, cq);
	int err;

	if (!m)
		return -ENOENT;
	err = ibv_destroy_cq(cq);
	if (err) {
		member_add(g, m);
		return err > 0 ? -err : err;
	}
	cqgroup_give(g, m->slot->vector);
	free(m);
	return 0;
}

int cqgroup_cq_vector(struct cqgroup *g, const struct ibv_cq *cq)
{
	const struct member *m;
	int vector = -ENOENT;

	pthread_mutex_lock(&g->lock);
	for (m = g->members; m && m->cq != cq;)
		m = m->next;
	if (m)
		vector = (int)m->slot->vector;
	pthread_mutex_unlock(&g->lock);
	return vector;
}

int cqgroup_vector_cpu(const struct cqgroup *g, unsigned int vector)
{
	const struct slot *s = group_slot(g, vector);

	return s ? s->cpu : -ENOENT;
}

/* ---- threads and counters ------------------------------------------------------------------ */

int cqgroup_bind_thread(const struct cqgroup *g)
{
	if (cqset_count(&g->cpus) &&
	    sched_setaffinity(0, sizeof(g->cpus), (const cpu_set_t *)&g->cpus))
		return -errno;
	return 0;
}

void cqgroup_count(struct cqgroup *g, unsigned int vector, uint64_t events, uint64_t completions)
{
	struct slot *s = group_slot(g, vector);

	if (!s)
		return;
	if (events)
		__atomic_fetch_add(&s->events, events, __ATOMIC_RELAXED);
	if (completions)
		__atomic_fetch_add(&s->completions, completions, __ATOMIC_RELAXED);
}

unsigned int cqgroup_query_vectors(struct cqgroup *g, struct cqgroup_vector *out, unsigned int max)
{
	unsigned int i;

	pthread_mutex_lock(&g->lock);
	for (i = 0; i < g->nslots && i < max; i++)
		out[i] =
			(struct cqgroup_vector){ .vector = g->slots[i].vector,
						 .cqs = g->slots[i].cqs,
						 .made = g->slots[i].made,
						 .events = counted(&g->slots[i].events),
						 .completions = counted(&g->slots[i].completions) };
	pthread_mutex_unlock(&g->lock);
	return g->nslots;
}

void cqgroup_query(struct cqgroup *g, struct cqgroup_info *out)
{
	struct cqset vectors = { { 0 } };
	unsigned int i;

	memset(out, 0, sizeof(*out));
	snprintf(out->name, sizeof(out->name), "%s", g->name);
	out->nvectors = g->nslots;
	pthread_mutex_lock(&g->lock);
	for (i = 0; i < g->nslots; i++) {
		cqset_add(&vectors, g->slots[i].vector);
		out->cqs += g->slots[i].cqs;
		out->events += counted(&g->slots[i].events);
		out->completions += counted(&g->slots[i].completions);
	}
	pthread_mutex_unlock(&g->lock);
	cqset_print(&vectors, out->vectors, sizeof(out->vectors));
	cqset_print(&g->cpus, out->cpus, sizeof(out->cpus));
}

const char *cqgroup_name(const struct cqgroup *g)
{
	return g->name;
}
