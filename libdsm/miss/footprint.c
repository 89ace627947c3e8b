// SPDX-License-Identifier: BSD-2-Clause
/* footprint.c - see footprint.h. */
#include "miss/footprint.h"

#include <stdbool.h>

#include "job/ctl.h"

/* Leave out 2^doubt pages of a set, those after the last ones in turn. */
static void test_some(struct footprint *f, uint16_t from)
{
	unsigned int left = 1u << f->doubt, i, page;

	f->asks = from != 0;
	for (i = 0; i < FOOTPRINT_PAGES && left; i++) {
		page = (f->turn + i) % FOOTPRINT_PAGES;
		if (!(from >> page & 1))
			continue;
		f->tested |= (uint16_t)(1u << page);
		left--;
	}
	f->turn = (f->turn + i) % FOOTPRINT_PAGES;
	f->rest = f->pause;
}

static void add_trust(int8_t *trust, bool more)
{
	*trust = (int8_t)(more ? *trust + (*trust < FOOTPRINT_TRUST)
			       : *trust - (*trust > -FOOTPRINT_TRUST));
}

/*
 * What was left out in the last round, or was dropped untouched, and not missed, is not used. For a
 * thread that samples, a chunk is worth it if half of it is used.
 */
static void judge(struct footprint *f, bool samples, int8_t *trust)
{
	const int vain = __builtin_popcount(f->tested), used = __builtin_popcount(f->used);

	if (vain) {
		f->used &= (uint16_t)~f->tested;
		f->tested = 0;
		f->doubt += f->doubt < FOOTPRINT_DOUBT;
		f->pause = f->rest = 0;
	} else if (f->asks) {
		f->doubt -= f->doubt > 0;
		f->pause = f->pause < FOOTPRINT_REST ? (uint8_t)(2 * f->pause + 1)
						     : (uint8_t)FOOTPRINT_REST;
		f->rest = f->pause;
	}
	if (vain || f->asks)
		add_trust(trust, samples ? 2 * vain <= used : !vain);
	f->asks = 0;
}

/* The page that begins a round is missed again. */
static void next_round(struct footprint *f, uint16_t others, bool samples, int8_t *trust)
{
	judge(f, samples, trust);
	f->dropped = 0;
	if (f->rest)
		f->rest--;
	else if (samples)
		f->asks = (f->used & others) != 0;
	else
		test_some(f, f->used & others);
}

uint16_t footprint_missed(struct footprint *at, unsigned int page, uint16_t away, bool samples,
			  int8_t *trust)
{
	const uint16_t bit = (uint16_t)(1u << page);
	struct footprint f;
	bool is_new;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	is_new = !(f.used & bit);
	if (!f.first)
		f.first = (uint8_t)(page + 1);
	else if (f.first == page + 1)
		next_round(&f, away & (uint16_t)~bit, samples, trust);
	f.tested &= (uint16_t)~bit;
	if (is_new && f.used && !f.doubt && *trust >= 0) {
		if (samples) {
			f.asks = 1;
			f.dropped = f.pause = 0;
		} else
			test_some(&f, away & (uint16_t) ~(f.used | bit));
		f.used |= away;
	}
	f.used |= bit;
	__atomic_store(at, &f, __ATOMIC_RELAXED);
	return f.used & (uint16_t) ~(f.tested | bit);
}

void footprint_asked(struct footprint *at, unsigned int page)
{
	const uint16_t bit = (uint16_t)(1u << page);
	struct footprint f;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	if (!(f.tested & bit))
		return;
	f.tested &= (uint16_t)~bit;
	__atomic_store(at, &f, __ATOMIC_RELAXED);
}

bool footprint_sampled(const struct footprint *at)
{
	struct footprint f;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	return f.asks;
}

/* The first page is dropped once more, and was not missed between: a round of other predictions. */
static void round_without_miss(struct footprint *f)
{
	int8_t trust = 0; /* no thread's: who drops is not who has predicted */

	if (f->asks)
		judge(f, true, &trust);
	else if (f->rest)
		f->rest--;
	else
		f->asks = (f->used & (f->used - 1)) != 0;
}

void footprint_dropped(struct footprint *at, unsigned int page, bool touched)
{
	const uint16_t bit = (uint16_t)(1u << page);
	struct footprint f;
	bool asked;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	asked = f.asks;
	if (f.first == page + 1 && f.dropped)
		round_without_miss(&f);
	else if (asked && touched)
		f.used |= bit;
	else if (asked)
		f.tested |= bit;
	if (f.first == page + 1)
		f.dropped = 1;
	if (f.asks && !asked)
		f.dropped = 0;
	__atomic_store(at, &f, __ATOMIC_RELAXED);
}

bool footprint_denies(const struct footprint *at, unsigned int page)
{
	struct footprint f;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	return f.tested >> page & 1 || ((f.doubt || f.pause) && !(f.used >> page & 1));
}

uint16_t footprint_used(const struct footprint *at)
{
	struct footprint f;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	return f.used & (uint16_t)~f.tested;
}

uint16_t footprint_known(const struct footprint *at)
{
	struct footprint f;

	__atomic_load(at, &f, __ATOMIC_RELAXED);
	return f.doubt || f.pause ? f.used & (uint16_t)~f.tested : 0;
}
