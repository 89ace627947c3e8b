// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_cqgroup_load.c - libdsm/cqgroup/load.c: processes of a host spread over the vectors, and
 * give them back whichever way they end.
 */
#include "suite.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cqgroup/load.h"
#include "cqgroup/table.h"
#include "cqgroup_verbs.h"

#define RANKS 4

/* Run a process with a CQ in each class, on the vectors `on`, until it is killed. */
struct rank {
	pid_t pid;
	int go, say;
	int on[CQGROUP_CLASSES];
};

/* fork(), so that the child dies with a failed test. */
static pid_t child(void)
{
	const pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void start_rank(struct rank *r, unsigned int vectors, unsigned int turn)
{
	const struct cqgroup_device dev = with_vectors(vectors);
	struct cqgroup_table *t;
	int go[2], say[2], c;
	char byte;

	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(say), 0);
	r->pid = child();
	if (r->pid) {
		close(go[0]);
		close(say[1]);
		r->go = go[1];
		r->say = say[0];
		return;
	}
	if (cqgroup_table_make(&context, &dev, NULL, &t, why) || read(go[0], &byte, 1) != 1)
		_exit(1);
	for (c = 0; c < CQGROUP_CLASSES; c++) {
		struct cqgroup *g = cqgroup_table_class(t, (enum cqgroup_class)c);
		struct ibv_cq *cq;

		cqgroup_set_turn(g, turn);
		if (cqgroup_create_cq(g, 16, NULL, NULL, CQGROUP_LEAST_LOADED, &cq))
			_exit(1);
		r->on[c] = asked_for(cq);
	}
	if (write(say[1], r->on, sizeof(r->on)) != sizeof(r->on))
		_exit(1);
	for (;;)
		pause();
}

static void let_go(struct rank *r)
{
	ck_assert_int_eq(write(r->go, "g", 1), 1);
}

static void hear(struct rank *r)
{
	ck_assert_int_eq(read(r->say, r->on, sizeof(r->on)), sizeof(r->on));
}

static void end_rank(struct rank *r)
{
	kill(r->pid, SIGKILL);
	waitpid(r->pid, NULL, 0);
	close(r->go);
	close(r->say);
}

/* Start ranks that choose at the same time. */
static void start_ranks(struct rank *r, unsigned int vectors, unsigned int stride)
{
	unsigned int i;

	for (i = 0; i < RANKS; i++)
		start_rank(&r[i], vectors, i * stride);
	for (i = 0; i < RANKS; i++)
		let_go(&r[i]);
	for (i = 0; i < RANKS; i++)
		hear(&r[i]);
}

static void end_ranks(struct rank *r)
{
	unsigned int i;

	for (i = 0; i < RANKS; i++)
		end_rank(&r[i]);
}

/* Each vector must have `each` CQs of all ranks together. */
static void assert_spread(const struct rank *r, unsigned int vectors, unsigned int each)
{
	unsigned int n[64] = { 0 }, i, c;

	for (i = 0; i < RANKS; i++)
		for (c = 0; c < CQGROUP_CLASSES; c++)
			n[r[i].on[c]]++;
	for (i = 0; i < vectors; i++)
		ck_assert_msg(n[i] == each, "vector %u of %u has %u CQs", i, vectors, n[i]);
}

/* A directory that replaces /sys; loads are counted in its file for fake0. */
static char sysfs[] = "/tmp/test_cqgroup.XXXXXX";

static void make_sysfs(void)
{
	static const char *const parts[] = { "/class", "/class/infiniband",
					     "/class/infiniband/fake0" };
	char path[128];
	size_t i;
	FILE *f;

	ck_assert_ptr_nonnull(mkdtemp(sysfs));
	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", sysfs, parts[i]);
		ck_assert_int_eq(mkdir(path, 0755), 0);
	}
	strcat(path, "/node_guid");
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fclose(f);
	chmod(path, 0444);
	cqgroup_sysfs = sysfs;
}

static void remove_sysfs(void)
{
	static const char *const parts[] = { "/class/infiniband/fake0/node_guid",
					     "/class/infiniband/fake0", "/class/infiniband",
					     "/class", "" };
	char path[128];
	size_t i;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		snprintf(path, sizeof(path), "%s%s", sysfs, parts[i]);
		remove(path);
	}
}

UNIT_TEST(ranks_of_a_host_spread_over_the_vectors)
{
	struct rank r[RANKS];
	unsigned int round;

	for (round = 0; round < 20; round++) {
		start_ranks(r, 16, 0);
		assert_spread(r, 16, 1);
		end_ranks(r);
	}
	start_ranks(r, 8, 0);
	assert_spread(r, 8, 2);
	end_ranks(r);
	start_ranks(r, 2, 0);
	assert_spread(r, 2, 8);
	end_ranks(r);
}

UNIT_TEST(killed_process_gives_its_vectors_back)
{
	struct rank r[RANKS], late;

	start_ranks(r, 16, 0);
	end_rank(&r[2]);
	start_rank(&late, 16, 0);
	let_go(&late);
	hear(&late);
	ck_assert_int_eq(memcmp(late.on, r[2].on, sizeof(late.on)), 0);
	r[2] = late;
	end_ranks(r);
}

UNIT_TEST(vectors_in_turn_begin_at_the_least_loaded)
{
	struct cqgroup *all = group("0-3"), *turns = group("0-3"), *late;

	ck_assert_int_eq(cqgroup_take(all, CQGROUP_LEAST_LOADED), 0);
	ck_assert_int_eq(cqgroup_take(all, CQGROUP_LEAST_LOADED), 1);
	ck_assert_int_eq(cqgroup_take(turns, CQGROUP_ROUND_ROBIN), 2);
	ck_assert_int_eq(cqgroup_take(turns, CQGROUP_ROUND_ROBIN), 3);
	ck_assert_int_eq(cqgroup_take(turns, CQGROUP_ROUND_ROBIN), 0);
	cqgroup_give(turns, 3);
	cqgroup_destroy(turns);
	late = group("0-3");
	cqgroup_set_turn(late, 6);
	ck_assert_int_eq(cqgroup_take(late, CQGROUP_LEAST_LOADED), 3);
	cqgroup_destroy(late);
	cqgroup_destroy(all);
}

/* Start a process that takes a vector of "0-3" when told to, and reports it. */
static void start_taker(struct rank *r)
{
	int go[2], say[2];
	char byte;

	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(say), 0);
	r->pid = child();
	r->go = go[1];
	r->say = say[0];
	if (r->pid)
		return;
	if (read(go[0], &byte, 1) != 1)
		_exit(1);
	byte = (char)cqgroup_take(group("0-3"), CQGROUP_LEAST_LOADED);
	if (write(say[1], &byte, 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

/* The vector, or -1 if it has not reported within ms. */
static int took(const struct rank *r, int ms)
{
	struct pollfd p = { .fd = r->say, .events = POLLIN };
	char byte;

	return poll(&p, 1, ms) == 1 && read(r->say, &byte, 1) == 1 ? byte : -1;
}

/* A child's CQs count beside those of its parent, and do not replace them. */
UNIT_TEST(child_process_counts_for_itself)
{
	struct cqgroup *g = group("0-3");
	struct rank r[2];

	ck_assert_int_eq(cqgroup_take(g, CQGROUP_LEAST_LOADED), 0);
	start_taker(&r[0]); /* a copy of this process, which has a CQ on 0 */
	start_taker(&r[1]);
	let_go(&r[0]);
	ck_assert_int_eq(took(&r[0], 10000), 1);
	ck_assert_int_eq(cqgroup_take(g, CQGROUP_LEAST_LOADED), 2);
	end_rank(&r[0]);
	let_go(&r[1]);
	ck_assert_int_eq(took(&r[1], 10000), 1);
	end_rank(&r[1]);
	cqgroup_destroy(g);
}

UNIT_TEST(one_process_chooses_at_a_time)
{
	struct cqload *l = cqload_of(context.device->name, (unsigned int)context.num_comp_vectors);
	struct rank r[2];

	ck_assert_ptr_nonnull(l);
	start_taker(&r[0]);
	start_taker(&r[1]);
	cqload_begin(l);
	let_go(&r[0]);
	ck_assert_int_eq(took(&r[0], 30), -1);
	cqload_add(l, 0);
	cqload_end(l);
	ck_assert_int_eq(took(&r[0], 10000), 1);

	/* A process that holds its choice open does not block others. */
	cqload_begin(l);
	let_go(&r[1]);
	ck_assert_int_eq(took(&r[1], 10000), 2);
	cqload_end(l);
	end_rank(&r[0]);
	end_rank(&r[1]);
}

UNIT_TEST(what_is_given_back_is_seen_by_others)
{
	struct cqgroup *g = group("0-3");
	struct rank r[2];
	int i;

	for (i = 0; i < 8; i++)
		ck_assert_int_eq(cqgroup_take(g, CQGROUP_LEAST_LOADED), i % 4);
	start_taker(&r[0]);
	start_taker(&r[1]);
	cqgroup_give(g, 2);
	let_go(&r[0]);
	ck_assert_int_eq(took(&r[0], 10000), 2);
	cqgroup_give(g, 1);
	cqgroup_give(g, 1);
	let_go(&r[1]);
	ck_assert_int_eq(took(&r[1], 10000), 1);
	end_rank(&r[0]);
	end_rank(&r[1]);
	cqgroup_destroy(g);
}

UNIT_TEST(ranks_spread_by_their_number_without_sysfs)
{
	struct rank r[RANKS];

	cqgroup_sysfs = "/nowhere";
	start_ranks(r, 16, 1);
	assert_spread(r, 16, 1);
	end_ranks(r);
}

UNIT_SUITE("cqgroup_load", .seconds = 60, .setup = make_sysfs, .teardown = remove_sysfs)
