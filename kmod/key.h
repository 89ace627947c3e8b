/* SPDX-License-Identifier: GPL-2.0 */
/* key.h - the keys by which peers write blocks into this rank's frames, and blocks that are sent so. */
#ifndef KMOD_KEY_H
#define KMOD_KEY_H

#include "conn.h"

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
