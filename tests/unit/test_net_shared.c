// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_shared.c - net/shared over librshare, over queue pairs within this process (share_verbs.h): what every transport has to
 * do, which queue pair a class takes, how blocks travel, and how many queue pairs the ranks of two nodes need.
 */
#define NET_OPS net_shared
#define TRANSPORTS 1
#define SLEEPERS 1
#define NET_ONE_PROCESS
#include "suite.h"

#include "share_verbs.h"

#include "net_sleep_suite.h"
#include "net_suite.h"

/* ---- queue pairs ---------------------------------------------------------------------------- */

/* Work requests that were ever posted, by the two queue pairs of an end. */
static unsigned int posted(uint32_t qpn)
{
	unsigned int n = 0;

	pthread_mutex_lock(&fake_lock);
	if (fake_qps[qpn % FAKE_QPS])
		n = fake_qps[qpn % FAKE_QPS]->tail;
	pthread_mutex_unlock(&fake_lock);
	return n;
}

static void exchange(struct end *a, struct end *b, uint8_t type, unsigned int count)
{
	const unsigned int before = b->messages;
	unsigned int i;

	for (i = 0; i < count; i++)
		ck_assert_int_eq(send_to(a, 1, type, i, 0), 0);
	poll_until(a, b, &b->messages, before + count);
	settle(a, b);
}

/* How many of four queue pairs, two at each end, carry most of count messages of this type. The first of an end is the strict one. */
static uint32_t carrier(struct end *a, struct end *b, uint8_t type)
{
	const unsigned int count = 200;
	unsigned int before[5], q, most = 0;
	uint32_t found = 0;

	exchange(a, b, type, 1); /* connected */
	for (q = 1; q < 5; q++)
		before[q] = posted(q);
	exchange(a, b, type, count);
	for (q = 1; q < 5; q++)
		if (posted(q) - before[q] > most) {
			most = posted(q) - before[q];
			found = q;
		}
	ck_assert_uint_ge(most, count);
	return found;
}

START_TEST(urgent_classes_have_a_queue_pair_of_their_own)
{
	struct end a, b;
	uint32_t urgent;

	open_pair(&a, &b, 0);
	urgent = carrier(&a, &b, MSG_READ_REQ);
	ck_assert_uint_eq(carrier(&a, &b, MSG_REPLY), urgent);
	ck_assert_uint_ne(carrier(&a, &b, MSG_DATA), urgent);
	ck_assert_uint_ne(carrier(&a, &b, MSG_CALL), urgent);
	ck_assert_uint_eq(carrier(&a, &b, MSG_DATA), carrier(&a, &b, MSG_CALL));
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}
END_TEST

/* ---- several ranks of a node ---------------------------------------------------------------- */

#define RANKS 6u /* of two nodes */

static const uint16_t node_of[RANKS] = { 0, 0, 0, 1, 1, 1 };

static void open_nodes(struct end *e)
{
	unsigned int r, s;

	for (r = 0; r < RANKS; r++) {
		const uint16_t pairs[2] = { (uint16_t)(r % 3), (uint16_t)(3 + r % 3) };
		const struct net_config cfg = { .rank = (uint16_t)r,
						.size = RANKS,
						.node_of = node_of,
						.rank_of = pairs,
						.node = node_of[r],
						.nodes = 2,
						.nslots = SLOTS,
						.handler = handler,
						.lost = lost,
						.arg = &e[r],
						.key = (uint64_t)getpid(),
						.device = "",
						.gid = "",
						.cq_groups = "",
						.verbs = "" };

		memset(&e[r], 0, sizeof(e[r]));
		e[r].rank = node_of[r]; /* what messages name */
		ck_assert_int_eq(ops->open(&cfg, &e[r].net, e[r].address, &e[r].size), 0);
	}
	for (r = 0; r < RANKS; r++)
		for (s = 0; s < RANKS; s++)
			if (node_of[r] != node_of[s])
				ck_assert_int_eq(ops->connect(e[r].net, (uint16_t)s, e[s].address, e[s].size), 0);
}

static void *close_one(void *arg)
{
	ops->close(arg);
	return NULL;
}

START_TEST(two_queue_pairs_serve_all_ranks_of_two_nodes)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_DATA, MSG_REPLY, MSG_CALL };
	struct end e[RANKS];
	struct net_counters count;
	pthread_t thread[RANKS];
	unsigned int r, i;

	open_nodes(e);
	for (i = 0; i < 40; i++)
		for (r = 0; r < RANKS; r++) {
			struct msg m = message(&e[r], !e[r].rank, types[i % 4], i, i % 2 ? 3000 : 0);
			unsigned int k;

			for (k = 0; k < 3000; k++)
				bytes[k] = byte_of(i, k);
			m.value = types[i % 4] == MSG_REPLY ? 0 : m.value;
			ck_assert_int_eq(ops->send(e[r].net, (uint16_t)((r + 3) % RANKS), &m, bytes, m.value), 0);
		}
	for (r = 0; r < RANKS; r++)
		poll_until(&e[r], &e[(r + 3) % RANKS], &e[r].messages, 40);
	for (r = 0; r < RANKS; r++) {
		ops->counters(e[r].net, &count);
		ck_assert_uint_eq(count.queue_pairs, 2);
		ck_assert_uint_eq(count.sent, 40);
		ck_assert_uint_eq(e[r].wrong + e[r].lost, 0);
	}
	/* All at once, as processes do: the first of a node waits for the others. */
	for (r = 0; r < RANKS; r++)
		pthread_create(&thread[r], NULL, close_one, e[r].net);
	for (r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
	ck_assert_uint_eq(fake_live, 0);
}
END_TEST

/* ---- blocks --------------------------------------------------------------------------------- */

static const void *landed[SLOTS];

static void note_place(void *arg, const struct msg *m, const void *payload, size_t size)
{
	landed[m->req_slot] = payload;
	handler(arg, m, payload, size);
}

START_TEST(blocks_are_written_to_the_place_of_their_request)
{
	const size_t size = 4096;
	struct end a, b;
	unsigned int slot, round;

	ck_assert_int_eq(try_open(&a, 0, handler), 0);
	ck_assert_int_eq(try_open(&b, 1, note_place), 0);
	connect_pair(&a, &b);
	for (round = 0; round < 3; round++)
		for (slot = 0; slot < SLOTS; slot++) {
			struct msg m = message(&a, 1, MSG_DATA, slot + round, size);
			size_t i;

			m.req_rank = 1;
			m.req_slot = (uint16_t)slot;
			for (i = 0; i < size; i++)
				bytes[i] = byte_of(m.object, i);
			ck_assert_int_eq(ops->send(a.net, 1, &m, bytes, size), 0);
			poll_until(&a, &b, &b.messages, round * SLOTS + slot + 1);
		}
	ck_assert_uint_eq(b.wrong, 0);
	for (slot = 1; slot < SLOTS; slot++)
		ck_assert_int_eq((const char *)landed[slot] - (const char *)landed[slot - 1], (ptrdiff_t)size);
	close_pair(&a, &b);
}
END_TEST

/* ---- losses --------------------------------------------------------------------------------- */

START_TEST(a_broken_link_is_repaired)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_DATA, MSG_REPLY, MSG_CALL };
	struct end a, b;
	unsigned int i;

	open_pair(&a, &b, 0);
	pthread_mutex_lock(&fake_lock);
	fake_breaks = 13;
	pthread_mutex_unlock(&fake_lock);
	for (i = 0; i < 200; i++)
		ck_assert_int_eq(send_to(&a, 1, types[i % 4], i, i % 4 == 1 ? 4096 : 0), 0);
	poll_until(&a, &b, &b.messages, 200);
	pthread_mutex_lock(&fake_lock);
	fake_breaks = 0;
	pthread_mutex_unlock(&fake_lock);
	settle(&a, &b);
	ck_assert_uint_eq(b.messages, 200);
	ck_assert_uint_eq(a.lost + b.lost + b.wrong, 0);
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}
END_TEST

START_TEST(a_dead_link_is_the_loss_of_its_peer)
{
	struct end a, b;
	unsigned int q;

	open_pair(&a, &b, 0);
	exchange(&a, &b, MSG_READ_REQ, 10);
	pthread_mutex_lock(&fake_lock);
	fake_down = 1;
	for (q = 1; q < 5; q++)
		fake_qps[q]->dest = 200; /* nobody */
	pthread_mutex_unlock(&fake_lock);
	for (q = 0; q < 100; q++)
		send_to(&a, 1, MSG_DATA, q, 4096);
	poll_until(&a, &b, &a.lost, 1);
	poll_until(&a, &b, &b.lost, 1);
	settle(&a, &b);
	ck_assert_uint_eq(a.lost + b.lost, 2);
	ck_assert_int_eq(a.err, -EPIPE);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), -EPIPE);
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("net_shared");
	TCase *t = tcase_create("fake device");

	tcase_set_timeout(t, 120);
	add_net_messages(t);
	add_net_sleep_suite(t);
	tcase_add_test(t, urgent_classes_have_a_queue_pair_of_their_own);
	tcase_add_test(t, two_queue_pairs_serve_all_ranks_of_two_nodes);
	tcase_add_test(t, blocks_are_written_to_the_place_of_their_request);
	tcase_add_test(t, a_broken_link_is_repaired);
	tcase_add_test(t, a_dead_link_is_the_loss_of_its_peer);
	suite_add_tcase(s, t);
	return unit_main(s);
}
