/* SPDX-License-Identifier: GPL-2.0 */
/*
 * txn.h - changes of access to a block; transactions, which lower it and then send a message.
 * Bottom halves are off.
 */
#ifndef KMOD_TXN_H
#define KMOD_TXN_H

#include "rank.h"

/* send the block and m; access is unchanged */
void txn_send_block(struct rank *r, const struct msg *m);
void txn_drop_now(struct rank *r, u32 object); /* set no access; under the stripe */
/* then change the entries; without the stripe */
void txn_follow_drop(struct rank *r, u32 object);
/*
 * lower() of core/host.h: true if access is low enough already. Else core_lowered() follows, maybe
 * before this returns.
 */
bool txn_lower(struct rank *r, const struct core_leave *l);
/* Open the block of m and those behind it, `blocks` in all. */
void txn_open(struct rank *r, const struct action *a, const struct msg *m, u32 blocks);
int txn_start(void);
void txn_stop(void);

#endif
