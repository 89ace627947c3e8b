// SPDX-License-Identifier: BSD-2-Clause
/* stream.c - see stream.h. */
#include "miss/stream.h"

#include <stdlib.h>

/* Is it a distance between blocks of this size? What was missed before may have been others. */
static bool whole(long distance, size_t block)
{
	return distance % (long)block == 0;
}

bool stream_is_column(const struct stream *s, size_t block)
{
	return labs(s->distance) > (long)block && whole(s->distance, block);
}

/*
 * Has a stream not been continued for long? By chance, any block is what one expects. The columns
 * of a tile wait for each other.
 */
static bool is_over(const struct streams *s, const struct stream *at, size_t block)
{
	return s->misses - at->used >=
		(stream_is_column(at, block) ? 2 * STREAM_PAST : STREAM_PAST);
}

/* The stream that expects this miss. */
static struct stream *expecting(struct streams *s, size_t off, size_t block)
{
	unsigned int i;

	for (i = 0; i < STREAMS; i++)
		if (s->v[i].distance && s->v[i].next == off && whole(s->v[i].distance, block) &&
		    !is_over(s, &s->v[i], block))
			return &s->v[i];
	return NULL;
}

static struct stream *oldest(struct streams *s)
{
	struct stream *best = &s->v[0];
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		if (!s->v[i].distance)
			return &s->v[i];
		if (s->misses - s->v[i].used > s->misses - best->used)
			best = &s->v[i];
	}
	return best;
}

/* The i-th last miss, from 1 on. */
static size_t nth(const struct streams *s, unsigned int i)
{
	return s->past[(s->misses - i) % STREAM_PAST];
}

/* Was a block missed before the i-th last miss? */
static bool was_missed(const struct streams *s, size_t off, unsigned int i)
{
	for (i++; i <= STREAM_PAST; i++)
		if (nth(s, i) == off + 1)
			return true;
	return false;
}

/* The distance of a stream that this miss begins, the least one; 0: none. */
static long distance(const struct streams *s, size_t off, size_t block)
{
	long best = 0, d;
	unsigned int i;

	if (off >= block && was_missed(s, off - block, 0))
		return (long)block;
	for (i = 1; i < STREAM_PAST; i++) {
		if (!nth(s, i))
			break;
		d = (long)(off + 1 - nth(s, i));
		if (d && labs(d) <= STREAM_FAR && (!best || labs(d) < labs(best)) &&
		    was_missed(s, off - 2 * (size_t)d, i))
			best = d;
	}
	return best;
}

/* How many blocks a column has; one that was not continued where it was expected to be, fewer. */
static unsigned int had(const struct stream *s)
{
	const unsigned int half = s->expected / 2,
			   few = half < STREAM_PAST / 2 ? half : STREAM_PAST / 2;

	return s->sure > few ? s->sure : few;
}

/* How many blocks of the last stream at this distance were used, as far as misses show? */
static unsigned int last_sure(const struct streams *s, long d)
{
	const struct stream *best = NULL;
	unsigned int i;

	for (i = 0; i < STREAMS; i++)
		if (s->v[i].distance == d &&
		    (!best || s->misses - s->v[i].used < s->misses - best->used))
			best = &s->v[i];
	return best ? had(best) : 0;
}

/* How many blocks has it from this one on? One may begin as far before it as it is long. */
static unsigned int left_from(const struct stream *s, size_t off)
{
	const long from = (long)(off - s->first), k = from / s->distance, n = (long)had(s);

	return from % s->distance || labs(k) >= n ? 0 : (unsigned int)(k > 0 ? n - k : n);
}

/* Begin a column beside another one, which has at least some blocks left. */
static struct stream *begin_column(struct streams *s, size_t off, size_t block)
{
	unsigned int expected = 0, left;
	struct stream *at;
	long d = 0;

	if (was_missed(s, off, 0)) /* it was taken away */
		return NULL;
	for (at = s->v; at < s->v + STREAMS; at++) {
		if (!stream_is_column(at, block) || is_over(s, at, block))
			continue;
		left = left_from(at, off - block);
		if (!left)
			left = left_from(at, off + block);
		if (left > expected) {
			expected = left;
			d = at->distance;
		}
	}
	if (expected <= STREAM_FEW)
		return NULL;
	at = oldest(s);
	*at = (struct stream){
		.distance = d,
		.window = expected / 2,
		.first = off,
		.expected = expected,
	};
	return at;
}

/* Begin a stream. NULL: it is one only if the next miss continues it. */
static struct stream *begin(struct streams *s, size_t off, size_t block)
{
	const bool in_order = nth(s, 1) == off - block + 1;
	struct stream *at = in_order ? NULL : begin_column(s, off, block);
	const long d = at ? 0 : distance(s, off, block);
	unsigned int last;

	if (at)
		return at;
	if (!d)
		return NULL;
	last = last_sure(s, d) / 4;
	at = oldest(s);
	*at = (struct stream){
		.distance = d, .length = 1, .window = last, .first = off - (size_t)d
	};
	if (d == (long)block) {
		/* two blocks may be neighbours by chance */
		at->window = last < STREAM_FEW ? last : STREAM_FEW;
		return at;
	}
	at->length = at->sure = 3;
	at->first = off - 2 * (size_t)d;
	at->next = off + (size_t)d;
	at->used = s->misses;
	return NULL;
}

unsigned int stream_limit(const struct stream *s, unsigned int most, unsigned int farthest)
{
	const unsigned int part = s->length / STREAM_PART;

	return part < most ? most : part < farthest ? part : farthest;
}

/* What a column is expected to have behind the missed block. */
static unsigned int expected_behind(const struct stream *s)
{
	return s->expected > s->length + 1 ? s->expected - s->length - 1 : 0;
}

unsigned int stream_owed(const struct stream *s)
{
	const unsigned int part = s->length / 4, left = expected_behind(s);

	return part > left ? part : left;
}

/* Take no more than the column beside had. One that is longer goes on like a new stream. */
static void end_column(struct stream *s)
{
	const unsigned int left = expected_behind(s);

	if (s->length >= s->expected) {
		s->expected = 0;
		s->window = 1;
	} else if (s->window > left) {
		s->window = left;
	}
}

struct stream *stream_missed(struct streams *s, size_t off, size_t block, unsigned int most,
			     unsigned int farthest)
{
	struct stream *at = most ? expecting(s, off, block) : NULL;

	if (most && !at)
		at = begin(s, off, block);
	s->past[s->misses++ % STREAM_PAST] = off + 1;
	if (!at)
		return NULL;
	most = stream_limit(at, most, farthest);
	at->window = at->window * 2 + 1 < most ? at->window * 2 + 1 : most;
	if (at->expected)
		end_column(at);
	at->sure = at->length;
	at->used = s->misses;
	return at;
}

void stream_asked(struct stream *s, size_t off, unsigned int n)
{
	s->next = off + (1 + n) * (size_t)s->distance;
	s->length = s->sure + 1 + n; /* a store that is repeated asks twice */
}
