/* SPDX-License-Identifier: GPL-2.0 */
/*
 * key.h - the keys (rkeys) for RDMA writes of blocks by peers into this rank's frames, and the
 * blocks sent that way.
 */
#ifndef KMOD_KEY_H
#define KMOD_KEY_H

#include <linux/list.h>
#include <linux/spinlock.h>

#include "core/wire.h"

struct chunk;
struct conn;
struct ib_sge;
struct ib_wc;

/* A peer's key for 2 MiB of the window. */
struct peer_key {
	u32 rkey; /* 0: not known */
	bool asked;
	u64 at; /* remote address of the first page */
};

/* The keys of a peer, and the blocks that wait for a key. */
struct peer_keys {
	spinlock_t lock;
	struct peer_key *of;     /* indexed by 2 MiB of the window */
	struct list_head blocks; /* struct waiting: wait for their key */
	unsigned int n;          /* number of blocks */
};

/* write it to the peer's frames, and send m */
void key_send_block(struct conn *c, u16 peer, const struct msg *m);
/* its lanes are broken: free waiting blocks; none follow; sleeps */
void key_forget_blocks(struct conn *c, u16 peer);
/* make the key of a 2 MiB unit, if missing; sleeps */
int key_make(struct conn *c, struct chunk *k, u32 unit);
bool key_ready(struct conn *c, const struct chunk *k); /* the key is made, or not needed */
/*
 * Invalidate the key of the chunk: peers can no longer write to its frames. If the device refuses,
 * the key stays, and with it the frames must; the rank is lost (-EIO), and its connections are
 * stopped. Returns whether the frames may be freed. Sleeps.
 */
bool key_free(struct conn *c, struct chunk *k);
void key_forget(struct conn *c, u32 chunk); /* forget peers' keys of it: they free the frames */

/* handle MSG_KEY_*, MSG_ECHO; -EBADMSG */
int key_message(struct conn *c, u16 peer, const struct msg *m);
/* Set the address and key to send a page from. False: no key yet. */
bool key_of_ours(const struct chunk *k, u32 page, struct ib_sge *sge);
void key_made(struct conn *c, const struct ib_wc *wc);
/*
 * The queue pairs are destroyed: invalidate all keys. False: the device refuses. Then the frames of
 * the key are never freed, nor may the protection domain be, and the module stays loaded. Sleeps.
 */
bool key_free_all(struct conn *c);

#endif
