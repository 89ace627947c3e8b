// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_work.c - a thread's queue and timers, and the copies that it closes, at node 0 of three. A
 * fake fault backend and transport count their calls.
 */
#include "three_nodes.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "miss/block.h"
#include "miss/evict.h"
#include "miss/drop.h"
#include "miss/run.h"
#include "miss/step.h"

#define SPACE (64ul << 20)
#define PAGES (SPACE >> PAGE_SHIFT)
#define ELSEWHERE 2

static struct timespec stopped; /* the monotonic clock of this process, unless 0 */

int clock_gettime(clockid_t id, struct timespec *t)
{
	if (id != CLOCK_MONOTONIC || !stopped.tv_sec)
		return (int)syscall(SYS_clock_gettime, id, t);
	*t = stopped;
	return 0;
}

static void clock_stop(void)
{
	clock_gettime(CLOCK_MONOTONIC, &stopped);
}

static void clock_go(void)
{
	stopped.tv_sec = 0;
}

static unsigned int acked[PAGES], acks, shuts, calls, last_acked;
static bool opened[PAGES], shut[PAGES], in_order, locked;

static int count_shut(size_t off, size_t len)
{
	size_t page;

	for (page = off >> PAGE_SHIFT; page < (off + len) >> PAGE_SHIFT; page++) {
		unit_require(!shut[page]);
		unit_require(!locked || *block_stripe(block_id(page << PAGE_SHIFT, PAGE_BYTES)));
		shut[page] = true;
		shuts++;
	}
	calls++;
	return 0;
}

static int count_take(size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	(void)to, (void)writable, (void)pipe;
	return count_shut(off, len);
}

static struct msg arriving[256];
static unsigned int arrived, arrivals, given;

/* Node 1 requests a block that this node gives back. */
static void fetch(const struct msg *release)
{
	struct msg ask = unit_msg(MSG_FWD_WRITE, 1, 0, 1, 0),
		   heard = unit_msg(MSG_REPLY, 1, 0, 0, release->req_slot);

	unit_require(release->dst == 1 && release->op == RELEASE_EVICT && arrivals < 255);
	ask.op = GRANT_WRITE;
	heard.home = 0;
	ask.object = heard.object = release->object;
	arriving[arrivals++] = heard;
	arriving[arrivals++] = ask;
}

static int count_ack(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	(void)n, (void)payload, (void)size;
	if (m->type == MSG_RELEASE) {
		fetch(m);
		return 0;
	}
	if (m->type == MSG_DATA) {
		unit_require(shut[block_page(m->object)]);
		given++;
		return 0;
	}
	unit_require(rank == ELSEWHERE && m->type == MSG_INV_ACK && block_page(m->object) < PAGES);
	in_order &= block_page(m->object) >= last_acked;
	last_acked = block_page(m->object);
	unit_require(shut[last_acked] || !opened[last_acked]);
	acked[last_acked]++;
	acks++;
	return 0;
}

static int bring(struct net *n, unsigned int budget)
{
	int came = 0;

	(void)n;
	for (; budget && arrived < arrivals; budget--, came++) {
		run_net(NULL, &arriving[arrived], NULL, 0);
		arrived++;
	}
	return came;
}

static const struct fault_ops fault = { .name = "counting",
					.shut = count_shut,
					.take = count_take };
static const struct net_ops net = { .name = "counting", .send = count_ack, .poll = bring };

static void set_up(void)
{
	const struct ctl_shape shape = { .size = 3, .nodes = 3, .ranks = 1, .space = SPACE };

	job.limits.block_slots = ctl_block_slots(3);
	three_nodes_begin(&shape, &fault, &net);
	job.limits = (struct wire_limits){ .nnodes = 3,
					   .host = HOST_LIBRARY,
					   .block_slots = CTL_BLOCK_END,
					   .slots = CTL_ALL_SLOTS,
					   .pages = PAGES,
					   .block_pages = BLOCK_MAX >> PAGE_SHIFT };
	memset(acked, 0, sizeof(acked));
	memset(opened, 0, sizeof(opened));
	memset(shut, 0, sizeof(shut));
	acks = shuts = calls = last_acked = arrived = arrivals = given = 0;
	in_order = true;
	locked = false;
}

static uint32_t block(unsigned int page)
{
	return block_id((size_t)page << PAGE_SHIFT, PAGE_BYTES);
}

static struct msg invalidate(unsigned int page)
{
	struct msg m = unit_msg(MSG_INV, 1, 0, ELSEWHERE, 0);

	m.object = block(page);
	job.mem.pages[page].home = 1 + 1; /* the home, which may send it */
	return m;
}

UNIT_TEST(a_queue_takes_any_number_in_order)
{
	const unsigned int n = 150000;
	unsigned int round, i;

	for (round = 0; round < 2; round++) {
		/* the second round uses an area that was full before */
		acks = 0;
		for (i = 0; i < n; i++) {
			struct msg m = invalidate(2 * (i / 32));

			work_push(WORK_STEP, &m);
		}
		last_acked = 0;
		run_work();
		ck_assert_uint_eq(acks, n);
		ck_assert(in_order);
	}
}

/* An invalidation of this node's copy. */
static struct msg lose(unsigned int page)
{
	struct msg m = invalidate(page);

	opened[page] = true;
	job.mem.pages[page].state = PG_READ;
	return m;
}

static void lose_all(const unsigned int *pages, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct msg m = lose(pages[i]);

		work_push(WORK_STEP, &m);
	}
	run_work();
	ck_assert_uint_eq(acks, n);
	ck_assert_uint_eq(shuts, n);
}

UNIT_TEST(neighbours_are_closed_by_one_call)
{
	unsigned int pages[WORK_CLOSINGS], i;

	for (i = 0; i < WORK_CLOSINGS; i++)
		pages[i] = 10 + i * 5 % WORK_CLOSINGS; /* in any order */
	lose_all(pages, WORK_CLOSINGS);
	ck_assert_uint_eq(calls, 1);
}

UNIT_TEST(what_does_not_adjoin_is_closed_by_itself)
{
	const unsigned int gap[] = { 20, 22, 23 }, unit = UNIT_BYTES / PAGE_BYTES;

	lose_all(gap, 3);
	ck_assert_uint_eq(calls, 2);
	acks = shuts = calls = 0;
	lose_all((const unsigned int[]){ unit - 2, unit - 1, unit, unit + 1 },
		 4); /* a block of another region may begin there */
	ck_assert_uint_eq(calls, 2);
}

/* A peer that names a larger block first makes no run that is longer than its buffer. */
UNIT_TEST(blocks_of_two_sizes_are_no_run)
{
	struct item it[3] = {
		{ .kind = WORK_LOWER, .m.object = block_id(0, 2 * PAGE_BYTES) },
		{ .kind = WORK_LOWER, .m.object = block_id(2 * PAGE_BYTES, PAGE_BYTES) },
		{ .kind = WORK_LOWER, .m.object = block_id(3 * PAGE_BYTES, PAGE_BYTES) },
	};

	ck_assert_uint_eq(work_run(it, 3), 1);
	ck_assert_uint_eq(work_run(it + 1, 2), 2);
}

UNIT_TEST(a_batch_is_bounded)
{
	unsigned int pages[4 * WORK_CLOSINGS], i;

	for (i = 0; i < 4 * WORK_CLOSINGS; i++)
		pages[i] = i;
	lose_all(pages, 4 * WORK_CLOSINGS);
	ck_assert_uint_eq(calls, 4);
}

UNIT_TEST(what_arrives_in_one_poll_is_closed_together)
{
	for (arrivals = 0; arrivals < 40; arrivals++)
		arriving[arrivals] = lose(100 + arrivals);
	ck_assert_int_eq(run_poll(16), 16);
	ck_assert_uint_eq(acks, 16);
	ck_assert_uint_eq(calls, 1);
	ck_assert_int_eq(run_poll(64), 24);
	ck_assert_uint_eq(acks, 40);
	ck_assert_uint_eq(calls, 2);
	arriving[0] = lose(200);
	run_net(NULL, &arriving[0], NULL, 0); /* a transport's thread: at once */
	ck_assert_uint_eq(acks, 41);
}

/* The newest copy stays, and one that is being sent to another node. */
UNIT_TEST(neighbours_that_the_node_drops_are_closed_by_one_call)
{
	const unsigned int first = 10, newest = first + 20, leaving = first + 40;
	unsigned int i;

	locked = true;
	for (i = first; i < first + DROP_MOST; i++)
		job.mem.pages[i].state = PG_READ;
	job.mem.pages[newest].flags = PAGE_OWNER;
	step_leaves(NULL, block(leaving));
	ck_assert_uint_eq(drop_blocks((size_t)first << PAGE_SHIFT, PAGE_BYTES, DROP_MOST),
			  DROP_MOST - 2);
	ck_assert_uint_eq(calls, 3);
	ck_assert_uint_eq(shuts, DROP_MOST - 2);
	for (i = first; i < first + DROP_MOST; i++)
		ck_assert_uint_eq(job.mem.pages[i].state,
				  i == newest || i == leaving ? PG_READ : PG_INVALID);
	for (i = 0; i < CTL_STRIPES; i++)
		ck_assert_uint_eq(job.me->stripes[i], 0);
	step_left(block(leaving));
	drop_blocks((size_t)first << PAGE_SHIFT, PAGE_BYTES, DROP_MOST);
	ck_assert_uint_eq(calls, 4);
	ck_assert(shut[leaving] && !shut[newest]);
}

/* Node 1 is the home of all blocks. */
UNIT_TEST(who_leaves_asks_for_all_before_it_waits)
{
	struct dsm_region r = { .id = 1,
				.off = UNIT_BYTES,
				.bytes = UNIT_BYTES,
				.size = UNIT_BYTES,
				.block_size = PAGE_BYTES };
	const unsigned int first = UNIT_BYTES >> PAGE_SHIFT, written = first + DROP_MOST / 4,
			   end = first + DROP_MOST;
	unsigned int i;

	for (i = first; i < end; i++)
		job.mem.pages[i] = (struct copy){ .state = i < written ? PG_READ : PG_WRITE,
						  .flags = i < written ? 0 : PAGE_OWNER,
						  .home = 1 + 1 };
	ck_assert_int_eq(evict_region(&r), 0);
	ck_assert_uint_eq(given, end - written);
	ck_assert_uint_eq(shuts, DROP_MOST);
	ck_assert_uint_le(calls, 3);
	for (i = first; i < end; i++)
		ck_assert_uint_eq(job.mem.pages[i].state, PG_INVALID);
}

/* Rank 2's request for a block of rank 0, deferred; its timer expires after some ms. */
static void hold(unsigned int page, uint32_t at)
{
	const struct msg about = { .object = block(page) };
	struct core_host h = run_host();
	struct actions acts = { 0 };

	opened[page] = true;
	job.mem.pages[page] =
		(struct copy){ .state = PG_READ, .held = PE_INV, .held_node = ELSEWHERE };
	act_add(&acts, ACT_TIMER)->at = at;
	core_carry_out(&h, &acts, 0, &about, NULL);
}

static void each_once(unsigned int from, unsigned int n)
{
	unsigned int i;

	for (i = from; i < from + n; i++)
		unit_require(acked[i] == 1 && job.mem.pages[i].state == PG_INVALID);
	ck_assert_uint_eq(acks, n);
	ck_assert_uint_eq(shuts, n);
	ck_assert_uint_lt(calls, n / 2);
}

UNIT_TEST(timers_are_fired_once_each)
{
	const unsigned int n = 8000;
	unsigned int i;
	uint32_t at;

	clock_stop(); /* they are all set before one is due */
	at = clock_us() + 100000;

	for (i = 0; i < 5; i++) { /* still queued after the timers */
		struct msg m = invalidate(n + 2 * i);

		work_push(WORK_STEP, &m);
	}
	for (i = 0; i < n; i++) {
		hold(i, at);
		if (i == n / 2 || i == n / 3)
			work_timers(true);
	}
	ck_assert(!work_timers(true));
	ck_assert_uint_eq(acks, 0);
	clock_go();
	while (work_late()) /* as the service thread does */
		usleep(1000);
	ck_assert_uint_eq(acks, n + 5);
	for (i = 0; i < 5; i++)
		ck_assert_uint_eq(acked[n + 2 * i], 1);
	acks = n;
	each_once(0, n);
}

UNIT_TEST(no_time_passes_while_a_thread_says_that_it_uses_a_block)
{
	struct core_host h = run_host();
	uint32_t at;

	ck_assert_uint_eq(work_hold(), 0);
	work_use();
	ck_assert_uint_eq(work_hold(), 1);
	ck_assert_uint_eq(run_host().hold_us, 1);
	at = step_now(&h);
	usleep(2000);
	ck_assert_uint_eq(step_now(&h), at);
	work_used();
	ck_assert_uint_ge(step_now(&h) - at, 2000);
	ck_assert_uint_eq(work_hold(), 0);
	job.set.hold_us = 7;
	work_use();
	ck_assert_uint_eq(work_hold(), 7);
	work_used();
	ck_assert_uint_eq(run_host().hold_us, 7);
}

/* Two timers are due, one of them of a block that the thread has just got. */
static void hold_two(void)
{
	work_use();
	hold(1, clock_us());
	work_used();
	hold(2, clock_us());
}

UNIT_TEST(a_hold_begins_when_its_thread_returns)
{
	hold_two();
	ck_assert(!work_timers(false)); /* it waits for something else */
	ck_assert_uint_eq(acks, 2);
	acks = acked[1] = acked[2] = 0;
	shut[1] = shut[2] = false;
	hold_two();
	ck_assert(!work_timers(true));
	ck_assert_uint_eq(acks, 1);
	ck_assert_uint_eq(acked[2], 1);
	ck_assert(!work_late());
	ck_assert_uint_eq(acked[1], 1);
	acks = acked[1] = acked[2] = 0;
	shut[1] = shut[2] = false;
	job.set.hold_us = 100000000;
	hold_two();
	ck_assert(!work_timers(true));
	ck_assert_uint_eq(acked[2], 1);
	ck_assert(work_late());
	ck_assert_uint_eq(acked[1], 0);
}

#ifndef __SANITIZE_THREAD__
UNIT_TEST(a_timer_without_memory_fires_early)
{
	const unsigned int n = 4000;
	struct rlimit old, none = { 0 };
	unsigned int i;

	work_mine();
	ck_assert(!getrlimit(RLIMIT_AS, &old));
	none.rlim_max = old.rlim_max;
	ck_assert(!setrlimit(RLIMIT_AS, &none));
	for (i = 0; i < n; i++)
		hold(i, clock_us() + 10000000);
	work_timers(true);
	run_work();
	ck_assert(!setrlimit(RLIMIT_AS, &old));
	each_once(0, n);
}
#endif

UNIT_SUITE("work", .setup = set_up)
