// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_work.c - a thread's queue and timers, at node 0 of three. The fault backend and the transport count what they are asked
 * for.
 */
#include "core.h"

#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/block.h"
#include "engine/job.h"
#include "engine/nodes.h"
#include "engine/run.h"
#include "engine/work.h"
#include "fault/fault.h"
#include "net/net.h"

#define SPACE (64ul << 20)
#define PAGES (SPACE >> PAGE_SHIFT)
#define ELSEWHERE 2

static unsigned int acked[PAGES], acks, shuts, last_acked;
static bool in_order;

static int count_shut(size_t off, size_t len)
{
	(void)off, (void)len;
	shuts++;
	return 0;
}

static int count_ack(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size)
{
	(void)n, (void)payload, (void)size;
	unit_require(rank == ELSEWHERE && m->type == MSG_INV_ACK && block_page(m->object) < PAGES);
	in_order &= block_page(m->object) >= last_acked;
	last_acked = block_page(m->object);
	acked[last_acked]++;
	acks++;
	return 0;
}

static const struct fault_ops fault = { .name = "counting", .shut = count_shut };
static const struct net_ops net = { .name = "counting", .send = count_ack };

static void make_node(void)
{
	const struct ctl_shape shape = { .size = 3, .nodes = 3, .ranks = 1, .space = SPACE };
	char *at;

	ctl_layout(&job.layout, &shape);
	at = mmap(NULL, job.layout.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unit_require(at != MAP_FAILED);
	job.me = (struct ctl *)at;
	job.mine = (struct rank_ctl *)(at + job.layout.ranks);
	job.mem.bars = (struct bar *)(at + job.layout.bars);
	job.mem.nodes = (struct qnode *)(at + job.layout.nodes);
	job.mem.pages = (struct copy *)(at + job.layout.pages);
	job.mem.dirs = (struct dir *)(at + job.layout.dirs);
	job.mem.moves = (uint32_t *)(at + job.layout.moves);
	job.mem.stage = at + job.layout.stage;
	job.mem.sharing = (struct sharing_page *)(at + job.layout.sharing);
	peer_of(0)->doorbell = eventfd(0, EFD_NONBLOCK);
}

static void set_up(void)
{
	job.rank = 0;
	job.size = 3;
	job.set.space = SPACE;
	job.limits.block_slots = ctl_block_slots(3);
	job.fault = &fault;
	job.netops = &net;
	job.net = (struct net *)&job;
	job.peers = calloc(3, sizeof(*job.peers));
	job.units = calloc(SPACE / REGION_UNIT, sizeof(*job.units));
	unit_require(job.peers && job.units && !work_start());
	unit_require(!nodes_make((const uint64_t[]){ 1, 2, 3 }, 0));
	make_node();
	memset(acked, 0, sizeof(acked));
	acks = shuts = last_acked = 0;
	in_order = true;
}

static uint32_t block(unsigned int page)
{
	return block_id((size_t)page << PAGE_SHIFT, PAGE_BYTES);
}

static struct msg invalidate(unsigned int page)
{
	struct msg m = unit_msg(MSG_INV, 1, 0, ELSEWHERE, 0);

	m.object = block(page);
	job.mem.pages[page].home = 1 + 1; /* who may say so */
	return m;
}

START_TEST(a_queue_takes_any_number_in_order)
{
	const unsigned int n = 150000;
	unsigned int round, i;

	for (round = 0; round < 2; round++) { /* the second time in an area that has been small again */
		acks = 0;
		for (i = 0; i < n; i++) {
			struct msg m = invalidate(2 * (i / 32)); /* no neighbours: these would go together */

			work_push(&m);
		}
		last_acked = 0;
		run_work();
		ck_assert_uint_eq(acks, n);
		ck_assert(in_order);
	}
}
END_TEST

/* A block of rank 0 that rank 2 wants, held back; its timer comes due in some ms. */
static void hold(unsigned int page, uint32_t at)
{
	job.mem.pages[page] = (struct copy){ .state = PG_READ, .held = PE_INV, .held_rank = ELSEWHERE };
	work_timer(block(page), at);
}

static void each_once(unsigned int from, unsigned int n)
{
	unsigned int i;

	for (i = from; i < from + n; i++)
		unit_require(acked[i] == 1 && job.mem.pages[i].state == PG_INVALID);
	ck_assert_uint_eq(acks, n);
	ck_assert_uint_eq(shuts, n);
}

START_TEST(timers_are_fired_once_each)
{
	const unsigned int n = 8000;
	uint32_t at = clock_us() + 100000;
	unsigned int i;

	for (i = 0; i < 5; i++) { /* in the queue, beside the timers: it stays as it is */
		struct msg m = invalidate(n + 2 * i);

		work_push(&m);
	}
	for (i = 0; i < n; i++) {
		hold(i, at);
		if (i == n / 2 || i == n / 3)
			work_timers(true);
	}
	ck_assert(!work_timers(true));
	ck_assert_uint_eq(acks, 0);
	while (work_late()) /* as the service thread does */
		usleep(1000);
	ck_assert_uint_eq(acks, n + 5);
	for (i = 0; i < 5; i++)
		ck_assert_uint_eq(acked[n + 2 * i], 1);
	acks = n;
	each_once(0, n);
}
END_TEST

#ifndef __SANITIZE_THREAD__
START_TEST(a_timer_without_memory_fires_early)
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
END_TEST
#endif

int main(void)
{
	Suite *s = suite_create("work");
	TCase *t = tcase_create("work");

	tcase_add_checked_fixture(t, set_up, NULL);
	tcase_add_test(t, a_queue_takes_any_number_in_order);
	tcase_add_test(t, timers_are_fired_once_each);
#ifndef __SANITIZE_THREAD__ /* which itself ends the process when it finds no memory */
	tcase_add_test(t, a_timer_without_memory_fires_early);
#endif
	suite_add_tcase(s, t);
	return unit_main(s);
}
