// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_hub.c - libdsm/share/hub: connections between two nodes in one process, under
 * everything that clients and peers can do.
 */
#include "share_linked.h"

#include <errno.h>

static void expect_len(struct world_client *c, uint32_t index, uint32_t type, int status,
		       uint64_t cookie, uint32_t len)
{
	ck_assert_uint_eq(expect(c, index, type, status, cookie).len, len);
}

/* Send a message from a client of node 0 to the first client of node 1. */
static void expect_works(struct world_client *from, uint32_t index0, uint32_t index1)
{
	ck_assert(world_recv(CLIENT1, index1, 0, 10, 3) && world_send(from, index0, 0, 10, 3));
	world_settle(n);
	expect_len(CLIENT1, index1, RSHARE_RECEIVED, 0, 3, 10);
}

UNIT_TEST(a_message_arrives)
{
	memcpy(world_pool(CLIENT0, 100), "hello", 6);
	ck_assert(world_recv(CLIENT1, c1, 5000, 100, 11));
	ck_assert(world_send(CLIENT0, c0, 100, 6, 22));
	world_settle(n);
	expect_len(CLIENT0, c0, RSHARE_SENT, 0, 22, 6);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, 11, 6);
	ck_assert_str_eq(world_pool(CLIENT1, 5000), "hello");
}

static unsigned int posts_on(enum rs_lane lane)
{
	return n[1].lane[lane].tail - n[1].lane[lane].head;
}

/* A message that takes the last receive; its receiver is told, and posts another one. */
static void take_last_receive(uint32_t at0, uint32_t at1)
{
	ck_assert(world_recv(CLIENT1, at1, 0, 10, 1));
	world_settle(n);
	ck_assert(world_send(CLIENT0, at0, 0, 10, 2));
	rs_client_kick(&CLIENT0->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1);
	ck_assert(world_deliver(&n[0], RS_WEIGHTED));
	expect_len(CLIENT1, at1, RSHARE_RECEIVED, 0, 1, 10);
	ck_assert(world_recv(CLIENT1, at1, 0, 10, 3));
	rs_client_kick(&CLIENT1->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), 0);
}

/* An answer takes the credit along: a message each way, and nothing else. */
UNIT_TEST(an_answer_takes_the_credit_along)
{
	ck_assert(world_recv(CLIENT0, c0, 100, 10, 4));
	take_last_receive(c0, c1);
	ck_assert(world_send(CLIENT1, c1, 0, 10, 5));
	rs_client_kick(&CLIENT1->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), 1);
	ck_assert(posts_on(RS_WEIGHTED) == 1 && posts_on(RS_STRICT) == 0);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), 0);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), 0);
	ck_assert(world_deliver(&n[1], RS_WEIGHTED));
	ck_assert(world_send(CLIENT0, c0, 0, 10, 6));
	rs_client_kick(&CLIENT0->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1); /* it has the credit */
}

/* Without an answer, the credit leaves with the second pump, even beside a full batch of data. */
UNIT_LOOP_TEST(a_credit_without_an_answer_leaves, 0, 2)
{
	uint32_t other0[2], other1[2], i;

	for (i = 0; i < 2; i++)
		world_connect(n, 0, 0, 7, &other0[i], &other1[i]);
	for (i = 0; i < 2 * WORLD_DEPTH; i++)
		ck_assert(world_recv(CLIENT0, other0[i % 2], 100, 10, i));
	world_settle(n);
	take_last_receive(c0, c1);
	for (i = 0; _i && i < 2 * WORLD_DEPTH; i++)
		ck_assert(world_send(CLIENT1, other1[i % 2], 0, 10, i));
	rs_client_kick(&CLIENT1->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), _i ? RS_BATCH : 1);
	ck_assert(!CONN1->owes && !CONN1->on_granting);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), _i);
	while (world_deliver(&n[1], RS_STRICT))
		;
	ck_assert(world_send(CLIENT0, c0, 0, 10, 6));
	rs_client_kick(&CLIENT0->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1);
}

UNIT_TEST(a_lost_peer_is_owed_no_credit)
{
	take_last_receive(c0, c1);
	ck_assert(CONN1->on_granting);
	rs_peer_lost(&n[1].peer, -ECONNRESET);
	rs_conn_release(CONN1);
	ck_assert(rs_client_idle(&CLIENT1->rs));
	world_peers(&n[1]);
}

/* A strict connection for short messages, as if none had been sent for long, and a long message. */
static void begin_long_message(uint32_t *mouse0, uint32_t *mouse1)
{
	world_connect(n, 0, 0, 7, mouse0, mouse1);
	ck_assert(world_recv(CLIENT1, c1, 0, 20 * WORLD_CHUNK, 1));
	ck_assert(world_recv(CLIENT1, *mouse1, 30 * WORLD_CHUNK, 10, 1));
	world_settle(n);
	n[0].peer.sched.alert = 0;
	ck_assert(world_send(CLIENT0, c0, 0, 20 * WORLD_CHUNK, 1));
	rs_client_kick(&CLIENT0->rs);
}

/* While short messages are about, rings and CQ are polled before and after each long chunk. */
UNIT_TEST(a_pump_beside_short_messages_posts_a_long_chunk_alone)
{
	uint32_t mouse0, mouse1;

	begin_long_message(&mouse0, &mouse1);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 4); /* the window */
	while (world_deliver(&n[0], RS_WEIGHTED))
		;
	ck_assert(world_send(CLIENT0, mouse0, 0, 10, 2));
	rs_client_kick(&CLIENT0->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1);
	ck_assert_uint_eq(n[0].lane[RS_STRICT].tail - n[0].lane[RS_STRICT].head, 1);
	ck_assert_uint_eq(n[0].lane[RS_WEIGHTED].tail - n[0].lane[RS_WEIGHTED].head, 0);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1);
	ck_assert_uint_eq(n[0].lane[RS_WEIGHTED].tail - n[0].lane[RS_WEIGHTED].head, 1);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 0);
	world_settle(n);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, 1, 20 * WORLD_CHUNK);
	expect_len(CLIENT1, mouse1, RSHARE_RECEIVED, 0, 1, 10);
}

/* Another thread posts a short strict message, and completes it, while a long chunk is posted. */
UNIT_TEST(a_strict_message_passes_during_a_long_post)
{
	uint32_t mouse0, mouse1;

	begin_long_message(&mouse0, &mouse1);
	ck_assert(world_send(CLIENT0, mouse0, 0, 10, 2));
	world_helped = 0;
	world_helps = true;
	/* The window; by then the message has made it narrow. */
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 4);
	ck_assert_uint_eq(world_helped, 1);
	expect_len(CLIENT0, mouse0, RSHARE_SENT, 0, 2, 10);
	expect_len(CLIENT1, mouse1, RSHARE_RECEIVED, 0, 1, 10);
	ck_assert_uint_eq(rs_peer_pump(&n[0].peer), 1);
	world_helps = false;
	world_settle(n);
	expect_len(CLIENT0, c0, RSHARE_SENT, 0, 1, 20 * WORLD_CHUNK);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, 1, 20 * WORLD_CHUNK);
}

/* Weighted messages and frames wait: the queue pair takes one thread's posts at a time. */
UNIT_TEST(only_the_strict_lane_is_posted_to_during_a_long_post)
{
	uint32_t other0, other1;

	world_connect(n, 0, 0, 0, &other0, &other1);
	ck_assert(world_recv(CLIENT1, c1, 0, 100, 1) && world_recv(CLIENT1, other1, 200, 100, 1));
	world_settle(n);
	ck_assert(world_send(CLIENT0, c0, 0, 100, 1) && world_send(CLIENT0, other0, 0, 100, 1));
	rs_client_kick(&CLIENT0->rs);
	ck_assert_uint_eq(rs_peer_pump_strict(&n[0].peer), 0);
	rs_conn_priority(CLIENT0->rs.conn[other0], 1, 1);
	ck_assert_uint_eq(rs_peer_pump_strict(&n[0].peer), 1);
	ck_assert_uint_eq(rs_peer_pump_strict(&n[0].peer), 0);
	rs_peer_stop(&n[0].peer);
	rs_conn_priority(CLIENT0->rs.conn[c0], 1, 1);
	ck_assert_uint_eq(rs_peer_pump_strict(&n[0].peer), 0);
	n[0].peer.ready = true;
	world_settle(n);
	expect_len(CLIENT1, other1, RSHARE_RECEIVED, 0, 1, 100);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, 1, 100);
}

/*
 * The peer refuses a write: its connection ends, operations that preceded it are complete, and
 * others continue after the repair.
 */
UNIT_LOOP_TEST(a_refused_write_ends_its_connection_only, 0, 2)
{
	const struct rs_sqe write = { .op = _i ? RS_OP_READ : RS_OP_WRITE,
				      .len = 3 * WORLD_CHUNK,
				      .cookie = 2 };
	const struct rs_fifo *sent = &n[0].peer.lane[RS_WEIGHTED];
	const struct world_lane *posted = &n[0].lane[RS_WEIGHTED];
	uint32_t b0, b1, i;

	world_connect(n, 0, 0, 0, &b0, &b1);
	for (i = 0; i < 2; i++)
		ck_assert(world_recv(CLIENT1, c1, i * 100, 100, i) &&
			  world_recv(CLIENT1, b1, i * 100, 100, i));
	world_settle(n);
	ck_assert(world_send(CLIENT0, c0, 0, 10, 1) && world_submit(CLIENT0, c0, &write) &&
		  world_send(CLIENT0, c0, 0, 11, 3));
	ck_assert(world_send(CLIENT0, b0, 0, 12, 4) && world_send(CLIENT0, b0, 0, 13, 5));
	rs_client_kick(&CLIENT0->rs);
	n[0].peer.sched.alert = 0;
	while (rs_peer_pump(&n[0].peer))
		;
	ck_assert_uint_eq(sent->tail - sent->head, 7);
	/* What precedes the first chunk of the write arrives; the device refuses that one. */
	for (i = 0; sent->sent[(sent->head + i) % sent->size].post.op == RS_OP_SEND; i++)
		world_arrive(&n[0], RS_WEIGHTED);
	ck_assert(!rs_peer_refused(&n[0].peer, RS_STRICT, 0));
	ck_assert(rs_peer_refused(&n[0].peer, RS_WEIGHTED, i));
	world_break(n, (const unsigned int[2][RS_LANES]){ { 0 } });
	for (i = posted->head; i != posted->tail; i++) /* it is not posted again */
		ck_assert_uint_ne(posted->post[i % WORLD_QUEUE].bytes, 0);
	while (world_deliver(&n[0], RS_WEIGHTED)) /* before the reset on the other lane */
		;
	world_settle(n);
	ck_assert_int_eq(n[0].error, 0);
	ck_assert_int_eq(n[1].error, 0);
	expect_len(CLIENT0, c0, RSHARE_SENT, 0, 1, 10);
	expect_len(CLIENT0, c0, RSHARE_SENT, -EKEYREJECTED, 2, 3 * WORLD_CHUNK);
	expect_len(CLIENT0, c0, RSHARE_SENT, -EKEYREJECTED, 3, 11);
	expect_len(CLIENT0, c0, RSHARE_CLOSED, -EKEYREJECTED, 0, 0);
	expect_none(CLIENT0, c0);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, 0, 10);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, -ECANCELED, 1,
		   0); /* not what followed the write */
	expect_len(CLIENT1, c1, RSHARE_CLOSED, -ECONNRESET, 0, 0);
	ck_assert_int_eq(CONN1->state, RS_ENDED);
	expect_len(CLIENT0, b0, RSHARE_SENT, 0, 4, 12);
	expect_len(CLIENT0, b0, RSHARE_SENT, 0, 5, 13);
	expect_len(CLIENT1, b1, RSHARE_RECEIVED, 0, 0, 12);
	expect_len(CLIENT1, b1, RSHARE_RECEIVED, 0, 1, 13);
	expect_works(CLIENT0, b0, b1);
	ck_assert_ptr_nonnull(strstr(world_said, "refuses the key"));
	ck_assert_uint_eq(CLIENT0->rs.outstanding, 0);
	ck_assert_uint_eq(n[0].peer.sched.lane[RS_WEIGHTED].bytes, 0);
}

/* Break the queue pairs after some of the posts on the wire have arrived. */
static void break_somewhere(uint64_t random)
{
	unsigned int arrive[2][RS_LANES], i, k;

	for (i = 0; i < 2; i++)
		for (k = 0; k < RS_LANES; k++, random >>= 8)
			arrive[i][k] = random % (n[i].lane[k].tail - n[i].lane[k].head + 1);
	world_break(n, arrive);
}

/*
 * Messages of all sizes go both ways on three connections, delivered in any order, with changing
 * priorities. In every second run queue pairs break. From the tenth run on, another thread helps
 * during some long posts.
 */
UNIT_LOOP_TEST(nothing_is_lost_doubled_or_reordered, 0, 30)
{
	uint32_t at[2][3], next[2][3] = { { 0 } }, got[2][3] = { { 0 } }, posted[2][3] = { { 0 } };
	uint64_t random = 0x1234567 + (uint64_t)_i;
	unsigned int total = 0, i, k;
	struct rs_cqe e;

	at[0][0] = c0;
	at[1][0] = c1;
	for (k = 1; k < 3; k++)
		world_connect(n, 0, 0, k == 1 ? 0 : 5, &at[0][k], &at[1][k]);
	while (total < 2000) {
		const uint64_t r = unit_random(&random);

		i = r & 1;
		k = (r >> 1) % 3;
		struct world_client *c = &n[i].client[0], *o = &n[!i].client[0];
		uint32_t *mine = &next[i][k],
			 slot = (uint32_t)(k * WORLD_DEPTH + *mine % WORLD_DEPTH) * 4096;
		const uint32_t len = (*mine * 37u + k) % 1500;

		if (*mine - got[!i][k] < WORLD_DEPTH / 2) {
			memset(world_pool(c, slot), (int)(*mine + k), len);
			if (world_send(c, at[i][k], slot, len, *mine))
				++*mine;
		}
		if (posted[i][k] - got[i][k] < 3 && r >> 8 & 1) {
			ck_assert(world_recv(c, at[i][k],
					     500000 + (k * 8 + posted[i][k] % 8) * 4096, 1500,
					     posted[i][k]));
			posted[i][k]++;
		}
		world_helps = _i >= 10 && r >> 37 & 3;
		world_turn(n, r >> 16);
		world_helps = false;
		if (_i & 1 && !(r >> 35 & 15))
			break_somewhere(unit_random(&random));
		if (!(r >> 40 & 31))
			rs_conn_priority(n[i].client[0].rs.conn[at[i][k]], r >> 48 & 7,
					 (uint8_t)(1 + (r >> 52 & 7)));
		while (world_poll(o, at[!i][k], &e)) {
			if (e.type != RSHARE_RECEIVED)
				continue;
			unit_require(!e.status && e.cookie == got[!i][k] &&
				     e.len == (got[!i][k] * 37u + k) % 1500);
			for (uint32_t b = 0; b < e.len; b++)
				unit_require(
					world_pool(o, 500000 + (k * 8 + e.cookie % 8) * 4096)[b] ==
					(char)(got[!i][k] + k));
			got[!i][k]++;
			total++;
		}
		unit_require(!n[0].error && !n[1].error);
	}
	ck_assert_uint_eq(n[0].hub.stats.unknown + n[1].hub.stats.unknown, 0);
}

UNIT_TEST(a_slow_reader_stalls_its_own_sender_only)
{
	uint32_t d0, d1;

	world_connect(n, 0, 0, 0, &d0, &d1);
	for (uint64_t i = 0; i < WORLD_DEPTH; i++)
		ck_assert(world_send(CLIENT0, c0, 0, 5000, i));
	world_settle(n);
	expect_none(CLIENT0, c0);
	for (uint64_t i = 0; i < 100; i++) {
		ck_assert(world_recv(CLIENT1, d1, 0, 5000, i) &&
			  world_send(CLIENT0, d0, 0, 5000, i));
		world_settle(n);
		expect_len(CLIENT0, d0, RSHARE_SENT, 0, i, 5000);
		expect_len(CLIENT1, d1, RSHARE_RECEIVED, 0, i, 5000);
	}
	ck_assert_uint_eq(CONN0->stats.stalls, 1);
	ck_assert(world_recv(CLIENT1, c1, 0, 5000, 1));
	world_settle(n);
	expect_len(CLIENT0, c0, RSHARE_SENT, 0, 0, 5000);
	expect_none(CLIENT0, c0);
}

/*
 * Too few receives to be announced at once. They are announced when the peer has used the others.
 */
UNIT_TEST(all_receives_are_granted_in_the_end)
{
	ck_assert(world_recv(CLIENT1, c1, 0, 100, 0));
	world_settle(n);
	for (uint64_t i = 1; i < 4; i++)
		ck_assert(world_recv(CLIENT1, c1, 0, 100, i));
	world_settle(n);
	for (uint64_t i = 0; i < 4; i++)
		ck_assert(world_send(CLIENT0, c0, 0, 100, i));
	world_settle(n);
	for (uint64_t i = 0; i < 4; i++)
		expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, i, 100);
}

UNIT_TEST(a_message_too_large_is_cut)
{
	ck_assert(world_recv(CLIENT1, c1, 5000, 300, 1) && world_recv(CLIENT1, c1, 9000, 300, 2));
	memset(world_pool(CLIENT1, 5300), 'x', 8);
	ck_assert(world_send(CLIENT0, c0, 0, 1000, 1) && world_send(CLIENT0, c0, 0, 300, 2));
	world_settle(n);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, -EMSGSIZE, 1, 300);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, 2, 300);
	ck_assert_int_eq(memcmp(world_pool(CLIENT1, 5300), "xxxxxxxx", 8), 0);
}

/* Repeat one exchange, broken off in each turn after each number of arrived posts. */
UNIT_TEST(a_break_at_any_point_is_mended)
{
	unsigned int points = 0, turn, arrived, breaks, t, all, got[2], i, idle;
	struct rs_cqe e;
	uint32_t d0, d1;

	world_connect(n, 0, 0, 5, &d0, &d1);
	for (turn = 0, breaks = 1; breaks || turn < 2; turn++) /* credits leave in turn 1 */
		for (arrived = breaks = 0, all = 1; arrived < all; arrived++) {
			for (uint64_t k = 0; k < 3; k++) {
				ck_assert(world_recv(CLIENT1, c1, 0, 1000, k) &&
					  world_recv(CLIENT0, d0, 0, 1000, k));
				ck_assert(world_send(CLIENT0, c0, 0, 700, k) &&
					  world_send(CLIENT1, d1, 0, 600, k));
			}
			for (t = all = idle = 0; idle < 2 || t <= turn; t++) {
				idle = world_turn(n, 0x1111) ? 0 : idle + 1;
				const unsigned int on_wire =
					n[0].lane[RS_WEIGHTED].tail - n[0].lane[RS_WEIGHTED].head;

				if (t != turn || arrived > on_wire)
					continue;
				const unsigned int to1 = n[1].lane[RS_STRICT].tail -
					n[1].lane[RS_STRICT].head,
						   ctl0 = n[0].lane[RS_STRICT].tail -
					n[0].lane[RS_STRICT].head;

				all = on_wire + 1;
				breaks += on_wire || to1;
				points++;
				world_break(n,
					    (const unsigned int[2][RS_LANES]){
						    { ctl0 * arrived / all, arrived },
						    { to1 * arrived / all, 0 },
					    });
			}
			for (i = 0; i < 2; i++)
				for (got[i] = 0; world_poll(i ? CLIENT0 : CLIENT1, i ? d0 : c1, &e);
				     got[i]++)
					unit_require(e.type == RSHARE_RECEIVED && !e.status &&
						     e.cookie == got[i]);
			for (i = 0; i < 2; i++)
				for (t = 0; world_poll(i ? CLIENT1 : CLIENT0, i ? d1 : c0, &e); t++)
					unit_require(e.type == RSHARE_SENT && !e.status &&
						     e.cookie == t);
			unit_require(got[0] == 3 && got[1] == 3 && t == 3 && !n[0].error &&
				     !n[1].error);
		}
	ck_assert_uint_gt(points, 20);
	ck_assert_uint_gt(n[0].hub.stats.resent, 20);
}

UNIT_TEST(a_false_claim_is_bad)
{
	const uint32_t sent = n[0].peer.lane[RS_WEIGHTED].numbered,
		       strict = n[0].peer.lane[RS_STRICT].numbered;

	rs_peer_stop(&n[0].peer);
	ck_assert_int_eq(rs_peer_arrived(&n[0].peer, (const uint32_t[]){ strict, sent + 1 }),
			 -EBADMSG);
	ck_assert_int_eq(rs_peer_arrived(&n[0].peer, (const uint32_t[]){ strict - 1, sent }),
			 -EBADMSG);
	ck_assert_int_eq(rs_peer_arrived(&n[0].peer, (const uint32_t[]){ strict, sent }), 0);
	rs_peer_resume(&n[0].peer);
	expect_works(CLIENT0, c0, c1);
}

UNIT_TEST(closing_loses_nothing)
{
	for (uint64_t i = 0; i < WORLD_DEPTH; i++)
		ck_assert(world_send(CLIENT0, c0, 0, 1000, i));
	rs_conn_close(CONN0);
	world_settle(n);
	expect_none(CLIENT0, c0);
	for (uint64_t i = 0; i < WORLD_DEPTH; i++) {
		ck_assert(world_recv(CLIENT1, c1, 0, 1000, i));
		world_settle(n);
		expect_len(CLIENT0, c0, RSHARE_SENT, 0, i, 1000);
		expect_len(CLIENT1, c1, RSHARE_RECEIVED, 0, i, 1000);
	}
	expect_len(CLIENT0, c0, RSHARE_CLOSED, 0, 0, 0);
	expect_len(CLIENT1, c1, RSHARE_CLOSED, 0, 0, 0);
	/* Later requests fail, and are completed with an error. */
	ck_assert(world_send(CLIENT1, c1, 0, 10, 5) && world_recv(CLIENT1, c1, 0, 10, 6));
	world_settle(n);
	expect_len(CLIENT1, c1, RSHARE_SENT, -EPIPE, 5, 10);
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, -ECANCELED, 6, 0);
}

UNIT_TEST(both_sides_close_at_once)
{
	ck_assert(world_recv(CLIENT1, c1, 0, 1000, 0) && world_recv(CLIENT0, c0, 0, 1000, 0));
	world_settle(n);
	ck_assert(world_send(CLIENT0, c0, 0, 1000, 1) && world_send(CLIENT1, c1, 0, 1000, 1));
	rs_conn_close(CONN0);
	rs_conn_close(CONN1);
	world_settle(n);
	for (unsigned int i = 0; i < 2; i++) {
		struct world_client *c = &n[i].client[0];
		uint32_t at = i ? c1 : c0;
		struct rs_cqe e;
		unsigned int sent = 0, received = 0;

		while (world_poll(c, at, &e) && e.type != RSHARE_CLOSED) {
			sent += e.type == RSHARE_SENT && !e.status;
			received += e.type == RSHARE_RECEIVED && !e.status;
		}
		ck_assert_uint_eq(sent, 1);
		ck_assert_uint_eq(received, 1);
		ck_assert_int_eq(e.status, 0);
	}
}

UNIT_TEST(operations_end_with_the_peers_close)
{
	ck_assert(world_recv(CLIENT0, c0, 0, 10, 1) && world_send(CLIENT0, c0, 0, 10, 2));
	world_settle(n);
	rs_conn_close(CONN1);
	world_settle(n);
	expect_len(CLIENT0, c0, RSHARE_SENT, -EPIPE, 2, 10);
	expect_len(CLIENT0, c0, RSHARE_RECEIVED, -ECANCELED, 1, 0);
	expect_len(CLIENT0, c0, RSHARE_CLOSED, 0, 0, 0);
}

UNIT_TEST(nobody_listens)
{
	struct rs_conn *c;

	ck_assert_int_eq(rs_conn_connect(&CLIENT0->rs, &n[0].peer, 99, 0, 1, &c), 0);
	world_settle(n);
	expect_len(CLIENT0, c->index, RSHARE_CLOSED, -ECONNREFUSED, 0, 0);
	rs_conn_release(c);
	world_settle(n);
	ck_assert_uint_eq(CLIENT0->rs.live, 1);
}

UNIT_TEST(a_lost_peer_ends_everything_once)
{
	for (uint64_t i = 0; i < 4; i++)
		ck_assert(world_recv(CLIENT1, c1, 0, 5000, i) &&
			  world_send(CLIENT0, c0, 0, 5000, i));
	world_turn(n, 0x11);
	world_turn(n, 0x11);
	for (unsigned int i = 0; i < 2; i++) {
		rs_peer_lost(&n[i].peer, -ECONNRESET);
		world_peers(&n[i]);
	}
	for (uint64_t i = 0; i < 4; i++)
		expect_len(CLIENT0, c0, RSHARE_SENT, -ECONNRESET, i, 5000);
	expect_len(CLIENT0, c0, RSHARE_CLOSED, -ECONNRESET, 0, 0);
	expect_none(CLIENT0, c0);
	ck_assert_uint_eq(CLIENT0->rs.outstanding, 0);
	for (uint64_t i = 0; i < 4; i++)
		expect_len(CLIENT1, c1, RSHARE_RECEIVED, -ECANCELED, i, 0);
	expect_len(CLIENT1, c1, RSHARE_CLOSED, -ECONNRESET, 0, 0);
	rs_conn_release(CONN0);
	ck_assert_uint_eq(CLIENT0->rs.live, 0);
}

UNIT_TEST(a_client_that_dies_resets_its_connections_only)
{
	uint32_t d0, d1;

	world_connect(n, 1, 0, 0, &d0, &d1);
	ck_assert(world_recv(CLIENT1, c1, 0, 5000, 1));
	world_settle(n);
	ck_assert(world_send(CLIENT0, c0, 0, 5000, 1));
	world_turn(n, 0x11);
	rs_client_gone(&CLIENT0->rs);
	ck_assert(!rs_client_idle(&CLIENT0->rs)); /* the wire still reads its pool */
	world_settle(n);
	ck_assert(rs_client_idle(&CLIENT0->rs));
	expect_len(CLIENT1, c1, RSHARE_RECEIVED, -ECANCELED, 1, 0);
	expect_len(CLIENT1, c1, RSHARE_CLOSED, -ECONNRESET, 0, 0);
	expect_works(&n[0].client[1], d0, d1);
}

/* ---- peers that misbehave ------------------------------------------------------------------- */

/* f.number: added to the next number */
static int arrives(struct rs_frame f, const char *payload)
{
	char buf[sizeof(f) + WORLD_CHUNK] = { 0 };

	f.version = RS_FRAME_VERSION;
	f.number += (uint16_t)++n[0].peer.lane[RS_STRICT].numbered; /* as if node 0 had sent it */
	memcpy(buf, &f, sizeof(f));
	if (payload)
		memcpy(buf + sizeof(f), payload, f.len);
	return rs_peer_receive(&n[1].peer, RS_STRICT, buf, (uint32_t)sizeof(f) + f.len);
}

#define STRANGER UINT32_MAX /* an id that no connection has */

UNIT_TEST(unknown_ids_are_counted_and_answered)
{
	for (uint32_t id = 0; id < 5000; id++) {
		const uint32_t to = (id * 2654435761u) | RS_CONNS_MAX;

		if (to == CONN1->id)
			continue;
		ck_assert_int_eq(
			arrives((struct rs_frame){ .kind = (uint8_t)(id % 2 ? RS_FRAME_DATA
									    : RS_FRAME_CREDIT),
						   .to = to,
						   .from = STRANGER },
				NULL),
			0);
	}
	ck_assert_uint_ge(n[1].hub.stats.unknown, 4999);
	expect_works(CLIENT0, c0, c1);
}

UNIT_TEST(a_peer_that_breaks_the_rules_is_bad)
{
	const struct rs_frame data = { .kind = RS_FRAME_DATA, .to = CONN1->id, .from = STRANGER };
	struct rs_frame f = data;

	ck_assert_int_eq(arrives(f, NULL), -EBADMSG); /* without credit */
	f.seq = 5;
	ck_assert_int_eq(arrives(f, NULL), -EBADMSG); /* a gap: the failure above used a number */
	f = data;
	f.kind = RS_FRAME_CLOSED;
	ck_assert_int_eq(arrives(f, NULL), -EBADMSG); /* no close is in progress */
	f.kind = RS_FRAME_OPENED;
	ck_assert_int_eq(arrives(f, NULL), -EBADMSG); /* the connection is open */
	f.kind = RS_FRAME_REFUSED;
	ck_assert_int_eq(arrives(f, NULL), -EBADMSG);
	f.kind = RS_FRAME_OPEN;
	f.total = 8; /* priority 8 and weight 0 do not exist */
	ck_assert_int_eq(arrives(f, NULL), -EBADMSG);
	ck_assert_uint_eq(n[1].hub.stats.malformed, 6);
}

/* DATA of the other lane, with a later credit, may come before the answer to OPEN. */
UNIT_TEST(an_old_credit_of_the_answer_takes_none_away)
{
	const struct rs_frame opened = { .kind = RS_FRAME_OPENED, .from = STRANGER };
	struct rs_frame f = opened;
	struct rs_conn *c;

	ck_assert_int_eq(rs_conn_connect(&n[1].client[0].rs, &n[1].peer, 9, 0, 1, &c), 0);
	c->tx_granted = 5;
	f.to = c->id;
	f.credit = 2;
	ck_assert_int_eq(arrives(f, NULL), 0);
	ck_assert_uint_eq(c->tx_granted, 5);
	ck_assert_uint_eq(c->state, RS_OPEN);
	ck_assert_int_eq(rs_conn_connect(&n[1].client[0].rs, &n[1].peer, 9, 0, 1, &c), 0);
	f.to = c->id;
	ck_assert_int_eq(arrives(f, NULL), 0);
	ck_assert_uint_eq(c->tx_granted, 2);
}

UNIT_TEST(numbers_that_do_not_follow_are_bad)
{
	const struct rs_frame f = { .kind = RS_FRAME_CREDIT, .to = CONN1->id, .from = STRANGER };
	struct rs_frame late = f, early = f;

	late.number = (uint16_t)-1;
	early.number = 1;
	ck_assert_int_eq(arrives(early, NULL), -EBADMSG);
	n[0].peer.lane[RS_STRICT].numbered--;
	ck_assert_int_eq(arrives(f, NULL), 0);
	ck_assert_int_eq(arrives(late, NULL), -EBADMSG);
	ck_assert_uint_eq(n[1].hub.stats.malformed, 2);
}

UNIT_TEST(chunks_that_do_not_follow_are_bad)
{
	char zero[WORLD_CHUNK] = { 0 };
	struct rs_frame f = { .kind = RS_FRAME_DATA,
			      .to = CONN1->id,
			      .from = STRANGER,
			      .total = 1000,
			      .len = 100,
			      .seq = 0 };

	ck_assert(world_recv(CLIENT1, c1, 0, 1000, 1));
	world_settle(n);
	ck_assert_int_eq(arrives(f, zero), 0);
	f.seq = 1;
	f.offset = 200;
	ck_assert_int_eq(arrives(f, zero), -EBADMSG);
}

/* ---- clients that misbehave ------------------------------------------------------------------ */

UNIT_LOOP_TEST(a_forged_submission_ends_its_connection, 0, 7)
{
	static const struct rs_sqe bad[] = {
		{ .op = 0 },
		{ .op = 9 },
		{ .op = RS_OP_SEND, .offset = WORLD_POOL, .len = 1 },
		{ .op = RS_OP_SEND, .offset = ~0ull - 3, .len = 8 },
		{ .op = RS_OP_READ, .offset = 0, .len = WORLD_POOL + 1 },
		{ .op = RS_OP_WRITE, .offset = 0, .len = ~0u },
		{ .op = RS_OP_SEND, .flags = 0x80 },
	};

	const struct rs_sqe *e = &bad[_i];
	uint32_t d0, d1;

	world_connect(n, 1, 0, 0, &d0, &d1);
	ck_assert(rs_ring_put_shared(rs_seg_sq(world_seg(CLIENT0, c0)), &CLIENT0->at[c0].sq,
				     WORLD_DEPTH, e, sizeof(*e)));
	world_ready(CLIENT0, c0);
	world_settle(n);
	ck_assert_uint_eq(n[0].hub.stats.forged, 1);
	expect_len(CLIENT0, c0, RSHARE_SENT, -EBADMSG, 0, e->len);
	expect_len(CLIENT0, c0, RSHARE_CLOSED, -EBADMSG, 0, 0);
	expect_len(CLIENT1, c1, RSHARE_CLOSED, -ECONNRESET, 0, 0);
	expect_works(&n[0].client[1], d0, d1);
}

UNIT_TEST(a_forged_receive_ends_its_connection)
{
	const struct rs_rqe e = { .offset = WORLD_POOL - 5, .len = 10 };

	ck_assert(rs_ring_put_shared(rs_seg_rq(&CLIENT1->rs.layout, world_seg(CLIENT1, c1)),
				     &CLIENT1->at[c1].rq, WORLD_DEPTH, &e, sizeof(e)));
	world_ready(CLIENT1, c1);
	ck_assert(world_send(CLIENT0, c0, 0, 10, 3));
	world_settle(n);
	ck_assert_uint_eq(n[1].hub.stats.forged, 1);
	ck_assert_int_eq(n[1].error, 0); /* the peer is not at fault */
}

/*
 * The forged receive may arrive on the other lane before the peer's answer: then there is no id to
 * reset yet.
 */
UNIT_TEST(a_forged_receive_before_the_answer_ends_its_connection)
{
	const struct rs_rqe e = { .offset = WORLD_POOL - 5, .len = 10 };
	struct rs_conn *l, *c, *d;
	struct rs_cqe got;

	ck_assert(!rs_conn_listen(&CLIENT1->rs, 9, &l) &&
		  !rs_conn_connect(&CLIENT0->rs, &n[0].peer, 9, 0, 1, &c));
	memset(&CLIENT0->at[c->index], 0, sizeof(CLIENT0->at[0]));
	memset(&CLIENT1->at[l->index], 0, sizeof(CLIENT0->at[0]));
	ck_assert(rs_ring_put_shared(rs_seg_rq(&CLIENT0->rs.layout, world_seg(CLIENT0, c->index)),
				     &CLIENT0->at[c->index].rq, WORLD_DEPTH, &e, sizeof(e)));
	rs_conn_kick(c);
	rs_peer_pump(&n[0].peer);
	ck_assert(world_deliver(&n[0], RS_STRICT));
	ck_assert(world_poll(CLIENT1, l->index, &got) && got.type == RS_EVENT_ACCEPT);
	d = CLIENT1->rs.conn[got.cookie];
	memset(&CLIENT1->at[d->index], 0, sizeof(CLIENT0->at[0]));
	ck_assert(world_send(CLIENT1, d->index, 0, 10, 3));
	rs_conn_kick(d);
	rs_peer_pump(&n[1].peer);
	ck_assert(world_deliver(&n[1], RS_WEIGHTED));
	ck_assert_uint_eq(n[0].hub.stats.forged, 1);
	ck_assert(c->state == RS_ENDED && !c->remote);
	world_settle(n);
	ck_assert_int_eq(n[0].error, 0);
	ck_assert_int_eq(n[1].error, 0);
	expect_len(CLIENT0, c->index, RSHARE_CLOSED, -EBADMSG, 0, 0);
	expect_len(CLIENT1, d->index, RSHARE_CONNECTED, 0, 0, 0);
	expect_len(CLIENT1, d->index, RSHARE_SENT, 0, 3, 10);
	expect_len(CLIENT1, d->index, RSHARE_CLOSED, -ECONNRESET, 0, 0);
	expect_works(CLIENT0, c0, c1);
}

/*
 * Write random bytes to everything that a client can write, while both clients of both nodes send.
 */
UNIT_LOOP_TEST(a_scribbled_segment_harms_its_client_only, 0, 5)
{
	uint64_t random = 77 + (uint64_t)_i;
	uint32_t d0, d1, sent = 0, received = 0;
	struct rs_cqe e;

	world_connect(n, 1, 1, 0, &d0, &d1);
	for (unsigned int i = 0; i < 20000; i++) {
		const uint64_t r = unit_random(&random);
		struct world_client *victim = &n[r & 1].client[0];
		const uint64_t at = (r >> 8) % victim->rs.layout.pool_offset;

		if (i % 3 == 0)
			victim->rs.base[at] = (char)(r >> 40);
		else if (i % 3 == 1) /* at fields that are read first */
			((char *)world_seg(
				victim, r & 1 ? c1 : c0))[(r >> 8) % victim->rs.layout.conn_bytes] =
				(char)(r >> 40 & 3);
		world_ready(victim, r & 1 ? c1 : c0);
		if (world_send(&n[0].client[1], d0, 0, 700, sent))
			sent++;
		world_recv(&n[1].client[1], d1, 0, 700, i);
		while (world_poll(&n[0].client[1], d0, &e))
			;
		while (world_poll(&n[1].client[1], d1, &e))
			received += e.type == RSHARE_RECEIVED && !e.status;
		world_turn(n, r >> 20);
		unit_require(!n[0].error && !n[1].error);
	}
	ck_assert_uint_gt(received, 1000);
}

/* ---- many ------------------------------------------------------------------------------------ */

UNIT_TEST(ten_thousand_opens_and_closes_leave_nothing)
{
	struct rs_conn *l, *c;
	struct rs_cqe e;
	uint32_t last = 0, sent = 0, received = 0, i;

	ck_assert_int_eq(rs_conn_listen(&n[1].client[1].rs, 8, &l), 0);
	for (i = 0; i < 10000; i++) {
		ck_assert_int_eq(rs_conn_connect(&n[0].client[1].rs, &n[0].peer, 8, i % 8, 1, &c),
				 0);
		unit_require(c->id != last);
		last = c->id;
		if (world_recv(CLIENT1, c1, 0, 3000, i) && world_send(CLIENT0, c0, 0, 3000, i))
			sent++;
		world_settle(n);
		unit_require(world_poll(&n[1].client[1], l->index, &e) &&
			     e.type == RS_EVENT_ACCEPT);
		if (i % 2)
			rs_conn_close(c);
		else
			rs_conn_close(n[1].client[1].rs.conn[e.cookie]);
		world_settle(n);
		unit_require(c->state == RS_ENDED && !c->status &&
			     n[1].client[1].rs.conn[e.cookie]->state == RS_ENDED);
		rs_conn_release(c);
		rs_conn_release(n[1].client[1].rs.conn[e.cookie]);
		while (world_poll(CLIENT1, c1, &e))
			received += e.type == RSHARE_RECEIVED;
		while (world_poll(CLIENT0, c0, &e))
			;
	}
	ck_assert_uint_eq(n[0].client[1].rs.live, 0);
	ck_assert_uint_eq(n[1].client[1].rs.live, 1);
	ck_assert_uint_eq(received, sent);
	ck_assert_uint_ge(sent, 9990);
	ck_assert_uint_eq(n[1].hub.nconn, 256);
}

UNIT_TEST(limits_are_errors)
{
	struct rs_conn *c[70];
	unsigned int i;

	for (i = 0; i < 63; i++)
		ck_assert_int_eq(rs_conn_connect(&CLIENT0->rs, &n[0].peer, 7, 0, 1, &c[i]), 0);
	ck_assert_int_eq(rs_conn_connect(&CLIENT0->rs, &n[0].peer, 7, 0, 1, &c[i]), -ENOSPC);
	ck_assert_int_eq(rs_conn_listen(&CLIENT1->rs, 7, &c[i]), 0);
	ck_assert_int_eq(rs_conn_listen(&n[1].client[1].rs, 7, &c[i]), -EADDRINUSE);
}

UNIT_TEST(only_sleepers_are_woken)
{
	CONN1->fd = 0;
	ck_assert(world_recv(CLIENT1, c1, 0, 10, 1) && world_recv(CLIENT1, c1, 0, 10, 2) &&
		  world_recv(CLIENT1, c1, 0, 10, 3));
	ck_assert(world_send(CLIENT0, c0, 0, 10, 1));
	world_settle(n);
	ck_assert_uint_eq(n[1].wakes + world_seg(CLIENT1, c1)->signals, 0);
	world_seg(CLIENT1, c1)->armed = 1;
	ck_assert(world_send(CLIENT0, c0, 0, 10, 2) && world_send(CLIENT0, c0, 0, 10, 3));
	world_settle(n);
	ck_assert_uint_eq(n[1].wakes, 1);
	ck_assert_uint_eq(world_seg(CLIENT1, c1)->signals, 1);
	CONN1->fd = -1;
}

/* Many events cause one signal, at the end of the batch. */
UNIT_TEST(a_batch_wakes_once)
{
	struct rs_seg_head *head = (struct rs_seg_head *)CLIENT1->rs.base;
	unsigned int i;

	CONN1->fd = 0;
	world_seg(CLIENT1, c1)->armed = 1;
	for (i = 0; i < 3; i++)
		ck_assert(world_recv(CLIENT1, c1, 0, 10, i) && world_send(CLIENT0, c0, 0, 10, i));
	rs_client_kick(&CLIENT1->rs);
	rs_client_kick(&CLIENT0->rs);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), 0);
	ck_assert_uint_eq(rs_peer_pump(&n[1].peer), 1);
	while (world_deliver(&n[1], RS_STRICT))
		;
	rs_peer_pump(&n[0].peer);
	while (world_deliver(&n[0], RS_WEIGHTED))
		ck_assert_uint_eq(n[1].wakes, 0);
	ck_assert_uint_eq(CONN1->stats.messages_received, 3);
	rs_hub_notify(&n[1].hub);
	rs_hub_notify(&n[1].hub);
	ck_assert_uint_eq(n[1].wakes, 1);
	ck_assert_uint_eq(n[1].set_wakes + head->events[0], 0);
	CONN1->fd = -1;
}

/* Connections of a set have a bit each, and share one signal. */
UNIT_TEST(a_set_is_woken_once)
{
	struct rs_seg_head *head = (struct rs_seg_head *)CLIENT1->rs.base;
	uint32_t d0[3], d1[3];
	uint64_t bits = 0;
	unsigned int i, k;

	for (i = 0; i < 3; i++) {
		world_connect(n, 0, 0, 0, &d0[i], &d1[i]);
		rs_conn_join(CLIENT1->rs.conn[d1[i]]);
		bits |= 1ull << d1[i];
	}
	CLIENT1->rs.fd = 0;
	rs_hub_notify(&n[1].hub);
	ck_assert_uint_eq(n[1].set_wakes, 0); /* not armed */
	ck_assert_uint_eq(head->events[0], bits);
	for (k = 0; k < 2; k++) {
		head->events[0] = 0;
		head->armed = 1;
		for (i = 0; i < 3; i++)
			ck_assert(world_recv(CLIENT1, d1[i], 0, 10, 1) &&
				  world_send(CLIENT0, d0[i], 0, 10, 1));
		world_settle(n);
		ck_assert_uint_eq(head->events[0], bits);
		ck_assert_uint_eq(n[1].set_wakes, k + 1);
		ck_assert_uint_eq(head->signals, k + 1);
	}
	ck_assert_uint_eq(n[1].wakes, 0);
	/* A connection that is released before its client was told is forgotten. */
	rs_conn_join(CLIENT1->rs.conn[d1[0]]);
	rs_conn_release(CLIENT1->rs.conn[d1[0]]);
	world_settle(n);
	CLIENT1->rs.fd = -1;
}

UNIT_SUITE("share_hub", .seconds = 60, .setup = begin, .teardown = end)
