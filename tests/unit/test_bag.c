// SPDX-License-Identifier: BSD-2-Clause
/* test_bag.c - the ring of tasks of libdsm-openmp.so (openmp/bag.h), beside a plain list. */
#include "openmp/bag.h"

#include <stdlib.h>
#include <string.h>

#include "openmp/task.h"
#include "openmp/team.h"
#include "suite.h"

enum { MOST = 400, PARENTS = 4, GROUPS = 3 };

void *openmp_must(void *memory, const char *what)
{
	ck_assert_msg(memory != NULL, "no memory for %s", what);
	return memory;
}

static struct task parents[PARENTS], tasks[MOST];
static struct group groups[GROUPS];
static struct task *list[MOST]; /* what is in the bag, in its order */
static unsigned int n_list;

static void list_remove(unsigned int i)
{
	memmove(&list[i], &list[i + 1], (--n_list - i) * sizeof(list[0]));
}

static void list_add(struct bag *b, unsigned int parent, unsigned int group)
{
	struct task *k = tasks;

	while (k->parent)
		k++;
	k->parent = &parents[parent];
	k->group = &groups[group];
	list[n_list++] = k;
	bag_add(b, k);
}

/* It was the one at i of the list; -1: there is none. */
static void took(struct task *k, int i)
{
	if (i < 0) {
		unit_require(!k);
		return;
	}
	unit_require(k == list[i]);
	k->parent = NULL;
	list_remove((unsigned int)i);
}

static int list_of_group(const struct group *g)
{
	unsigned int i;

	for (i = 0; i < n_list; i++)
		if (list[i]->group == g || list[i]->group->outer == g)
			return (int)i;
	return -1;
}

static int list_child(const struct task *parent)
{
	unsigned int i;

	for (i = n_list; i; i--)
		if (list[i - 1]->parent == parent)
			return (int)i - 1;
	return -1;
}

static void check_counts(const struct bag *b)
{
	unsigned int i, k, n;

	unit_require(b->n == n_list);
	unit_require(bag_oldest(b) == (n_list ? list[0] : NULL));
	for (i = 0; i < PARENTS; i++) {
		for (n = k = 0; k < n_list; k++)
			n += list[k]->parent == &parents[i];
		unit_require(parents[i].waiting == n);
	}
}

static void start(void)
{
	memset(parents, 0, sizeof(parents));
	memset(tasks, 0, sizeof(tasks));
	memset(groups, 0, sizeof(groups));
	groups[1].outer = &groups[0];
	n_list = 0;
}

UNIT_TEST(takes_what_a_list_would)
{
	struct bag b = { 0 };
	unsigned int seed = 3, i, x;

	start();
	for (i = 0; i < 200000; i++) {
		x = (unsigned int)rand_r(&seed);
		/* it fills, and empties, in turns */
		if (x % 8 < (i / 1000 % 2 ? 5 : 3) && n_list < MOST)
			list_add(&b, x / 8 % PARENTS, x / 64 % GROUPS);
		else if (x / 512 % 3 == 0)
			took(bag_take_oldest(&b), n_list ? 0 : -1);
		else if (x / 512 % 3 == 1)
			took(bag_take_of_group(&b, &groups[x / 64 % GROUPS]),
			     list_of_group(&groups[x / 64 % GROUPS]));
		else
			took(bag_take_child(&b, &parents[x / 8 % PARENTS]),
			     list_child(&parents[x / 8 % PARENTS]));
		check_counts(&b);
	}
	bag_free(&b);
}

/* The oldest one stays, and one of two others at a time: holes come between, and must go. */
UNIT_TEST(does_not_grow_by_holes)
{
	struct bag b = { 0 };
	unsigned int i;

	start();
	list_add(&b, 0, 0);
	list_add(&b, 1, 0);
	for (i = 0; i < 100000; i++) {
		list_add(&b, 2 - i % 2, 0);
		took(bag_take_child(&b, &parents[1 + i % 2]), list_child(&parents[1 + i % 2]));
	}
	ck_assert_uint_eq(n_list, 2);
	ck_assert_uint_le(b.size, 64);
	bag_free(&b);
}

UNIT_SUITE("bag", .seconds = 60)
