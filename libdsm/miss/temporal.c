// SPDX-License-Identifier: BSD-2-Clause
/* temporal.c - see temporal.h. */
#include "miss/temporal.h"

#include "job/ctl.h"

static uint32_t link_of(const struct sharing_page *pages, uint32_t from)
{
	return from ? __atomic_load_n(&pages[from - 1].next, __ATOMIC_RELAXED) : 0;
}

static void link_to(struct sharing_page *pages, uint32_t from, uint32_t to)
{
	if (from)
		__atomic_store_n(&pages[from - 1].next, to, __ATOMIC_RELAXED);
}

static void adapt(struct temporal *t, bool right, unsigned int most)
{
	t->window = right ? t->window * 2 + 1 : t->window / 2;
	if (t->window > most)
		t->window = most;
}

void temporal_missed(struct temporal *t, struct sharing_page *pages, uint32_t page,
		     unsigned int most)
{
	const uint32_t at = page + 1, predicted = link_of(pages, t->tail);

	if (at != t->missed) { /* one block that is missed again and again is no order */
		adapt(t, predicted == at, most);
		if (!t->window)
			link_to(pages, t->missed, at);
		else if (!predicted)
			link_to(pages, t->tail, at);
	}
	t->missed = t->tail = at;
	t->looks = t->window * TEMPORAL_LOOKS;
}

bool temporal_next(struct temporal *t, const struct sharing_page *pages, uint32_t *page)
{
	const uint32_t next = t->looks ? link_of(pages, t->tail) : 0;

	if (!next || next == t->missed)
		return false;
	t->looks--;
	t->tail = next;
	*page = next - 1;
	return true;
}
