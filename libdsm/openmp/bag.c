// SPDX-License-Identifier: BSD-2-Clause
/* bag.c - see bag.h. */
#include "bag.h"

#include <stdlib.h>

#include "task.h"
#include "team.h"

#define SIZE_FIRST 64u

void bag_free(struct bag *b)
{
	free(b->ring);
}

static struct task **bag_at(const struct bag *b, size_t position)
{
	return &b->ring[position & (b->size - 1)];
}

/* Its holes go; it grows if there are few. */
static void bag_grow(struct bag *b)
{
	struct bag more = { .size = !b->size             ? SIZE_FIRST
				    : b->n > b->size / 2 ? 2 * b->size
							 : b->size };
	size_t i;

	more.ring = openmp_must(malloc(more.size * sizeof(*more.ring)), "tasks");
	for (i = b->oldest; i != b->end; i++)
		if (*bag_at(b, i))
			more.ring[more.end++] = *bag_at(b, i);
	more.n = b->n;
	free(b->ring);
	*b = more;
}

void bag_add(struct bag *b, struct task *k)
{
	if (b->end - b->oldest == b->size)
		bag_grow(b);
	*bag_at(b, b->end++) = k;
	b->n++;
	k->parent->waiting++;
}

static struct task *bag_take_at(struct bag *b, size_t position)
{
	struct task *k = *bag_at(b, position);

	*bag_at(b, position) = NULL;
	b->n--;
	k->parent->waiting--;
	while (b->end != b->oldest && !*bag_at(b, b->end - 1))
		b->end--;
	while (b->oldest != b->end && !*bag_at(b, b->oldest))
		b->oldest++;
	return k;
}

struct task *bag_oldest(const struct bag *b)
{
	return b->oldest == b->end ? NULL : *bag_at(b, b->oldest);
}

struct task *bag_take_oldest(struct bag *b)
{
	return bag_oldest(b) ? bag_take_at(b, b->oldest) : NULL;
}

struct task *bag_take_of_group(struct bag *b, const struct group *g)
{
	const struct task *k;
	size_t i;

	for (i = b->oldest; i != b->end; i++) {
		k = *bag_at(b, i);
		if (k && group_has(g, k->group))
			return bag_take_at(b, i);
	}
	return NULL;
}

struct task *bag_take_child(struct bag *b, const struct task *parent)
{
	const struct task *k;
	size_t i;

	for (i = b->end; parent->waiting && i != b->oldest; i--) {
		k = *bag_at(b, i - 1);
		if (k && k->parent == parent)
			return bag_take_at(b, i - 1);
	}
	return NULL;
}
