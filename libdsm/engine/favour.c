// SPDX-License-Identifier: BSD-2-Clause
/*
 * favour.c - a waiting rank lowers its own pages for its neighbours.
 *
 * Taking access away from a process that is running means interrupting its processor to flush its translations: several
 * times the price of everything else (`make bench`, rows "closing a page": 2.8 against 13 us). A thread that waits in
 * the runtime has nothing better to do, and for it the flush is local. So whoever needs another rank's page lowered posts
 * the request in that rank's control segment when one of its threads is looking; if nobody takes it soon, it is withdrawn
 * and done remotely.
 *
 * States of a favour: FREE -> (requester) WRITING -> POSTED -> (waiter) TAKEN -> DONE -> (requester) FREE, or POSTED ->
 * (requester) FREE. The waiter holds no lock, and cannot be blocked by anything but its own processor.
 */
#include "engine/engine.h"

#include <string.h>

#include "util/futex.h"

enum { FREE = 0, WRITING, POSTED, TAKEN, DONE };

#define PATIENCE 500 /* looks before a request is withdrawn: about what doing it remotely costs */

static int carry_out(struct favour *v)
{
	const struct frames *f = &peer_of(job.rank)->frames;

	switch ((enum favour_op)v->op) {
	case FAVOUR_LOWER:
		return job.fault->lower(f, v->off, v->len);
	case FAVOUR_SHUT:
		return job.fault->shut(f, v->off, v->len);
	case FAVOUR_TAKE:
		return job.fault->take(f, v->off, v->len, v->data, v->writable, (int[]){ -1, -1 });
	}
	return -EINVAL;
}

void favour_look(void)
{
	struct favour *v = &job.me->favour;
	uint32_t posted = POSTED;

	if (__atomic_load_n(&v->state, __ATOMIC_RELAXED) != POSTED)
		return;
	if (!__atomic_compare_exchange_n(&v->state, &posted, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	v->err = carry_out(v);
	__atomic_store_n(&v->state, DONE, __ATOMIC_RELEASE);
}

/* 1: nobody there to ask. Otherwise the result. */
static int ask(uint16_t rank, enum favour_op op, size_t off, size_t len, bool writable, void *to)
{
	struct ctl *c = peer_of(rank)->ctl;
	struct favour *v = &c->favour;
	uint32_t state = FREE;
	int looks, err;

	if (rank == job.rank || !__atomic_load_n(&c->looking, __ATOMIC_RELAXED) || (to && len > sizeof(v->data)))
		return 1;
	if (!__atomic_compare_exchange_n(&v->state, &state, WRITING, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 1;
	v->op = op;
	v->off = off;
	v->len = len;
	v->writable = writable;
	__atomic_store_n(&v->state, POSTED, __ATOMIC_RELEASE);
	for (looks = 0;; looks++) {
		state = __atomic_load_n(&v->state, __ATOMIC_ACQUIRE);
		if (state == DONE)
			break;
		if (state == POSTED && (looks == PATIENCE || !__atomic_load_n(&c->looking, __ATOMIC_RELAXED)) &&
		    __atomic_compare_exchange_n(&v->state, &state, FREE, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return 1;
		if (looks > PATIENCE) { /* taken, and its processor was taken away */
			sched_yield();
			if (looks % 1024 == 0) { /* or it is stopped, or dead */
				lost_look();
				usleep(100);
			}
		}
		favour_look(); /* it may be asking us */
		cpu_relax();
	}
	err = v->err;
	if (!err && to)
		memcpy(to, v->data, len);
	__atomic_store_n(&v->state, FREE, __ATOMIC_RELEASE);
	return err;
}

int favour_lower(uint16_t rank, size_t off, size_t len)
{
	int err = ask(rank, FAVOUR_LOWER, off, len, true, NULL);

	return err == 1 ? job.fault->lower(&peer_of(rank)->frames, off, len) : err;
}

int favour_shut(uint16_t rank, size_t off, size_t len)
{
	int err = ask(rank, FAVOUR_SHUT, off, len, true, NULL);

	return err == 1 ? job.fault->shut(&peer_of(rank)->frames, off, len) : err;
}

int favour_take(uint16_t rank, size_t off, size_t len, void *to, bool writable, const int *pipe)
{
	int err = ask(rank, FAVOUR_TAKE, off, len, writable, to);

	return err == 1 ? job.fault->take(&peer_of(rank)->frames, off, len, to, writable, pipe) : err;
}
