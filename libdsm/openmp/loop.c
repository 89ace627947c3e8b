// SPDX-License-Identifier: BSD-2-Clause
/* loop.c - see loop.h. */
#include "loop.h"

#include <sched.h>

#include "icv.h"
#include "team.h"

/* ---- shares: the chunks that a thread has left, from `at` up to `end`, of one loop ----------- */

/* 28 bits are left for the number of the loop: threads may be 2^27 loops apart. */
#define SHARE_BITS 18
#define SHARE_MOST ((1ull << SHARE_BITS) - 1)

static uint64_t share_make(uint64_t loop, uint64_t at, uint64_t end)
{
	return loop << 2 * SHARE_BITS | at << SHARE_BITS | end;
}

uint64_t share_of_none(void)
{
	return share_make(UINT64_MAX, 0, 0);
}

static uint64_t share_at(uint64_t s)
{
	return s >> SHARE_BITS & SHARE_MOST;
}

static uint64_t share_end(uint64_t s)
{
	return s & SHARE_MOST;
}

/* By how many loops its thread is behind one; negative: ahead. */
static int64_t share_age(uint64_t s, uint64_t loop)
{
	return (int64_t)((loop << 2 * SHARE_BITS) -
			 (s & ~(SHARE_MOST << SHARE_BITS | SHARE_MOST))) >>
		2 * SHARE_BITS;
}

/* Thread `id` of n has so many of the first parts, as a static loop deals them out. */
static uint64_t part_begin(uint64_t parts, unsigned int id, unsigned int n)
{
	const uint64_t each = parts / n, more = parts % n;

	return each * id + (id < more ? id : more);
}

/* What thread `id` has at the begin of a loop. */
static uint64_t share_first(const struct loop *l, unsigned int id)
{
	const uint64_t shared = l->chunks ? l->chunks - 1 : 0;

	return share_make(l->steals, part_begin(shared, id, self.team->n),
			  part_begin(shared, id + 1, self.team->n));
}

static bool share_change(uint64_t *left, uint64_t *was, uint64_t share)
{
	return __atomic_compare_exchange_n(left, was, share, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

/* This thread meets a loop. Others may have taken of its share before, or all, and of the next
 * one. */
static void share_begin(const struct loop *l)
{
	uint64_t *left = &self.team->shares[self.id].left;
	uint64_t was = __atomic_load_n(left, __ATOMIC_RELAXED);

	while (share_age(was, l->steals) > 0 && !share_change(left, &was, share_first(l, self.id)))
		;
}

/* Guided: half of what is left. */
static bool share_take(struct loop *l, uint64_t *chunk)
{
	uint64_t *left = &self.team->shares[self.id].left;
	uint64_t was = __atomic_load_n(left, __ATOMIC_RELAXED), at, end;

	do {
		at = share_at(was);
		end = share_end(was);
		if (at >= end || share_age(was, l->steals))
			return false;
		l->width = l->halves ? (end - at + 1) / 2 : 1;
	} while (!share_change(left, &was, share_make(l->steals, at + l->width, end)));
	*chunk = at;
	return true;
}

/* What a thread has at this thread's loop, also if it is about to meet that one next. */
static uint64_t share_seen(const struct loop *l, unsigned int id, uint64_t share)
{
	const int64_t age = share_age(share, l->steals);

	if (age == 1 && share_at(share) >= share_end(share))
		return share_first(l, id);
	return age ? 0 : share;
}

/* This thread has nothing left, and takes the latter half of what another one has. */
static bool share_steal_of(struct loop *l, unsigned int id, uint64_t *chunk)
{
	uint64_t *left = &self.team->shares[id].left, *own = &self.team->shares[self.id].left;
	uint64_t was = __atomic_load_n(left, __ATOMIC_RELAXED), s, half;

	do {
		s = share_seen(l, id, was);
		if (share_at(s) >= share_end(s))
			return false;
		half = share_end(s) - (share_end(s) - share_at(s) + 1) / 2;
	} while (!share_change(left, &was, share_make(l->steals, share_at(s), half)));
	*chunk = half;
	l->width = 1;
	/* but if others have taken of its share of the next loop */
	was = __atomic_load_n(own, __ATOMIC_RELAXED);
	if (share_age(was, l->steals) ||
	    !share_change(own, &was, share_make(l->steals, half + 1, share_end(s))))
		l->width = share_end(s) - half;
	return true;
}

static bool share_steal(struct loop *l, uint64_t *chunk)
{
	const unsigned int n = self.team->n;
	unsigned int i;

	for (i = 1; i < n; i++)
		if (share_steal_of(l, (self.id + i) % n, chunk))
			return true;
	return false;
}

/*
 * The last chunk is not in a share. One thread has it, and takes it as its last one: after a loop
 * with `lastprivate`, GCC's code finds who has executed the last iteration by the value of the
 * variable.
 */
static bool share_take_last(struct loop *l, uint64_t *chunk)
{
	if (!l->chunks || self.id != self.team->n - 1)
		return false;
	l->at = 1;
	l->width = 1;
	*chunk = l->chunks - 1;
	return true;
}

/* ---- tickets --------------------------------------------------------------------------------- */

static uint64_t loop_place(const struct loop *l)
{
	return l->construct % TEAM_PLACES;
}

/* All threads have taken what they take of the construct that had this place before. */
static void place_await(uint64_t construct, uint64_t expected)
{
	const uint64_t *tickets = &self.team->places[construct % TEAM_PLACES].tickets;

	if (construct < TEAM_PLACES || construct - TEAM_PLACES < self.book->met)
		return;
	while (__atomic_load_n(tickets, __ATOMIC_ACQUIRE) < expected)
		sched_yield();
}

static bool ticket_take(struct loop *l, uint64_t *chunk)
{
	const uint64_t ticket =
		__atomic_fetch_add(&self.team->places[loop_place(l)].tickets, 1, __ATOMIC_ACQ_REL);

	*chunk = ticket - (self.book->tickets[loop_place(l)] - l->chunks - self.team->n);
	return *chunk < l->chunks;
}

/* ---- guided loops: a chunk is a part of what is left ----------------------------------------- */

static uint64_t guided_size(const struct loop *l, uint64_t at)
{
	const uint64_t left = l->n - at, part = (left + team_size() - 1) / team_size();

	return part > l->chunk ? part : left < l->chunk ? left : l->chunk;
}

static uint64_t guided_chunks(const struct loop *l)
{
	uint64_t at, chunks = 0;

	for (at = 0; at < l->n; at += guided_size(l, at))
		chunks++;
	return chunks;
}

/* The first iteration of a chunk. Each thread's chunks have growing numbers. */
static uint64_t guided_begin(struct loop *l, uint64_t chunk)
{
	for (; l->seen < chunk; l->seen++)
		l->at += guided_size(l, l->at);
	return l->at;
}

/* ---- loops ----------------------------------------------------------------------------------- */

static bool chunk_take(struct loop *l, uint64_t *chunk)
{
	switch (l->kind) {
	case LOOP_TICKETS:
	case LOOP_GUIDED: return ticket_take(l, chunk);
	case LOOP_STEALS:
		return !l->at &&
			(share_take(l, chunk) || share_steal(l, chunk) ||
			 share_take_last(l, chunk));
	default:
		*chunk = l->at;
		l->at += team_size();
		return *chunk < l->chunks;
	}
}

static void chunk_bounds(struct loop *l, uint64_t chunk, uint64_t *from, uint64_t *to)
{
	if (l->kind == LOOP_GUIDED) {
		*from = guided_begin(l, chunk);
		*to = *from + guided_size(l, *from);
	} else if (!l->chunk) {
		*from = part_begin(l->n, (unsigned int)chunk, team_size());
		*to = part_begin(l->n, (unsigned int)chunk + 1, team_size());
	} else {
		*from = chunk * l->chunk;
		*to = chunk + l->width < l->chunks ? (chunk + l->width) * l->chunk : l->n;
	}
}

void loop_begin(const struct loop *given)
{
	const unsigned int n = team_size();
	struct loop *l = &self.loop;
	struct book *b = self.book;

	*l = *given;
	l->width = 1;
	if (!self.team)
		l->kind = LOOP_STATIC;
	/* a chunk more or less does not matter, a bit of a share does */
	while (l->kind == LOOP_STEALS && l->n / l->chunk >= SHARE_MOST)
		l->chunk *= 2;
	l->chunks = l->kind == LOOP_GUIDED ? guided_chunks(l)
		: !l->chunk                ? (l->n < n ? l->n : n)
					   : l->n / l->chunk + !!(l->n % l->chunk);
	l->at = l->kind == LOOP_STATIC ? self.id : 0;
	if (!self.team)
		return;
	l->construct = b->constructs++;
	if (l->kind == LOOP_STEALS) {
		l->steals = b->steals++;
		share_begin(l);
	} else if (l->kind != LOOP_STATIC) {
		place_await(l->construct, b->tickets[loop_place(l)]);
		b->tickets[loop_place(l)] += l->chunks + n;
	}
	l->turns = b->turns[loop_place(l)];
	if (l->ordered)
		b->turns[loop_place(l)] += l->chunks;
}

/* ---- ordered --------------------------------------------------------------------------------- */

/* Wait until all chunks before this thread's are done. With the lock. */
static void turn_await(const struct loop *l)
{
	struct team *t = self.team;

	while (t->places[loop_place(l)].turn != l->turns + l->mine)
		pthread_cond_wait(&t->turn_came, &t->turn_lock);
}

/* The thread has done its chunk. */
static void turn_pass(const struct loop *l)
{
	struct team *t = self.team;

	if (!t || !l->has)
		return;
	pthread_mutex_lock(&t->turn_lock);
	turn_await(l);
	t->places[loop_place(l)].turn++;
	pthread_cond_broadcast(&t->turn_came);
	pthread_mutex_unlock(&t->turn_lock);
}

void loop_turn(void)
{
	struct team *t = self.team;

	if (!t || !self.loop.ordered || !self.loop.has)
		return;
	pthread_mutex_lock(&t->turn_lock);
	turn_await(&self.loop);
	pthread_mutex_unlock(&t->turn_lock);
}

bool loop_next(uint64_t *from, uint64_t *to)
{
	struct loop *l = &self.loop;
	uint64_t first, last;

	if (l->ordered)
		turn_pass(l);
	l->has = chunk_take(l, &l->mine);
	if (!l->has)
		return false;
	chunk_bounds(l, l->mine, &first, &last);
	*from = l->start + first * l->step;
	*to = last == l->n ? l->end : l->start + last * l->step;
	return true;
}

/* ---- from what the program says -------------------------------------------------------------- */

/* l: its range and its number of iterations. chunk 0: none was given. */
static struct loop loop_with(int schedule, bool monotonic, bool ordered, struct loop l,
			     uint64_t chunk)
{
	if (schedule == SCHED_RUNTIME) {
		schedule = icv_mine()->schedule;
		chunk = (uint64_t)icv_mine()->chunk;
	}
	l.ordered = ordered;
	l.chunk = chunk;
	if (schedule == SCHED_DYNAMIC || schedule == SCHED_GUIDED) {
		l.chunk = chunk ? chunk : 1;
		l.halves = schedule == SCHED_GUIDED;
		l.kind = !monotonic && !ordered ? LOOP_STEALS
			: l.halves              ? LOOP_GUIDED
						: LOOP_TICKETS;
	}
	return l;
}

struct loop loop_of_long(int schedule, bool monotonic, bool ordered, long start, long end,
			 long step, long size)
{
	struct loop l = { .start = (uint64_t)start, .end = (uint64_t)end, .step = (uint64_t)step };

	if (step > 0 && start < end)
		l.n = (l.end - l.start - 1) / l.step + 1;
	else if (step < 0 && start > end)
		l.n = (l.start - l.end - 1) / -l.step + 1;
	return loop_with(schedule, monotonic, ordered, l, size > 0 ? (uint64_t)size : 0);
}

struct loop loop_of_ull(int schedule, bool monotonic, bool ordered, bool up, uint64_t start,
			uint64_t end, uint64_t step, uint64_t chunk)
{
	struct loop l = { .start = start, .end = end, .step = step };

	if (up && start < end)
		l.n = (end - start - 1) / step + 1;
	else if (!up && start > end)
		l.n = (start - end - 1) / -step + 1;
	return loop_with(schedule, monotonic, ordered, l, chunk);
}
