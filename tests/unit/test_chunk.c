// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_chunk.c - calls/chunk.c: which parts and results of collectives a node of three takes, and
 * when.
 */
#include <errno.h>

#include "../registry_world.h"
#include "calls/chunk.h"
#include "net/net.h"
#include "start/start.h"
#include "suite.h"

#define SUM (DSM_SUM | DSM_UINT64 << 4)

static struct {
	struct msg m;
	uint64_t value;
} sent[8];
static unsigned int sends;

static int note_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	(void)n, (void)rank;
	unit_require(size == sizeof(sent[0].value) && sends < 8);
	sent[sends].m = *m;
	memcpy(&sent[sends++].value, payload, size);
	return 0;
}

static const struct net_ops net = { .send = note_send };

/* Become node `me`; nodes 1 and 2 are the children of node 0. */
static void be(uint16_t me)
{
	world_make();
	job.node = me;
	job.up = &engine_upcalls;
	job.locals = job.width[me];
	job.netops = &net;
	job.mine = calloc(1, sizeof(*job.mine));
	unit_require(job.mine);
	sends = 0;
}

static int comes(uint16_t from, uint16_t root, bool result, uint64_t number, uint64_t value)
{
	const struct msg m = { .version = WIRE_VERSION,
			       .type = MSG_CHUNK,
			       .op = result,
			       .src = from,
			       .dst = job.node,
			       .req_node = from,
			       .home = root,
			       .aux = result ? 0 : SUM,
			       .value = number };

	return chunk_arrived(&m, &value, sizeof(value));
}

static void add(uint64_t number, uint64_t value)
{
	chunk_add(number, SUM, &value, sizeof(value));
}

static uint64_t result(uint64_t number)
{
	uint64_t v;

	memcpy(&v, chunk_wait(number), sizeof(v));
	return v;
}

UNIT_TEST(parts_are_combined_and_the_result_goes_to_all)
{
	uint64_t n;

	be(0);
	for (n = 0; n < 3 * CTL_CHUNKS; n++) {
		sends = 0;
		ck_assert_int_eq(comes(2, 0, false, n, 1), 0);
		add(n, 20);
		ck_assert_int_eq(comes(1, 0, false, n, 300), 0);
		ck_assert_uint_eq(sends, 0);
		add(n, 4000);
		ck_assert_uint_eq(result(n), 4321);
		ck_assert_uint_eq(sends, 2);
		ck_assert(sent[0].m.op == 1 && sent[0].m.value == n && sent[0].value == 4321);
	}
}

UNIT_TEST(a_result_comes_once_and_in_its_turn)
{
	uint64_t n;

	be(1);
	ck_assert_int_eq(comes(2, 2, true, CTL_CHUNKS, 7), -EBADMSG);
	ck_assert_int_eq(comes(2, 2, true, 5 * CTL_CHUNKS + 3, 7), -EBADMSG);
	ck_assert_int_eq(comes(2, 2, true, UINT64_MAX - 1, 7), -EBADMSG);
	for (n = 0; n < 2 * CTL_CHUNKS; n++) {
		ck_assert_int_eq(comes(2, 2, true, n, n), 0);
		ck_assert_int_eq(comes(2, 2, true, n, n + 1), -ESTALE);
		ck_assert_int_eq(comes(0, 0, true, n, n + 1), -ESTALE);
		ck_assert_uint_eq(result(n), n);
		ck_assert_int_eq(comes(2, 2, true, n + 2 * CTL_CHUNKS, 7), -EBADMSG);
		if (n >= CTL_CHUNKS)
			ck_assert_int_eq(comes(2, 2, true, n - CTL_CHUNKS, 7), -EBADMSG);
		ck_assert_uint_eq(result(n), n);
	}
	ck_assert_uint_eq(sends, 0);
}

UNIT_TEST(a_part_comes_once_and_in_its_turn)
{
	be(0);
	ck_assert_int_eq(comes(1, 0, false, CTL_CHUNKS, 7), -EBADMSG);
	ck_assert_int_eq(comes(1, 0, false, 0, 1), 0);
	ck_assert_int_eq(comes(1, 0, false, 0, 1), -EBADMSG);
	ck_assert_int_eq(comes(1, 0, false, CTL_CHUNKS, 7), -EBADMSG);
	ck_assert_int_eq(comes(2, 0, false, 0, 2), 0);
	add(0, 3);
	add(0, 4);
	ck_assert_uint_eq(result(0), 10);
	ck_assert_int_eq(comes(2, 0, false, 0, 2), -EBADMSG);
	ck_assert_int_eq(comes(2, 0, false, CTL_CHUNKS, 5), 0);
	ck_assert_int_eq(comes(2, 0, false, 0, 2), -ESTALE);
	ck_assert_uint_eq(sends, 2);
}

/* While ranks of this node read a complete broadcast, a part must not change its contents. */
UNIT_TEST(a_part_does_not_change_a_broadcast)
{
	const uint64_t contents = 7;

	be(0);
	ck_assert_int_eq(comes(2, 2, true, 0, contents), 0);
	ck_assert_int_eq(comes(1, 0, false, 0, 1), -ESTALE);
	ck_assert_uint_eq(result(0), contents);
	chunk_send(1, &contents, sizeof(contents));
	ck_assert_int_eq(comes(1, 0, false, 1, 1), -ESTALE);
	ck_assert_uint_eq(result(1), contents);
}

UNIT_TEST(the_result_of_a_reduction_has_the_parts_of_this_node)
{
	be(2);
	add(0, 1);
	ck_assert_int_eq(comes(0, 0, true, 0, 7), -ESTALE);
	ck_assert_int_eq(comes(1, 1, true, 0, 7), -ESTALE);
	ck_assert_uint_eq(sends, 0);
	add(0, 2);
	ck_assert_uint_eq(sends, 1);
	ck_assert(!sent[0].m.op && sent[0].m.dst == 0 && sent[0].value == 3);
	ck_assert_int_eq(comes(1, 1, true, 0, 7), -ESTALE);
	ck_assert_int_eq(comes(0, 0, true, 0, 10), 0);
	ck_assert_uint_eq(result(0), 10);
}

UNIT_TEST(a_part_is_of_whole_values)
{
	struct msg m = {
		.version = WIRE_VERSION, .type = MSG_CHUNK, .src = 2, .req_node = 2, .aux = SUM
	};
	const uint64_t value = 1;

	be(0);
	ck_assert_int_eq(chunk_arrived(&m, &value, sizeof(value) - 1), -EBADMSG);
	ck_assert_int_eq(chunk_arrived(&m, &value, sizeof(value)), 0);
}

UNIT_TEST(a_node_is_sent_results_of_its_parent)
{
	be(1);
	ck_assert_int_eq(comes(2, 1, false, 0, 7), -EBADMSG); /* only node 0 takes reductions */
	ck_assert_int_eq(comes(2, 0, true, 0, 7), -EBADMSG);
	ck_assert_int_eq(comes(2, 0, false, 0, 7), -EBADMSG);
}

UNIT_TEST(the_first_node_is_sent_results_of_the_root)
{
	be(0);
	ck_assert_int_eq(comes(1, 2, true, 0, 7), -EBADMSG);
}

UNIT_SUITE("chunk")
