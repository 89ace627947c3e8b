/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lease.h - the leases of reader-writer locks that this node has (core/lease.h). Any thread inside
 * the runtime; nothing is sent, and nothing waits for another rank.
 *
 * lock: its name (core/lock.h, hold_name()). The first two return false if the thread must send its
 * request to the home.
 */
#ifndef MISS_LEASE_H
#define MISS_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"

bool lease_lock(uint64_t lock);
/* 0: there is no lease. Or a positive number, the same as long as it is not revoked, which may be
 * at once: nobody enters. An acquire. */
int lease_number(uint64_t lock);
bool lease_unlock(uint64_t lock);
/* Ask for a lease with the request in this slot? */
bool lease_wanted(uint64_t lock, uint16_t slot);
/* That request has been answered, and the notices that came with the answer are applied. */
void lease_came(uint64_t lock, uint16_t slot, bool leased);

/* MSG_REVOKE: the node has no lease from now on. Returns its readers; -EBADMSG: it had none. */
int lease_revoked(const struct msg *m);

#endif
