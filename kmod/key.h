/* SPDX-License-Identifier: GPL-2.0 */
/* key.h - the keys by which peers write blocks into this rank's frames, and blocks that are sent so. */
#ifndef KMOD_KEY_H
#define KMOD_KEY_H

#include <linux/list.h>
#include <linux/spinlock.h>

#include "core/wire.h"

struct chunk;
struct conn;
struct ib_sge;
struct ib_wc;

/* The key of a peer for 2 MiB of the window. */
struct peer_key {
	u32 rkey; /* 0: not known */
	bool asked;
	u64 at; /* remote address of the first page */
};

/* All keys of a peer, and the blocks that wait for one. */
struct peer_keys {
	spinlock_t lock;
	struct peer_key *of;     /* by 2 MiB of the window */
	struct list_head blocks; /* struct waiting: until their key comes */
	unsigned int n;          /* of them */
};

void key_send_block(struct conn *c, u16 peer, const struct msg *m); /* its contents into the peer's frames, and m */
void key_forget_blocks(struct conn *c, u16 peer); /* its lanes are broken: no block waits any more, nor will; sleeps */
int key_make(struct conn *c, struct chunk *k);    /* sleeps: make the key of a chunk, if there is none */
bool key_ready(struct conn *c, const struct chunk *k); /* it has, or needs none */
void key_free(struct chunk *k);                        /* sleeps: nobody can write there any more */
void key_forget(struct conn *c, u32 chunk);            /* peers' keys of it: their frames go */

int key_message(struct conn *c, u16 peer, const struct msg *m); /* MSG_KEY_*, MSG_ECHO; -EBADMSG */
bool key_of_ours(const struct chunk *k, u32 page,
		 struct ib_sge *sge); /* where to send a page from; false: no key yet */
void key_made(struct conn *c, const struct ib_wc *wc);
void key_free_all(struct conn *c);

#endif
