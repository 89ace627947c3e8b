// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ask.c - see ask.h. A word is type | answers that are due << 8 | from whom << 16 | object << 32. */
#include "core/ask.h"

#define ASK_LEFT (1ull << 8)                            /* one answer that is due */
#define ASK_SAME(word) ((word) & ~(0xffull * ASK_LEFT)) /* all but their number */

static inline uint64_t ask_word(uint8_t type, uint16_t from, uint32_t object)
{
	return (uint64_t)object << 32 | (uint64_t)from << 16 | type;
}

void ask_note(uint64_t *ask, const struct msg *m)
{
	bool twice = m->type == MSG_SYNC && sync_twice(m->op, m->flags);
	uint64_t word = ask_word(m->type, m->dst, m->object) + ASK_LEFT * (twice ? 2 : 1);

	/* A cancellation has an answer of its own, besides what may still come of the request in the slot. */
	if (m->type == MSG_SYNC && m->op == SOP_CANCEL) {
		uint64_t old = __atomic_load_n(ask, __ATOMIC_RELAXED);

		while (ASK_SAME(old) == ASK_SAME(word) &&
		       !__atomic_compare_exchange_n(ask, &old, old + ASK_LEFT, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		if (ASK_SAME(old) == ASK_SAME(word))
			return;
	}
	__atomic_store_n(ask, word, __ATOMIC_RELEASE);
}

bool ask_answer(uint64_t *ask, const struct msg *m, bool *last)
{
	uint64_t old = __atomic_load_n(ask, __ATOMIC_ACQUIRE), new;

	do {
		uint8_t type = (uint8_t)old;

		if (!ask_is(type) || ASK_SAME(old) != ask_word(type, m->src, m->object) ||
		    (type == MSG_CALL) != (m->type == MSG_RETURN))
			return false;
		/* A refusal is the last word, but for that of a cancellation which came too late. */
		new = m->count && m->count != -EALREADY ? 0 : old - ASK_LEFT;
		if (new == ASK_SAME(old))
			new = 0;
	} while (!__atomic_compare_exchange_n(ask, &old, new, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	*last = !new;
	return true;
}
