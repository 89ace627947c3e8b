// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_lanes.c - net/verbs over queue pairs within this process (share_verbs.h): the suite of
 * all transports, batches of completions, and the threads that make address handles. Tests that
 * need a device are in test_net_verbs.c.
 */
#define NET_OPS net_verbs
#define TRANSPORTS 3
#define SLEEPERS 1 /* a thread that polls repairs a broken connection */
#define NET_ONE_PROCESS
#define NET_SETTINGS "", "coalesce=0,chain=1,signal=1,inline=0,batch=1,large=0", "break=40"
#include "suite.h"

#include "share_stderr.h"
#include "share_verbs.h"

#include "net_sleep_suite.h"
#include "net_suite.h"

#include "net/verbs/verbs.h"

/* ---- address handles ------------------------------------------------------------------------- */

static void new_thread(void *arg)
{
	(void)arg;
}

static struct end here, there;

/* A thread sends, and polls for the answer, as a miss does. It must not make an address handle. */
static void *misses(void *arg)
{
	const unsigned int *count = arg;
	unsigned int before = __atomic_load_n(&here.messages, __ATOMIC_ACQUIRE), i;

	fake_no_handles = 1;
	ops->wait_step(here.net, NET_WAIT_BEGIN);
	for (i = 0; i < *count; i++) {
		ck_assert_int_eq(send_to(&here, 1, i % 2 ? MSG_PING : MSG_CALL, i, 0), 0);
		poll_until(&here, &there, &here.messages, before + i + 1);
	}
	while (ops->wait_step(here.net, NET_WAIT_END) == -EBUSY)
		ops->wait_step(here.net, NET_WAIT_BEGIN);
	return NULL;
}

static void miss(unsigned int count)
{
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, misses, &count), 0);
	pthread_join(t, NULL);
}

static void open_threaded(const char *setting)
{
	const struct net_config with_threads = { .thread = new_thread };

	verbs_setting = setting;
	answering = &there;
	ck_assert_int_eq(open_with(&here, 0, handler, &with_threads), 0);
	ck_assert_int_eq(open_with(&there, 1, answer, &with_threads), 0);
	connect_pair(&here, &there);
}

UNIT_CASE(handles, NULL)

UNIT_LOOP_TEST(a_miss_makes_no_address_handle, 0, 2)
{
	open_threaded(_i ? "break=7" : "");
	miss(100); /* connect, and repair broken connections */
	ck_assert_uint_eq(here.wrong + there.wrong + here.lost + there.lost, 0);
	close_pair(&here, &there);
	ck_assert_uint_eq(fake_live, 0);
}

static unsigned int read_word(const unsigned int *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void await_word(const unsigned int *word, unsigned int value)
{
	const uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;

	while (read_word(word) < value && now_ms(CLOCK_MONOTONIC) < until)
		usleep(1000);
	ck_assert_uint_ge(read_word(word), value);
}

static int stop;

/* The thread that serves descriptors, as in service.c. */
static void *serves(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		if (ops->arm(here.net) != -EBUSY)
			readable(&here, 50);
	return arg;
}

/*
 * While a peer does not answer, handles are made again: the link may have gone, and its address
 * with it. The thread that makes one may be unable to, or may wait for the malloc() that a miss has
 * interrupted. If the peer answers meanwhile, the miss must end, using the old handle.
 */
UNIT_LOOP_TEST(handles_are_made_again_and_no_miss_waits_for_it, 0, 2)
{
	int *const hinders = _i ? &fake_handles_fail : &fake_handles_wait;
	unsigned int made, count = 1;
	pthread_t server, misser;

	open_threaded("");
	made = read_word(&fake_handles);
	ck_assert_uint_eq(made, 2); /* one for all lanes to a peer */
	fake_deaf = *hinders = 1;
	ck_assert_int_eq(pthread_create(&server, NULL, serves, NULL), 0);
	ck_assert_int_eq(pthread_create(&misser, NULL, misses, &count), 0);
	await_word(&fake_begun, made + 1 + (unsigned int)_i);
	__atomic_store_n(&fake_deaf, 0, __ATOMIC_RELEASE);
	pthread_join(misser, NULL);
	ck_assert_uint_eq(read_word(&fake_handles), made);
	__atomic_store_n(hinders, 0, __ATOMIC_RELEASE);
	if (!_i)
		await_word(&fake_handles, made + 1);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(server, NULL);
	close_pair(&here, &there);
	ck_assert_uint_eq(fake_live, 0);
}

/* ---- batches --------------------------------------------------------------------------------- */

#define BATCH 16

/* What the message handler does with the rest of its batch. */
static enum { GO_ON, POLL_FOR_REST, AWAIT_REST, DROP_PEER } at_trigger;
static uint32_t trigger;
static unsigned int out_of_order;

static void batch_handler(void *arg, const struct msg *m, const void *payload, size_t size)
{
	const uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	struct end *e = arg;

	handler(arg, m, payload, size);
	/* With several threads, messages may be handled in any order. */
	if (at_trigger != AWAIT_REST)
		out_of_order += m->object + 1 != e->messages;
	if (m->object != trigger || at_trigger == GO_ON)
		return;
	if (at_trigger == DROP_PEER) {
		ops->drop(e->net, 0);
		return;
	}
	while (read_word(&e->messages) < BATCH && now_ms(CLOCK_MONOTONIC) < until)
		if (at_trigger == POLL_FOR_REST)
			ops->poll(e->net, 64);
		else
			usleep(100);
	e->wrong += read_word(&e->messages) < BATCH;
}

/* Two connected ends, with nothing in progress. */
static void open_batch(const char *setting)
{
	unsigned int i;

	verbs_setting = setting;
	at_trigger = GO_ON;
	trigger = 0;
	ck_assert_int_eq(try_open(&here, 0, handler), 0);
	ck_assert_int_eq(try_open(&there, 1, batch_handler), 0);
	connect_pair(&here, &there);
	for (i = 0; i < 2; i++) {
		ck_assert_int_eq(send_to(&here, 1, i ? MSG_CALL : MSG_PING, i, 0), 0);
		poll_until(&here, &there, &there.messages, i + 1);
	}
	settle(&here, &there);
	there.messages = there.wrong = out_of_order = 0;
}

/* How often the lock was held and completions were found. */
static uint64_t locks_of(const struct end *e)
{
	struct net_counters c;

	ops->counters(e->net, &c);
	return c.work.locks - c.work.idle_locks;
}

static void send_batch(uint8_t type, unsigned int n, size_t size)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		ck_assert_int_eq(send_to(&here, 1, type, i, size), 0);
}

/* Has the device all receive buffers? */
static bool all_posted(const struct end *e)
{
	const struct dev *d = &e->net->devs[0];
	unsigned int class;
	bool all = true;

	for (class = 0; class < CLASS_MAX; class ++) {
		const struct fake_srq *s = (const struct fake_srq *)d->srq[class];

		all = all && s->tail - s->head == d->recv_n[class];
	}
	return all;
}

UNIT_CASE(batches, NULL)

UNIT_LOOP_TEST(a_batch_takes_the_lock_once_and_keeps_its_order, 0, 2)
{
	const unsigned int n = 3 * BATCH;
	uint64_t before;

	open_batch(_i ? "batch=1" : "");
	before = locks_of(&there);
	send_batch(MSG_PING, n, 0);
	ck_assert_int_eq(ops->poll(there.net, n), (int)n);
	ck_assert_uint_eq(locks_of(&there) - before, _i ? n : 3);
	ck_assert_uint_eq(there.messages, n);
	ck_assert_uint_eq(there.wrong + out_of_order, 0);
	ck_assert(all_posted(&there));
	close_pair(&here, &there);
}

UNIT_LOOP_TEST(a_handler_finds_the_rest_of_its_batch_when_it_polls, 0, 2)
{
	/* CALL: the payload stays in the receive buffer */
	const uint8_t type = _i ? MSG_CALL : MSG_PING;
	uint64_t before;

	open_batch("");
	before = locks_of(&there);
	at_trigger = POLL_FOR_REST;
	send_batch(type, BATCH, _i ? 100 : 0);
	ops->poll(there.net, BATCH);
	ck_assert_uint_eq(there.messages, BATCH);
	ck_assert_uint_eq(there.wrong + out_of_order, 0);
	ck_assert_uint_eq(locks_of(&there) - before, 1);
	ck_assert(all_posted(&there));
	close_pair(&here, &there);
}

static void *polls_there(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		if (!ops->poll(there.net, 1))
			sched_yield();
	return arg;
}

/*
 * A handler may wait for a message that only another thread can handle, so no thread may keep the
 * rest of a batch.
 */
UNIT_TEST(other_threads_find_the_rest_of_a_batch)
{
	pthread_t poller;

	open_batch("");
	at_trigger = AWAIT_REST;
	send_batch(MSG_PING, BATCH, 0);
	ck_assert_int_eq(pthread_create(&poller, NULL, polls_there, NULL), 0);
	poll_until(&there, NULL, &there.messages, BATCH);
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(poller, NULL);
	ck_assert_uint_eq(there.wrong, 0);
	ck_assert(all_posted(&there));
	close_pair(&here, &there);
}

UNIT_LOOP_TEST(a_peer_that_is_dropped_or_lost_in_the_middle_of_a_batch_is_not_heard_again, 0, 2)
{
	const uint32_t middle = BATCH / 2;
	const bool drop = _i;
	uint32_t i;

	open_batch("");
	at_trigger = drop ? DROP_PEER : GO_ON;
	trigger = middle;
	for (i = 0; i < BATCH; i++) {
		struct msg m = message(&here, 1, MSG_CALL, i, 0);

		if (i == middle + 1 && !drop)
			m.src = 2; /* in the name of a third rank */
		ck_assert_int_eq(ops->send(here.net, 1, &m, NULL, 0), 0);
	}
	for (i = 0; i < 4; i++)
		ops->poll(there.net, BATCH);
	ck_assert_uint_eq(there.messages, middle + 1);
	ck_assert_uint_eq(there.lost, drop ? 0 : 1);
	ck_assert_int_eq(there.err, drop ? 0 : -EBADMSG);
	ck_assert_uint_eq(there.wrong + out_of_order, 0);
	ck_assert(all_posted(&there));
	close_pair(&here, &there);
	ck_assert_uint_eq(fake_live, 0);
}

/*
 * Messages that a broken queue pair has received are taken from the device before the queue pair
 * ends, whether there is a place for them or not: their sender no longer has them.
 */
UNIT_TEST(completions_of_a_connection_that_breaks_are_delivered_once)
{
	const unsigned int n = 200;
	const struct arrivals *in;
	struct net_counters c;

	open_batch("depth=256,break=203"); /* two were sent */
	in = &there.net->devs[0].queues[0].inbox;
	send_batch(MSG_PING, n, 0);
	ops->poll(here.net, n); /* forget acknowledged messages */
	while (here.net->breaks < 1)
		ck_assert_int_eq(send_to(&here, 1, MSG_PING, n, 0), 0);
	ops->poll(here.net, n); /* asks for a new queue pair */
	ck_assert_uint_eq(there.messages + in->spilled_room, 0);
	ops->arm(there.net); /* learns of that before it looks for messages */
	ck_assert_uint_ge(in->spilled_room, n);
	poll_until(&here, &there, &there.messages, n + 1);
	settle(&here, &there);
	ck_assert_uint_eq(there.messages, n + 1);
	ck_assert_uint_eq(there.wrong + there.lost + here.lost + out_of_order, 0);
	ops->counters(there.net, &c);
	ck_assert_uint_eq(c.malformed, 0);
	ck_assert(all_posted(&there));
	close_pair(&here, &there);
}

/*
 * A thread is preempted while it takes an arrival, and so occupies the place. The others go on, one
 * at a time.
 */
UNIT_TEST(an_occupied_place_stops_nobody)
{
	struct arrivals *in;
	uint64_t before;
	uint32_t tail;

	open_batch("");
	in = &there.net->devs[0].queues[0].inbox;
	before = locks_of(&there);
	tail = in->tail;
	atomic_store(&in->places[tail % ARRIVALS_ROOM].turn, tail - ARRIVALS_ROOM + 1);
	send_batch(MSG_PING, BATCH, 0);
	poll_until(&there, NULL, &there.messages, BATCH);
	ck_assert_uint_eq(locks_of(&there) - before, BATCH);
	atomic_store(&in->places[tail % ARRIVALS_ROOM].turn, tail);
	there.messages = 0;
	send_batch(MSG_PING, BATCH, 0);
	poll_until(&there, NULL, &there.messages, BATCH);
	ck_assert_uint_eq(locks_of(&there) - before, BATCH + 1);
	ck_assert_uint_eq(there.wrong + out_of_order, 0);
	close_pair(&here, &there);
}

/* ---- devices of other protocols -------------------------------------------------------------- */

/*
 * The status of opening a rank, which is closed again, with this DSM_NET_DEVICE; said[] has the
 * log.
 */
static int open_device(const char *name, bool optional)
{
	const struct net_config cfg = { .size = 3,
					.nslots = SLOTS,
					.handler = handler,
					.lost = lost,
					.arg = &here,
					.key = 1,
					.number = 1,
					.lost_ms = LOST_MS,
					.optional = optional,
					.device = name,
					.gid = "",
					.cq_groups = "",
					.verbs = "" };
	char address[NET_ADDRESS_MAX];
	size_t size = sizeof(address);
	struct net *n;
	int err;

	said_forget();
	err = ops->open(&cfg, &n, address, &size);
	if (err)
		return err;
	ck_assert_uint_eq(n->ndevs, 1);
	ck_assert_str_eq(n->devs[0].name, "fake1");
	ops->close(n);
	return 0;
}

UNIT_CASE(devices, NULL)

UNIT_TEST(a_device_of_iwarp_is_refused_by_name_and_others_are_used)
{
	said_begin();
	fake_device[0].transport_type = IBV_TRANSPORT_IWARP;
	ck_assert_int_eq(open_device("", false), -ENODEV);
	ck_assert_uint_eq(said_lines("fake0 is no InfiniBand or RoCE device"), 1);
	ck_assert_uint_eq(said_lines(""), 1);
	ck_assert_int_eq(open_device("fake0", false), -ENODEV);
	ck_assert_uint_eq(said_lines("fake0 is no InfiniBand or RoCE device"), 1);
	ck_assert_uint_eq(said_lines(""), 1);
	ck_assert_int_eq(open_device("", true), -ENODEV);
	ck_assert_uint_eq(said_lines(""), 0);
	fake_devices = 2;
	ck_assert_int_eq(open_device("", false), 0);
	ck_assert_uint_eq(said_lines(""), 0);
	ck_assert_int_eq(open_device("fake0,fake1", false), 0);
	ck_assert_uint_eq(said_lines("fake0 is no InfiniBand or RoCE device"), 1);
	ck_assert_uint_eq(said_lines(""), 1);
	said_end();
	ck_assert_uint_eq(fake_live, 0);
}

UNIT_SUITE("net_lanes", .seconds = 120)
