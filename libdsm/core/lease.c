// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* lease.c - see lease.h. */
#include "core/lease.h"

bool lease_enter(struct lease *l, uint64_t lock)
{
	if (l->state != LEASE_HELD || l->lock != lock || l->readers == LEASE_READERS)
		return false;
	l->readers++;
	return true;
}

bool lease_leave(struct lease *l, uint64_t lock)
{
	if (l->state != LEASE_HELD || l->lock != lock || !l->readers)
		return false;
	l->readers--;
	return true;
}

bool lease_ask(struct lease *l, uint64_t lock, uint16_t slot)
{
	if (l->state != LEASE_FREE)
		return false;
	*l = (struct lease){ .lock = lock, .asker = slot, .state = LEASE_ASKED };
	return true;
}

void lease_answered(struct lease *l, uint64_t lock, uint16_t slot, bool leased)
{
	if (l->state != LEASE_ASKED || l->lock != lock || l->asker != slot)
		return;
	l->state = leased ? LEASE_HELD : LEASE_FREE;
	l->readers = leased;
}

int lease_revoke(struct lease *l, uint64_t lock)
{
	const int readers = l->state == LEASE_ASKED ? 1 : (int)l->readers;

	if (l->state == LEASE_FREE || l->lock != lock)
		return -EBADMSG;
	l->state = LEASE_FREE;
	return readers;
}
