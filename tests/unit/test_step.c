// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_step.c - miss/step: hold records are given back when free; copies are dropped after they
 * were sent.
 */
#include "suite.h"

#include <dsm.h>

#include "job/job.h"
#include "miss/block.h"
#include "miss/drop.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "miss/step.h"

/*
 * The home asks whether the lock is idle in its last record. When the question arrives, the lock
 * has moved on: its record is free, or another thread has taken it for another lock, but has not
 * begun.
 */
static void ask_record(uint32_t index)
{
	const struct msg m = {
		.version = WIRE_VERSION, .type = MSG_RECALL, .object = 1u << 24 | 7, .aux = index
	};
	struct core_host h = run_host();
	struct actions acts;

	ck_assert_int_eq(core_step(&h, &m, NULL, &acts), 0);
	ck_assert_uint_eq(acts.n, 1);
	ck_assert_uint_eq(acts.v[0].msg.type, MSG_RECALLED);
	ck_assert_int_eq(acts.v[0].msg.count, -EBUSY);
}

UNIT_TEST(a_question_about_a_record_that_is_taken_gives_it_to_nobody)
{
	int64_t taken;

	ck_assert_int_eq(dsm_init(NULL), 0);
	taken = hold_take();
	ck_assert_int_ge(taken, 0);
	ask_record((uint32_t)taken);
	ck_assert_int_ne(hold_take(), taken);
}

UNIT_TEST(a_question_about_a_free_record_does_not_free_it_again)
{
	int64_t first;

	ck_assert_int_eq(dsm_init(NULL), 0);
	first = hold_take();
	ck_assert_int_ge(first, 0);
	hold_give((uint32_t)first);
	ask_record((uint32_t)first);
	ck_assert_int_eq(hold_take(), first);
	ck_assert_int_ne(hold_take(), first);
}

UNIT_TEST(a_record_is_free_when_its_lock_has_gone)
{
	int64_t hold;
	dsm_mutex_t m;

	ck_assert_int_eq(dsm_init(NULL), 0);
	hold = hold_take();
	hold_give((uint32_t)hold);
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_lock(&m), 0);
	ck_assert_int_eq(job.me->holds[hold].state, HOLD_HELD);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	ck_assert_int_eq(dsm_mutex_destroy(&m), 0); /* RECALL, RECALLED, FREED */
	ck_assert_int_eq(job.me->holds[hold].state, HOLD_FREE);
	ck_assert_int_eq(hold_take(), hold);
}

static uint8_t drop(uint32_t block)
{
	drop_blocks(block_off(block), block_bytes(block), 1);
	return job.mem.pages[block_page(block)].state;
}

/*
 * The home reads a block that this rank has written. This rank no longer owns it, and may drop its
 * copy, but must send it first.
 */
UNIT_TEST(a_copy_that_is_to_be_sent_is_not_dropped)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_FWD_READ };
	struct core_host h;
	struct actions acts;
	struct copy *p;

	ck_assert_int_eq(dsm_init(NULL), 0);
	h = run_host();
	m.object = block_id(0, PAGE_BYTES);
	p = &job.mem.pages[block_page(m.object)];
	*p = (struct copy){ .state = PG_WRITE, .flags = PAGE_OWNER, .home = 1 };
	ck_assert_int_eq(core_step(&h, &m, NULL, &acts), 0);
	ck_assert_uint_eq(acts.n, 1);
	ck_assert_uint_eq(acts.v[0].type, ACT_DATA);
	ck_assert_uint_eq(p->flags, 0);
	ck_assert_uint_eq(drop(m.object), PG_READ);
	step_left(m.object);
	ck_assert_uint_eq(drop(m.object), PG_INVALID);
}

/*
 * The state of a block is that of its first page. If a block is in no region, two nodes may name
 * different sizes.
 */
UNIT_TEST(a_block_has_one_lock_whatever_its_size)
{
	size_t bytes;

	ck_assert_int_eq(dsm_init(NULL), 0);
	for (bytes = PAGE_BYTES; bytes <= BLOCK_MAX; bytes *= 2)
		ck_assert_ptr_eq(block_stripe(block_id(BLOCK_MAX, bytes)),
				 block_stripe(block_id(BLOCK_MAX, PAGE_BYTES)));
	ck_assert_ptr_ne(block_stripe(block_id(0, PAGE_BYTES)),
			 block_stripe(block_id(PAGE_BYTES, PAGE_BYTES)));
}

/* A node of a neighbour's bit in a copyset may have nothing to do with the region. */
UNIT_TEST(a_notice_for_a_region_that_is_not_known_is_marked)
{
	struct msg m = { .version = WIRE_VERSION, .type = MSG_NOTE, .src = 1 };
	struct core_host h;
	struct core_place p;
	size_t off, end;

	ck_assert_int_eq(dsm_init(NULL), 0);
	h = run_host();
	off = (size_t)((char *)dsm_malloc(1) - job.base) & ~(PAGE_BYTES - 1);
	for (end = 0; region_known(end); end += PAGE_BYTES)
		;
	memset(&p, 0, sizeof(p));
	ck_assert_int_eq(step_find(&h, TARGET_BLOCK, block_id(end, PAGE_BYTES), &m, &p), 0);
	ck_assert(p.unknown);
	ck_assert_int_eq(step_find(&h, TARGET_BLOCK, block_id(off, PAGE_BYTES), &m, &p), 0);
	ck_assert(!p.unknown);
}

UNIT_SUITE("step", .seconds = 60)
