// SPDX-License-Identifier: BSD-2-Clause
/*
 * set.c - the set of a process: one signal, and a bit in shared memory for each of its connections.
 * The owner sets a connection's bit when it has events. It signals once, however many bits it sets,
 * and only if the process sleeps. Any thread.
 */
#include <errno.h>

#include "share/attach.h"
#include "share/signal.h"

static bool client_is_dead(const struct rshare *r)
{
	return __atomic_load_n(&r->dead, __ATOMIC_ACQUIRE);
}

int rshare_join(struct rshare_conn *c, void *mark)
{
	struct rshare *r = c->r;
	struct rs_request q = { .type = RS_JOIN, .index = c->index };
	struct rs_answer a;
	int err;

	if (!mark)
		return -EINVAL;
	__atomic_store_n(&r->mark[c->index], mark, __ATOMIC_RELEASE);
	err = rs_attach_request(r, &q, &a);
	if (err)
		__atomic_store_n(&r->mark[c->index], NULL, __ATOMIC_RELAXED);
	else if (client_is_dead(r))
		err = -ECONNRESET;
	return err ? err : r->set;
}

/* Take bits, and note the marks of their connections. */
static int client_set_collect(struct rshare *r, void **out, int max)
{
	struct rs_seg_head *head = r->base;
	const uint32_t words = (r->layout.conns + 63) / 64;
	uint32_t word, index;
	uint64_t bits, bit;
	void *mark;
	int n = 0;

	for (word = 0; word < words; word++)
		for (bits = __atomic_load_n(&head->events[word], __ATOMIC_RELAXED); bits && n < max;
		     bits &= ~bit) {
			bit = bits & -bits;
			/*
			 * Pairs with the owner's fetch-or, which comes after the event. Another
			 * thread may be faster.
			 */
			if (!(__atomic_fetch_and(&head->events[word], ~bit, __ATOMIC_ACQ_REL) &
			      bit))
				continue;
			index = word * 64 + (uint32_t)__builtin_ctzll(bit);
			mark = index < r->layout.conns
				? __atomic_load_n(&r->mark[index], __ATOMIC_ACQUIRE)
				: NULL;
			if (mark)
				out[n++] = mark;
		}
	return n;
}

static bool any_bit(struct rshare *r)
{
	struct rs_seg_head *head = r->base;
	uint32_t word;

	for (word = 0; word < (r->layout.conns + 63) / 64; word++)
		if (__atomic_load_n(&head->events[word], __ATOMIC_RELAXED))
			return true;
	return false;
}

/* As client_conn_arm(), for the set. */
static bool arm_set(struct rshare *r)
{
	struct rs_seg_head *head = r->base;
	uint32_t signals;

	if (client_is_dead(r))
		return false;
	/* Before the signal is taken; pairs with the owner's count in hub_notify_set(). */
	signals = __atomic_load_n(&head->signals, __ATOMIC_ACQUIRE);
	if (__atomic_load_n(&head->armed, __ATOMIC_SEQ_CST) &&
	    signals == __atomic_load_n(&r->set_signals, __ATOMIC_RELAXED))
		return any_bit(r);
	__atomic_store_n(&r->set_signals, signals, __ATOMIC_RELAXED);
	rs_signal_take(r->set);
	/* A full barrier before the load; pairs with the owner's in hub_notify_set(). */
	__atomic_exchange_n(&head->armed, 1, __ATOMIC_SEQ_CST);
	return any_bit(r);
}

int rshare_ready(struct rshare *r, void **out, int max)
{
	int n;

	do
		n = client_set_collect(r, out, max);
	while (!n && max > 0 && arm_set(r));
	return n || !client_is_dead(r) ? n : -ECONNRESET;
}
