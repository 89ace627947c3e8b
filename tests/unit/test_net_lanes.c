// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_lanes.c - net/verbs over queue pairs within this process (share_verbs.h): what every transport has to do, and which
 * threads make address handles. What needs a device is in test_net_verbs.c.
 */
#define NET_OPS net_verbs
#define TRANSPORTS 3
#define SLEEPERS 1 /* a broken connection is mended by who polls */
#define NET_ONE_PROCESS
#define NET_SETTINGS "", "coalesce=0,chain=1,signal=1,inline=0,batch=1,large=0", "break=40"
#include "suite.h"

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

/* A thread that sends, and polls for the answer, as in a miss: it may make no address handle. */
static void *misses(void *arg)
{
	const unsigned int *count = arg;
	unsigned int before = __atomic_load_n(&here.messages, __ATOMIC_ACQUIRE), i;

	fake_no_handles = 1;
	ops->look(here.net, LOOK_BEGIN);
	for (i = 0; i < *count; i++) {
		ck_assert_int_eq(send_to(&here, 1, i % 2 ? MSG_PING : MSG_CALL, i, 0), 0);
		poll_until(&here, &there, &here.messages, before + i + 1);
	}
	while (ops->look(here.net, LOOK_END) == -EBUSY)
		ops->look(here.net, LOOK_BEGIN);
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

START_TEST(a_miss_makes_no_address_handle)
{
	open_threaded(_i ? "break=7" : "");
	miss(100); /* connects, and mends what breaks */
	ck_assert_uint_eq(here.wrong + there.wrong + here.lost + there.lost, 0);
	close_pair(&here, &there);
	ck_assert_uint_eq(fake_live, 0);
}
END_TEST

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

/* While a peer does not answer, handles are made again: the link may have gone, and its address with it. The thread that makes one
 * may have to wait for the malloc() that a miss has interrupted, or can make none. When the peer answers meanwhile, the miss has to
 * end: by the handle of before. */
START_TEST(handles_are_made_again_and_no_miss_waits_for_it)
{
	int *const hinders = _i ? &fake_handles_fail : &fake_handles_wait;
	unsigned int made, count = 1;
	pthread_t server, misser;

	open_threaded("");
	made = read_word(&fake_handles);
	ck_assert_uint_eq(made, 2); /* for all lanes to a peer */
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
END_TEST

int main(void)
{
	Suite *s = suite_create("net_lanes");
	TCase *t = tcase_create("messages");

	tcase_set_timeout(t, 120);
	add_net_messages(t);
	suite_add_tcase(s, t);
	t = tcase_create("sleep");
	tcase_set_timeout(t, 120);
	add_net_sleep_suite(t);
	suite_add_tcase(s, t);
	t = tcase_create("handles");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_miss_makes_no_address_handle, 0, 2);
	tcase_add_loop_test(t, handles_are_made_again_and_no_miss_waits_for_it, 0, 2);
	suite_add_tcase(s, t);
	return unit_main(s);
}
