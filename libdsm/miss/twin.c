// SPDX-License-Identifier: BSD-2-Clause
/*
 * twin.c - see twin.h.
 *
 * twin_of[] has for each page the number of its twin, + 1, or TWIN_DROPPED: a notice took the copy
 * away. Twins are pages of the control segment's file. Their numbers are taken from a pool, so that
 * memory is used for as many as there were at once. twin_trim() gives the memory of those that are
 * free back, and puts their numbers into a second pool.
 */
#include "miss/twin.h"

#include <fcntl.h>
#include <string.h>

#include "fault/fault.h"
#include "job/job.h"
#include "job/lost.h"
#include "job/memory.h"
#include "miss/recent.h"
#include "miss/run.h"
#include "miss/sample.h"
#include "miss/sharing.h"
#include "miss/work.h"
#include "util/futex.h"
#include "util/sys.h"

#define TWIN_DROPPED UINT32_MAX

static uint32_t *number_at(uint32_t object)
{
	return &job.mem.twin_of[block_page(object)];
}

static uint8_t *twin_at(uint32_t object)
{
	const uint32_t number = *number_at(object);

	return number && number != TWIN_DROPPED ? (uint8_t *)memory_twin(number - 1) : NULL;
}

static uint8_t *frame_at(uint32_t object)
{
	return (uint8_t *)memory_alias(block_off(object));
}

static uint8_t mapped_as(uint32_t object)
{
	return block_copy(block_off(object))->state;
}

static void map_as(uint32_t object, enum page_state state)
{
	__atomic_store_n(&block_copy(block_off(object))->state, (uint8_t)state, __ATOMIC_RELEASE);
}

/* A frame of this home has come, without a message. */
static void appeared(uint32_t object)
{
	if (job.set.memory)
		recent_came(block_off(object), PAGE_BYTES);
}

static void check(int err)
{
	if (err)
		run_protect_failed(err);
}

/*
 * A flag of struct copy: comparisons with its last twin found stores of this node, or it was
 * exclusive.
 */
#define TWIN_WRITTEN 2

bool twin_was_written(size_t off)
{
	return __atomic_load_n(&block_copy(off)->flags, __ATOMIC_RELAXED) & TWIN_WRITTEN;
}

static void note_written(uint32_t object, bool written)
{
	__atomic_store_n(&block_copy(block_off(object))->flags, written ? TWIN_WRITTEN : 0,
			 __ATOMIC_RELAXED);
}

/* There is one for each page; but twin_trim() may have one for a moment. */
static uint32_t number_take(void)
{
	struct ctl *c = job.me;
	int64_t number = -EAGAIN;

	while (number < 0) {
		number = pool_take(&c->twin_pool, job.mem.twin_next, 0);
		if (number < 0)
			number = pool_take(&c->twin_holes, job.mem.twin_next, 0);
		if (number < 0)
			number = pool_take(&c->twin_pool, job.mem.twin_next, job.limits.pages);
	}
	return (uint32_t)number;
}

uint64_t twin_trim(uint64_t want)
{
	struct ctl *c = job.me;
	uint64_t got;
	int64_t number;

	for (got = 0; got < want; got += PAGE_BYTES) {
		number = pool_take(&c->twin_pool, job.mem.twin_next, 0);
		if (number < 0)
			break;
		if (sys_fallocate(job.mem.ctlfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				  (off_t)(job.layout.twins + (size_t)number * PAGE_BYTES),
				  PAGE_BYTES)) {
			pool_give(&c->twin_pool, job.mem.twin_next, (uint32_t)number);
			break;
		}
		pool_give(&c->twin_holes, job.mem.twin_next, (uint32_t)number);
	}
	return got;
}

void twin_make(struct core_host *h, uint32_t object)
{
	const uint32_t number = number_take();
	const uint64_t now = __atomic_add_fetch(&job.me->twins, 1, __ATOMIC_RELAXED);
	uint64_t most = __atomic_load_n(&job.me->twins_most, __ATOMIC_RELAXED);

	(void)h;
	if (job.set.memory)
		recent_grew(PAGE_BYTES);
	*number_at(object) = number + 1;
	note_written(object, false);
	if (mapped_as(object) == PG_INVALID)
		memset(twin_at(object), 0, PAGE_BYTES);
	else
		memcpy(twin_at(object), frame_at(object), PAGE_BYTES);
	while (now > most &&
	       !__atomic_compare_exchange_n(&job.me->twins_most, &most, now, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

void twin_end(struct core_host *h, uint32_t object)
{
	uint32_t *number = number_at(object);

	(void)h;
	pool_give(&job.me->twin_pool, job.mem.twin_next, *number - 1);
	__atomic_fetch_sub(&job.me->twins, 1, __ATOMIC_RELAXED);
	*number = mapped_as(object) == PG_INVALID ? TWIN_DROPPED : 0;
}

/* A block that nobody had touched is mapped now. */
static void note_appeared(uint32_t object, enum page_state as)
{
	map_as(object, as);
	appeared(object);
	count(&run_stats_of(object)->local_faults, 1);
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Without its stripe, nothing of another block may be stepped. */
static uint64_t bit_of(const struct twin_run *run, uint32_t object)
{
	const size_t at = (block_off(object) - run->off) >> PAGE_SHIFT;

	if (at >= run->n)
		lost_abort(70, "a block outside a run is stepped with it");
	return 1ull << at;
}

/* The range of the next adjacent pages of a set, which leave it. */
static size_t next_pages(const struct twin_run *run, uint64_t *set, size_t *len)
{
	const unsigned int first = (unsigned int)__builtin_ctzll(*set);
	const uint64_t after = ~(*set >> first);
	const unsigned int n = after ? (unsigned int)__builtin_ctzll(after) : 64;

	*set &= n == 64 ? 0 : ~(((1ull << n) - 1) << first);
	*len = (size_t)n << PAGE_SHIFT;
	return run->off + ((size_t)first << PAGE_SHIFT);
}

static void count_call(size_t off)
{
	count(&run_stats_of(block_id(off, PAGE_BYTES))->protect_calls, 1);
}

/* A block without a twin was exclusive: its home has written it, as a rule. */
static void note_lowered(uint32_t object)
{
	if (!twin_at(object))
		note_written(object, true);
	map_as(object, PG_READ);
	count(&run_stats_of(object)->downgrades, 1);
}

void twin_run_begin(size_t off, unsigned int n)
{
	struct twin_run *run = &work_mine()->run;

	if (run->n)
		lost_abort(70, "a run is begun within another one");
	span_lock(&run->held, off, PAGE_BYTES, n);
	run->off = off;
	run->n = n;
	run->shut = run->raise = run->fresh = 0;
}

void twin_run_lower(uint64_t set)
{
	struct twin_run *run = &work_mine()->run;
	uint64_t left, mapped = 0;
	size_t at, len;
	uint32_t object;

	for (left = set; left; left &= left - 1) {
		at = run->off + ((size_t)__builtin_ctzll(left) << PAGE_SHIFT);
		object = block_id(at, PAGE_BYTES);
		if (mapped_as(object) != PG_WRITE)
			continue;
		mapped |= bit_of(run, object);
		note_lowered(object);
	}
	while (mapped) {
		at = next_pages(run, &mapped, &len);
		check(job.fault->lower(at, len));
		count_call(at);
	}
}

void twin_run_end(void)
{
	struct twin_run *run = &work_mine()->run;
	size_t at, len;

	while (run->shut) {
		at = next_pages(run, &run->shut, &len);
		check(job.fault->shut(at, len));
		count_call(at);
	}
	while (run->raise) {
		at = next_pages(run, &run->raise, &len);
		check(job.fault->raise(job.local, at, len));
		for (; len; at += PAGE_BYTES, len -= PAGE_BYTES)
			map_as(block_id(at, PAGE_BYTES), PG_WRITE);
	}
	while (run->fresh) {
		at = next_pages(run, &run->fresh, &len);
		check(job.fault->zero(job.local, at, len));
		for (; len; at += PAGE_BYTES, len -= PAGE_BYTES)
			note_appeared(block_id(at, PAGE_BYTES), PG_WRITE);
	}
	run->n = 0;
	span_unlock(&run->held);
}

/*
 * A page with a twin is dropped once it is compared: until then, twin_compare() finds its last
 * contents in work.taken, or, in a run, still in its frame.
 */
static void twin_shut(uint32_t object)
{
	struct twin_run *run = &work_mine()->run;
	const bool writable = mapped_as(object) == PG_WRITE;
	const int *pipe;

	sample_drops(block_off(object));
	if (run->n) {
		if (writable)
			check(job.fault->lower(block_off(object), PAGE_BYTES));
		run->shut |= bit_of(run, object);
	} else if (twin_at(object)) {
		pipe = pipe_get();
		check(job.fault->take(block_off(object), PAGE_BYTES, work_mine()->taken, writable,
				      pipe));
		pipe_put(pipe);
	} else {
		check(job.fault->shut(block_off(object), PAGE_BYTES));
	}
	if (!twin_at(object))
		*number_at(object) = TWIN_DROPPED;
	map_as(object, PG_INVALID);
	sharing_lost(object, writable);
	count(&run_stats_of(object)->invalidations, 1);
	count(&run_stats_of(object)->protect_calls, !run->n);
	count(&job.mine->stats.drops, 1);
}

void twin_lower(struct core_host *h, uint32_t object, uint8_t prot)
{
	(void)h;
	if (prot == PROT_CLOSED) {
		if (mapped_as(object) != PG_INVALID)
			twin_shut(object);
		return;
	}
	if (prot == PROT_RW || mapped_as(object) != PG_WRITE)
		return;
	check(job.fault->lower(block_off(object), PAGE_BYTES));
	note_lowered(object);
	count(&run_stats_of(object)->protect_calls, 1);
}

/* At the home, which has no frame of a block that nobody has touched. */
static void twin_appear(uint32_t object, uint8_t prot)
{
	check(run_zero(job.local, block_off(object), PAGE_BYTES, prot));
	note_appeared(object, prot == PROT_RW ? PG_WRITE : PG_READ);
}

bool twin_follow(uint32_t object, uint8_t prot)
{
	const size_t off = block_off(object);
	struct twin_run *run = &work_mine()->run;
	int followed;

	if (mapped_as(object) == PG_INVALID && run->n && prot == PROT_RW) {
		run->fresh |= bit_of(run, object); /* twin_run_end() */
		return true;
	}
	if (mapped_as(object) == PG_INVALID) {
		twin_appear(object, prot);
		return true;
	}
	if (prot == PROT_RW && mapped_as(object) == PG_READ) {
		if (run->n) {
			run->raise |= bit_of(run, object); /* twin_run_end() */
			return true;
		}
		check(job.fault->raise(job.local, off, PAGE_BYTES));
		map_as(object, PG_WRITE);
		return true;
	}
	followed = job.fault->again(off, PAGE_BYTES, (enum prot)prot);
	check(followed < 0 ? followed : 0);
	return followed;
}

void twin_share(uint32_t object)
{
	const uint8_t state = job.mem.rels[block_page(object)].state;

	if (state == RELH_CLEAN || state == REL_CLEAN)
		twin_lower(NULL, object, PROT_RO);
}

void twin_merge(struct core_host *h, uint32_t object, const void *diff, size_t size)
{
	uint8_t *twin = twin_at(object), *page = (uint8_t *)work_mine()->page;

	(void)h, (void)size;
	if (mapped_as(object) == PG_INVALID) {
		memset(page, 0, PAGE_BYTES);
		diff_store(page, twin, diff);
		check(job.fault->fill(job.local, block_off(object), PAGE_BYTES, page, PROT_RO));
		map_as(object, PG_READ);
		appeared(object);
	} else {
		diff_store(frame_at(object), twin, diff);
	}
}

bool twin_fresh(struct core_host *h, uint32_t object)
{
	(void)h;
	return mapped_as(object) == PG_INVALID;
}

void twin_read(uint32_t object, void *to)
{
	uint32_t *stripe = stripe_of(block_page(object));
	const uint8_t *from;

	word_lock(stripe);
	from = twin_at(object);
	if (!from && mapped_as(object) != PG_INVALID)
		from = frame_at(object); /* its twin may have ended since the frame was read */
	if (from)
		memcpy(to, from, PAGE_BYTES);
	word_unlock(stripe);
}

bool twin_differs(uint32_t object)
{
	return memcmp(frame_at(object), twin_at(object), PAGE_BYTES);
}

size_t twin_compare(uint32_t object, uint8_t *out)
{
	const uint8_t *page = frame_at(object);
	size_t size;

	if (mapped_as(object) == PG_INVALID && !work_mine()->run.n)
		page = (uint8_t *)work_mine()->taken;
	size = diff_update(page, twin_at(object), out);
	if (size)
		note_written(object, true);
	return size;
}

void twin_filled(uint32_t object, uint8_t prot)
{
	if (*number_at(object) == TWIN_DROPPED) {
		*number_at(object) = 0;
		count(&job.mine->stats.refetches, 1);
	}
	map_as(object, prot == PROT_RW ? PG_WRITE : PG_READ);
}
