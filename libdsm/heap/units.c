// SPDX-License-Identifier: BSD-2-Clause
/* units.c - see units.h. First fit, so that taken units lie close together. */
#include "heap/units.h"

#include <errno.h>
#include <stdbool.h>

/* stripes per rank, if the heap has as many units; the first is for short runs */
#define STRIPES 16u
#define SHORT_PART 8u /* a longer run than this fraction of a stripe is long */

struct units_shape units_shape(size_t heap, uint32_t ranks)
{
	struct units_shape x = { .count = (uint32_t)(heap / UNIT_BYTES), .ranks = ranks };

	x.split = x.count;
	x.stripe = x.count / (STRIPES * ranks);
	if (!x.stripe)
		x.stripe = 1;
	return x;
}

/* Where long runs begin. A small heap has no room to separate them. */
static uint32_t common(const struct units_shape *x)
{
	return x->count >= STRIPES * x->ranks ? x->stripe * x->ranks : 0;
}

static bool is_free(const struct units *u, uint32_t at)
{
	return !units_owner(u, at);
}

/* First fit in [at, end); end: none. */
static uint32_t fit(const struct units *u, uint32_t at, uint32_t end, uint32_t n)
{
	uint32_t length = 0;

	for (; at < end && n - length <= end - at; at++) {
		length = is_free(u, at) ? length + 1 : 0;
		if (length == n)
			return at + 1 - n;
	}
	return end;
}

/* First fit in the rank's stripes, one by one, from `from` on; count: none. */
static uint32_t fit_own(const struct units_shape *x, struct units *u, uint32_t from, uint32_t n,
			uint32_t rank)
{
	const uint32_t turn = x->stripe * x->ranks;
	uint32_t start, at, end;

	if (from < u->low[rank])
		from = u->low[rank];
	for (start = from / turn * turn + rank * x->stripe; start < x->count; start += turn) {
		end = x->count - start < x->stripe ? x->count : start + x->stripe;
		at = fit(u, start < from ? from : start, end, n);
		if (at < end)
			return at;
	}
	return x->count;
}

static uint32_t units_find(const struct units_shape *x, struct units *u, uint32_t n, uint32_t rank)
{
	const uint32_t first = common(x);
	uint32_t at;

	if (first) {
		at = fit_own(x, u, n > 1 && n > x->stripe / SHORT_PART ? first : 0, n, rank);
		if (n == 1)
			u->low[rank] = at < x->count ? at + 1 : at;
		if (at < x->count)
			return at;
	}
	at = fit(u, first, x->count, n);
	return at < x->count ? at : fit(u, 0, x->count, n);
}

static uint32_t units_find_upper(const struct units_shape *x, struct units *u, uint32_t n,
				 uint32_t rank)
{
	const uint32_t at = fit_own(x, u, x->split, n, rank);

	return at < x->count ? at : fit(u, x->split, x->count, n);
}

int64_t units_take(const struct units_shape *x, struct units *u, bool upper, uint32_t n,
		   uint32_t rank, uint32_t *used)
{
	struct units_shape part = *x;
	uint32_t at, i;

	if (!upper)
		part.count = x->split;
	at = !n || n > part.count ? part.count
		: upper           ? units_find_upper(&part, u, n, rank)
				  : units_find(&part, u, n, rank);
	if (at == part.count)
		return -ENOMEM;
	for (i = at, *used = 0; i < at + n; i++) {
		*used += u->owner[i] / UNIT_USED;
		__atomic_store_n(&u->owner[i], (uint16_t)((u->owner[i] & UNIT_USED) | (rank + 1)),
				 __ATOMIC_RELEASE);
	}
	return at;
}

int units_give(const struct units_shape *x, struct units *u, uint32_t at, uint32_t n, uint32_t rank)
{
	uint32_t i, *low;

	if (at >= x->count || n > x->count - at)
		return -EINVAL;
	for (i = at; i < at + n; i++)
		if (units_owner(u, i) != rank + 1)
			return -EINVAL;
	for (i = at; i < at + n; i++) {
		__atomic_store_n(&u->owner[i], UNIT_USED, __ATOMIC_RELEASE);
		low = &u->low[units_home(x, i)];
		if (*low > i)
			*low = i;
	}
	return 0;
}
