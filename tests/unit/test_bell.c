// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_bell.c - net/ucx/bell.c: when a rank of the same host is woken, and whose memory is mapped.
 */
#include "core.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/ucx/bell.h"

static struct bell bell;
static struct ucx_blob address;
static struct bell_rope rope;

static void begin(void)
{
	bell_open(&bell, &address);
	ck_assert_ptr_nonnull(bell.page);
	bell.peers = 1;
	ck_assert(!bell_is_rung(&bell));
	bell_join(&rope, &address);
	ck_assert_ptr_nonnull(rope.page);
	ck_assert(bell_is_rung(&bell));
}

static void end(void)
{
	bell_leave(&rope);
	bell_close(&bell);
}

/* The number of rings since the last call. */
static int rung(void)
{
	char bytes[64];
	ssize_t n = read(bell.in, bytes, sizeof(bytes));

	return n < 0 ? 0 : (int)n;
}

UNIT_TEST(a_bell_rings_once_for_each_time_that_it_is_set)
{
	begin();
	bell_ring(&rope, false);
	ck_assert_int_eq(rung(), 0);
	bell_set(&bell, BELL_ALL);
	bell_ring(&rope, false);
	bell_ring(&rope, false);
	ck_assert_int_eq(rung(), 1);
	bell_set(&bell, BELL_ALL);
	bell_clear(&bell);
	bell_ring(&rope, false);
	ck_assert_int_eq(rung(), 0);
	bell_ring_own(&bell);
	ck_assert_int_eq(rung(), 1);
	end();
}

/* It has decided to ring, and is interrupted. */
UNIT_TEST(a_sender_that_is_interrupted_keeps_no_other_from_ringing)
{
	struct bell_rope second;
	uint32_t word;

	begin();
	bell.peers = 2;
	bell_join(&second, &address);
	ck_assert(bell_is_rung(&bell));
	bell_set(&bell, BELL_ALL);
	word = bell.page->armed;
	bell_ring(&second, false);
	ck_assert_int_eq(rung(), 1);
	bell_set(&bell, BELL_ALL);
	bell_pull(&rope, word); /* goes on */
	ck_assert_int_eq(rung(), 1);
	bell_ring(&rope, false); /* its next message */
	ck_assert_int_eq(rung(), 1);
	bell_leave(&second);
	end();
}

/* Another thread begins to poll at that moment. */
UNIT_TEST(a_ring_of_its_own_always_wakes)
{
	begin();
	bell_set(&bell, BELL_ALL);
	bell_poll_begin(&bell);
	bell_ring_own(&bell);
	ck_assert_int_eq(rung(), 1);
	bell_poll_end(&bell);
	end();
}

UNIT_TEST(a_message_that_may_be_late_wakes_no_thread_that_dozes)
{
	begin();
	bell_set(&bell, BELL_URGENT);
	bell_ring(&rope, true);
	ck_assert_int_eq(rung(), 0);
	bell_ring(&rope, false);
	ck_assert_int_eq(rung(), 1);
	bell_set(&bell, BELL_ALL);
	bell_ring(&rope, true);
	ck_assert_int_eq(rung(), 1);
	end();
}

UNIT_TEST(a_bell_stays_silent_while_a_thread_polls)
{
	begin();
	bell.asleep = 1;
	bell_set(&bell, BELL_ALL);
	bell_poll_begin(&bell);
	bell_ring(&rope, false);
	bell_poll_begin(&bell);
	bell_set(&bell, BELL_ALL);
	bell_ring(&rope, false);
	ck_assert(!bell_poll_end(&bell));
	ck_assert_int_eq(rung(), 0);
	ck_assert(bell_poll_end(&bell));
	bell.asleep = 0;
	bell_poll_begin(&bell);
	ck_assert(!bell_poll_end(&bell));
	end();
}

UNIT_TEST(only_the_page_of_an_address_is_mapped)
{
	const struct ucx_blob none = { 0 };
	struct ucx_blob other;
	int fd, i;

	begin();
	end();
	bell_open(&bell, &address);
	for (i = 0; i < 6; i++) {
		other = address;
		fd = -1;
		switch (i) {
		case 0: other.key++; break;
		case 1: other.pid = 0; break;
		case 2: other.memory = (uint32_t)bell.in; break;
		case 3: other.pipe = 1 << 30; break;
		case 5: other.pipe = address.memory; break; /* no pipe */
		case 4:                                     /* not sealed */
			fd = memfd_create("other", MFD_CLOEXEC);
			ck_assert_int_eq(ftruncate(fd, sizeof(struct bell_page)), 0);
			ck_assert_int_eq(pwrite(fd, &address.key, sizeof(address.key), 0),
					 sizeof(address.key));
			other.memory = (uint32_t)fd;
		}
		bell_join(&rope, &other);
		ck_assert_ptr_null(rope.page);
		ck_assert_int_eq(rope.out, -1);
		bell_ring(&rope, false);
		bell_leave(&rope);
		close(fd);
	}
	bell_join(&rope, &none);
	ck_assert_ptr_null(rope.page);
	ck_assert_uint_eq(bell.page->ringers, 0);
	bell_close(&bell);
}

/* It has ended with its descriptors: nobody reads the pipe, and SIGPIPE would end this process. */
UNIT_TEST(a_peer_that_has_ended_is_rung_in_vain)
{
	int i;

	begin();
	bell_close(&bell);
	for (i = 0; i < 1 << 17; i++) {
		rope.page->armed = (uint32_t)i << 2 | BELL_ALL;
		bell_ring(&rope, false);
	}
	bell_leave(&rope);
}

UNIT_SUITE("bell")
