// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_sleep.c - net/ucx over shared memory, with and without bells, and over TCP: sleeping,
 * being woken, several threads at once.
 */
#include "net_sleep_suite.h"

#define BELLS 2 /* the transport whose ranks ring */

static void open_settled(struct end *a, struct end *b)
{
	open_pair(a, b, BELLS);
	ck_assert_int_eq(send_to(a, 1, MSG_PING, 0, 0), 0);
	ck_assert_int_eq(send_to(b, 0, MSG_PING, 0, 0), 0);
	poll_until(a, b, &a->messages, 1);
	poll_until(a, b, &b->messages, 1);
	settle(a, b);
}

/* b, which is armed, is woken by a message, its nth. */
static void wakes(struct end *a, struct end *b, uint8_t type, unsigned int nth)
{
	ck_assert_int_eq(send_to(a, 1, type, 0, 0), 0);
	ck_assert(readable(b, PATIENCE_MS));
	poll_until(b, NULL, &b->messages, nth);
}

UNIT_TEST(nobody_is_woken_while_a_waiter_polls)
{
	struct end a, b;
	unsigned int i;

	open_settled(&a, &b);
	for (i = 0; i < 100; i++) {
		arm(&b);
		ops->wait_step(b.net, NET_WAIT_BEGIN);
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
		ck_assert(!readable(&b, 1));
		poll_until(&b, NULL, &b.messages, 2 * i + 2);
		ck_assert_int_eq(ops->wait_step(b.net, i % 2 ? NET_WAIT_END : NET_WAIT_SLEEP), 0);
		wakes(&a, &b, MSG_PING, 2 * i + 3);
	}
	close_pair(&a, &b);
}

UNIT_TEST(the_last_waiter_takes_what_came_while_it_polled)
{
	struct end a, b;
	unsigned int i;

	open_settled(&a, &b);
	for (i = 0; i < 100; i++) {
		arm(&b);
		ops->wait_step(b.net, NET_WAIT_BEGIN);
		ops->wait_step(b.net, NET_WAIT_BEGIN);
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
		ck_assert_int_eq(ops->wait_step(b.net, NET_WAIT_END), 0);
		ck_assert(!readable(&b, 1));
		ck_assert_int_eq(ops->wait_step(b.net, NET_WAIT_END), -EBUSY);
		ops->wait_step(b.net, NET_WAIT_POLL);
		poll_until(&b, NULL, &b.messages, i + 2);
		ck_assert_int_eq(ops->wait_step(b.net, NET_WAIT_SLEEP), 0);
	}
	close_pair(&a, &b);
}

/* The pipe of a bell has room for 65,536 bytes, and nobody has to read them. */
UNIT_TEST(a_bell_may_ring_any_number_of_times)
{
	struct end a, b;
	unsigned int i;

	open_settled(&a, &b);
	for (i = 0; i < 70000; i++) {
		arm(&b);
		wakes(&a, &b, MSG_PING, i + 2);
	}
	close_pair(&a, &b);
}

static void dozes(const struct end *b)
{
	int err;

	while ((err = ops->doze(b->net)) == -EBUSY)
		ops->poll(b->net, 64);
	ck_assert_int_ge(err, 0);
}

UNIT_TEST(a_message_that_may_be_late_wakes_nobody_who_dozes)
{
	struct end a, b;
	unsigned int i;

	open_settled(&a, &b);
	for (i = 0; i < 100; i++) {
		arm(&b);
		wakes(&a, &b, MSG_DONE, 3 * i + 2);
		dozes(&b);
		ck_assert_int_eq(send_to(&a, 1, MSG_DONE, 0, 0), 0);
		ck_assert(!readable(&b, 1));
		ck_assert_int_eq(ops->doze(b.net), -EBUSY); /* it is there, though */
		dozes(&b);
		wakes(&a, &b, MSG_PING, 3 * i + 4);
	}
	close_pair(&a, &b);
}

/* Only who can be rung by all its peers may leave UCX unarmed. */
UNIT_TEST(a_peer_without_a_bell_still_wakes_a_sleeper)
{
	struct end a, b;
	unsigned int i;

	choose(0);
	ck_assert_int_eq(try_open(&a, 0, handler), 0);
	one_host = true;
	ck_assert_int_eq(try_open(&b, 1, handler), 0);
	connect_pair(&a, &b);
	for (i = 0; i < 100; i++) {
		settle(&a, &b);
		arm(&b);
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
		ck_assert(readable(&b, PATIENCE_MS));
		poll_until(&b, &a, &b.messages, i + 1);
	}
	close_pair(&a, &b);
}

UNIT_SUITE("net_sleep", .seconds = 120)
