/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net_suite.h - tests of every transport: messages, peers that misbehave or go. A test program sets
 * the transport (NET_OPS), the number of its variants (TRANSPORTS), and what a peer could leave
 * behind (net_leftovers()). NET_ONE_PROCESS: ends reach each other only within one process.
 */
#ifndef UNIT_NET_SUITE_H
#define UNIT_NET_SUITE_H

#include "net_ends.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

UNIT_CASE(messages, NULL)

UNIT_LOOP_TEST(addresses_are_looked_at, 0, TRANSPORTS)
{
	struct end a, b;
	unsigned char junk[64] = { 1, 2, 3 };

	open_pair(&a, &b, _i);
	ck_assert_int_eq(ops->connect(a.net, 2, junk, sizeof(junk)), -EINVAL);
	ck_assert_int_eq(ops->connect(a.net, 2, b.address, b.size - 1), -EINVAL);
	ck_assert_int_eq(ops->connect(a.net, 3, b.address, b.size), -EINVAL);
	ck_assert_int_eq(ops->connect(a.net, 1, b.address, b.size), -EEXIST);
	close_pair(&a, &b);
}

/* ---- messages ------------------------------------------------------------------------------- */

UNIT_LOOP_TEST(messages_of_every_size_arrive_once, 0, TRANSPORTS)
{
	static const size_t sizes[] = { 0,     1,       100,        4096,           8192,
					65536, 1 << 20, UNIT_BYTES, NET_PAYLOAD_MAX };
	const unsigned int n = sizeof(sizes) / sizeof(*sizes), rounds = 5;
	struct net_counters count;
	struct end a, b;
	unsigned int i;

	open_pair(&a, &b, _i);
	for (i = 0; i < n * rounds; i++) {
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, i, sizes[i % n]), 0);
		ck_assert_int_eq(send_to(&b, 0, MSG_RETURN, i, sizes[i % n]), 0);
	}
	poll_until(&a, &b, &a.messages, n * rounds);
	poll_until(&a, &b, &b.messages, n * rounds);
	settle(&a, &b);
	ck_assert_uint_eq(a.messages + b.messages, 2 * n * rounds);
	ck_assert_uint_eq(a.wrong + b.wrong + a.lost + b.lost, 0);
	ops->counters(a.net, &count);
	ck_assert_uint_eq(count.sent, n * rounds);
	ck_assert_uint_eq(count.received, n * rounds);
	ck_assert_uint_eq(count.by_class[CLASS_BULK], n * rounds);
	ck_assert_uint_eq(count.bytes_sent, count.bytes_received);
	ck_assert_uint_eq(count.malformed, 0);
	close_pair(&a, &b);
}

UNIT_LOOP_TEST(sending_does_not_wait_for_the_receiver, 0, TRANSPORTS)
{
	const unsigned int n = 5000;
	struct end a, b;
	unsigned int i;

	open_pair(&a, &b, _i);
	for (i = 0; i < n; i++) /* b does not poll */
		ck_assert_int_eq(send_to(&a, 1, MSG_DATA, i,
					 i % 10           ? 0
						 : i % 50 ? 4096
							  : 100000),
				 0);
	poll_until(&a, &b, &b.messages, n);
	ck_assert_uint_eq(b.wrong, 0);
	close_pair(&a, &b);
}

/* Messages of all kinds together. */
static inline struct net_lane lanes_of(const struct end *e)
{
	struct net_lane rows[8], sum = { 0 };
	unsigned int n = ops->lanes(e->net, rows, 8), i;

	ck_assert_uint_le(n, 8);
	for (i = 0; i < n; i++) {
		sum.connections += rows[i].connections;
		sum.messages += rows[i].messages;
		sum.bytes += rows[i].bytes;
	}
	return sum;
}

UNIT_LOOP_TEST(a_connection_is_made_by_first_use_and_used_again, 0, TRANSPORTS)
{
	const unsigned int classes = ops == &net_ucx ? 1 : 2; /* UCX has one class for all */
	struct end a, b;
	unsigned int i;

	open_pair(&a, &b, _i);
	settle(&a, &b);
	ck_assert_uint_eq(lanes_of(&a).connections + lanes_of(&b).connections, 0);
	for (i = 0; i < 100; i++)
		ck_assert_int_eq(send_to(&a, 1, MSG_CALL, i, 100), 0);
	poll_until(&a, &b, &b.messages, 100);
	ck_assert_uint_eq(lanes_of(&a).connections, 1);
	ck_assert_uint_eq(lanes_of(&b).messages, 0);
	ck_assert_int_eq(send_to(&b, 0, MSG_RETURN, 0, 0), 0);
	ck_assert_int_eq(send_to(&a, 1, MSG_READ_REQ, 0, 0), 0);
	poll_until(&a, &b, &a.messages, 1);
	poll_until(&a, &b, &b.messages, 101);
	ck_assert_int_eq(send_to(&a, 0, MSG_CALL, 0, 100), 0); /* to itself: needs no connection */
	poll_until(&a, &b, &a.messages, 2);
	ck_assert_uint_eq(lanes_of(&a).connections, classes);
	ck_assert_uint_eq(lanes_of(&a).messages, 101);
	ck_assert_uint_eq(lanes_of(&a).bytes, 10000);
	ck_assert_uint_eq(lanes_of(&b).messages, 1);
	close_pair(&a, &b);
}

UNIT_LOOP_TEST(a_rank_can_send_to_itself, 0, TRANSPORTS)
{
	struct end a, b;

	open_pair(&a, &b, _i);
	ck_assert_int_eq(send_to(&a, 0, MSG_DATA, 3, 4096), 0);
	ck_assert_int_eq(ops->arm(a.net), -EBUSY);
	poll_until(&a, NULL, &a.messages, 1);
	ck_assert_uint_eq(a.wrong, 0);
	close_pair(&a, &b);
}

UNIT_LOOP_TEST(what_cannot_be_sent_is_refused, 0, TRANSPORTS)
{
	struct end a, b;

	open_pair(&a, &b, _i);
	ck_assert_int_eq(send_to(&a, 2, MSG_PING, 0, 0), -ENOTCONN);
	ck_assert_int_eq(send_to(&a, 3, MSG_PING, 0, 0), -EINVAL);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 1), -EMSGSIZE);
	ck_assert_int_eq(send_to(&a, 1, MSG_DATA, 0, UNIT_BYTES + 1), -EMSGSIZE);
	close_pair(&a, &b);
}

static struct end *answering;

static void answer(void *arg, const struct msg *m, const void *payload, size_t size)
{
	struct end *e = arg;
	struct msg back = message(e, m->src, MSG_DATA, m->object + 1, 4096);
	unsigned char block[4096];
	size_t i;

	handler(arg, m, payload, size);
	for (i = 0; i < sizeof(block); i++)
		block[i] = byte_of(back.object, i);
	if (m->object < 1000 && ops->send(answering->net, m->src, &back, block, sizeof(block)))
		e->wrong++;
}

UNIT_LOOP_TEST(handlers_may_send, 0, TRANSPORTS)
{
	struct end a, b;

	choose(_i);
	answering = &b;
	ck_assert_int_eq(try_open(&a, 0, handler), 0);
	ck_assert_int_eq(try_open(&b, 1, answer), 0);
	connect_pair(&a, &b);
	while (a.messages < 1000) {
		unsigned int before = a.messages;

		ck_assert_int_eq(send_to(&a, 1, MSG_PING, before % 100, 0), 0);
		poll_until(&a, &b, &a.messages, before + 1);
	}
	ck_assert_uint_eq(a.wrong + b.wrong, 0);
	close_pair(&a, &b);
}

/* ---- peers that misbehave or go ------------------------------------------------------------- */

UNIT_LOOP_TEST(a_malformed_message_costs_the_sender_its_connection, 0, TRANSPORTS)
{
	const unsigned int n = ops == &net_ucx ? 6 : 7; /* UCX does not tell the sender */
	struct msg bad[7];
	struct net_counters count;
	struct end a, b;
	unsigned int i;

	for (i = 0; i < n; i++) {
		open_pair(&a, &b, _i);
		bad[i] = message(&a, 1, MSG_READ_REQ, 0, 0);
		switch (i) {
		case 0: bad[i].version++; break;
		case 1: bad[i].type = MSG_TYPES; break;
		case 2: bad[i].type = MSG_RESUME; break;
		case 3: bad[i].dst = 0; break;
		case 4: bad[i].req_slot = SLOTS; break;
		case 5: bad[i].req_node = 3; break;
		default: bad[i].src = 2; break; /* in the name of a third rank */
		}
		ck_assert_int_eq(ops->send(a.net, 1, &bad[i], NULL, 0), 0);
		poll_until(&b, &a, &b.lost, 1);
		ck_assert_int_eq(b.err, -EBADMSG);
		send_to(&a, 1, MSG_PING, 0, 0); /* it may or may not have noticed yet */
		settle(&a, &b);
		ck_assert_uint_eq(b.messages, 0);
		ck_assert_uint_eq(b.lost, 1);
		ck_assert_int_eq(send_to(&b, 0, MSG_PING, 0, 0), -EPIPE);
		ops->counters(b.net, &count);
		ck_assert_uint_eq(count.malformed, 1);
		close_pair(&a, &b);
	}
}

UNIT_TEST(payloads_are_bounded_by_type)
{
	const struct net_config cfg = { .rank = 1, .size = 3, .nslots = SLOTS };
	const struct end from = { .rank = 0 };
	unsigned int type;
	struct msg m;

	for (type = 0; type < 256; type++) {
		size_t most = net_payload_max((uint8_t)type);

		m = message(&from, 1, (uint8_t)type, 0, 0);
		ck_assert_uint_le(most, NET_PAYLOAD_MAX);
		ck_assert_int_eq(net_check(&cfg, &m, most),
				 wire_hosts((uint8_t)type) & HOST_LIBRARY ? 0 : -EBADMSG);
		ck_assert_int_eq(net_check(&cfg, &m, most + 1), -EBADMSG);
	}
	m = message(&from, 1, MSG_PING, 0, 0);
	m.src = 1; /* claims to be this rank */
	ck_assert_int_eq(net_check(&cfg, &m, 0), -EBADMSG);
}

UNIT_LOOP_TEST(nothing_comes_from_a_dropped_peer, 0, TRANSPORTS)
{
	struct end a, b;

	open_pair(&a, &b, _i);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	poll_until(&a, &b, &b.messages, 1);
	send_to(&a, 1, MSG_DATA, 0, 4096);
	send_to(&a, 1, MSG_DATA, 0, 100000);
	ops->drop(b.net, 0);
	send_to(&a, 1, MSG_PING, 0, 0);
	settle(&a, &b);
	ck_assert_uint_eq(b.messages, 1);
	ck_assert_uint_eq(b.lost, 0);
	ck_assert_int_eq(send_to(&b, 0, MSG_PING, 0, 0), -EPIPE);
	close_pair(&a, &b);
}

#ifndef NET_ONE_PROCESS

int net_leftovers(void);

/* Fork a process with one end, which answers until it is killed. *here is connected to it. */
static pid_t fork_end(struct end *here, int transport)
{
	int up[2], down[2];
	struct end there;
	pid_t pid;

	ck_assert(!pipe(up) && !pipe(down));
	choose(transport);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid) {
		answering = &there;
		if (try_open(&there, 1, answer) ||
		    write(up[1], &there, sizeof(there)) != sizeof(there) ||
		    read(down[0], here, sizeof(*here)) != sizeof(*here) ||
		    ops->connect(there.net, 0, here->address, here->size))
			_exit(1);
		for (;;)
			ops->poll(there.net, 16);
	}
	ck_assert_int_eq(try_open(here, 0, handler), 0);
	ck_assert(read(up[0], &there, sizeof(there)) == sizeof(there));
	ck_assert(write(down[1], here, sizeof(*here)) == sizeof(*here));
	ck_assert_int_eq(ops->connect(here->net, 1, there.address, there.size), 0);
	ck_assert_int_eq(send_to(here, 1, MSG_PING, 0, 0), 0);
	poll_until(here, NULL, &here->messages, 1);
	return pid;
}

UNIT_LOOP_TEST(a_killed_peer_is_lost_once_and_leaves_nothing, 0, TRANSPORTS)
{
	int files = net_leftovers();
	uint64_t until;
	struct end a;
	pid_t pid = fork_end(&a, _i);
	unsigned int i;

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	for (i = 0; i < 200; i++)
		send_to(&a, 1, MSG_DATA, i, i % 2 * 4096); /* refused once the loss is noticed */
	until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	while (!a.lost && now_ms(CLOCK_MONOTONIC) < until)
		if (!ops->poll(a.net, 16) && ops->arm(a.net) >= 0)
			readable(&a, 100);
	ck_assert_uint_eq(a.lost, 1);
	ck_assert_int_eq(a.err, -EPIPE);
	ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), -EPIPE);
	ops->drop(a.net, 1);
	for (i = 0; i < 100; i++)
		ops->poll(a.net, 16);
	ck_assert_uint_eq(a.lost, 1);
	until = now_ms(CLOCK_MONOTONIC) + 3000;
	ops->close(a.net);
	ck_assert_uint_lt(now_ms(CLOCK_MONOTONIC), until);
	until = now_ms(CLOCK_MONOTONIC) + PATIENCE_MS;
	while (net_leftovers() > files && now_ms(CLOCK_MONOTONIC) < until)
		usleep(20000); /* another job's file between open() and mmap() */
	ck_assert_int_le(net_leftovers(), files);
}

UNIT_LOOP_TEST(a_stopped_peer_with_a_full_queue_does_not_make_us_spin, 0, TRANSPORTS)
{
	struct end a;
	pid_t pid = fork_end(&a, _i);
	uint64_t cpu, until;
	unsigned int i;

	kill(pid, SIGSTOP);
	for (i = 0; i < 1000; i++)
		ck_assert_int_eq(send_to(&a, 1, MSG_PING, 0, 0), 0);
	cpu = now_ms(CLOCK_PROCESS_CPUTIME_ID);
	until = now_ms(CLOCK_MONOTONIC) + 1000;
	while (now_ms(CLOCK_MONOTONIC) < until)
		if (!ops->poll(a.net, 16) && ops->arm(a.net) >= 0)
			readable(&a, 100);
	ck_assert_uint_lt(now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu, 300);
	kill(pid, SIGCONT);
	poll_until(&a, NULL, &a.messages, 1001); /* no message was lost */
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ops->close(a.net);
}

#endif

#endif
