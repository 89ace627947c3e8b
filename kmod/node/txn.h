/* SPDX-License-Identifier: GPL-2.0 */
/* txn.h - transactions: remove access to a block, then continue with its actions. Bottom halves are off. */
#ifndef KMOD_TXN_H
#define KMOD_TXN_H

#include "rank.h"

void txn_send_block(struct rank *r, const struct msg *m); /* send the block and m; access is unchanged */
/* Close the block of m, then carry out the actions from `at` on. */
void txn_close(struct rank *r, const struct actions *acts, unsigned int at, const struct msg *m);
void txn_drop_now(struct rank *r, const struct msg *m);    /* set no access; under the stripe */
void txn_follow_drop(struct rank *r, const struct msg *m); /* then change the entries; without the stripe */
void txn_lower(struct rank *r, const struct action *a);    /* lower access as a->prot says, then send the block */
/* Open the block of m and those behind it, `blocks` in all. */
void txn_open(struct rank *r, const struct action *a, const struct msg *m, u32 blocks);
int txn_start(void);
void txn_stop(void);

#endif
