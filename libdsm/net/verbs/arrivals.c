// SPDX-License-Identifier: BSD-2-Clause
/* arrivals.c - see arrivals.h. */
#include "net/verbs/arrivals.h"

#include <errno.h>
#include <string.h>

#include "net/own.h"

#define SPILL_MORE 256

_Static_assert((ARRIVALS_ROOM & (ARRIVALS_ROOM - 1)) == 0, "numbers of arrivals wrap around");

void arrivals_init(struct arrivals *in)
{
	uint32_t p;

	memset(in, 0, sizeof(*in));
	for (p = 0; p < ARRIVALS_ROOM; p++)
		atomic_init(&in->places[p].turn, p);
}

void arrivals_free(struct arrivals *in)
{
	own_free(in->spilled);
	in->spilled = NULL;
}

bool arrivals_take(struct arrivals *in, struct arrival *a)
{
	uint32_t p = atomic_load_explicit(&in->head, memory_order_relaxed);

	for (;;) {
		const uint32_t i = p % ARRIVALS_ROOM;
		const int32_t ahead =
			(int32_t)(atomic_load_explicit(&in->places[i].turn, memory_order_acquire) -
				  (p + 1));

		if (ahead < 0)
			return false;
		if (ahead > 0) { /* another thread has taken it */
			p = atomic_load_explicit(&in->head, memory_order_relaxed);
		} else if (atomic_compare_exchange_weak_explicit(&in->head, &p, p + 1,
								 memory_order_relaxed,
								 memory_order_relaxed)) {
			*a = in->places[i].a;
			atomic_store_explicit(&in->places[i].turn, p + ARRIVALS_ROOM,
					      memory_order_release);
			return true;
		}
	}
}

static bool has_space(const struct arrivals *in, uint32_t p)
{
	return atomic_load_explicit(&in->places[p % ARRIVALS_ROOM].turn, memory_order_acquire) == p;
}

unsigned int arrivals_space(const struct arrivals *in, unsigned int max)
{
	unsigned int n = 0;

	while (n < max && has_space(in, in->tail + n))
		n++;
	return n;
}

void arrivals_put(struct arrivals *in, const struct arrival *a, unsigned int n)
{
	for (; n; n--, a++, in->tail++) {
		in->places[in->tail % ARRIVALS_ROOM].a = *a;
		atomic_store_explicit(&in->places[in->tail % ARRIVALS_ROOM].turn, in->tail + 1,
				      memory_order_release);
	}
}

int arrivals_reserve(struct arrivals *in, unsigned int n)
{
	struct arrival *more;

	if (in->spilled_head + in->spilled_n + n <= in->spilled_room)
		return 0;
	more = own_realloc(in->spilled, (in->spilled_room + SPILL_MORE) * sizeof(*more));
	if (!more)
		return -ENOMEM;
	in->spilled = more;
	in->spilled_room += SPILL_MORE;
	return 0;
}

void arrivals_spill(struct arrivals *in, const struct arrival *a, unsigned int n)
{
	memcpy(&in->spilled[in->spilled_head + in->spilled_n], a, n * sizeof(*a));
	in->spilled_n += n;
}

static void unspilled(struct arrivals *in, unsigned int n)
{
	in->spilled_head += n;
	in->spilled_n -= n;
	if (!in->spilled_n)
		in->spilled_head = 0;
}

bool arrivals_unspill(struct arrivals *in, struct arrival *a)
{
	unsigned int n;

	if (!in->spilled_n)
		return false;
	*a = in->spilled[in->spilled_head];
	unspilled(in, 1);
	n = arrivals_space(in, in->spilled_n);
	arrivals_put(in, &in->spilled[in->spilled_head], n);
	unspilled(in, n);
	return true;
}
