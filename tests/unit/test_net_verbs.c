// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_verbs.c - net/verbs over any RDMA device: the suite of all transports, with each
 * technique on and off and with broken connections; strangers, garbage on an established
 * connection, too few receive buffers. Without a device: exit status 77.
 */
#define NET_OPS net_verbs
#define TRANSPORTS 4
#define SLEEPERS 2 /* a thread that polls repairs a broken connection */
/* with this timeout, a dead peer is noticed after 1 s instead of 9 s */
#define NET_SETTINGS                                                           \
	"", "timeout=15,coalesce=0,chain=1,signal=1,inline=0,batch=1,large=0", \
		"timeout=15,break=40",                                         \
		"timeout=15,depth=4,chain=3,batch=2,break=100,coalesce=0,solicit=0"

#include "net_sleep_suite.h"
#include "net_suite.h"

#include <arpa/inet.h>
#include <glob.h>
#include <stdio.h>

#include "core/word.h"
#include "net/redirect.h"
#include "net/verbs/mem.h"

int net_leftovers(void)
{
	return 0; /* the kernel frees the process's objects */
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static struct msg block_for(const struct end *from, const struct end *to, uint16_t slot,
			    uint32_t seed)
{
	struct msg m = message(from, to->rank, MSG_DATA, seed, 4096);

	m.req_node = to->rank;
	m.req_slot = slot;
	return m;
}

UNIT_CASE(own, NULL)

UNIT_LOOP_TEST(blocks_land_with_their_requests, 0, TRANSPORTS)
{
	const unsigned int rounds = 200;
	unsigned char block[4096];
	unsigned int i, s, k;
	struct end a, b;

	open_pair(&a, &b, _i);
	for (i = 0; i < rounds; i++) {
		for (s = 0; s < SLOTS; s++) {
			struct msg m = block_for(&a, &b, (uint16_t)s, i * SLOTS + s);

			for (k = 0; k < sizeof(block); k++)
				block[k] = byte_of(m.object, k);
			ck_assert_int_eq(ops->send(a.net, 1, &m, block, sizeof(block)), 0);
			memset(block, 0, sizeof(block));
		}
		/* a slot is used again after its answer */
		poll_until(&a, &b, &b.messages, (i + 1) * SLOTS);
	}
	settle(&a, &b);
	ck_assert_uint_eq(b.messages, rounds * SLOTS);
	ck_assert_uint_eq(b.wrong, 0);
	ck_assert_uint_eq(a.lost + b.lost, 0);
	close_pair(&a, &b);
}

/* ---- repair ---------------------------------------------------------------------------------- */

UNIT_TEST(broken_connections_are_mended_and_nothing_is_lost_or_doubled)
{
	static const uint8_t types[] = { MSG_READ_REQ, MSG_PING, MSG_DATA, MSG_CALL };
	static const size_t sizes[] = { 0, 0, 4096, 20000 };
	const unsigned int each = 300;
	struct end a, b;
	unsigned int i;

	verbs_setting = "break=13";
	open_set(&a, &b);
	for (i = 0; i < each; i++) {
		ck_assert_int_eq(send_to(&a, 1, types[i % 4], i, sizes[i % 4]), 0);
		ck_assert_int_eq(send_to(&b, 0, types[i % 4], i, sizes[i % 4]), 0);
		ops->poll(a.net, 4);
		ops->poll(b.net, 4);
	}
	poll_until(&a, &b, &a.messages, each);
	poll_until(&a, &b, &b.messages, each);
	settle(&a, &b);
	ck_assert_uint_eq(a.messages, each);
	ck_assert_uint_eq(b.messages, each);
	ck_assert_uint_eq(a.wrong + b.wrong + a.lost + b.lost, 0);
	ck_assert_uint_gt(atomic_load(&a.net->breaks), 10);
	close_pair(&a, &b);
}

/* ---- strangers ------------------------------------------------------------------------------- */

UNIT_TEST(a_peer_of_another_job_is_refused)
{
	struct net_counters count;
	struct end a, b;
	struct blob *at;

	choose(0);
	ck_assert_int_eq(try_open(&a, 0, handler), 0);
	ck_assert_int_eq(try_open(&b, 1, handler), 0);
	at = (struct blob *)b.address;
	at->key ^= 1;
	connect_pair(&a, &b);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	poll_until(&a, &b, &a.lost, 1);
	ck_assert_int_eq(a.err, -EPIPE);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), -EPIPE);
	ck_assert_uint_eq(b.messages + b.lost, 0);
	ops->counters(b.net, &count);
	ck_assert_uint_ge(count.malformed, 1);
	close_pair(&a, &b);
}

UNIT_TEST(an_address_of_another_version_is_refused)
{
	struct end a, b;

	choose(0);
	ck_assert_int_eq(try_open(&a, 0, handler), 0);
	ck_assert_int_eq(try_open(&b, 1, handler), 0);
	((struct blob *)b.address)->version++;
	ck_assert_int_eq(ops->connect(a.net, 1, b.address, b.size), -EINVAL);
	close_pair(&a, &b);
}

UNIT_TEST(a_peer_that_never_answers_is_lost_in_time)
{
	struct end a, b;
	uint64_t from;

	open_pair(&a, &b, 0);
	from = now_ms(CLOCK_MONOTONIC);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	poll_until(&a, NULL, &a.lost, 1); /* b does not poll */
	ck_assert_int_eq(a.err, -EPIPE);
	ck_assert_uint_ge(now_ms(CLOCK_MONOTONIC) - from, LOST_MS * 9 / 10);
	ck_assert_uint_lt(now_ms(CLOCK_MONOTONIC) - from, 3 * LOST_MS);
	close_pair(&a, &b);
}

/* ---- garbage --------------------------------------------------------------------------------- */

enum garbage {
	G_SHORT,
	G_LONG,
	G_KIND,
	G_AHEAD,
	G_SRC,
	G_CLASS,
	G_SIZE,
	G_FREE,
	G_QUIT,
	G_FETCH,
	G_LAND,
	G_LAND_SLOT,
	G_IMM,
	G_IMM_SLOT,
	G_IMM_TYPE,
	G_IMM_SIZE,
	G_BARE,
	GARBAGE
};

struct garbage_frame {
	struct frame f;
	struct msg m;
	unsigned char behind[4096];
};

/* Post on the queue pair of a's lane, as a faulty peer could. */
static void post_garbage(struct end *a, enum garbage what)
{
	const bool imm = what >= G_IMM;
	struct lane *l = &a->net->peers[1].lanes[what >= G_LAND ? CLASS_DATA : CLASS_SYNC];
	struct out *o = mem_frame_get(l->dev, 4096);
	struct garbage_frame *g = (struct garbage_frame *)o->data;
	struct ibv_sge sge = { .addr = (uintptr_t)g, .length = HEAD, .lkey = o->lkey };
	struct ibv_send_wr wr = { .wr_id = wr_make(WR_SEND, l->sent + 1),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND },
			   *bad;

	memset(g, 0, sizeof(struct frame) + sizeof(struct msg) + 64);
	g->f = (struct frame){ .seq = l->sent + 1, .kind = FRAME_MSG, .class = l->class };
	g->m = message(a, 1, imm ? MSG_DATA : MSG_PING, 0, 0);
	g->m.req_node = 1;
	if (imm) {
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.wr.rdma.remote_addr = l->landing;
		wr.wr.rdma.rkey = l->landing_rkey;
		g->f.kind = FRAME_LAND;
		g->f.size = 64;
		sge.length = HEAD + 64;
	}
	switch (what) {
	case G_SHORT: sge.length = 8; break;
	case G_LONG: sge.length = 2000; break;
	case G_KIND: g->f.kind = 77; break;
	case G_AHEAD: g->f.seq += 3; break;
	case G_SRC: g->f.src = 2; break;
	case G_CLASS: g->f.class = CLASS_BULK; break;
	case G_SIZE: g->f.size = 1u << 31; break;
	case G_FREE:
		g->f.kind = FRAME_FREE;
		g->f.id = 9;
		sge.length = sizeof(g->f);
		break;
	case G_QUIT: g->f.kind = FRAME_QUIT; break; /* too long for one message */
	case G_FETCH:
		g->f.kind = FRAME_FETCH;
		g->f.size = 1u << 30;
		sge.length += sizeof(struct remote);
		break;
	case G_LAND:
		g->f.kind = FRAME_LAND;
		g->f.size = 1u << 20;
		g->m.type = MSG_DATA;
		break;
	case G_LAND_SLOT:
		g->f.kind = FRAME_LAND;
		g->f.size = 64;
		g->m.type = MSG_DATA;
		g->m.req_slot = SLOTS;
		break;
	case G_IMM: wr.imm_data = htonl(SLOTS); break;
	case G_IMM_SLOT: g->m.req_slot = 1; break; /* the request was in slot 0 */
	case G_IMM_TYPE: g->m.type = MSG_CALL; break;
	case G_IMM_SIZE: g->f.size = 65; break;
	case G_BARE:
		wr.imm_data =
			htonl(word_put_PROCESS_BLOCK((struct word_PROCESS_BLOCK){ .bare = 1 }));
		break; /* b has said that it accepts none */
	case GARBAGE: break;
	}
	ck_assert_int_eq(ibv_post_send(l->qp, &wr, &bad), 0);
}

/*
 * Does b learn of garbage? Otherwise the connection must be repaired, and the next message arrive.
 */
static bool told(struct end *a, struct end *b)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;

	ck_assert_int_eq(send_to(a, 1, MSG_PING, 0, 0), 0);
	while (!b->lost && b->messages < 3 && now_ms(CLOCK_MONOTONIC) < until) {
		ops->poll(a->net, 16);
		ops->poll(b->net, 16);
	}
	ck_assert(b->lost || b->messages == 3);
	return b->lost;
}

UNIT_CASE(garbage, NULL)

UNIT_LOOP_TEST(garbage_on_an_established_connection_costs_it, 0, GARBAGE)
{
	struct net_counters count;
	struct end a, b;

	open_pair(&a, &b, 0);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	ck_assert_int_eq(send_to(&a, 1, MSG_DATA, 0, 64), 0);
	poll_until(&a, &b, &b.messages, 2);
	settle(&a, &b);
	post_garbage(&a, (enum garbage)_i);
	if (_i == G_LONG && !told(&a, &b)) {
		/* some devices refuse it themselves, and only the connection breaks */
		close_pair(&a, &b);
		return;
	}
	poll_until(&b, &a, &b.lost, 1);
	ck_assert_int_eq(b.err, -EBADMSG);
	ck_assert_uint_eq(b.messages, 2);
	ck_assert_int_eq(send_to(&b, 0, MSG_PING, 0, 0), -EPIPE);
	ops->counters(b.net, &count);
	ck_assert_uint_ge(count.malformed, 1);
	close_pair(&a, &b);
}

/* ---- shortage -------------------------------------------------------------------------------- */

UNIT_CASE(rest, NULL)

UNIT_TEST(too_few_receive_buffers_only_slow_down)
{
	const unsigned int n = 300;
	struct end a, b;
	unsigned int i;

	verbs_setting = "srq=4";
	open_set(&a, &b);
	for (i = 0; i < n; i++)
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, i, 0), 0);
	poll_until(&a, &b, &b.messages, n);
	ck_assert_uint_eq(b.wrong + a.lost + b.lost, 0);
	close_pair(&a, &b);
}

/* A close sends more than may be locked in memory, while its peer does something else. */
UNIT_LOOP_TEST(payloads_that_peers_read_take_little_registered_memory, 0, 2)
{
	enum { MESSAGES = 64, LARGE = 256 << 10 };
	const unsigned long long bound = PAYLOADS_MAX + (1u << 20); /* with frames and rings */
	unsigned long long sender, receiver;
	struct end a, b;
	unsigned int i;

	verbs_setting = _i ? "large=0" : "";
	open_set(&a, &b);
	for (i = 0; i < 2; i++) /* connected */
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, i, 0), 0);
	poll_until(&a, &b, &b.messages, 2);
	sender = atomic_load(&a.net->registered);
	receiver = atomic_load(&b.net->registered);
	for (i = 0; i < MESSAGES; i++)
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, 2 + i, LARGE), 0);
	ck_assert_uint_le(atomic_load(&a.net->registered) - sender, bound);
	poll_until(&a, &b, &b.messages, 2 + MESSAGES);
	settle(&a, &b);
	ck_assert_uint_eq(b.wrong + a.lost + b.lost, 0);
	ck_assert_uint_le(atomic_load(&a.net->registered) - sender, bound);
	ck_assert_uint_le(atomic_load(&b.net->registered) - receiver, bound);
	/* what waits is freed with the connection */
	for (i = 0; i < MESSAGES; i++)
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, 2 + MESSAGES + i, LARGE), 0);
	close_pair(&a, &b);
}

/* ---- threads of its own ---------------------------------------------------------------------- */

static int threads;

static void new_thread(void *arg)
{
	(void)arg;
	__atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
}

static bool waited(const struct msg *m)
{
	return m->type == MSG_GRANT;
}

static void await(struct end *a, struct end *b, const unsigned int *word, unsigned int value)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;

	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) < value && now_ms(CLOCK_MONOTONIC) < until) {
		ops->arm(a->net); /* handles connections, as the service thread does */
		ops->arm(b->net);
		usleep(1000);
	}
	ck_assert_uint_eq(*word, value);
}

UNIT_LOOP_TEST(its_threads_deliver_while_nobody_looks, 0, 2)
{
	const struct net_config with_threads = { .thread = new_thread, .waited = waited };
	uint64_t cpu, until;
	struct end a, b;
	unsigned int i;

	verbs_setting = _i ? "direct=0" : "";
	threads = 0;
	ck_assert_int_eq(open_with(&a, 0, handler, &with_threads), 0);
	ck_assert_int_eq(open_with(&b, 1, handler, &with_threads), 0);
	connect_pair(&a, &b);
	for (i = 0; i < 100; i++) {
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, i, i * 100), 0);
		ck_assert_int_eq(send_to(&b, 0, MSG_PING, i, 0), 0);
		if (!i)
			await(&a, &b, &b.messages, 1);
	}
	await(&a, &b, &b.messages, 100);
	await(&a, &b, &a.messages, 100);
	ck_assert_uint_eq(a.wrong + b.wrong, 0);
	ck_assert_int_ge(__atomic_load_n(&threads, __ATOMIC_RELAXED), 2);
	/* A thread that polls is the only one that takes messages. */
	ops->wait_step(b.net, NET_WAIT_BEGIN);
	usleep(20000);
	for (i = 0; i < 50; i++) {
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, i, 0), 0);
		poll_until(&b, NULL, &b.messages, 101 + i);
	}
	/* Messages that arrive just before it stops are not left behind. */
	for (i = 0; i < 50; i++) {
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, i, 0), 0);
		ops->wait_step(b.net, NET_WAIT_END);
		await(&a, &b, &b.messages, 151 + i);
		ops->wait_step(b.net, NET_WAIT_BEGIN);
	}
	/* A sleeping waiter is woken by a message that was sent to a polling one. */
	for (i = 0; i < 50; i++) {
		ops->wait_step(b.net, NET_WAIT_SLEEP);
		ck_assert_int_eq(send_to(&a, 1, MSG_GRANT, i, 0), 0);
		await(&a, &b, &b.messages, 201 + i);
		ops->wait_step(b.net, NET_WAIT_POLL);
	}
	ops->wait_step(b.net, NET_WAIT_END);
	/* An idle transport sleeps. */
	ops->arm(b.net);
	cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
	until = now_ms(CLOCK_MONOTONIC) + 500;
	while (now_ms(CLOCK_MONOTONIC) < until)
		usleep(100000);
	ck_assert_uint_lt(now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu, 100);
	close_pair(&a, &b);
}

UNIT_TEST(completions_are_counted_by_vector)
{
	struct net_vector rows[16];
	struct end a, b;
	unsigned int i, n;
	uint64_t sum = 0;

	open_pair(&a, &b, 0);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	poll_until(&a, &b, &b.messages, 1);
	n = ops->vectors(b.net, rows, 16);
	ck_assert_uint_ge(n, 1);
	for (i = 0; i < n; i++) {
		ck_assert_ptr_nonnull(rows[i].class);
		sum += rows[i].completions;
	}
	ck_assert_uint_ge(sum, 1);
	close_pair(&a, &b);
}

/* ---- opening --------------------------------------------------------------------------------- */

UNIT_TEST(wrong_settings_are_refused)
{
	struct net_config cfg = { .rank = 0,
				  .size = 3,
				  .nslots = SLOTS,
				  .handler = handler,
				  .device = "",
				  .gid = "",
				  .cq_groups = "",
				  .verbs = "" };
	char address[NET_ADDRESS_MAX];
	size_t size = sizeof(address);
	struct net *n;

	cfg.device = "nosuch0";
	ck_assert_int_eq(ops->open(&cfg, &n, address, &size), -ENODEV);
	cfg.device = "a:b";
	ck_assert_int_eq(ops->open(&cfg, &n, address, &size), -EINVAL);
	cfg.device = "";
	cfg.gid = "ipv5";
	ck_assert_int_eq(ops->open(&cfg, &n, address, &size), -EINVAL);
	cfg.gid = "9.9.9.9";
	ck_assert_int_eq(ops->open(&cfg, &n, address, &size), -ENODEV);
	cfg.gid = "";
	cfg.verbs = "nosuch=1";
	ck_assert_int_eq(ops->open(&cfg, &n, address, &size), -EINVAL);
	cfg.verbs = "";
	cfg.cq_groups = "data=4000";
	ck_assert_int_eq(ops->open(&cfg, &n, address, &size), -ERANGE);
}

/*
 * The device's provider is loaded after the libraries were redirected (net/redirect.h), and frees
 * memory that libibverbs allocated.
 */
UNIT_TEST(a_program_may_use_verbs_itself)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct end a, b;
	int i;

	redirect_malloc();
	for (i = 0; i < 2; i++) {
		list = ibv_get_device_list(NULL);
		ck_assert_ptr_nonnull(list);
		ctx = ibv_open_device(list[0]);
		ck_assert_ptr_nonnull(ctx);
		ck_assert_int_eq(ibv_close_device(ctx), 0);
		ibv_free_device_list(list);
		open_pair(&a, &b, 0);
		close_pair(&a, &b);
	}
}

int main(void)
{
	glob_t devices; /* device files: the tests load their providers */

	if (glob("/sys/class/infiniband/*", 0, NULL, &devices)) {
		printf("no RDMA device: skipped\n");
		return 77;
	}
	globfree(&devices);
	return unit_suite("net_verbs", &(struct unit_case){ .seconds = 120 });
}
