// SPDX-License-Identifier: BSD-2-Clause
/*
 * reclaim.c - a node whose shared memory exceeds DSM_MEMORY gives up blocks.
 *
 * First the memory of twins that are not in use. Then the frames of memory that was freed
 * (discard.h): wherever the home is, nothing is sent. Then read copies, silently: the home goes on
 * counting this node among the readers, and an invalidation for a copy that is not here is
 * acknowledged at once (docs/protocol.md, "Messages of a miss"). Then the newest copies of blocks
 * whose home is another node: the home is asked to take them, as by dsm_release(). Blocks whose
 * home is this node stay, and so do pinned ones.
 *
 * Copies of release blocks go in the same way: a clean one silently, one that this node has written
 * as if its home had sent a notice. The next close then sends what has changed, and drops it.
 *
 * Three hands, one for each, go round the units of the window that have frames. A block that came
 * lately survives a pass (recent.h). A unit in which nothing can go is marked, and passed over
 * until a block comes there; its homes may move, so marks hold for some rounds only.
 *
 * A miss never waits for room: the blocks that it brings may exceed the bound. Whoever has brought
 * some looks afterwards, and one thread of the node gives up blocks at a time. The thread may help
 * the homes for a millisecond, so that a node does not write faster than they take; then it goes
 * on, whatever they do. Other threads wait for it, too, once much has come meanwhile: as long, or
 * up to 100 ms while the node has more than it may.
 */
#include "miss/reclaim.h"

#include <unistd.h>

#include "job/inside.h"
#include "job/memory.h"
#include "job/usage.h"
#include "miss/block.h"
#include "miss/discard.h"
#include "miss/drop.h"
#include "miss/empty.h"
#include "miss/recent.h"
#include "miss/release.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "miss/twin.h"
#include "miss/work.h"
#include "util/futex.h"
#include "util/log.h"

/* so much comes between two looks: a block survives a pass, so its thread can use it */
#define LEAST (64 * PAGE_BYTES)
#define BEHIND (4 * LEAST)
#define HIGH_PART 16 /* above the bound less this part of it, blocks go */
#define LOW_PART 8   /* no more than to have so many less */
/* with nothing to give up: look again when this part of the frames has come */
#define AGAIN_PART 256
#define FRAMES_PART 4 /* this part of the bound is for frames, whatever the tables need */
#define PATIENCE_NS 1000000u
#define STOPPED_NS 100000000u /* the same while too much has come */
/* so much at most for a look, and so many units: the thread may be the one that answers misses */
#define AT_ONCE (2u << 20)
#define UNITS_AT_ONCE 256u
#define KEPT_ROUNDS 16u

enum hand { HAND_CLEAN = 0, HAND_OWNED, HAND_MARKED };

static uint64_t high(void)
{
	return job.set.memory - job.set.memory / HIGH_PART;
}

static uint64_t low(void)
{
	return job.set.memory - job.set.memory / LOW_PART;
}

/* Without the stripe: the step that drops the copy looks again, and a home that is asked for
 * nothing does nothing. */
static bool is_clean(const struct copy *p)
{
	return __atomic_load_n(&p->state, __ATOMIC_RELAXED) == PG_READ &&
		!(p->flags & PAGE_OWNER) && !p->pins_read && !p->held;
}

static bool is_owned(const struct copy *p)
{
	const uint8_t state = __atomic_load_n(&p->state, __ATOMIC_RELAXED);

	return (state == PG_READ || state == PG_WRITE) && p->flags & PAGE_OWNER && p->home &&
		p->home - 1 != job.node && !p->pins_read && !p->pins_write && !p->held;
}

/* The blocks of [from, to) go. */
static uint64_t drop_run(size_t from, size_t to, size_t block)
{
	const unsigned int dropped = drop_blocks(from, block, (unsigned int)((to - from) / block));
	size_t at;

	for (at = from; at < to; at += block)
		if (__atomic_load_n(&block_copy(at)->state, __ATOMIC_RELAXED) == PG_INVALID)
			recent_gone(at);
	count(&job.mine->stats.evicted_clean, dropped);
	return dropped * block;
}

/* Runs of neighbours whose turn it is. */
static uint64_t drop_clean(size_t unit, size_t block, uint64_t want)
{
	const size_t end = unit + UNIT_BYTES;
	size_t at, from = unit;
	uint64_t got = 0;

	for (at = unit; at < end && got + (at - from) < want; at += block) {
		const bool goes = is_clean(block_copy(at)) && recent_passed(at);

		if (goes && at - from < DROP_MOST * block)
			continue;
		if (at > from)
			got += drop_run(from, at, block);
		from = goes ? at : at + block;
	}
	return at > from ? got + drop_run(from, at, block) : got;
}

/* What only this node may write goes for good. A copy that others have as well stays here as a read
 * copy, and theirs stay. False: no slot is free. */
static bool ask_home(size_t at, size_t block)
{
	const struct copy *p = block_copy(at);
	const uint16_t home = __atomic_load_n(&p->home, __ATOMIC_RELAXED);
	struct msg m = {
		.type = MSG_RELEASE,
		.src = job.node,
		.dst = (uint16_t)(home - 1),
		.object = block_id(at, block),
		.req_node = job.node,
		.op = p->state == PG_WRITE ? RELEASE_EVICT : RELEASE_KEEP,
	};
	int slot;

	if (!home || home - 1 == job.node)
		return true; /* it has moved since */
	slot = slot_try_prefetch(m.object, SLOT_BACK);
	if (slot < 0)
		return false;
	m.req_slot = (uint16_t)slot;
	recent_gone(at);
	run_send_first(&m);
	return true;
}

/* Bytes of blocks that are still here though their homes have been asked to take them, or this node
 * gives them back for another reason. */
static uint64_t under_way(void)
{
	uint64_t sum = 0;
	uint16_t s;

	for (s = CTL_BLOCK_SLOTS; s < CTL_SLOTS; s++) {
		const uint32_t object = slot_object(NULL, s);

		if (slot_is_used(s) && object && is_owned(block_copy(block_off(object))))
			sum += block_bytes(object);
	}
	return sum;
}

/* *full: no slot is free. */
static uint64_t ask_homes(size_t unit, size_t block, uint64_t want, bool *full)
{
	uint64_t got = 0;
	size_t at;

	for (at = unit; at < unit + UNIT_BYTES && got < want && !*full; at += block) {
		if (!is_owned(block_copy(at)) || discard_is_empty(at) || !recent_passed(at) ||
		    slot_any_prefetch(at, at + block))
			continue;
		*full = !ask_home(at, block);
		got += *full ? 0 : block;
	}
	run_work();
	count(&job.mine->stats.evicted_owned, got / block);
	return got;
}

/* Of release blocks: one by one. */
static uint64_t drop_copies(size_t unit, const struct region_homes *known, uint64_t want)
{
	uint64_t got = 0;
	size_t at;

	for (at = unit; at < unit + UNIT_BYTES && got < want; at += PAGE_BYTES) {
		if (!release_copy_is(known, at, REL_CLEAN) || !recent_passed(at) ||
		    !drop_release(block_id(at, PAGE_BYTES)))
			continue;
		recent_gone(at);
		got += PAGE_BYTES;
	}
	count(&job.mine->stats.evicted_clean, got / PAGE_BYTES);
	return got;
}

/* Those that are open: turn() has them closed together. */
static uint64_t close_copies(size_t unit, const struct region_homes *known, uint64_t want)
{
	uint64_t got = 0;
	size_t at;

	for (at = unit; at < unit + UNIT_BYTES && got < want; at += PAGE_BYTES) {
		if (!release_copy_is(known, at, REL_OPEN) || !recent_passed(at))
			continue;
		rel_notice(&job.me->rel_lists, job.mem.rels, (uint32_t)(at >> PAGE_SHIFT));
		recent_gone(at);
		got += PAGE_BYTES;
	}
	count(&job.mine->stats.evicted_owned, got / PAGE_BYTES);
	return got;
}

/* The region there, if its blocks may go. What no rank maps is being given up: process_quiet()
 * waits for this pass. */
static const struct region_homes *may_go(size_t unit)
{
	const struct region_homes *known = region_known(unit);

	return known && __atomic_load_n(&job.mem.mapped[unit / UNIT_BYTES], __ATOMIC_ACQUIRE)
		? known
		: NULL;
}

/* ---- units that keep all that they have ------------------------------------------------------ */

/* What a mark of now is. */
static uint8_t kept_mark(void)
{
	return (uint8_t)(1 + job.me->reclaim.rounds / KEPT_ROUNDS % UINT8_MAX);
}

static bool is_kept(size_t unit)
{
	return unit < job.set.space &&
		__atomic_load_n(&job.mem.kept[unit / UNIT_BYTES], __ATOMIC_RELAXED) == kept_mark();
}

static bool stays(const struct region_homes *known, size_t at)
{
	const struct copy *p = block_copy(at);

	if (discard_is_marked(at, known->block_size))
		return false;
	if (known->consistency)
		return release_is_home(known, at) || release_copy_is(known, at, REL_NONE);
	return __atomic_load_n(&p->state, __ATOMIC_RELAXED) == PG_INVALID ||
		(p->flags & PAGE_OWNER && p->home - 1 == job.node) || discard_is_empty(at);
}

/* A block that comes meanwhile may be passed over for some rounds. */
static void mark_kept(const struct region_homes *known, size_t unit)
{
	const size_t step = known->consistency ? PAGE_BYTES : known->block_size;
	size_t at = unit;

	while (at < unit + UNIT_BYTES && stays(known, at))
		at += step;
	if (at >= unit + UNIT_BYTES)
		__atomic_store_n(&job.mem.kept[unit / UNIT_BYTES], kept_mark(), __ATOMIC_RELAXED);
}

/* ---- the hands ------------------------------------------------------------------------------- */

/* The next unit at or after `at` with frames, maybe after one that is marked; the end of the window
 * if there is none. */
static size_t next_unit(size_t at)
{
	off_t data;

	while (is_kept(at))
		at += UNIT_BYTES;
	data = lseek(job.mem.memfd, (off_t)at, SEEK_DATA);
	return data < 0 ? job.set.space : (size_t)data & ~(UNIT_BYTES - 1);
}

struct passed {
	bool full;   /* there is more to give up, but no slot is free */
	bool end;    /* the hand has passed the end of the window */
	bool closes; /* release blocks are to be closed */
};

static uint64_t pass(enum hand hand, size_t unit, const struct region_homes *known, uint64_t want,
		     struct passed *p)
{
	uint64_t got;

	if (hand == HAND_MARKED)
		return known->consistency ? 0 : empty_unit(unit, known->block_size, want);
	if (!known->consistency)
		return hand == HAND_CLEAN ? drop_clean(unit, known->block_size, want)
					  : ask_homes(unit, known->block_size, want, &p->full);
	if (hand == HAND_CLEAN)
		return drop_copies(unit, known, want);
	got = close_copies(unit, known, want);
	p->closes |= got > 0;
	return got;
}

/* Move a hand on until it has found `want` bytes, once round at most. Returns how many it has
 * found. */
static uint64_t turn(enum hand hand, uint64_t want, struct passed *p)
{
	size_t *at = &job.me->reclaim.hands[hand];
	const size_t start = *at;
	unsigned int units = 0;
	uint64_t got = 0, found;

	*p = (struct passed){ 0 };
	while (got < want && !p->full && units < UNITS_AT_ONCE) {
		const size_t unit = next_unit(*at);
		const struct region_homes *known;

		if (p->end && unit >= start)
			break;
		*at = unit < job.set.space ? unit + UNIT_BYTES : 0;
		p->end |= !*at;
		if (unit >= job.set.space)
			continue;
		units++;
		known = is_kept(unit) ? NULL : may_go(unit);
		if (!known)
			continue;
		found = pass(hand, unit, known, want - got, p);
		got += found;
		if (hand == HAND_OWNED && !found && !p->full)
			mark_kept(known, unit);
	}
	job.me->reclaim.rounds += hand == HAND_OWNED && p->end;
	if (p->closes)
		release_try_acquire();
	return got;
}

static void be_patient(void)
{
	const uint64_t until = clock_ns() + PATIENCE_NS;

	while (usage_bounded() > job.set.memory && clock_ns() < until)
		block_help();
}

static void say_full(uint64_t now)
{
	if (__atomic_exchange_n(&job.me->reclaim.said, 1, __ATOMIC_RELAXED))
		return;
	log_line(
		"node %d has %lu MiB of shared memory, more than it may (DSM_MEMORY, %zu MiB), and cannot give it up: %lu MiB of "
		"tables and twins, and blocks whose home it is, or that are pinned (DSM_HOME=cyclic gives each node an equal part)",
		job.node, (unsigned long)(now >> 20), job.set.memory >> 20,
		(unsigned long)((now - usage_frames()) >> 20));
}

/* How much should go now, of so much that the node has. */
static uint64_t at_once(uint64_t now)
{
	const uint64_t above = now > low() ? now - low() : 0;

	return above < AT_ONCE ? above : AT_ONCE;
}

/* Of blocks. Tables may have grown so large that little is left for these: they keep a part. */
static uint64_t wanted(uint64_t now)
{
	const uint64_t frames = usage_frames(), least = job.set.memory / FRAMES_PART;
	const uint64_t want = at_once(now);

	if (frames >= least + want)
		return want;
	return frames > least ? frames - least : 0;
}

/* Returns what should come before the next look. */
static uint64_t look(bool patient)
{
	struct reclaim *c = &job.me->reclaim;
	uint64_t now = usage_bounded(), trimmed, got, want, asked = 0;
	struct passed p = { 0 };

	if (now <= high()) {
		__atomic_store_n(&c->over, 0, __ATOMIC_RELAXED);
		return (high() - now) / 2; /* tables grow as well */
	}
	trimmed = twin_trim(at_once(now));
	now -= trimmed;
	want = wanted(now);
	got = discard_any() ? turn(HAND_MARKED, want, &p) : 0;
	if (got < want)
		got += turn(HAND_CLEAN, want - got, &p);
	if (got < want && now - got > high()) {
		asked = under_way();
		if (asked < want - got)
			asked += turn(HAND_OWNED, want - got - asked, &p);
	}
	if (patient && asked && now - got > job.set.memory)
		be_patient();
	now = usage_bounded();
	__atomic_store_n(&c->over, now > high(), __ATOMIC_RELAXED);
	if (now <= job.set.memory || trimmed || got || asked || p.full) {
		c->shorts = 0;
		return 0;
	}
	if (want && !p.end)
		return 0;
	count(&job.mine->stats.evict_short, 1);
	if (++c->shorts > RECENT_OFTEN + 1) /* by then all marks are gone */
		say_full(now);
	return now / AGAIN_PART;
}

/* Has much come since another thread should have begun? It may not be running. */
static bool is_behind(const struct reclaim *c)
{
	return __atomic_load_n(&c->came, __ATOMIC_RELAXED) >=
		__atomic_load_n(&c->due, __ATOMIC_RELAXED) + BEHIND;
}

/*
 * Longer while the node has more than it may: other work may have the other thread's processor. If
 * that thread is stopped, a node that needs much goes on all the same.
 */
static void let_other(void)
{
	static uint64_t in_vain; /* what had come when a wait was in vain */
	const uint64_t began = clock_ns(),
		       came = __atomic_load_n(&job.me->reclaim.came, __ATOMIC_RELAXED);
	const bool once_more = came >= __atomic_load_n(&in_vain, __ATOMIC_RELAXED);
	uint64_t limit = PATIENCE_NS;

	engine_enter();
	for (; !reclaim_idle(); block_help()) {
		if (clock_ns() - began < limit)
			continue;
		if (limit > PATIENCE_NS || !once_more || usage_bounded() <= job.set.memory)
			break;
		limit = STOPPED_NS;
	}
	if (limit > PATIENCE_NS && !reclaim_idle())
		__atomic_store_n(&in_vain, came + BEHIND, __ATOMIC_RELAXED);
	engine_leave();
}

bool reclaim_idle(void)
{
	return !__atomic_load_n(&job.me->reclaim.lock, __ATOMIC_ACQUIRE);
}

void reclaim_frames(bool patient)
{
	struct reclaim *c = &job.me->reclaim;
	uint32_t idle = 0;
	uint64_t wait;

	if (!__atomic_compare_exchange_n(&c->lock, &idle, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED)) {
		if (patient && is_behind(c))
			let_other();
		return;
	}
	engine_enter();
	wait = look(patient);
	if (wait < LEAST)
		wait = LEAST;
	__atomic_store_n(&c->due, __atomic_load_n(&c->came, __ATOMIC_RELAXED) + wait,
			 __ATOMIC_RELAXED);
	work_timers(true);
	__atomic_store_n(&c->lock, 0, __ATOMIC_RELEASE);
	engine_leave(); /* a signal handler that runs here may never return */
}
