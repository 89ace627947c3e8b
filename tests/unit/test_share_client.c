// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_share_client.c - librshare's client alone: the test plays the owner of its segment, so that
 * it decides when the owner sleeps, clears a flag and signals.
 */
#include "suite.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "share/client.h"
#include "share/signal.h"

/*
 * The owner sleeps: the first send rings the doorbell; later sends do not until the owner sleeps
 * again.
 */
UNIT_TEST(one_ring_wakes_the_owner)
{
	struct rshare r = { .layout = rs_layout(1, 8, 4096) };
	struct rshare_conn c = { .r = &r, .fd = -1 };
	struct rs_seg_head *head;
	int pair[2];
	uint32_t i;
	char ring[2];

	ck_assert(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair));
	r.sock = pair[0];
	r.base = calloc(1, r.layout.bytes);
	r.pool.base = (char *)r.base + r.layout.pool_offset;
	c.seg = rs_seg_conn(&r.layout, r.base, 0);
	head = r.base;
	ck_assert_int_eq(rshare_send(&c, r.pool.base, 10, 1), 0);
	ck_assert(read(pair[1], ring, 2) < 0); /* the owner is awake */
	for (i = 1; i < 3; i++) {
		head->sleeping = i;
		ck_assert_int_eq(rshare_send(&c, r.pool.base, 10, 1), 0);
		ck_assert_int_eq(rshare_send(&c, r.pool.base, 10, 1), 0);
		ck_assert_int_eq(rshare_recv(&c, r.pool.base, 10, 1), 0);
		ck_assert(read(pair[1], ring, 2) == 1 && read(pair[1], ring, 2) < 0);
		ck_assert_uint_eq(head->ready[0], 1);
	}
	close(pair[0]);
	close(pair[1]);
	free(r.base);
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/*
 * An owner that clears armed, and signals when the client has armed again: poll says readable once,
 * and then sleeps. One that stays readable would make who sleeps on it turn for ever.
 */
UNIT_TEST(a_late_signal_is_taken)
{
	struct rshare r = { .layout = rs_layout(64, 8, 4096), .set = -1 };
	struct rshare_conn c = { .r = &r, .fd = -1 };
	struct rs_seg_head *head;
	struct rshare_event e;
	void *marks[1];
	int ours = -1, set = -1;
	unsigned int i;

	r.base = calloc(1, r.layout.bytes);
	r.mark = calloc(64, sizeof(*r.mark));
	c.seg = rs_seg_conn(&r.layout, r.base, 0);
	head = r.base;
	ck_assert_int_eq(rs_signal_make(&ours, &c.fd), 0);
	ck_assert_int_eq(rs_signal_make(&set, &r.set), 0);
	for (i = 0; i < 3; i++) {
		ck_assert_int_eq(rshare_poll(&c, &e, 1), 0);
		ck_assert_uint_eq(c.seg->armed, 1);
		ck_assert(!readable(c.fd));
		c.seg->armed = 0;
		ck_assert_int_eq(rshare_poll(&c, &e, 1), 0);
		rs_signal_send(ours);
		c.seg->signals++;
		ck_assert(readable(c.fd));

		ck_assert_int_eq(rshare_ready(&r, marks, 1), 0);
		ck_assert_uint_eq(head->armed, 1);
		ck_assert(!readable(r.set));
		head->armed = 0;
		ck_assert_int_eq(rshare_ready(&r, marks, 1), 0);
		rs_signal_send(set);
		head->signals++;
		ck_assert(readable(r.set));
	}
	rs_signal_close(&ours);
	rs_signal_close(&set);
	rs_signal_close(&c.fd);
	rs_signal_close(&r.set);
	free(r.mark);
	free(r.base);
}

UNIT_SUITE("share_client")
