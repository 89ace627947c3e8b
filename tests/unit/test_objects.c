// SPDX-License-Identifier: BSD-2-Clause
/* test_objects.c - core/objects: names, indices, and the list of free ones used by two threads. */
#include "suite.h"

#include <pthread.h>

#include "core/objects.h"

#include "cross.h"

#define MANY 70000 /* indices need more than 16 bits */
#define OWN 8
#define TURNS 20000

static struct object_list list;
static struct sync *table;
static struct objects objects;

static void setup(void)
{
	memset(&list, 0, sizeof(list));
	table = calloc(MANY, sizeof(*table));
	ck_assert_ptr_nonnull(table);
	objects = (struct objects){ .list = &list, .flat = table, .limit = MANY };
}

static void teardown(void)
{
	free(table);
}

UNIT_TEST(a_name_is_the_place_and_its_generation)
{
	struct msg m = { 0 };

	ck_assert_uint_eq(OBJECT_GEN_MAX, 0xffffff); /* the width of the field in struct sync */
	ck_assert_uint_eq(object_name(0xfedcba, 0x654321), 0x654321fedcba);
	object_address(&m, 0x654321fedcba);
	ck_assert_uint_eq(m.object, 0x21fedcba);
	ck_assert_uint_eq(m.req_node, 0x6543);
	ck_assert_uint_eq(object_index(&m), 0xfedcba);
	ck_assert_uint_eq(object_gen(&m), 0x654321);
}

/*
 * Fresh indices come in order; the last one given back comes first. Each change of the list is
 * counted.
 */
UNIT_TEST(places_are_taken_up_to_the_last)
{
	uint32_t i, missing = 77;

	ck_assert_ptr_null(objects_at(&objects, 0));
	ck_assert_ptr_null(objects_at(&objects, MANY));
	for (i = 1; i < MANY; i++) {
		unit_require(objects_take(&objects, &missing) == i && !missing);
		unit_require(objects_at(&objects, i) == &table[i]);
	}
	missing = 77;
	ck_assert_uint_eq(objects_take(&objects, &missing), 0);
	ck_assert_uint_eq(missing, 0);
	ck_assert_uint_eq(list.fresh, MANY - 1);
	ck_assert_uint_eq(list.free, 0);
	objects_give(&objects, 3);
	ck_assert_uint_eq(list.free, 1ull << 32 | 3);
	objects_give(&objects, MANY - 1);
	ck_assert_uint_eq(list.free, 2ull << 32 | (MANY - 1));
	ck_assert_uint_eq(table[MANY - 1].tail, 3);
	ck_assert_uint_eq(objects_take(&objects, &missing), MANY - 1);
	ck_assert_uint_eq(list.free, 3ull << 32 | 3);
	ck_assert_uint_eq(objects_take(&objects, &missing), 3);
	ck_assert_uint_eq(list.free, 4ull << 32);
	ck_assert_uint_eq(objects_take(&objects, &missing), 0);
	objects_give(&objects, 0x10000);
	objects_give(&objects, 3);
	ck_assert_uint_eq(table[3].tail, 0x10000);
	ck_assert_uint_eq(objects_take(&objects, &missing), 3);
	ck_assert_uint_eq(objects_take(&objects, &missing), 0x10000);
	ck_assert_uint_eq(objects_take(&objects, &missing), 0);
}

UNIT_TEST(a_place_without_names_is_not_given_back)
{
	uint32_t missing;

	ck_assert_uint_eq(objects_take(&objects, &missing), 1);
	table[1].gen = OBJECT_GEN_MAX;
	objects_give(&objects, 1);
	ck_assert_uint_eq(list.free, 0);
	ck_assert_uint_eq(objects_take(&objects, &missing), 2);
	table[2].gen = OBJECT_GEN_MAX - 1;
	objects_give(&objects, 2);
	ck_assert_uint_eq(objects_take(&objects, &missing), 2);
}

UNIT_TEST(a_chunk_that_is_not_there_has_no_places)
{
	struct sync *chunks[2] = { table, NULL };
	uint32_t i, missing;

	objects = (struct objects){ .list = &list, .chunks = chunks, .limit = 2 * OBJECT_CHUNK };
	for (i = 0; i < OBJECT_CHUNK; i++)
		ck_assert_ptr_null(objects_at(&objects, OBJECT_CHUNK + i));
	for (i = 1; i < OBJECT_CHUNK; i++) {
		ck_assert_ptr_eq(objects_at(&objects, i), &table[i]);
		ck_assert_uint_eq(objects_take(&objects, &missing), i);
	}
	missing = 0;
	ck_assert_uint_eq(objects_take(&objects, &missing), 0);
	ck_assert_uint_eq(missing, OBJECT_CHUNK);
	chunks[1] = table + 1000;
	ck_assert_uint_eq(objects_take(&objects, &missing), OBJECT_CHUNK);
	ck_assert_ptr_eq(objects_at(&objects, OBJECT_CHUNK + 5), &table[1005]);
	ck_assert_ptr_null(objects_at(&objects, 2 * OBJECT_CHUNK));
}

#ifndef __SANITIZE_THREAD__
static uint32_t crossed;

static void take_too(void)
{
	uint32_t missing;

	crossed = objects_take(&objects, &missing);
}

static void give_too(void)
{
	objects_give(&objects, crossed);
}

/* As the head comment of objects.h describes. */
static void take_two_and_give_the_first(void)
{
	uint32_t missing, first = objects_take(&objects, &missing);

	crossed = objects_take(&objects, &missing);
	objects_give(&objects, first);
}

UNIT_TEST(what_crosses_a_change_of_the_list_is_kept)
{
	uint32_t i, missing;

	objects.list = cross_memory();
	cross_arm(take_too);
	/* another thread took the fresh one */
	ck_assert_uint_eq(objects_take(&objects, &missing), 2);
	ck_assert(cross_done());
	ck_assert_uint_eq(crossed, 1);
	cross_arm(give_too);
	objects_give(&objects, 2);
	ck_assert(cross_done());
	ck_assert_uint_eq(objects.list->free, 2ull << 32 | 2);
	ck_assert_uint_eq(table[2].tail, 1);
	ck_assert_uint_eq(table[1].tail, 0);
	cross_arm(take_too);
	ck_assert_uint_eq(objects_take(&objects, &missing), 1);
	ck_assert(cross_done());
	ck_assert_uint_eq(crossed, 2);
	for (i = 3; i > 0; i--)
		objects_give(&objects, i); /* 1, 2, 3 */
	cross_arm(take_two_and_give_the_first);
	ck_assert_uint_eq(objects_take(&objects, &missing), 1);
	ck_assert(cross_done());
	ck_assert_uint_eq(crossed, 2);
	ck_assert_uint_eq(objects_take(&objects, &missing), 3);
}
#endif

/* Threads take and give back. Each index has one owner, and none is lost. */
static void *turn_over(void *arg)
{
	uint32_t mine[OWN], missing;
	unsigned int i, k;

	for (i = 0; i < TURNS; i++) {
		for (k = 0; k < OWN; k++) {
			mine[k] = objects_take(&objects, &missing);
			unit_require(mine[k] && !table[mine[k]].readers);
			table[mine[k]].readers = 1;
		}
		for (k = 0; k < OWN; k++) {
			table[mine[k]].readers = 0;
			objects_give(&objects, mine[k]);
		}
	}
	return arg;
}

UNIT_TEST(two_threads_never_have_the_same_place)
{
	pthread_t other;
	uint32_t i, missing;

	objects.limit = 2 * OWN + 1;
	ck_assert_int_eq(pthread_create(&other, NULL, turn_over, NULL), 0);
	turn_over(NULL);
	ck_assert_int_eq(pthread_join(other, NULL), 0);
	ck_assert_uint_eq(list.free >> 32, 4 * OWN * TURNS - list.fresh);
	for (i = 0; i < 2 * OWN; i++)
		ck_assert_uint_ne(objects_take(&objects, &missing), 0);
	ck_assert_uint_eq(objects_take(&objects, &missing), 0);
}

UNIT_SUITE("objects", .setup = setup, .teardown = teardown)
