// SPDX-License-Identifier: BSD-2-Clause
/* push.c - see push.h. */
#include "miss/push.h"

#include "miss/block.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "util/futex.h"

/*
 * A home has a fixed number of slots for blocks that are given back, and drops offers while all are
 * in use. So each rank may have only a share of blocks in flight: offered, and not yet requested by
 * the home.
 */
#define PUSH_SLOTS (CTL_AHEAD_SLOTS - CTL_BLOCK_SLOTS)
#define PUSH_FLIGHT 64u     /* share of a rank, at most, */
#define PUSH_FLIGHT_LEAST 4 /* and at least */

/*
 * A home requests an offered block within a round trip, unless it has dropped the offer, or a
 * thread has pinned the block since: that pin may end only after the barrier.
 */
#ifdef __SANITIZE_THREAD__ /* it takes so long for messages that homes miss the usual limit */
#define PUSH_PATIENCE_NS 20000000u
#else
#define PUSH_PATIENCE_NS 2000000u
#endif

/*
 * The barrier waits for pushed blocks. That pays if the home then reads many blocks without a miss;
 * a few misses take no longer than the barrier would.
 */
#define PUSH_LEAST 16u

struct flight {
	uint32_t blocks[PUSH_FLIGHT];
	unsigned int head, tail; /* never reset, so they wrap around */
};

void push_note(const struct msg *grant)
{
	const unsigned int who = job.me->slots[grant->req_slot].by;
	struct rank_ctl *ranks = (struct rank_ctl *)((char *)job.me + job.layout.ranks);
	struct push_list *l = &ranks[who].pushes;
	uint32_t n;

	if (!job.set.push)
		return;
	n = __atomic_fetch_add(&l->noted, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&l->blocks[n % CTL_PUSHES], grant->object, __ATOMIC_RELEASE);
}

static bool is_written(const struct copy *p)
{
	return __atomic_load_n(&p->state, __ATOMIC_ACQUIRE) == PG_WRITE;
}

static struct copy *page_of(uint32_t block)
{
	return &job.mem.pages[block_page(block)];
}

/* Is it still a block of its region? Another region may have the place by now. */
static bool is_block(uint32_t block)
{
	const size_t off = block_off(block), bytes = block_bytes(block);
	const struct dsm_region *r = region_at(off);

	return r && r->block_size == bytes && (off - r->off) % bytes == 0;
}

/* The home of a block that this node was told to push, has, and may push now; else SET_NOBODY. */
static uint16_t home_of(uint32_t block)
{
	const struct copy *p = page_of(block);
	uint32_t *stripe = block_stripe(block);
	uint16_t home = SET_NOBODY;

	word_lock(stripe);
	if (p->state == PG_WRITE && p->home && p->home - 1 != job.node && !p->pins_read &&
	    !p->pins_write)
		home = (uint16_t)(p->home - 1);
	word_unlock(stripe);
	return home;
}

/* Take the slot first: while it names the block, no other region can take this one's place. */
static bool offer(uint32_t block)
{
	const int slot = slot_try_prefetch(block, SLOT_BACK);
	struct msg m = { .type = MSG_RELEASE,
			 .op = RELEASE_KEEP,
			 .src = job.node,
			 .object = block,
			 .req_node = job.node,
			 .req_slot = (uint16_t)slot };

	if (slot < 0)
		return false;
	m.dst = is_block(block) ? home_of(block) : SET_NOBODY;
	if (m.dst == SET_NOBODY) {
		slot_put((uint16_t)slot);
		return false;
	}
	run_send(&m);
	return true;
}

static void land(struct flight *f)
{
	while (f->head != f->tail) {
		const uint32_t block = f->blocks[f->head % PUSH_FLIGHT];
		const struct dsm_region *r = region_at(block_off(block));

		if (is_written(page_of(block)))
			break;
		count(&job.mine->region_stats[r ? r->id : 0].pushed, 1);
		f->head++;
	}
}

/* Wait until at most so many are in flight. False: none has landed for too long. */
static bool await(struct flight *f, unsigned int most)
{
	uint64_t until = 0, now;
	unsigned int before;

	for (;;) {
		before = f->head;
		land(f);
		if (f->tail - f->head <= most)
			return true;
		now = clock_ns();
		if (!until || f->head != before)
			until = now + PUSH_PATIENCE_NS;
		else if (now > until)
			return false;
		block_help();
	}
}

static unsigned int share(void)
{
	const unsigned int n = PUSH_SLOTS / (((unsigned int)job.nodes - 1) * job.locals);

	return n > PUSH_FLIGHT ? PUSH_FLIGHT : n < PUSH_FLIGHT_LEAST ? PUSH_FLIGHT_LEAST : n;
}

void push_all(void)
{
	struct push_list *l = &job.mine->pushes;
	struct flight f = { .head = 0 };
	const unsigned int most = share();
	uint32_t n, at, block;
	bool goes;

	if (__atomic_exchange_n(&l->lock, 1, __ATOMIC_ACQUIRE))
		return;
	n = __atomic_load_n(&l->noted, __ATOMIC_ACQUIRE);
	goes = n - l->taken >= PUSH_LEAST;
	at = n - l->taken > CTL_PUSHES ? n - CTL_PUSHES : l->taken;
	for (; at != n; at++) {
		block = __atomic_exchange_n(&l->blocks[at % CTL_PUSHES], 0, __ATOMIC_ACQUIRE);
		if (!goes || !block || !offer(block))
			continue;
		f.blocks[f.tail++ % PUSH_FLIGHT] = block;
		goes = await(&f, most - 1);
	}
	if (goes)
		await(&f, 0);
	__atomic_store_n(&l->taken, n, __ATOMIC_RELAXED);
	__atomic_store_n(&l->lock, 0, __ATOMIC_RELEASE);
}
