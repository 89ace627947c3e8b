// SPDX-License-Identifier: BSD-2-Clause
/* lease.c - see lease.h. A lock's place follows from its name. */
#include "miss/lease.h"

#include <limits.h>

#include "core/lock.h"
#include "job/job.h"
#include "util/futex.h"

static struct lease_place *lease_place_at(uint64_t lock)
{
	return &job.me->leases[lock * 0x9e3779b97f4a7c15u >> 32 & (CTL_LEASES - 1)];
}

/* Returns the place with its lock held. */
static struct lease_place *take_place(uint64_t lock)
{
	struct lease_place *p = lease_place_at(lock);

	word_lock(&p->word);
	return p;
}

/* The place's state may have changed. */
static void put_place(struct lease_place *p)
{
	const bool held = p->lease.state == LEASE_HELD;

	__atomic_store_n(&p->held, held ? p->lease.lock : 0, __ATOMIC_RELEASE);
	word_unlock(&p->word);
}

int lease_number(uint64_t lock)
{
	const struct lease_place *p = lease_place_at(lock);
	const uint32_t revoked = __atomic_load_n(&p->revoked, __ATOMIC_ACQUIRE);

	/* after that: it is the lease of this number, or the next call returns another one */
	return __atomic_load_n(&p->held, __ATOMIC_ACQUIRE) == lock
		? (int)(revoked & INT_MAX >> 1) + 1
		: 0;
}

bool lease_lock(uint64_t lock)
{
	struct lease_place *p = take_place(lock);
	const bool entered = lease_enter(&p->lease, lock);

	word_unlock(&p->word);
	return entered;
}

bool lease_unlock(uint64_t lock)
{
	struct lease_place *p = take_place(lock);
	const bool left = lease_leave(&p->lease, lock);

	word_unlock(&p->word);
	return left;
}

bool lease_wanted(uint64_t lock, uint16_t slot)
{
	struct lease_place *p = take_place(lock);
	const bool asks = lease_ask(&p->lease, lock, slot);

	word_unlock(&p->word);
	return asks;
}

void lease_came(uint64_t lock, uint16_t slot, bool leased)
{
	struct lease_place *p = take_place(lock);

	lease_answered(&p->lease, lock, slot, leased);
	put_place(p);
}

int lease_revoked(const struct msg *m)
{
	const uint64_t lock = hold_name(m->src, m->object, m->req_node);
	struct lease_place *p = take_place(lock);
	const int readers = lease_revoke(&p->lease, lock);

	__atomic_fetch_add(&p->revoked, readers >= 0, __ATOMIC_RELEASE);
	put_place(p);
	return readers;
}
