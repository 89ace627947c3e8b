// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_shared.c - net/shared over librshare, over queue pairs within this process
 * (share_verbs.h): the suite of all transports, the queue pair of each class, how blocks travel,
 * and the number of queue pairs between two nodes.
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

/* Work requests posted so far by the two queue pairs of an end. */
static unsigned int posted(uint32_t qpn)
{
	unsigned int n = 0;

	pthread_mutex_lock(&fake_lock);
	if (fake_qps[qpn % FAKE_QPS])
		n = fake_qps[qpn % FAKE_QPS]->tail;
	pthread_mutex_unlock(&fake_lock);
	return n;
}

static uint32_t first_seed;

static void exchange(struct end *a, struct end *b, uint8_t type, unsigned int count)
{
	const unsigned int before = b->messages;
	unsigned int i;

	for (i = 0; i < count; i++)
		ck_assert_int_eq(send_to(a, 1, type, first_seed + i, 0), 0);
	poll_until(a, b, &b->messages, before + count);
	settle(a, b);
}

/*
 * The queue pair that carries most messages of this type. Each end has two queue pairs; its first
 * is the strict one.
 */
static uint32_t carrier(struct end *a, struct end *b, uint8_t type)
{
	const unsigned int count = 200;
	unsigned int before[FAKE_FIRST + 4], q, most = 0;
	uint32_t found = 0;

	exchange(a, b, type, 1); /* connects the ends */
	for (q = FAKE_FIRST; q < FAKE_FIRST + 4; q++)
		before[q] = posted(q);
	exchange(a, b, type, count);
	for (q = FAKE_FIRST; q < FAKE_FIRST + 4; q++)
		if (posted(q) - before[q] > most) {
			most = posted(q) - before[q];
			found = q;
		}
	ck_assert_uint_ge(most, count);
	return found;
}

UNIT_CASE(fake_device, NULL)

UNIT_TEST(urgent_classes_have_a_queue_pair_of_their_own)
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

/* ---- priorities of regions ------------------------------------------------------------------ */

#define PRIORITIES 4u /* NET_NORMAL to NET_URGENT */
#define FIRST_OF(priority) ((uint32_t)(priority) << 16)

/* higher than NET_LOW */
static const enum net_priority higher[] = { NET_NORMAL, NET_HIGH, NET_URGENT };
static const char *const data_lanes[PRIORITIES] = { "data", "data low", "data high",
						    "data urgent" };

/* A message's object contains its priority. */
static unsigned int priority_of(void *arg, const struct msg *m)
{
	(void)arg;
	return m->object >> 16;
}

static void open_priorities(struct end *a, struct end *b, net_handler h)
{
	const struct net_config priority = { .priority = priority_of };

	ck_assert_int_eq(open_with(a, 0, handler, &priority), 0);
	ck_assert_int_eq(open_with(b, 1, h, &priority), 0);
	connect_pair(a, b);
}

static struct net_lane lane_of(const struct end *e, const char *name)
{
	struct net_lane rows[16];
	unsigned int n = ops->lanes(e->net, rows, 16), i;

	for (i = 0; i < n; i++)
		if (!strcmp(rows[i].name, name))
			return rows[i];
	ck_abort_msg("no kind of connections is called %s", name);
}

static void send_data(struct end *from, enum net_priority priority, unsigned int count, size_t size)
{
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct msg m = message(from, 1, MSG_DATA, FIRST_OF(priority) + i, size);
		size_t k;

		m.req_node = count <= SLOTS; /* so many have a place to land */
		m.req_slot = (uint16_t)(i % SLOTS);
		for (k = 0; k < size; k++)
			bytes[k] = byte_of(m.object, k);
		ck_assert_int_eq(ops->send(from->net, 1, &m, bytes, size), 0);
	}
}

UNIT_TEST(data_of_each_priority_has_a_connection_of_its_own)
{
	unsigned int i, k, all = 2;
	struct end a, b;

	open_priorities(&a, &b, handler);
	exchange(&a, &b, MSG_CALL, 1);
	exchange(&a, &b, MSG_READ_REQ, 1);
	for (i = 0; i < PRIORITIES; i++) {
		const enum net_priority p = (enum net_priority)i;

		ck_assert_uint_eq(lane_of(&a, data_lanes[i]).connections, 0);
		send_data(&a, p, 10 + i, 4096);
		send_data(&a, p, 2, 100000);
		all += 12 + i;
		poll_until(&a, &b, &b.messages, all);
		settle(&a, &b);
		for (k = 0; k < PRIORITIES; k++) {
			const struct net_lane l = lane_of(&a, data_lanes[k]);

			ck_assert_uint_eq(l.connections, k <= i);
			ck_assert_uint_eq(l.messages, k <= i ? 12 + k : 0);
			ck_assert_uint_eq(l.bytes, k <= i ? (10 + k) * 4096 + 200000 : 0);
		}
	}
	ck_assert_uint_eq(lane_of(&a, "bulk").messages, 1);
	ck_assert_uint_eq(lane_of(&a, "coherence").messages, 1);
	ck_assert_uint_eq(a.wrong + b.wrong + a.lost + b.lost, 0);
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}

UNIT_TEST(urgent_data_takes_the_strict_queue_pair)
{
	struct net_counters count;
	struct end a, b;
	uint32_t strict;
	unsigned int p;

	open_priorities(&a, &b, handler);
	strict = carrier(&a, &b, MSG_READ_REQ);
	for (p = NET_NORMAL; p <= NET_URGENT; p++) {
		first_seed = FIRST_OF(p);
		ck_assert_int_eq(carrier(&a, &b, MSG_DATA) == strict, p == NET_URGENT);
	}
	ops->counters(a.net, &count);
	ck_assert_uint_eq(count.queue_pairs, 2);
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}

/* low-priority messages: all; before the last other one */
static unsigned int low_came, low_before;

static void note_order(void *arg, const struct msg *m, const void *payload, size_t size)
{
	if (priority_of(NULL, m) == NET_LOW)
		low_came++;
	else
		low_before = low_came;
	handler(arg, m, payload, size);
}

/* Higher-priority data waits only for what the device already has, and for a share of the rest. */
UNIT_LOOP_TEST(data_passes_a_backlog_of_lower_priority, 0, 3)
{
	const enum net_priority p = higher[_i];
	const unsigned int many = 400, few = 16;
	struct end a, b;

	open_priorities(&a, &b, note_order);
	send_data(&a, NET_LOW, 1, 0);
	send_data(&a, p, 1, 0);
	poll_until(&a, &b, &b.messages, 2);
	settle(&a, &b);
	fake_hold(1, UINT_MAX);
	send_data(&a, NET_LOW, many, 4096);
	send_data(&a, p, few, 4096);
	fake_hold(0, UINT_MAX);
	poll_until(&a, &b, &b.messages, 2 + many + few);
	ck_assert_uint_eq(b.wrong + a.lost + b.lost, 0);
	ck_assert_uint_lt(low_before, many / 2);
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}

static unsigned int came, calls_came[3]; /* messages so far; calls among each pair */

static void note_calls(void *arg, const struct msg *m, const void *payload, size_t size)
{
	calls_came[came++ / 2 % 3] += m->type == MSG_CALL;
	handler(arg, m, payload, size);
}

static void await_received(struct end *a, struct end *b, uint64_t count)
{
	const uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	struct net_counters c;

	do {
		ops->poll(a->net, 64);
		ops->poll(b->net, 64);
		ops->counters(b->net, &c);
	} while (c.received < count && now_ms(CLOCK_MONOTONIC) < until);
	ck_assert_uint_eq(c.received, count);
}

static void await_reads(unsigned int count)
{
	const uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	unsigned int n;

	do {
		pthread_mutex_lock(&fake_lock);
		n = fake_reads;
		pthread_mutex_unlock(&fake_lock);
	} while (n < count && now_ms(CLOCK_MONOTONIC) < until);
	ck_assert_uint_eq(n, count);
}

/*
 * Two messages are read at a time, low-priority data first. Among the others, calls wait longest.
 */
UNIT_LOOP_TEST(large_data_passes_what_waits_to_be_read, 0, 3)
{
	const enum net_priority p = higher[_i];
	const size_t size = 8192; /* one chunk */
	struct end a, b;
	unsigned int i;

	open_priorities(&a, &b, note_calls);
	fake_hold(0, 0);
	send_data(&a, NET_LOW, 2, size);
	await_received(&a, &b, 2);
	for (i = 0; i < 2; i++)
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, i, size), 0);
	await_received(&a, &b, 4);
	send_data(&a, p, 2, size);
	await_received(&a, &b, 6);
	for (i = 2; i <= 6; i += 2) {
		await_reads(i);
		fake_hold(0, 2);
		poll_until(&a, &b, &b.messages, i);
	}
	ck_assert_uint_eq(calls_came[1], p == NET_URGENT ? 0 : 1);
	ck_assert_uint_eq(calls_came[2], p == NET_URGENT ? 2 : 1);
	ck_assert_uint_eq(b.wrong + a.lost + b.lost, 0);
	fake_hold(0, UINT_MAX);
	close_pair(&a, &b);
	ck_assert_uint_eq(fake_live, 0);
}

/* ---- several ranks of a node ---------------------------------------------------------------- */

#define RANKS 6u /* on two nodes */
#define KEY 0x9e3779b97f4a7c15u

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
						.key = KEY ^ (uint64_t)getpid(),
						.number = (uint64_t)getpid(),
						.device = "",
						.gid = "",
						.cq_groups = "",
						.verbs = "" };

		memset(&e[r], 0, sizeof(e[r]));
		e[r].rank = node_of[r]; /* the rank in messages */
		ck_assert_int_eq(ops->open(&cfg, &e[r].net, e[r].address, &e[r].size), 0);
	}
	for (r = 0; r < RANKS; r++)
		for (s = 0; s < RANKS; s++)
			if (node_of[r] != node_of[s])
				ck_assert_int_eq(ops->connect(e[r].net, (uint16_t)s, e[s].address,
							      e[s].size),
						 0);
}

static void *close_one(void *arg)
{
	ops->close(arg);
	return NULL;
}

/* All at once, as processes do: the first process of a node waits for the others. */
static void close_nodes(struct end *e)
{
	pthread_t thread[RANKS];
	unsigned int r;

	for (r = 0; r < RANKS; r++)
		pthread_create(&thread[r], NULL, close_one, e[r].net);
	for (r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
}

/* Every user can read the names of sockets. */
UNIT_TEST(names_keep_the_key)
{
	char line[512], key[20], number[24];
	unsigned int numbers = 0;
	struct end e[RANKS];
	FILE *f;

	open_nodes(e);
	f = fopen("/proc/net/unix", "r");
	ck_assert(f != NULL);
	snprintf(key, sizeof(key), "%llx", (unsigned long long)(KEY ^ (uint64_t)getpid()));
	snprintf(number, sizeof(number), "dsm-%016llx", (unsigned long long)getpid());
	while (fgets(line, sizeof(line), f)) {
		ck_assert(!strstr(line, key));
		numbers += strstr(line, number) != NULL;
	}
	fclose(f);
	ck_assert_uint_gt(numbers, 0);
	close_nodes(e);
	ck_assert_uint_eq(fake_live, 0);
}

UNIT_TEST(two_queue_pairs_serve_all_ranks_of_two_nodes)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_DATA, MSG_REPLY, MSG_CALL };
	struct end e[RANKS];
	struct net_counters count;
	unsigned int r, i;

	open_nodes(e);
	for (i = 0; i < 40; i++)
		for (r = 0; r < RANKS; r++) {
			struct msg m =
				message(&e[r], !e[r].rank, types[i % 4], i, i % 2 ? 3000 : 0);
			unsigned int k;

			for (k = 0; k < 3000; k++)
				bytes[k] = byte_of(i, k);
			m.value = types[i % 4] == MSG_REPLY ? 0 : m.value;
			ck_assert_int_eq(ops->send(e[r].net, (uint16_t)((r + 3) % RANKS), &m, bytes,
						   m.value),
					 0);
		}
	for (r = 0; r < RANKS; r++)
		poll_until(&e[r], &e[(r + 3) % RANKS], &e[r].messages, 40);
	for (r = 0; r < RANKS; r++) {
		ops->counters(e[r].net, &count);
		ck_assert_uint_eq(count.queue_pairs, 2);
		ck_assert_uint_eq(count.sent, 40);
		ck_assert_uint_eq(e[r].wrong + e[r].lost, 0);
	}
	close_nodes(e);
	ck_assert_uint_eq(fake_live, 0);
}

/* ---- blocks --------------------------------------------------------------------------------- */

static const void *landed[SLOTS];

static void note_place(void *arg, const struct msg *m, const void *payload, size_t size)
{
	landed[m->req_slot] = payload;
	handler(arg, m, payload, size);
}

UNIT_TEST(blocks_are_written_to_the_place_of_their_request)
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

			m.req_node = 1;
			m.req_slot = (uint16_t)slot;
			for (i = 0; i < size; i++)
				bytes[i] = byte_of(m.object, i);
			ck_assert_int_eq(ops->send(a.net, 1, &m, bytes, size), 0);
			poll_until(&a, &b, &b.messages, round * SLOTS + slot + 1);
		}
	ck_assert_uint_eq(b.wrong, 0);
	for (slot = 1; slot < SLOTS; slot++)
		ck_assert_int_eq((const char *)landed[slot] - (const char *)landed[slot - 1],
				 (ptrdiff_t)size);
	close_pair(&a, &b);
}

/* ---- losses --------------------------------------------------------------------------------- */

UNIT_TEST(a_broken_link_is_repaired)
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

UNIT_TEST(a_dead_link_is_the_loss_of_its_peer)
{
	struct end a, b;
	unsigned int q;

	open_pair(&a, &b, 0);
	exchange(&a, &b, MSG_READ_REQ, 10);
	pthread_mutex_lock(&fake_lock);
	fake_down = 1;
	for (q = FAKE_FIRST; q < FAKE_FIRST + 4; q++)
		fake_qps[q]->dest = 200; /* no such queue pair */
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

UNIT_SUITE("net_shared", .seconds = 120)
