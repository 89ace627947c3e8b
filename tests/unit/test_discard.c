// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_discard.c - memory of the heap that was freed, at node 0 of three: which frames go, when a
 * block gets one again, and that no block goes that is in use. The frames are a memory object.
 */
#include "three_nodes.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/host_ops.h"
#include "miss/discard.h"
#include "miss/empty.h"
#include "miss/reclaim.h"
#include "miss/recent.h"
#include "miss/step.h"
#include "start/host.h"

#define SPACE (1ul << 30)
#define HEAP (64ul << 20)
#define LOWER (48ul << 20) /* the rest of the heap has release consistency */
#define BOUND (16ul << 20)
#define PAGES (BOUND >> PAGE_SHIFT)
#define HOME 1

static unsigned int sent, shuts, zeros;
static void (*at_shut)(void);

static int punch(size_t off, size_t len)
{
	shuts++;
	if (at_shut)
		at_shut();
	return fallocate(job.mem.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off,
			 (off_t)len);
}

static int zero(unsigned int who, size_t off, size_t len)
{
	unit_require(who == job.local);
	zeros++;
	return fallocate(job.mem.memfd, 0, (off_t)off, (off_t)len);
}

static int again(size_t off, size_t len, enum prot prot)
{
	(void)off, (void)len, (void)prot;
	return 0;
}

static int note_sent(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		     size_t size)
{
	(void)n, (void)rank, (void)m, (void)payload, (void)size;
	sent++;
	return 0;
}

static int poll_nothing(struct net *n, unsigned int budget)
{
	(void)n, (void)budget;
	return 0;
}

static const struct fault_ops fault = {
	.name = "punching", .shut = punch, .zero = zero, .again = again
};
static const struct net_ops net = { .name = "counting", .send = note_sent, .poll = poll_nothing };

static void set_up(void)
{
	const struct ctl_shape shape = {
		.size = 3, .nodes = 3, .ranks = 1, .space = SPACE, .heap = HEAP
	};
	size_t unit;

	job.host = &host_process;
	job.set.memory = BOUND;
	job.heap = HEAP;
	job.heap_shape.split = LOWER / UNIT_BYTES;
	three_nodes_begin(&shape, &fault, &net);
	job.limits.pages = SPACE >> PAGE_SHIFT;
	job.locals = 0;     /* no page tables */
	job.mem.ctlfd = -1; /* it does not count */
	job.me->homes[0] = (struct region_homes){ .size = SPACE, .block_size = PAGE_BYTES };
	for (unit = 0; unit < SPACE / UNIT_BYTES; unit++) {
		job.mem.regions[unit] = 0 + 1;
		job.mem.mapped[unit] = 1;
	}
}

/* Blocks of n pages have come some time ago, the first at off. */
static void come(size_t off, size_t n, uint8_t state, uint8_t flags, uint16_t home)
{
	const size_t block = job.me->homes[0].block_size;
	size_t i;

	for (; n; n -= block >> PAGE_SHIFT, off += block) {
		job.mem.pages[off >> PAGE_SHIFT] = (struct copy){ .state = state,
								  .flags = flags,
								  .home = (uint16_t)(home + 1) };
		for (i = 0; i < block; i += PAGE_BYTES)
			unit_require(pwrite(job.mem.memfd, "x", 1, (off_t)(off + i)) == 1);
		recent_came(off, block);
		recent_passed(off);
	}
}

static void come_owned(size_t off, size_t n)
{
	come(off, n, PG_WRITE, PAGE_OWNER, HOME);
}

static size_t frames(void)
{
	struct stat st;

	unit_require(!fstat(job.mem.memfd, &st));
	return (size_t)st.st_blocks * 512 >> PAGE_SHIFT;
}

static uint64_t unit_goes(size_t unit)
{
	return empty_unit(unit, job.me->homes[0].block_size, HEAP) >> PAGE_SHIFT;
}

UNIT_TEST(whole_pages_of_the_lower_part_are_marked_under_a_bound)
{
	discard_mark(100, 2 * PAGE_BYTES - 100);
	ck_assert_uint_eq(job.me->reclaim.marked, 1);
	ck_assert_uint_eq(job.mem.marked[0], 2);
	discard_mark(PAGE_BYTES, PAGE_BYTES + 5);
	discard_mark(PAGE_BYTES + 5, PAGE_BYTES);
	ck_assert_uint_eq(job.me->reclaim.marked, 1);
	discard_mark(62 * PAGE_BYTES, 200 * PAGE_BYTES);
	ck_assert_uint_eq(job.me->reclaim.marked, 201);
	discard_unmark(64 * PAGE_BYTES - 1, 2);
	ck_assert_uint_eq(job.me->reclaim.marked, 199);
	discard_unmark(0, 2 * UNIT_BYTES);
	ck_assert(!discard_any());
	discard_mark(LOWER, PAGE_BYTES);
	job.set.memory = 0;
	discard_mark(0, PAGE_BYTES);
	job.set.memory = BOUND;
	job.nodes = 1;
	discard_mark(0, PAGE_BYTES);
	ck_assert(!discard_any());
}

/* Whichever node is the home. */
UNIT_TEST(frames_of_free_memory_go_first_and_nothing_is_sent)
{
	const size_t n = PAGES - PAGES / 8;

	come(0, n / 2, PG_WRITE, PAGE_OWNER, 0);
	come_owned(n / 2 * PAGE_BYTES, n / 2);
	come(LOWER / 2, PAGES / 8, PG_READ, 0, HOME);
	discard_mark(0, n * PAGE_BYTES);
	reclaim_frames(false);
	ck_assert_uint_eq(frames(), n);
	ck_assert_uint_eq(job.me->reclaim.marked, n - PAGES / 8);
	ck_assert_uint_eq(job.mine->stats.evicted_clean, PAGES / 8);
	ck_assert_uint_eq(shuts, PAGES / 8 / 64);
	ck_assert_uint_eq(sent, 0);
	ck_assert_uint_eq(job.mem.pages[0].state, PG_WRITE);
	ck_assert(discard_is_empty(0) && discard_is_empty((PAGES / 8 - 1) * PAGE_BYTES));
	ck_assert(!discard_is_empty(PAGES / 8 * PAGE_BYTES));
	/* Nothing of it is given to its home. */
	discard_unmark(0, n * PAGE_BYTES);
	job.set.memory = BOUND / 2;
	for (int i = 0; i < 20; i++)
		reclaim_frames(false);
	ck_assert_uint_le(sent, n / 2);
	ck_assert_uint_eq(job.mine->stats.evicted_owned, sent);
	ck_assert_uint_eq(zeros, 0);
}

UNIT_TEST(what_is_in_use_stays)
{
	come_owned(0, 64);
	discard_mark(0, 64 * PAGE_BYTES);
	job.mem.pages[1].pins_read = 1;
	job.mem.pages[2].pins_write = 1;
	job.mem.pages[3].held = PE_FWD_WRITE;
	job.mem.pages[4].state = PG_READ;
	job.mem.pages[5].state = PG_GOT_WRITE;
	job.mem.pages[6].state = PG_UPGRADE;
	job.mem.pages[7].state = PG_INVALID;
	discard_unmark(8 * PAGE_BYTES + 8, 8);
	step_leaves(NULL, block_id(9 * PAGE_BYTES, PAGE_BYTES));
	ck_assert_uint_eq(unit_goes(0), 64 - 9);
	ck_assert_uint_eq(frames(), 9);
	/* The hand comes back for those that may go later. */
	ck_assert_uint_eq(job.me->reclaim.marked, 4);
	job.mem.pages[1].pins_read = job.mem.pages[2].pins_write = job.mem.pages[3].held = 0;
	step_left(block_id(9 * PAGE_BYTES, PAGE_BYTES));
	ck_assert_uint_eq(unit_goes(0), 4);
	ck_assert_uint_eq(unit_goes(0), 0);
	ck_assert(!discard_any());
	/* Freed once more, and not used in between. */
	discard_mark(0, 64 * PAGE_BYTES);
	shuts = 0;
	ck_assert_uint_eq(unit_goes(0), 1);
	ck_assert_uint_eq(shuts, 1);
	ck_assert(!discard_any());
}

UNIT_TEST(large_blocks_go_if_all_their_pages_are_free)
{
	const size_t block = 64 << 10;

	job.me->homes[0].block_size = block;
	come_owned(0, 2 * block >> PAGE_SHIFT);
	discard_mark(0, 2 * block);
	discard_unmark(block + 5 * PAGE_BYTES, 1);
	ck_assert_uint_eq(unit_goes(0), block >> PAGE_SHIFT);
	ck_assert(discard_is_empty(0) && !discard_is_empty(block));
	ck_assert_uint_eq(frames(), block >> PAGE_SHIFT);
	ck_assert_int_eq(discard_refill(0, block), 1);
	ck_assert_uint_eq(frames(), 2 * block >> PAGE_SHIFT);
}

/* For a thread of the node, and before it leaves. */
UNIT_TEST(an_empty_block_gets_a_frame_when_it_is_used)
{
	const uint64_t came = job.me->reclaim.came;
	const uint32_t first = block_id(0, PAGE_BYTES), second = block_id(PAGE_BYTES, PAGE_BYTES);

	come_owned(0, 4);
	discard_mark(0, 3 * PAGE_BYTES);
	ck_assert_uint_eq(unit_goes(0), 3);
	ck_assert(step_again(NULL, first, PROT_RW));
	ck_assert(!step_again(NULL, first, PROT_RW));
	ck_assert_uint_eq(zeros, 1);
	step_leaves(NULL, second);
	ck_assert_uint_eq(zeros, 2);
	ck_assert(!discard_is_empty(0) && !discard_is_empty(PAGE_BYTES));
	ck_assert(discard_is_empty(2 * PAGE_BYTES));
	ck_assert_int_eq(discard_refill(3 * PAGE_BYTES, PAGE_BYTES), 0);
	ck_assert_uint_eq(frames(), 3);
	ck_assert_uint_eq(job.me->reclaim.came - came, 6 * PAGE_BYTES);
}

static pthread_t allocator;
static bool returned; /* atomic */

static void *allocate(void *arg)
{
	(void)arg;
	discard_unmark(3 * PAGE_BYTES, PAGE_BYTES);
	__atomic_store_n(&returned, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* While frames are freed, another thread allocates there. */
static void allocate_now(void)
{
	if (allocator)
		return;
	unit_require(!pthread_create(&allocator, NULL, allocate, NULL));
	usleep(50000);
	ck_assert(!__atomic_load_n(&returned, __ATOMIC_SEQ_CST));
	discard_unmark(70 * PAGE_BYTES, PAGE_BYTES); /* not in this run */
}

UNIT_TEST(memory_is_not_returned_while_its_frames_go)
{
	come_owned(0, 80);
	discard_mark(0, 80 * PAGE_BYTES);
	at_shut = allocate_now;
	ck_assert_uint_eq(unit_goes(0), 79);
	unit_require(!pthread_join(allocator, NULL));
	ck_assert(returned);
	ck_assert(discard_is_empty(3 * PAGE_BYTES) && !discard_is_empty(70 * PAGE_BYTES));
	ck_assert(!discard_any());
}

UNIT_TEST(units_that_leave_have_no_marks)
{
	come_owned(0, 600);
	discard_mark(0, 600 * PAGE_BYTES);
	empty_units(0, UNIT_BYTES);
	ck_assert_uint_eq(job.me->reclaim.marked, 600 - 512);
	ck_assert_uint_eq(frames(), 600);
	/* Close to the bound, their frames go before. */
	come_owned(LOWER / 2, PAGES - PAGES / 4 - 600);
	empty_units(UNIT_BYTES, UNIT_BYTES);
	ck_assert_uint_eq(frames(), PAGES - PAGES / 4);
	discard_mark(0, 600 * PAGE_BYTES);
	come_owned(LOWER / 2 + BOUND, 1);
	empty_units(0, UNIT_BYTES);
	ck_assert_uint_eq(frames(), PAGES - PAGES / 4 + 1 - 512);
	ck_assert_uint_eq(job.me->reclaim.marked, 600 - 512);
	ck_assert_uint_eq(sent, 0);
}

UNIT_SUITE("discard", .setup = set_up)
