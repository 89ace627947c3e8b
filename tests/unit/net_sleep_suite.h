/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net_sleep_suite.h - tests of every transport: sleeping, being woken, several threads at once. See
 * net_suite.h.
 */
#ifndef UNIT_NET_SLEEP_SUITE_H
#define UNIT_NET_SLEEP_SUITE_H

#include "net_ends.h"

#include <pthread.h>

/* ---- sleeping ------------------------------------------------------------------------------- */

UNIT_CASE(sleep, NULL)

UNIT_LOOP_TEST(an_idle_end_sleeps_until_a_message_comes, 0, SLEEPERS)
{
	uint64_t cpu, until;
	struct end a, b;
	unsigned int i;

	open_pair(&a, &b, _i);
	for (i = 0; i < 20; i++) {
		ck_assert_int_eq(send_to(&a, 1, MSG_DATA, 0, i % 2 * 4096), 0);
		poll_until(&a, &b, &b.messages, i + 1);
	}
	settle(&a, &b); /* connected now, so a's sends need no polling */
	cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
	until = now_ms(CLOCK_MONOTONIC) + 500;
	while (now_ms(CLOCK_MONOTONIC) < until) {
		arm(&b);
		readable(&b, 100);
		ops->poll(b.net, 16);
	}
	ck_assert_uint_lt(now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu, 100);
	for (i = 0; i < 100; i++) {
		arm(&b);
		ck_assert_int_eq(send_to(&a, 1, MSG_DATA, i, i % 2 * 4096), 0);
		ck_assert(readable(&b, PATIENCE_MS));
		poll_until(&b, &a, &b.messages, 21 + i);
	}
	close_pair(&a, &b);
}

UNIT_LOOP_TEST(a_message_left_behind_by_another_poller_wakes_the_sleeper, 0, SLEEPERS)
{
	struct end a, b;
	unsigned int i;

	open_pair(&a, &b, _i);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	poll_until(&a, &b, &b.messages, 1);
	for (i = 0; i < 50; i++) {
		uint64_t until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
		unsigned int seen = b.messages, left;

		settle(&a, &b);
		arm(&b);
		for (left = 0; left < 8; left++)
			ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
		while (b.messages == seen && now_ms(CLOCK_MONOTONIC) < until)
			/* takes one message; others that it read from the socket wait */
			ops->poll(b.net, 1);
		ck_assert_uint_eq(b.messages, seen + 1);
		while (b.messages < seen + 8) {
			ck_assert(readable(&b, PATIENCE_MS));
			while (ops->poll(b.net, 16))
				;
			if (b.messages < seen + 8)
				arm(&b);
		}
	}
	close_pair(&a, &b);
}

/* ---- threads -------------------------------------------------------------------------------- */

#define SENDERS 4
#define EACH 2000

static struct end left, right;
static int sending;

static void *sender(void *arg)
{
	unsigned char block[4096];
	uint32_t i, k;

	(void)arg;
	for (i = 0; i < EACH; i++) {
		struct end *from = i & 1 ? &left : &right;
		struct msg m = message(from, !from->rank, MSG_DATA, i, i % 4 ? 0 : sizeof(block));

		for (k = 0; k < sizeof(block); k++)
			block[k] = byte_of(i, k);
		if (ops->send(from->net, m.dst, &m, block, m.value))
			__atomic_fetch_add(&from->wrong, 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_sub(&sending, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* As the service thread: sleep if nothing arrives. */
static void *server(void *arg)
{
	uint64_t until = now_ms(CLOCK_MONOTONIC) + 3 * PATIENCE_MS;
	struct end *e = arg;

	while (__atomic_load_n(&e->messages, __ATOMIC_ACQUIRE) < SENDERS * EACH / 2 &&
	       now_ms(CLOCK_MONOTONIC) < until)
		if (!ops->poll(e->net, 16) && ops->arm(e->net) >= 0)
			readable(e, 1000);
	return NULL;
}

/* As an application's thread: poll from time to time. */
static void *passer_by(void *arg)
{
	(void)arg;
	while (__atomic_load_n(&sending, __ATOMIC_ACQUIRE)) {
		ops->poll(left.net, 1);
		ops->poll(right.net, 1);
		usleep(50);
	}
	return NULL;
}

UNIT_LOOP_TEST(threads_send_and_poll_at_once, 0, SLEEPERS)
{
	pthread_t thread[SENDERS + 3];
	unsigned int i;

	open_pair(&left, &right, _i);
	sending = SENDERS;
	for (i = 0; i < SENDERS; i++)
		pthread_create(&thread[i], NULL, sender, NULL);
	pthread_create(&thread[SENDERS], NULL, server, &left);
	pthread_create(&thread[SENDERS + 1], NULL, server, &right);
	pthread_create(&thread[SENDERS + 2], NULL, passer_by, NULL);
	for (i = 0; i < SENDERS; i++)
		pthread_join(thread[i], NULL);
	poll_until(&left, &right, &left.messages, SENDERS * EACH / 2);
	poll_until(&left, &right, &right.messages, SENDERS * EACH / 2);
	for (; i < SENDERS + 3; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(left.wrong + right.wrong, 0);
	ck_assert_uint_eq(left.sum, left.messages);
	close_pair(&left, &right);
}

#endif
