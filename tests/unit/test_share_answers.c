// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_answers.c - libdsm/share/hub: answers for which a peer or a process waits, if there is
 * no memory for them, if the peer does not accept them, or if it sends none.
 */
#include "share_linked.h"

static int blocks = -1; /* allocations that may still succeed; -1: all */

static void *take(size_t size)
{
	if (!blocks)
		return NULL;
	blocks -= blocks > 0;
	return calloc(1, size);
}

static void answers_begin(void)
{
	rshare_set_allocator(take, free);
	begin_with(1024);
}

static void answers_end(void)
{
	blocks = -1;
	end();
}

/* Send a message from node 0 to node 1 over the old connection. */
static void require_works(void)
{
	struct rs_cqe e;

	unit_require(world_recv(CLIENT1, c1, 0, 10, 3) && world_send(CLIENT0, c0, 0, 10, 3));
	world_settle(n);
	unit_require(world_poll(CLIENT1, c1, &e) && e.type == RSHARE_RECEIVED && !e.status);
	unit_require(world_poll(CLIENT0, c0, &e) && e.type == RSHARE_SENT && !e.status);
}

/* Deliver a frame to node 1, as if node 0 had sent it. */
static int arrives(struct rs_frame f)
{
	f.version = RS_FRAME_VERSION;
	f.number = (uint16_t)++n[0].peer.lane[RS_STRICT].numbered;
	return rs_peer_receive(&n[1].peer, RS_STRICT, &f, sizeof(f));
}

static int asks(uint32_t from, uint32_t service)
{
	return arrives((struct rs_frame){ .kind = RS_FRAME_OPEN,
					  .from = RS_CONNS_MAX + from,
					  .seq = service,
					  .total = 1 << 8 });
}

/* The requester is refused; no other connection is affected. */
UNIT_TEST(without_memory_a_connection_is_refused)
{
	struct rs_conn *l, *c;

	ck_assert(!rs_conn_listen(&CLIENT1->rs, 8, &l));
	for (int i = 0; i < 3; i++) {
		ck_assert(!rs_conn_connect(&CLIENT0->rs, &n[0].peer, 8, 0, 1, &c));
		memset(&CLIENT0->at[c->index], 0, sizeof(CLIENT0->at[0]));
		world_said[0] = 0;
		blocks = 0;
		world_settle(n);
		blocks = -1;
		expect(CLIENT0, c->index, RSHARE_CLOSED, -ENOMEM, 0);
		/* logged once */
		ck_assert_str_eq(world_said, i ? "" : "listener of service 8: refuses : no memory");
		rs_conn_release(c);
	}
	require_works();
}

UNIT_TEST(without_a_connection_left_it_says_so)
{
	struct rs_conn *l, *c;

	ck_assert(!rs_conn_listen(&CLIENT1->rs, 8, &l));
	while (CLIENT1->rs.live < 1024)
		ck_assert(!rs_conn_connect(&CLIENT1->rs, &n[1].peer, 99, 0, 1, &c));
	ck_assert(!rs_conn_connect(&CLIENT0->rs, &n[0].peer, 8, 0, 1, &c));
	memset(&CLIENT0->at[c->index], 0, sizeof(CLIENT0->at[0]));
	world_settle(n);
	expect(CLIENT0, c->index, RSHARE_CLOSED, -ENOSPC, 0);
	ck_assert(strstr(world_said, "no connection is left; raise `connections`") != NULL);
	require_works();
}

/* A table that cannot grow serves until it is full. */
UNIT_TEST(a_table_that_cannot_grow_is_filled)
{
	struct rs_conn *c;
	unsigned int i;

	for (i = n[0].hub.live; i < 256; i++) {
		blocks = 1; /* for the record */
		ck_assert_int_eq(rs_conn_connect(&n[0].client[1].rs, &n[0].peer, 99, 0, 1, &c), 0);
	}
	blocks = 1;
	ck_assert_int_eq(rs_conn_connect(&n[0].client[1].rs, &n[0].peer, 99, 0, 1, &c), -ENOMEM);
	blocks = -1;
	ck_assert_int_eq(rs_conn_connect(&n[0].client[1].rs, &n[0].peer, 99, 0, 1, &c), 0);
	require_works();
}

/*
 * An answer for which a peer waits must not be lost: without memory for it the peer is dropped, so
 * that it does not wait forever.
 */
UNIT_TEST(answers_are_not_forgotten)
{
	uint32_t i;
	int err = 0;

	blocks = 0;
	for (i = 0; i < 100 && !err; i++)
		err = asks(i, 99);
	ck_assert_int_eq(err, -ENOMEM);
	ck_assert_uint_eq(i, 65);
	ck_assert_uint_eq(n[1].peer.nloose, 64);
	ck_assert_uint_eq(n[1].hub.stats.malformed, 0);
}

/* A peer that asks repeatedly but accepts no answer is dropped. */
UNIT_TEST(answers_have_an_end)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < 2 * RS_CONNS_MAX && !err; i++)
		err = asks(i % RS_CONNS_MAX, 99);
	ck_assert_int_eq(err, -ENOBUFS);
	ck_assert_uint_eq(i, RS_CONNS_MAX + 1);
}

/* ---- a peer that gives none ------------------------------------------------------------------ */

static struct rs_conn *unanswered(void)
{
	struct rs_conn *c;

	ck_assert(!rs_conn_connect(&CLIENT0->rs, &n[0].peer, 8, 0, 1, &c));
	memset(&CLIENT0->at[c->index], 0, sizeof(CLIENT0->at[0]));
	return c;
}

UNIT_TEST(a_connection_does_not_wait_for_ever)
{
	struct rs_conn *c = unanswered(), *d;
	unsigned int i;

	for (i = 0; i < 20; i++)
		ck_assert_uint_eq(rs_peer_tick(&n[0].peer, 10), 0); /* OPEN has not been sent yet */
	rs_peer_pump(&n[0].peer);
	rs_peer_stop(&n[0].peer);
	for (i = 0; i < 20; i++)
		ck_assert_uint_eq(rs_peer_tick(&n[0].peer, 10), 0); /* a repair is in progress */
	rs_peer_resume(&n[0].peer);
	rs_conn_close(c); /* closing waits for the same answer */
	for (i = 0; i < 9; i++)
		ck_assert_uint_eq(rs_peer_tick(&n[0].peer, 10), 0);
	ck_assert_uint_eq(n[0].peer.unanswered, 1);
	d = unanswered();
	ck_assert_uint_eq(rs_peer_tick(&n[0].peer, 10), 1);
	expect(CLIENT0, c->index, RSHARE_CLOSED, -ETIMEDOUT, 0);
	expect_none(CLIENT0, d->index);
	ck_assert_uint_eq(n[0].peer.unanswered, 1);
	rs_conn_release(d);
	ck_assert_uint_eq(n[0].peer.unanswered, 0);
}

/* The answer comes late: the other side is told that the connection is gone. */
UNIT_TEST(a_late_answer_is_reset)
{
	struct rs_conn *l, *c;
	struct rs_cqe e;

	ck_assert(!rs_conn_listen(&CLIENT1->rs, 8, &l));
	memset(&CLIENT1->at[l->index], 0, sizeof(CLIENT1->at[0]));
	c = unanswered();
	rs_peer_pump(&n[0].peer);
	ck_assert_uint_eq(rs_peer_tick(&n[0].peer, 1), 1);
	world_settle(n);
	ck_assert(world_poll(CLIENT1, l->index, &e) && e.type == RS_EVENT_ACCEPT);
	ck_assert_int_eq(CLIENT1->rs.conn[e.cookie]->status, -ECONNRESET);
	ck_assert_int_eq(n[0].error, 0);
	rs_conn_release(c);
	require_works();
}

UNIT_SUITE("share_answers", .seconds = 60, .setup = answers_begin, .teardown = answers_end)
