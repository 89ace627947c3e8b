/* SPDX-License-Identifier: GPL-2.0 */
/* txn.h - transactions: what follows when access has ended. Bottom halves are off. */
#ifndef KMOD_TXN_H
#define KMOD_TXN_H

#include "rank.h"

void txn_send_block(struct rank *r, const struct msg *m); /* the block as it is, and m */
/* Close the block of m; then the actions from `at` on. */
void txn_close(struct rank *r, const struct actions *acts, unsigned int at, const struct msg *m);
void txn_drop_now(struct rank *r, const struct msg *m); /* under the stripe; then, without it, */
void txn_follow_drop(struct rank *r, const struct msg *m);
void txn_lower(struct rank *r, const struct action *a); /* then send the block */
void txn_open(struct rank *r, const struct action *a, const struct msg *m,
	      u32 blocks); /* the block of m, and those behind it */
int txn_start(void);
void txn_stop(void);

#endif
