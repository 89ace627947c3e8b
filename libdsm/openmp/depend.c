// SPDX-License-Identifier: BSD-2-Clause
/* depend.c - see depend.h. */
#include "depend.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "task.h"
#include "team.h"

#define BUCKETS 256u

struct named {
	const void *address;
	struct named *next;     /* of its bucket */
	struct task *writer;    /* the last one, until it is done */
	struct naming *readers; /* since */
};

struct names {
	struct named *buckets[BUCKETS];
};

static unsigned int bucket_of(const void *address)
{
	return (unsigned int)((uintptr_t)address * 0x9e3779b97f4a7c15u >> 56);
}
_Static_assert(BUCKETS == 1u << (64 - 56), "the upper bits are the bucket");

static struct named *name_of(struct task *parent, const void *address)
{
	struct named **bucket, *n;

	if (!parent->names)
		parent->names =
			openmp_must(calloc(1, sizeof(*parent->names)), "dependences of tasks");
	bucket = &parent->names->buckets[bucket_of(address)];
	for (n = *bucket; n && n->address != address; n = n->next)
		;
	if (!n) {
		n = openmp_must(calloc(1, sizeof(*n)), "dependences of tasks");
		n->address = address;
		n->next = *bucket;
		*bucket = n;
	}
	return n;
}

void depend_forget(struct task *parent)
{
	struct named *n, *next;
	unsigned int i;

	for (i = 0; parent->names && i < BUCKETS; i++)
		for (n = parent->names->buckets[i]; n; n = next) {
			next = n->next;
			free(n);
		}
	free(parent->names);
	parent->names = NULL;
}

static void wait_for(struct task *before, struct task *k)
{
	struct successor *s;

	if (before == k)
		return;
	s = openmp_must(malloc(sizeof(*s)), "dependences of tasks");
	*s = (struct successor){ k, before->successors };
	before->successors = s;
	k->waits++;
}

static void writes(struct task *k, struct naming *g)
{
	struct named *n = g->what;
	struct naming *r;

	if (n->writer == k) { /* named twice */
		g->what = NULL;
		return;
	}
	if (!n->readers && n->writer)
		wait_for(n->writer, k);
	for (r = n->readers; r; r = r->next) {
		wait_for(r->task, k);
		r->what = NULL;
	}
	n->readers = NULL;
	n->writer = k;
}

static void reads(struct task *k, struct naming *g)
{
	struct named *n = g->what;

	if (n->writer == k) { /* it writes the same */
		g->what = NULL;
		return;
	}
	if (n->writer)
		wait_for(n->writer, k);
	g->next = n->readers;
	n->readers = g;
}

/* An omp_depend_t. */
struct depobj {
	void *address;
	int *kind; /* a number, as a pointer */
};

/*
 * list: the number of addresses, of which so many first ones are written; then they follow. Or 0,
 * their number, and the numbers of those that are written, that are written by one at a time, and
 * that are read; then they follow, and the rest are pointers to omp_depend_t.
 */
void depend_add(struct task *k, void **list)
{
	const bool old = list[0];
	const size_t n = old ? (size_t)list[0] : (size_t)list[1];
	const size_t written = old ? (size_t)list[1] : (size_t)list[2] + (size_t)list[3];
	const size_t plain = old ? n : written + (size_t)list[4];
	size_t i;

	list += old ? 2 : 5;
	k->namings = openmp_must(calloc(n ? n : 1, sizeof(*k->namings)), "dependences of tasks");
	k->n_namings = n;
	for (i = 0; i < n; i++) {
		struct naming *g = &k->namings[i];
		const struct depobj *o = list[i];

		g->task = k;
		g->writes = i < written || (i >= plain && (uintptr_t)o->kind != 1);
		g->what = name_of(k->parent, i < plain ? list[i] : o->address);
		if (g->writes)
			writes(k, g);
		else
			reads(k, g);
	}
}

/* Nobody reads or writes it any more. */
static void name_end(struct task *parent, struct named *n)
{
	struct named **at = &parent->names->buckets[bucket_of(n->address)];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	free(n);
}

static void unname(struct naming *g)
{
	struct named *n = g->what;
	struct naming **r;

	if (!n)
		return;
	for (r = &n->readers; *r && *r != g; r = &(*r)->next)
		;
	if (*r)
		*r = g->next;
	if (n->writer == g->task)
		n->writer = NULL;
	if (!n->writer && !n->readers)
		name_end(g->task->parent, n);
}

void depend_done(struct task *k, void (*ready)(void *arg, struct task *k), void *arg)
{
	struct successor *s, *next;
	size_t i;

	for (i = 0; i < k->n_namings; i++)
		unname(&k->namings[i]);
	free(k->namings);
	for (s = k->successors; s; s = next) {
		next = s->next;
		if (!--s->task->waits)
			ready(arg, s->task);
		free(s);
	}
}
