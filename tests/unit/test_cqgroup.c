// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_cqgroup.c - libdsm/cqgroup: the configuration and its mistakes, merging, CQs and their
 * vectors, NUMA defaults.
 */
#include "suite.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/wire.h"
#include "cqgroup/table.h"
#include "cqgroup_verbs.h"

#define TREE "tests/cqgroup/tree"

/* ---- tables -------------------------------------------------------------------------------- */

/* Returns the groups as text, or the error message. */
static const char *table(const struct cqgroup_device *dev, const char *config, int expected)
{
	struct cqgroup_table *t = NULL;
	static char text[512];
	int err;

	strcpy(why, "-");
	err = cqgroup_table_make(&context, dev, config, &t, why);
	ck_assert_msg(err == expected, "%s: %d: %s", config ? config : "(null)", err, why);
	if (err) {
		ck_assert_ptr_null(t);
		return why;
	}
	cqgroup_table_print(t, text, sizeof(text));
	cqgroup_table_destroy(t);
	return text;
}

/* Strips "@CPUs" from each group. */
static const char *vectors_only(const char *text)
{
	static char out[512];
	char *o = out;

	for (; *text; text++) {
		if (*text == '@')
			text += strcspn(text, ";");
		if (!*text)
			break;
		*o++ = *text;
	}
	*o = '\0';
	return out;
}

UNIT_TEST(classes_are_those_of_the_wire)
{
	ck_assert_int_eq((int)CQGROUP_COHERENCE, (int)CLASS_COHERENCE);
	ck_assert_int_eq((int)CQGROUP_DATA, (int)CLASS_DATA);
	ck_assert_int_eq((int)CQGROUP_SYNC, (int)CLASS_SYNC);
	ck_assert_int_eq((int)CQGROUP_BULK, (int)CLASS_BULK);
	ck_assert_int_eq((int)CQGROUP_CLASSES, (int)CLASS_MAX);
}

UNIT_TEST(defaults_merge_in_the_documented_order)
{
	char line[256], wanted[200];
	struct cqgroup_device dev;
	unsigned int n, seen = 0;
	FILE *f = fopen("tests/cqgroup/defaults", "re");

	ck_assert_msg(f != NULL, "run it in the top folder");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%u %199s", &n, wanted) != 2)
			continue;
		dev = with_vectors(n);
		ck_assert_str_eq(vectors_only(table(&dev, NULL, 0)), wanted);
		ck_assert_str_eq(vectors_only(table(&dev, "", 0)), wanted);
		ck_assert_str_eq(vectors_only(table(&dev, "auto", 0)), wanted);
		seen++;
	}
	fclose(f);
	ck_assert_uint_ge(seen, 7);
}

UNIT_TEST(every_class_has_a_group_and_no_vector_is_lost)
{
	struct cqgroup_vector v[4];
	struct cqgroup_device dev;
	struct cqgroup_table *t;
	unsigned int n, i, sum;

	for (n = 1; n <= 128; n++) {
		dev = with_vectors(n);
		ck_assert_int_eq(cqgroup_table_make(&context, &dev, NULL, &t, NULL), 0);
		for (i = 0; i < CQGROUP_CLASSES; i++)
			unit_require(cqgroup_table_class(t, (enum cqgroup_class)i));
		for (i = 0, sum = 0; cqgroup_table_at(t, i); i++)
			sum += cqgroup_query_vectors(cqgroup_table_at(t, i), v, 4);
		unit_require(sum == n);
		unit_require(i == (n < 4 ? n : 4));
		cqgroup_table_destroy(t);
	}
}

UNIT_TEST(merged_classes_share_a_group)
{
	struct cqgroup_device dev = with_vectors(2);
	struct cqgroup_table *t;

	ck_assert_int_eq(cqgroup_table_make(&context, &dev, NULL, &t, NULL), 0);
	ck_assert_ptr_eq(cqgroup_table_class(t, CQGROUP_DATA),
			 cqgroup_table_class(t, CQGROUP_BULK));
	ck_assert_ptr_eq(cqgroup_table_class(t, CQGROUP_COHERENCE),
			 cqgroup_table_class(t, CQGROUP_SYNC));
	ck_assert_ptr_ne(cqgroup_table_class(t, CQGROUP_COHERENCE),
			 cqgroup_table_class(t, CQGROUP_DATA));
	ck_assert_ptr_eq(cqgroup_table_find(t, "bulk"), cqgroup_table_class(t, CQGROUP_BULK));
	ck_assert_ptr_null(cqgroup_table_find(t, "data+bulk"));
	ck_assert_ptr_null(cqgroup_table_find(t, ""));
	ck_assert_str_eq(cqgroup_name(cqgroup_table_at(t, 0)), "coherence+sync");
	ck_assert_str_eq(cqgroup_name(cqgroup_table_at(t, 1)), "data+bulk");
	ck_assert_ptr_null(cqgroup_table_at(t, 2));
	cqgroup_table_destroy(t);
	cqgroup_table_destroy(NULL);
}

UNIT_TEST(configurations_are_understood)
{
	static const struct {
		unsigned int vectors;
		const char *config, *result;
	} cases[] = {
		{ 6, "coherence=0-1;data=2;sync=3;bulk=4-5",
		  "coherence=0-1@0-1;data=2@2;sync=3@3;bulk=4-5@4-5" },
		{ 6, " bulk = 0,2 @ 4-7 ; data=5@none;;sync=3@auto;coherence=1 ; ",
		  "coherence=1@1;data=5@none;sync=3@3;bulk=0,2@4-7" },
		{ 4, "off", "all=0-3@0-3" },
		{ 1, "off", "all=0@0" },
		{ 8, "data=7", "coherence=0-2@0-2;data=7@7;sync=3-4@3-4;bulk=5-6@5-6" },
		{ 8, "coherence=0-3;data=4;sync=5",
		  "coherence=0-3@0-3;data=4@4;sync=5@5;bulk=6-7@6-7" },
		{ 2, "coherence=0;data=1", "coherence+sync=0@0;data+bulk=1@1" },
		{ 2, "bulk=1@9", "coherence+data+sync=0@0;bulk=1@9" },
		{ 3, "sync=2;bulk=0", "coherence+data=1@1;sync=2@2;bulk=0@0" },
		{ 4, "coherence=1-3", "coherence+sync=1-3@1-3;data+bulk=0@0" },
		{ 1, "coherence=0", "coherence+data+sync+bulk=0@0" },
		{ 4, "coherence=fake0;data=fake0;sync=fake1;bulk=fake1",
		  "coherence=0-1@0-1;data=2-3@2-3" },
		{ 4, "coherence=fake0:2-3;bulk=fake1:0-1", "coherence=2-3@2-3;data=0@0;sync=1@1" },
		{ 4, " bulk = fake1 : 0 ; coherence = fake0 : 1 @ 9 ",
		  "coherence=1@9;data=0,2@0,2;sync=3@3" },
		{ 4, "sync=fake1:0;data=1", "coherence=0,2@0,2;data=1@1;bulk=3@3" },
		{ 1, "coherence=fake1;data=fake1", "sync+bulk=0@0" },
		{ 1, "coherence=fake1", "data+sync+bulk=0@0" },
		{ 2, "coherence=fake1;bulk=0-1", "data+sync+bulk=0-1@0-1" },
		{ 2, "coherence=fake1;data=fake1;sync=fake1;bulk=fake1", "all=0-1@0-1" },
	};
	struct cqgroup_device dev;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		dev = with_vectors(cases[i].vectors);
		ck_assert_int_eq(cqgroup_table_check(cases[i].config, why), 0);
		ck_assert_str_eq(table(&dev, cases[i].config, 0), cases[i].result);
	}
}

UNIT_TEST(mistakes_are_told_in_words)
{
	static const struct {
		const char *config;
		int err;
		const char *words;
	} cases[] = {
		{ "dat=1", -EINVAL,
		  "there is no group 'dat': the groups are coherence, data, sync and bulk" },
		{ "=1", -EINVAL, "there is no group ''" },
		{ "data", -EINVAL, "'data' is not like NAME=VECTORS" },
		{ "Off", -EINVAL, "'Off' is not like NAME=VECTORS" },
		{ "data=", -EINVAL, "vectors of data: '' is no list of numbers" },
		{ "data=mlx5_0:", -EINVAL, "vectors of data: '' is no list of numbers" },
		{ "data=mlx5_0:x", -EINVAL, "vectors of data: 'x' is no list of numbers" },
		{ "data=a/b", -EINVAL, "data: 'a/b' is no name of a device" },
		{ "data=mlx5_0;data=1", -EINVAL, "data is there twice" },
		{ "sync=fake1:0;data=0", -EINVAL, "vector 0 is in sync and in data" },
		{ "data=mlx5_0:1;sync=1", -EINVAL,
		  "vector 1 is in data and in sync: a vector belongs to one group" },
		{ "data=1:sync=2", -EINVAL, "vectors of data: '1:sync=2' is no list" },
		{ "data=3-1", -EINVAL, "vectors of data: the range 3-1 runs backwards" },
		{ "data=1,1", -EINVAL, "vectors of data: 1 is in '1,1' twice" },
		{ "data=1;data=2", -EINVAL, "data is there twice" },
		{ "data=0-2;sync=2-3", -EINVAL,
		  "vector 2 is in data and in sync: a vector belongs to one group" },
		{ "data=1@", -EINVAL, "data has nothing after its @" },
		{ "bulk=3-9", -ERANGE,
		  "bulk: there is no vector 4: fake0 has 4 completion vectors, 0 to 3" },
		{ "data=1@x", -EINVAL, "CPUs of data: 'x' is no list" },
		{ "data=1@2-1", -EINVAL, "CPUs of data: the range 2-1 runs backwards" },
		{ "data=1@60-64", -ERANGE, "CPUs of data: CPU 64 is not online, 0-63 are" },
		{ "data=0-3", -ENOSPC, "no vector of the 4 of fake0 is left for coherence" },
		{ "sync=0-1;bulk=2-3", -ENOSPC, "is left for coherence" },
	};
	struct cqgroup_device dev = with_vectors(4);
	const char *said;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		said = table(&dev, cases[i].config, cases[i].err);
		ck_assert_msg(strstr(said, cases[i].words) != NULL, "%s: %s", cases[i].config,
			      said);
		ck_assert_int_eq(cqgroup_table_make(&context, &dev, cases[i].config, NULL, NULL),
				 cases[i].err);
	}
	ck_assert_int_eq(cqgroup_table_check("data=0;sync=0", why), -EINVAL);
	ck_assert_int_eq(cqgroup_table_check("data=0;sync=1", NULL), 0);

	dev = with_vectors(1);
	ck_assert_str_eq(table(&dev, "data=1", -ERANGE),
			 "data: there is no vector 1: fake0 has one completion vector, 0");
}

UNIT_TEST(long_mistakes_fit)
{
	struct cqgroup_device dev = with_vectors(4);
	char config[2000];

	memset(config, 'x', sizeof(config));
	config[sizeof(config) - 1] = '\0';
	table(&dev, config, -EINVAL);
	memcpy(config, "data=", 5);
	table(&dev, config, -EINVAL);
	memcpy(config, "data=1@", 7);
	table(&dev, config, -EINVAL);
}

UNIT_TEST(table_is_made_for_a_context)
{
	struct cqgroup_table *t = NULL;
	char text[20];

	ck_assert_int_eq(cqgroup_table_create(&context, "coherence=0-1;data=2@0", &t, why), 0);
	cqgroup_table_print(t, text, sizeof(text));
	ck_assert_uint_eq(strlen(text), sizeof(text) - 1);
	cqgroup_table_destroy(t);
	ck_assert_int_eq(cqgroup_table_create(&context, "data=8", &t, why), -ERANGE);
}

/* ---- a group's CQs ------------------------------------------------------------------------- */

static struct ibv_cq *make_cq(struct cqgroup *g, enum cqgroup_policy policy)
{
	struct ibv_cq *cq = NULL;

	ck_assert_int_eq(cqgroup_create_cq(g, 16, &live, NULL, policy, &cq), 0);
	ck_assert_ptr_eq(cq->cq_context, &live);
	ck_assert_int_eq(cq->cqe, 16);
	ck_assert_int_eq(cqgroup_cq_vector(g, cq), asked_for(cq));
	return cq;
}

UNIT_TEST(round_robin_takes_turns)
{
	static const int expected[] = { 2, 3, 5, 2, 3, 5, 2 };
	struct cqgroup *g = group("2-3,5");
	struct ibv_cq *cq[7];
	int i;

	for (i = 0; i < 7; i++) {
		cq[i] = make_cq(g, CQGROUP_ROUND_ROBIN);
		ck_assert_int_eq(asked_for(cq[i]), expected[i]);
	}
	for (i = 0; i < 7; i++)
		ck_assert_int_eq(cqgroup_destroy_cq(g, cq[i]), 0);
	ck_assert_int_eq(live, 0);
	cqgroup_destroy(g);
	cqgroup_destroy(NULL);
}

UNIT_TEST(least_loaded_fills_gaps)
{
	struct cqgroup *g = group("1,4,6");
	struct ibv_cq *a = make_cq(g, CQGROUP_LEAST_LOADED), *b = make_cq(g, CQGROUP_LEAST_LOADED),
		      *c = make_cq(g, CQGROUP_LEAST_LOADED), *d;

	ck_assert_int_eq(asked_for(a), 1);
	ck_assert_int_eq(asked_for(b), 4);
	ck_assert_int_eq(asked_for(c), 6);
	ck_assert_int_eq(cqgroup_destroy_cq(g, b), 0);
	b = make_cq(g, CQGROUP_LEAST_LOADED);
	ck_assert_int_eq(asked_for(b), 4);
	/* With equal numbers of CQs, the vector with the fewest completions is chosen. */
	cqgroup_count(g, 1, 1, 100);
	cqgroup_count(g, 4, 1, 10);
	cqgroup_count(g, 6, 1, 50);
	d = make_cq(g, CQGROUP_LEAST_LOADED);
	ck_assert_int_eq(asked_for(d), 4);
	ck_assert_int_eq(cqgroup_destroy_cq(g, a), 0);
	ck_assert_int_eq(cqgroup_destroy_cq(g, b), 0);
	ck_assert_int_eq(cqgroup_destroy_cq(g, c), 0);
	ck_assert_int_eq(cqgroup_destroy_cq(g, d), 0);
	cqgroup_destroy(g);
}

UNIT_TEST(query_tells_cqs_events_and_completions)
{
	struct cqgroup *g = group("2-3,5");
	struct ibv_cq *a = make_cq(g, CQGROUP_ROUND_ROBIN), *b = make_cq(g, CQGROUP_ROUND_ROBIN);
	struct cqgroup_vector v[4];
	struct cqgroup_info info;

	cqgroup_count(g, 2, 1, 7);
	cqgroup_count(g, 2, 1, 0);
	cqgroup_count(g, 5, 0, 4);
	cqgroup_count(g, 4, 100, 100); /* the vector is not of this group */
	cqgroup_count(g, 4000000000u, 100, 100);
	memset(v, 0xee, sizeof(v));
	ck_assert_uint_eq(cqgroup_query_vectors(g, v, 2), 3);
	ck_assert_uint_eq(v[2].vector, 0xeeeeeeee);
	ck_assert_uint_eq(cqgroup_query_vectors(g, v, 4), 3);
	ck_assert_uint_eq(v[0].vector, 2);
	ck_assert_uint_eq(v[0].cqs, 1);
	ck_assert_uint_eq(v[0].events, 2);
	ck_assert_uint_eq(v[0].completions, 7);
	ck_assert_uint_eq(v[1].vector, 3);
	ck_assert_uint_eq(v[1].cqs, 1);
	ck_assert_uint_eq(v[1].events, 0);
	ck_assert_uint_eq(v[2].vector, 5);
	ck_assert_uint_eq(v[2].cqs, 0);
	ck_assert_uint_eq(v[2].completions, 4);
	cqgroup_query(g, &info);
	ck_assert_str_eq(info.name, "test");
	ck_assert_str_eq(info.vectors, "2-3,5");
	ck_assert_str_eq(info.cpus, "");
	ck_assert_uint_eq(info.nvectors, 3);
	ck_assert_uint_eq(info.cqs, 2);
	ck_assert_uint_eq(info.events, 2);
	ck_assert_uint_eq(info.completions, 11);
	cqgroup_destroy_cq(g, a);
	cqgroup_destroy_cq(g, b);
	cqgroup_query(g, &info);
	ck_assert_uint_eq(info.cqs, 0);
	ck_assert_uint_eq(cqgroup_query_vectors(g, v, 1), 3);
	ck_assert_uint_eq(v[0].cqs, 0);
	ck_assert_uint_eq(v[0].made, 1);
	cqgroup_destroy(g);
}

UNIT_TEST(refused_cq_takes_no_vector)
{
	struct cqgroup *g = group("2-3");
	struct ibv_cq *cq = (struct ibv_cq *)&live;
	struct cqgroup_info info;

	create_error = ENOMEM;
	ck_assert_int_eq(cqgroup_create_cq(g, 16, NULL, NULL, CQGROUP_ROUND_ROBIN, &cq), -ENOMEM);
	ck_assert_ptr_eq(cq, (struct ibv_cq *)&live);
	create_error = 0;
	ck_assert_int_eq(cqgroup_create_cq(g, 16, NULL, NULL, (enum cqgroup_policy)7, &cq),
			 -EINVAL);
	cqgroup_query(g, &info);
	ck_assert_uint_eq(info.cqs, 0);
	cqgroup_destroy(g);
}

UNIT_TEST(cq_that_is_in_use_stays_in_its_group)
{
	struct cqgroup *g = group("2-3"), *other = group("4");
	struct ibv_cq *cq = make_cq(g, CQGROUP_ROUND_ROBIN);
	struct cqgroup_info info;

	destroy_error = EBUSY;
	ck_assert_int_eq(cqgroup_destroy_cq(g, cq), -EBUSY);
	destroy_error = 0;
	ck_assert_int_eq(cqgroup_cq_vector(g, cq), 2);
	cqgroup_query(g, &info);
	ck_assert_uint_eq(info.cqs, 1);
	ck_assert_int_eq(cqgroup_destroy_cq(other, cq), -ENOENT);
	ck_assert_int_eq(cqgroup_cq_vector(other, cq), -ENOENT);
	ck_assert_int_eq(cqgroup_destroy_cq(g, cq), 0);
	ck_assert_int_eq(cqgroup_destroy_cq(g, cq), -ENOENT);
	/* A group may be destroyed before its CQs. */
	cq = make_cq(g, CQGROUP_ROUND_ROBIN);
	cqgroup_destroy(g);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	cqgroup_destroy(other);
}

UNIT_TEST(vectors_are_taken_and_given_back)
{
	struct cqgroup *g = group("2,7");

	ck_assert_int_eq(cqgroup_take(g, CQGROUP_LEAST_LOADED), 2);
	ck_assert_int_eq(cqgroup_take(g, CQGROUP_LEAST_LOADED), 7);
	cqgroup_give(g, 7);
	cqgroup_give(g, 3);
	cqgroup_give(g, 7);
	ck_assert_int_eq(cqgroup_take(g, CQGROUP_LEAST_LOADED), 7);
	ck_assert_int_eq(cqgroup_take(g, (enum cqgroup_policy) - 1), -EINVAL);
	cqgroup_destroy(g);
}

UNIT_TEST(groups_of_any_name_are_checked)
{
	struct cqgroup *g = NULL;
	char name[CQGROUP_NAME_MAX + 1];
	struct cqgroup_info info;

	memset(name, 'n', sizeof(name));
	name[CQGROUP_NAME_MAX] = '\0';
	ck_assert_int_eq(cqgroup_create(&context, name, "1", NULL, &g, why), -EINVAL);
	ck_assert_int_eq(cqgroup_create(&context, "", "1", NULL, &g, why), -EINVAL);
	ck_assert_int_eq(cqgroup_create(&context, NULL, "1", NULL, &g, NULL), -EINVAL);
	ck_assert_int_eq(cqgroup_create(&context, "noise", "", NULL, &g, why), -EINVAL);
	ck_assert_int_eq(cqgroup_create(&context, "noise", "8", NULL, &g, why), -ERANGE);
	ck_assert_str_eq(why,
			 "noise: there is no vector 8: fake0 has 8 completion vectors, 0 to 7");
	ck_assert_int_eq(cqgroup_create(&context, "noise", "1", "x", &g, why), -EINVAL);
	ck_assert_int_eq(cqgroup_create(&context, "noise", "1", "4095", &g, why), -ERANGE);
	ck_assert_ptr_null(g);
	name[CQGROUP_NAME_MAX - 1] = '\0';
	ck_assert_int_eq(cqgroup_create(&context, name, NULL, NULL, &g, why), 0);
	cqgroup_query(g, &info);
	ck_assert_str_eq(info.vectors, "0-7");
	ck_assert_str_ne(info.cpus, "");
	cqgroup_destroy(g);
}

static void *stir(void *arg)
{
	struct cqgroup *g = arg;
	struct ibv_cq *cq[8];
	int round, i;

	for (round = 0; round < 200; round++) {
		for (i = 0; i < 8; i++)
			if (cqgroup_create_cq(g, 1, NULL, NULL,
					      i % 2 ? CQGROUP_LEAST_LOADED : CQGROUP_ROUND_ROBIN,
					      &cq[i]))
				abort();
		for (i = 0; i < 8; i++) {
			cqgroup_count(g, (unsigned int)cqgroup_cq_vector(g, cq[i]), 1, 2);
			if (cqgroup_destroy_cq(g, cq[i]))
				abort();
		}
	}
	return NULL;
}

UNIT_TEST(threads_may_do_it_all_at_once)
{
	struct cqgroup *g = group("0-2");
	struct cqgroup_info info;
	pthread_t threads[4];
	int i;

	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, stir, g);
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	cqgroup_query(g, &info);
	ck_assert_uint_eq(info.cqs, 0);
	ck_assert_uint_eq(info.events, 4 * 200 * 8);
	ck_assert_uint_eq(info.completions, 2 * 4 * 200 * 8);
	ck_assert_int_eq(live, 0);
	cqgroup_destroy(g);
}

/* ---- the device ---------------------------------------------------------------------------- */

static struct cqgroup_device recorded(const char *name, unsigned int vectors, const char *allowed)
{
	struct cqgroup_device dev;
	struct cqset s;

	ck_assert_int_eq(cqset_parse(allowed, strlen(allowed), &s, why, sizeof(why)), 0);
	cqgroup_device_read(TREE "/sys", name, vectors, &s, &dev);
	return dev;
}

static const char *list(const struct cqset *s)
{
	static char text[64];

	cqset_print(s, text, sizeof(text));
	return text;
}

UNIT_TEST(cpus_are_those_of_the_devices_node)
{
	struct cqgroup_device dev = recorded("mlx5_0", 8, "0-15");

	ck_assert_int_eq(dev.numa_node, 1);
	ck_assert_int_eq(dev.interrupts, 1);
	ck_assert_str_eq(list(&dev.online), "0-15");
	ck_assert_str_eq(list(&dev.cpus), "8-15");
	ck_assert_str_eq(table(&dev, NULL, 0),
			 "coherence=0-1@8-9;data=2-3@10-11;sync=4-5@12-13;bulk=6-7@14-15");
	ck_assert_str_eq(table(&dev, "data=2@0-3", 0),
			 "coherence=0-1,3@8-9,11;data=2@0-3;sync=4-5@12-13;bulk=6-7@14-15");
	ck_assert_str_eq(table(&dev, "data=2@16", -ERANGE),
			 "CPUs of data: CPU 16 is not online, 0-15 are");
}

/* The CPU of the vector's group in a table of the recorded device. */
static int cpu_in(const struct cqgroup_table *t, unsigned int vector)
{
	struct cqgroup *g;
	unsigned int i;
	int cpu = -ENOENT;

	for (i = 0; cpu == -ENOENT && (g = cqgroup_table_at(t, i)); i++)
		cpu = cqgroup_vector_cpu(g, vector);
	return cpu;
}

UNIT_TEST(devices_are_divided_among_the_classes)
{
	const struct cqgroup_device first = recorded("mlx5_0", 8, "0-15"),
				    second = recorded("rxe0", 2, "0-15"), other = with_vectors(2);
	char owner[CQGROUP_DEVICE_MAX] = "-";
	struct cqgroup_table *t;

	cqgroup_sysfs = TREE "/sys";
	ck_assert_str_eq(table(&first, "devices", 0), "coherence=0-3@8-11;sync=4-7@12-15");
	ck_assert_str_eq(table(&second, "devices", 0), "data=0@0;bulk=1@1");
	ck_assert_str_eq(table(&other, "devices", 0), "all=0-1@0-1");
	ck_assert_str_eq(table(&first, "data=x", -ENODEV), "data: this host has no device x");
	ck_assert_str_eq(table(&first, "data=mlx5_0;bulk=mlx5_1:1", -ENODEV),
			 "bulk: this host has no device mlx5_1");
	ck_assert_int_eq(cqgroup_table_make(&context, &first, "devices", &t, why), 0);
	ck_assert_str_eq(cqgroup_table_device(t, CQGROUP_SYNC), "mlx5_0");
	ck_assert_str_eq(cqgroup_table_device(t, CQGROUP_BULK), "rxe0");
	ck_assert_ptr_eq(cqgroup_table_class(t, CQGROUP_BULK),
			 cqgroup_table_class(t, CQGROUP_COHERENCE));
	cqgroup_table_destroy(t);
	ck_assert_int_eq(cqgroup_table_make(&context, &first, "bulk=rxe0;data=1", &t, why), 0);
	ck_assert_str_eq(cqgroup_table_device(t, CQGROUP_BULK), "rxe0");
	ck_assert_ptr_null(cqgroup_table_device(t, CQGROUP_DATA));
	cqgroup_table_destroy(t);
	ck_assert_int_eq(cqgroup_table_owner("devices", "data", owner, why), 0);
	ck_assert_str_eq(owner, "rxe0");
	ck_assert_int_eq(cqgroup_table_owner("data=1", "data", owner, why), 0);
	ck_assert_str_eq(owner, "");
	ck_assert_int_eq(cqgroup_table_owner(NULL, "noise", owner, why), -EINVAL);
	ck_assert_int_eq(cqgroup_table_owner("data=mlx5_1", "data", owner, why), 0);
	ck_assert_str_eq(owner, "mlx5_1");
	ck_assert_int_eq(cqgroup_table_owner("data=1;data=2", "data", owner, why), -EINVAL);
	cqgroup_sysfs = "/nowhere";
	ck_assert_str_eq(vectors_only(table(&second, "devices", 0)),
			 "coherence+sync=0;data+bulk=1");
}

UNIT_TEST(vector_has_the_cpu_of_its_interrupt)
{
	/* The process's CPU mask limits its threads, but not where interrupts arrive. */
	const struct cqgroup_device dev = recorded("mlx5_0", 8, "0-9");
	FILE *f = fopen("tests/cqgroup/cpus", "re");
	char line[256], *wanted, expected[8];
	struct cqgroup_table *t;
	unsigned int v, seen = 0;

	ck_assert_msg(f != NULL, "run it in the top folder");
	while (fgets(line, sizeof(line), f)) {
		if (*line == '#')
			continue;
		wanted = strchr(line, ' ');
		*wanted++ = '\0';
		ck_assert_int_eq(cqgroup_table_make(&context, &dev, line, &t, why), 0);
		for (v = 0; v < 8; v++, wanted += strcspn(wanted, " \n") + 1) {
			ck_assert_int_eq(sscanf(wanted, "%7s", expected), 1);
			ck_assert_msg(cpu_in(t, v) ==
					      (*expected == '-' ? -ENODATA : atoi(expected)),
				      "%s: vector %u: %d", line, v, cpu_in(t, v));
		}
		ck_assert_int_eq(cpu_in(t, 8), -ENOENT);
		cqgroup_table_destroy(t);
		seen++;
	}
	fclose(f);
	ck_assert_uint_ge(seen, 5);
}

UNIT_TEST(cpus_are_those_that_the_process_may_use)
{
	struct cqgroup_device dev = recorded("mlx5_0", 4, "0-9");

	ck_assert_str_eq(list(&dev.cpus), "8-9");
	ck_assert_str_eq(table(&dev, NULL, 0), "coherence=0@8;data=1@9;sync=2@8;bulk=3@9");
	dev = recorded("mlx5_0", 4, "3-4"); /* no CPU is near the device */
	ck_assert_str_eq(list(&dev.cpus), "3-4");
}

UNIT_TEST(device_without_a_node_has_all_cpus)
{
	struct cqgroup_device dev = recorded("rxe0", 16, "0-15");

	ck_assert_int_eq(dev.numa_node, -1);
	ck_assert_int_eq(dev.interrupts, 0);
	ck_assert_str_eq(list(&dev.cpus), "0-15");
	dev = recorded("not_there", 2, "0-3");
	ck_assert_int_eq(dev.interrupts, 0);
	ck_assert_str_eq(table(&dev, NULL, 0), "coherence+sync=0@0;data+bulk=1@1");
}

UNIT_TEST(device_without_interrupts_has_no_effective_vectors)
{
	ck_assert_int_eq(cqgroup_vectors_effective(&context), 0);
}

UNIT_TEST(threads_are_bound_to_the_groups_cpus)
{
	struct cqgroup *g = NULL;
	struct cqgroup_info info;
	cpu_set_t before, now;
	char cpu[16];

	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	snprintf(cpu, sizeof(cpu), "%d", sched_getcpu());
	ck_assert_int_eq(cqgroup_create(&context, "one", "1", "none", &g, why), 0);
	ck_assert_int_eq(cqgroup_bind_thread(g), 0);
	sched_getaffinity(0, sizeof(now), &now);
	ck_assert(CPU_EQUAL(&before, &now));
	cqgroup_destroy(g);

	ck_assert_int_eq(cqgroup_create(&context, "one", "1", cpu, &g, why), 0);
	cqgroup_query(g, &info);
	ck_assert_str_eq(info.cpus, cpu);
	ck_assert_int_eq(cqgroup_bind_thread(g), 0);
	sched_getaffinity(0, sizeof(now), &now);
	ck_assert_int_eq(CPU_COUNT(&now), 1);
	ck_assert_int_eq(sched_getcpu(), atoi(cpu));
	cqgroup_destroy(g);
}

UNIT_SUITE("cqgroup")
