// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * ask.c - see ask.h. A word is type | cancelled << 7 | answers that are due << 8 | from whom << 16
 * | object << 32.
 */
#include "core/ask.h"

#define ASK_LEFT (1ull << 8) /* one answer that is due */
#define ASK_NUMBER(word) ((word) >> 8 & 0xff)
/* SOP_CANCEL was sent after the request */
#define ASK_CANCELLED (1ull << 7)
#define ASK_SAME(word) ((word) & ~(0xff * ASK_LEFT | ASK_CANCELLED)) /* all but these */

static inline uint64_t ask_word(uint8_t type, uint16_t from, uint32_t object)
{
	return (uint64_t)object << 32 | (uint64_t)from << 16 | type;
}

void ask_note(uint64_t *ask, const struct msg *m)
{
	bool twice = m->type == MSG_SYNC && sync_twice(m->op, m->flags);
	uint64_t word = ask_word(m->type, m->dst, m->object) + ASK_LEFT * (twice ? 2 : 1);

	/*
	 * A cancellation has its own answer, besides those that the request in the slot may still
	 * get.
	 */
	if (m->type == MSG_SYNC && m->op == SOP_CANCEL) {
		uint64_t old = __atomic_load_n(ask, __ATOMIC_RELAXED);

		while (ASK_SAME(old) == ASK_SAME(word) &&
		       !__atomic_compare_exchange_n(ask, &old, (old + ASK_LEFT) | ASK_CANCELLED, 0,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		if (ASK_SAME(old) == ASK_SAME(word))
			return;
	}
	__atomic_store_n(ask, word, __ATOMIC_RELEASE);
}

/*
 * Does an answer with this status end the question, whatever else is due? A refusal does: a request
 * that is refused has no second answer. But once SOP_CANCEL has left, only -ETIMEDOUT does. The
 * home refuses the request and SOP_CANCEL one by one if the object is destroyed, and answers may
 * overtake each other:
 *
 *   the home: answers the request, destroys the object for another thread, refuses SOP_CANCEL
 *   here:     the refusal comes first; the request's own answer is still due
 */
static bool ends(uint64_t word, int16_t status)
{
	return word & ASK_CANCELLED ? status == -ETIMEDOUT : status != 0;
}

bool ask_answer(uint64_t *ask, const struct msg *m, bool *last)
{
	uint64_t old = __atomic_load_n(ask, __ATOMIC_ACQUIRE), new;

	do {
		uint8_t type = (uint8_t)ASK_SAME(old);

		if (!ask_is(type) || ASK_SAME(old) != ask_word(type, m->src, m->object) ||
		    (type == MSG_CALL) != (m->type == MSG_RETURN))
			return false;
		new = ends(old, m->count) ? 0 : old - ASK_LEFT;
		if (!ASK_NUMBER(new))
			new = 0;
	} while (!__atomic_compare_exchange_n(ask, &old, new, 0, __ATOMIC_ACQ_REL,
					      __ATOMIC_ACQUIRE));
	*last = !new;
	return true;
}
