// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_requests.c - libdsm/share/hub: what rshare_post() can ask for beyond messages, writes
 * and reads, between two nodes in one process. test_share_ops.c has the same over the library.
 */
#include "suite.h"

#include "share_world.h"

static struct world_node *n;
static uint32_t c0, c1; /* index of one connection at node 0 and at node 1 */

#define CLIENT0 (&n[0].client[0])
#define CLIENT1 (&n[1].client[0])
#define CONN0 (n[0].client[0].rs.conn[c0])
#define CONN1 (n[1].client[0].rs.conn[c1])

static void begin(void)
{
	n = world_create(64);
	world_connect(n, 0, 0, 0, &c0, &c1);
}

static void end(void)
{
	world_destroy(n);
}

static void expect(struct world_client *c, uint32_t index, uint32_t type, int status,
		   uint64_t cookie)
{
	struct rs_cqe e;

	ck_assert_msg(world_poll(c, index, &e), "no event");
	ck_assert_uint_eq(e.type, type);
	ck_assert_int_eq(e.status, status);
	ck_assert_uint_eq(e.cookie, cookie);
}

static void expect_none(struct world_client *c, uint32_t index)
{
	ck_assert(!world_poll(c, index, &(struct rs_cqe){ .type = 0 }));
}

static void submit(struct rs_sqe e)
{
	ck_assert(world_submit(CLIENT0, c0, &e));
}

/* Posts of node 0 that have not arrived. */
static unsigned int on_the_wire(void)
{
	rs_client_kick(&CLIENT0->rs);
	while (rs_peer_pump(&n[0].peer))
		;
	return n[0].lane[RS_WEIGHTED].tail - n[0].lane[RS_WEIGHTED].head;
}

/* ---- without events ------------------------------------------------------------------------- */

UNIT_TEST(an_unsignalled_success_is_only_counted)
{
	for (uint32_t i = 0; i < 4; i++)
		submit((struct rs_sqe){ .op = i % 2 ? RS_OP_READ : RS_OP_WRITE,
					.flags = RSHARE_UNSIGNALLED,
					.len = i * WORLD_CHUNK,
					.cookie = i });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 9 });
	ck_assert_uint_eq(world_seg(CLIENT0, c0)->quiet, 0);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 9);
	expect_none(CLIENT0, c0);
	ck_assert_uint_eq(world_seg(CLIENT0, c0)->quiet, 4);
}

UNIT_TEST(an_unsignalled_failure_has_an_event)
{
	submit((struct rs_sqe){ .op = RS_OP_SEND, .flags = RSHARE_UNSIGNALLED, .cookie = 1 });
	submit((struct rs_sqe){ .op = RS_OP_SEND, .cookie = 2 });
	world_settle(n); /* the peer has no receive */
	rs_conn_release(CONN1);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 1);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 2);
	expect(CLIENT0, c0, RSHARE_CLOSED, -ECONNRESET, 0);
	ck_assert_uint_eq(world_seg(CLIENT0, c0)->quiet, 0);
}

/* ---- fences --------------------------------------------------------------------------------- */

/* _i: with a fence */
UNIT_LOOP_TEST(a_fence_waits_for_earlier_reads, 0, 2)
{
	uint32_t b0, b1;

	world_connect(n, 0, 0, 0, &b0, &b1);
	submit((struct rs_sqe){ .op = RS_OP_READ, .len = 2 * WORLD_CHUNK, .cookie = 1 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 2 });
	submit((struct rs_sqe){
		.op = RS_OP_WRITE, .flags = _i ? RSHARE_FENCE : 0, .len = 1, .cookie = 3 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1, .cookie = 4 });
	ck_assert_uint_eq(on_the_wire(), _i ? 3 : 5);
	ck_assert(world_submit(CLIENT0, b0, &(struct rs_sqe){ .op = RS_OP_WRITE, .len = 1 }));
	ck_assert_uint_eq(on_the_wire(), _i ? 4 : 6); /* another connection does not wait */
	world_deliver(&n[0], RS_WEIGHTED);
	ck_assert_uint_eq(on_the_wire(), _i ? 3 : 5); /* half of the read is complete */
	world_deliver(&n[0], RS_WEIGHTED);
	ck_assert_uint_eq(on_the_wire(), 4);
	world_settle(n);
	for (uint64_t i = 1; i <= 4; i++)
		expect(CLIENT0, c0, RSHARE_SENT, 0, i);
}

UNIT_TEST(a_fence_without_reads_waits_for_nothing)
{
	submit((struct rs_sqe){ .op = RS_OP_READ, .len = 1 });
	world_settle(n);
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .len = 1 });
	submit((struct rs_sqe){ .op = RS_OP_READ, .flags = RSHARE_FENCE, .len = 1 });
	ck_assert_uint_eq(on_the_wire(), 2);
}

UNIT_TEST(what_waits_for_a_fence_ends_with_its_connection)
{
	submit((struct rs_sqe){ .op = RS_OP_READ, .len = 1, .cookie = 1 });
	submit((struct rs_sqe){ .op = RS_OP_WRITE, .flags = RSHARE_FENCE, .len = 1, .cookie = 2 });
	ck_assert_uint_eq(on_the_wire(), 1);
	rs_conn_release(CONN1);
	world_settle(n);
	expect(CLIENT0, c0, RSHARE_SENT, 0, 1);
	expect(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, 2);
	expect(CLIENT0, c0, RSHARE_CLOSED, -ECONNRESET, 0);
	ck_assert_uint_eq(CLIENT0->rs.outstanding, 0);
}

UNIT_SUITE("share_requests", .setup = begin, .teardown = end)
