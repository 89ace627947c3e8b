// SPDX-License-Identifier: BSD-2-Clause
/* events.c - virtual time: the queue of events, random numbers, and a trace of past events. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t sim_random(struct sim *s, uint64_t below)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return below ? (s->rng >> 11) % below : 0;
}

/* Objects at the same index belong together, whatever their home and generation. */
static uint32_t place(uint32_t object)
{
	return object & OBJECT ? object & SYNC_INDEX_MAX : object;
}

void sim_note(struct sim *s, uint16_t node, uint32_t object, const char *fmt, ...)
{
	struct trace *t = &s->trace[s->traced++ % TRACE];
	va_list ap;

	if (s->o.replay) /* replays are long, and the random programs have been checked before */
		return;
	t->at = s->now;
	t->object = place(object);
	t->node = node;
	va_start(ap, fmt);
	vsnprintf(t->text, sizeof(t->text), fmt, ap);
	va_end(ap);
}

/* Print the error, and the last events of that block or object. */
void sim_fail(struct sim *s, uint32_t object, const char *fmt, ...)
{
	uint64_t i, first = s->traced > TRACE ? s->traced - TRACE : 0, shown = 0;
	va_list ap;

	printf("FAILED at %llu: ", (unsigned long long)s->now);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	for (i = s->traced; i > first && shown < 40; i--)
		shown += s->trace[(i - 1) % TRACE].object == place(object);
	for (; i < s->traced; i++) {
		const struct trace *t = &s->trace[i % TRACE];

		if (t->object == place(object))
			printf("  %10llu node %4u %s %u: %s\n", (unsigned long long)t->at, t->node,
			       object & OBJECT ? "place" : "block", place(object) & ~OBJECT,
			       t->text);
	}
	if (!s->failed) /* during creation */
		exit(1);
	longjmp(*s->failed, 1);
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool before(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

void sim_schedule(struct sim *s, const struct event *e, uint64_t delay)
{
	size_t i = s->nheap++;

	if (s->nheap > s->heap_room) {
		s->heap_room = s->heap_room ? s->heap_room * 2 : 1024;
		s->heap = realloc(s->heap, s->heap_room * sizeof(*s->heap));
		if (!s->heap)
			abort();
	}
	s->heap[i] = *e;
	s->heap[i].at = s->now + delay;
	s->heap[i].seq = s->seq++;
	while (i && before(&s->heap[i], &s->heap[(i - 1) / 2])) {
		struct event t = s->heap[i];

		s->heap[i] = s->heap[(i - 1) / 2];
		s->heap[(i - 1) / 2] = t;
		i = (i - 1) / 2;
	}
}

struct event sim_next(struct sim *s)
{
	struct event top = s->heap[0], t;
	size_t i = 0, c;

	s->heap[0] = s->heap[--s->nheap];
	for (;;) {
		c = 2 * i + 1;
		if (c >= s->nheap)
			return top;
		if (c + 1 < s->nheap && before(&s->heap[c + 1], &s->heap[c]))
			c++;
		if (!before(&s->heap[c], &s->heap[i]))
			return top;
		t = s->heap[i];
		s->heap[i] = s->heap[c];
		s->heap[c] = t;
		i = c;
	}
}
