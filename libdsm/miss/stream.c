// SPDX-License-Identifier: BSD-2-Clause
/* stream.c - see stream.h. */
#include "miss/stream.h"

#include <stdbool.h>
#include <stdlib.h>

/* Is it a distance between blocks of this size? What was missed before may have been others. */
static bool whole(long distance, size_t block)
{
	return distance % (long)block == 0;
}

/* The stream that expects this miss. One that waits for long is over: by chance, any block is what
 * it expects. */
static struct stream *expecting(struct streams *s, size_t off, size_t block)
{
	unsigned int i;

	for (i = 0; i < STREAMS; i++)
		if (s->v[i].length && s->v[i].next == off && whole(s->v[i].distance, block) &&
		    s->misses - s->v[i].used < STREAM_PAST)
			return &s->v[i];
	return NULL;
}

static struct stream *oldest(struct streams *s)
{
	struct stream *best = &s->v[0];
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		if (!s->v[i].length)
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

/* How many blocks of the last stream at this distance were used, as far as misses show? */
static unsigned int last_sure(const struct streams *s, long d)
{
	const struct stream *best = NULL;
	unsigned int i;

	for (i = 0; i < STREAMS; i++)
		if (s->v[i].length && s->v[i].distance == d &&
		    (!best || s->misses - s->v[i].used < s->misses - best->used))
			best = &s->v[i];
	return best ? best->sure : 0;
}

/* Begin a stream. NULL: it is one only if the next miss continues it. */
static struct stream *begin(struct streams *s, size_t off, size_t block)
{
	const long d = distance(s, off, block);
	struct stream *at;
	unsigned int last;

	if (!d)
		return NULL;
	last = last_sure(s, d) / 4;
	at = oldest(s);
	*at = (struct stream){ .distance = d, .length = 1, .window = last };
	if (d == (long)block) {
		/* two blocks may be neighbours by chance */
		at->window = last < STREAM_FEW ? last : STREAM_FEW;
		return at;
	}
	at->length = at->sure = 3;
	at->next = off + (size_t)d;
	at->used = s->misses;
	return NULL;
}

unsigned int stream_limit(const struct stream *s, unsigned int most, unsigned int farthest)
{
	const unsigned int part = s->length / STREAM_PART;

	return part < most ? most : part < farthest ? part : farthest;
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
	at->sure = at->length;
	at->used = s->misses;
	return at;
}

void stream_asked(struct stream *s, size_t off, unsigned int n)
{
	s->next = off + (1 + n) * (size_t)s->distance;
	s->length += 1 + n;
}
