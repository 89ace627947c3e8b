// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_slot.c - miss/slot: lasting requests fail if no slot is left, in a job of one rank; brief
 * requests continue. Misses have their own slots, and may also use those of lasting requests. A
 * lock that arrives too late is released, and its slot freed.
 */
#include "suite.h"

#include <dsm.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "job/inside.h"
#include "job/job.h"
#include "job/memory.h"
#include "miss/block.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "miss/step.h"
#include "miss/work.h"

#define LASTING (CTL_ALL_SLOTS - CTL_BRIEF_END)

static int slots[LASTING];

static void take_all(void)
{
	unsigned int i;

	for (i = 0; i < LASTING; i++) {
		slots[i] = slot_get(SLOT_LASTING);
		unit_require(slots[i] >= CTL_BRIEF_END && slots[i] < CTL_ALL_SLOTS);
	}
}

UNIT_TEST(the_last_slot_is_followed_by_eagain)
{
	dsm_mutex_t m, held;
	dsm_cond_t c;
	dsm_rwlock_t rw;
	dsm_sem_t s;
	int slot;

	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_int_eq(LASTING, 62464); /* the number in dsm.h */
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_init(&held), 0);
	ck_assert_int_eq(dsm_cond_init(&c), 0);
	ck_assert_int_eq(dsm_rwlock_init(&rw), 0);
	ck_assert_int_eq(dsm_sem_init(&s, 1), 0);
	ck_assert_int_eq(dsm_mutex_lock(&held), 0);
	take_all();
	ck_assert_int_eq(slot_get(SLOT_LASTING), -EAGAIN);
	ck_assert_int_eq(dsm_sem_wait(&s), -EAGAIN);
	ck_assert_int_eq(dsm_sem_timedwait(&s, 1000000), -EAGAIN);
	ck_assert_int_eq(dsm_mutex_lock(&m), -EAGAIN);
	ck_assert_int_eq(dsm_rwlock_rdlock(&rw), -EAGAIN);
	ck_assert_int_eq(dsm_rwlock_wrlock(&rw), -EAGAIN);
	ck_assert_int_eq(dsm_cond_wait(&c, &held), -EAGAIN);
	/*
	 * Requests that a home answers at once need no lasting slot, so they can wake the waiters.
	 */
	slot = slot_get(SLOT_BRIEF);
	ck_assert_int_ge(slot, 0);
	slot_put((uint16_t)slot);
	ck_assert_int_eq(dsm_sem_post(&s, 1), 0);
	ck_assert_int_eq(dsm_sem_trywait(&s), 0);
	ck_assert_int_eq(dsm_mutex_trylock(&m), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	ck_assert_int_eq(dsm_cond_broadcast(&c), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&held), 0); /* the failed wait has kept the mutex */
	slot_put((uint16_t)slots[LASTING / 2]);
	ck_assert_int_eq(dsm_sem_wait(&s), 0);
	ck_assert_int_eq(slot_get(SLOT_LASTING), slots[LASTING / 2]);
	ck_assert_int_eq(slot_get(SLOT_LASTING), -EAGAIN);
}

#define BLOCKS (CTL_BLOCK_SLOTS + CTL_BLOCK_END - CTL_SLOTS)

/* Blocks pinned by other ranks. */
static void take_blocks(void)
{
	unsigned int i;
	int slot;

	for (i = 0; i < BLOCKS; i++) {
		slot = slot_get(SLOT_BLOCK);
		unit_require(slot >= 0 && slot < CTL_BLOCK_END && slot_is_block((uint16_t)slot));
	}
}

UNIT_TEST(more_misses_take_lasting_slots)
{
	int block, lasting;
	char *at;

	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_int_eq(BLOCKS, 1920); /* the number in dsm(7) */
	take_blocks();
	block = slot_get(SLOT_BLOCK);
	lasting = slot_get(SLOT_LASTING);
	ck_assert_int_ge(block, CTL_BRIEF_END);
	ck_assert_int_ge(lasting, CTL_BRIEF_END);
	ck_assert(slot_is_block((uint16_t)block));
	ck_assert(!slot_is_block((uint16_t)lasting));
	/* A request that its thread has left remains until the answer comes. */
	job.me->slots[block].object = block_id(7 << PAGE_SHIFT, PAGE_BYTES);
	ck_assert(!slot_any_prefetch(0, 1 << 20));
	ck_assert(slot_leave((uint16_t)block));
	ck_assert(slot_any_prefetch(0, 1 << 20));
	ck_assert(!slot_any_prefetch(8 << PAGE_SHIFT, 1 << 20));
	slot_put((uint16_t)block);
	ck_assert(!slot_any_prefetch(0, 1 << 20));
	ck_assert_int_eq(slot_get(SLOT_LASTING), block);
	ck_assert(!slot_is_block((uint16_t)block));
	/* Contents staged in a slot remain until they are used. */
	at = memory_stage(CTL_ALL_SLOTS - 1, BLOCK_MAX);
	at[BLOCK_MAX - 1] = 'x';
	memory_unstage(CTL_ALL_SLOTS - 1, at, BLOCK_MAX, false);
	at = memory_stage(CTL_ALL_SLOTS - 1, BLOCK_MAX);
	ck_assert_int_eq(at[BLOCK_MAX - 1], 'x');
	memory_unstage(CTL_ALL_SLOTS - 1, at, BLOCK_MAX, true);
	at = memory_stage(CTL_ALL_SLOTS - 1, BLOCK_MAX);
	ck_assert_int_eq(at[BLOCK_MAX - 1], 0);
}

static int got = -1;

static void *misses(void *arg)
{
	int slot;

	engine_enter();
	slot = slot_get(SLOT_BLOCK);
	engine_leave();
	__atomic_store_n(&got, slot, __ATOMIC_RELEASE);
	return arg;
}

UNIT_TEST(a_miss_waits_for_the_last_slot_of_all)
{
	pthread_t t;

	ck_assert_int_eq(dsm_init(NULL), 0);
	take_blocks();
	take_all();
	ck_assert_int_eq(pthread_create(&t, NULL, misses, NULL), 0);
	usleep(50000);
	ck_assert_int_eq(__atomic_load_n(&got, __ATOMIC_ACQUIRE), -1);
	slot_put((uint16_t)slots[17]);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(got, slots[17]);
}

static int placed = 1;

static void *places(void *arg)
{
	__atomic_store_n(&placed, block_place(arg, 0, 0), __ATOMIC_RELEASE);
	return arg;
}

/* The home answers a placement at once, even if other ranks have pinned the block. */
UNIT_TEST(a_placement_waits_for_no_miss)
{
	struct dsm_region r = {
		.size = PAGE_BYTES, .bytes = UNIT_BYTES, .block_size = PAGE_BYTES, .id = 1
	};
	unsigned int ms;
	pthread_t t;

	ck_assert_int_eq(dsm_init(NULL), 0);
	take_blocks();
	take_all();
	ck_assert_int_eq(pthread_create(&t, NULL, places, &r), 0);
	for (ms = 0; ms < 10000 && __atomic_load_n(&placed, __ATOMIC_ACQUIRE) > 0; ms++)
		usleep(1000);
	ck_assert_int_eq(__atomic_load_n(&placed, __ATOMIC_ACQUIRE), 0);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_uint_eq(job.mem.dirs[0].state, DIR_PLACED);
}

static void *gives_up(void *arg)
{
	return (void *)(intptr_t)dsm_mutex_timedlock(arg, 1000000);
}

static void give_up(dsm_mutex_t *m)
{
	void *result;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, gives_up, m), 0);
	ck_assert_int_eq(pthread_join(t, &result), 0);
	ck_assert_int_eq((intptr_t)result, -ETIMEDOUT);
}

UNIT_TEST(a_lock_that_comes_too_late_leaves_no_slot)
{
	dsm_mutex_t m;

	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_lock(&m), 0);
	/* so that the first request waits at the home; */
	memset(job.me->cached_at, 0, sizeof(job.me->cached_at));
	give_up(&m);
	give_up(&m); /* the second waits behind it, and leaves */
	ck_assert_int_eq(slot_get(SLOT_LASTING), CTL_BRIEF_END + 1);
	slot_put(CTL_BRIEF_END + 1);
	ck_assert_int_eq(dsm_mutex_trylock(&m), -EBUSY);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	ck_assert_int_eq(dsm_mutex_trylock(&m), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	ck_assert_int_eq(dsm_mutex_destroy(&m), 0);
	take_all();
}

UNIT_TEST(a_lock_that_has_gone_leaves_no_hint)
{
	dsm_mutex_t m;
	size_t i, hints = 0;

	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_lock(&m), 0);
	ck_assert_int_eq(dsm_mutex_unlock(&m), 0);
	for (i = 0; i < CTL_CACHED_PLACES; i++)
		hints += job.me->cached_at[i] != 0;
	ck_assert_uint_eq(hints, 1);
	ck_assert_int_eq(dsm_mutex_destroy(&m), 0); /* its home recalls it */
	for (i = 0; i < CTL_CACHED_PLACES; i++)
		ck_assert_uint_eq(job.me->cached_at[i], 0);
}

/*
 * Either the answer comes first and the thread sees it, or the answer finds that the thread has
 * given up.
 */
UNIT_TEST(who_gives_up_sees_an_answer_or_is_seen)
{
	uint16_t slot;

	ck_assert_int_eq(dsm_init(NULL), 0);
	slot = (uint16_t)slot_get(SLOT_LASTING);
	ck_assert(slot_woken(slot));
	ck_assert(!slot_quit(slot, 1));
	slot_expect(slot);
	ck_assert(slot_quit(slot, 1));
	ck_assert(!slot_woken(slot));
	ck_assert(slot_has_quit(slot));
	slot_put(slot);
	slot = (uint16_t)slot_get(SLOT_LASTING);
	ck_assert(!slot_has_quit(slot));
	slot_put(slot);
}

/* A release wakes the thread in line, which gives up before it runs. */
UNIT_TEST(a_thread_that_is_called_too_late_takes_its_turn)
{
	struct core_host node;
	struct hold_ctx ctx;
	struct actions acts;
	struct msg about;
	struct hold *h;
	uint32_t hold;
	dsm_mutex_t m;

	ck_assert_int_eq(dsm_init(NULL), 0);
	node = run_host();
	ctx = (struct hold_ctx){ .me = node.me, .passes = node.passes, .fast = node.fast };
	ctx.queue = (struct qpool){ job.mem.lines, CTL_ALL_SLOTS, NULL };
	ck_assert_int_eq(dsm_mutex_init(&m), 0);
	ck_assert_int_eq(dsm_mutex_lock(&m), 0);
	for (hold = 0; !(job.me->holds[hold].word & HOLD_TAKEN); hold++)
		;
	h = &job.me->holds[hold];
	about = (struct msg){ .dst = h->home, .object = h->object, .req_node = h->gen };
	about.req_slot = (uint16_t)slot_get(SLOT_LASTING);
	ck_assert_int_eq(hold_thread(&ctx, hold, h, HE_JOIN, &about, &acts), 0);
	ck_assert_int_eq(hold_thread(&ctx, hold, h, HE_UNLOCK, NULL, &acts), 0);
	ck_assert_int_eq(acts.n, 1);
	ck_assert(acts.v[0].type == ACT_WAKE && acts.v[0].status == -EAGAIN &&
		  acts.v[0].slot == about.req_slot);
	ck_assert(!core_hold_leave(&node, hold, about.req_slot));
	ck_assert(slot_quit(about.req_slot, hold));
	work_push(WORK_PASS, &(struct msg){ .req_slot = about.req_slot, .count = -EAGAIN });
	run_work();
	ck_assert_int_eq(h->turn, TURN_NONE);
	ck_assert(!(h->word & HOLD_TAKEN));
	ck_assert_int_eq(slot_get(SLOT_LASTING), about.req_slot);
}

static unsigned int take_prefetches(enum slot_kind kind, int first)
{
	unsigned int n = 0;
	int slot;

	while ((slot = slot_try_prefetch(0, kind)) >= 0) {
		unit_require(slot == first + (int)n);
		slots[n++] = slot;
	}
	return n;
}

static void put_taken(unsigned int n)
{
	while (n)
		slot_put((uint16_t)slots[--n]);
}

/* As many slots as block_fetch() uses at once, and none of those for blocks that are given back. */
UNIT_TEST(each_slot_for_a_prefetch_is_taken)
{
	ck_assert_int_eq(dsm_init(NULL), 0);
	ck_assert_uint_eq(take_prefetches(SLOT_AHEAD, CTL_BLOCK_SLOTS),
			  CTL_AHEAD_SLOTS - CTL_BLOCK_SLOTS);
	put_taken(CTL_AHEAD_SLOTS - CTL_BLOCK_SLOTS);
	ck_assert_uint_eq(take_prefetches(SLOT_AHEAD, CTL_BLOCK_SLOTS),
			  CTL_AHEAD_SLOTS - CTL_BLOCK_SLOTS);
	ck_assert_uint_eq(take_prefetches(SLOT_BACK, CTL_AHEAD_SLOTS), CTL_SLOTS - CTL_AHEAD_SLOTS);
	put_taken(CTL_SLOTS - CTL_AHEAD_SLOTS);
}

/* The directory has room for that many ranks times slots. */
UNIT_TEST(many_nodes_have_fewer_slots_for_blocks)
{
	ck_assert_uint_eq(ctl_block_slots(1), CTL_ALL_SLOTS);
	ck_assert_uint_eq(ctl_block_slots(64), CTL_ALL_SLOTS - 1);
	ck_assert_uint_eq(ctl_block_slots(WIRE_MAX_NODES), 4095);
	ck_assert_uint_le(ctl_block_slots(WIRE_MAX_NODES) * WIRE_MAX_NODES, (1u << 22) - 1);
}

UNIT_SUITE("slot", .seconds = 60)
