/* SPDX-License-Identifier: GPL-2.0 */
/* recv.h - the receive buffers of a rank's connections. */
#ifndef KMOD_RECV_H
#define KMOD_RECV_H

#include <linux/dma-direction.h>
#include <linux/types.h>

struct conn;
struct ib_srq;
struct lane;
struct msg;
struct seq_file;

/* The receive buffers of a class. */
struct receives {
	struct ib_srq *srq; /* NULL: each lane has CREDITS of them */
	unsigned int pack;  /* messages that a buffer has room for */
	u32 npieces;
	struct piece {
		struct msg *buffers; /* CREDITS of them */
		u64 dma;
	} * pieces;
};

/* Messages from the device's view of memory: made, and to be sent or received. NULL: no memory. */
struct msg *buffers_make(struct conn *c, unsigned int n, enum dma_data_direction way, u64 *dma);
void buffers_free(struct conn *c, struct msg *buffers, unsigned int n, enum dma_data_direction way, u64 dma);

int recv_open(struct conn *c);            /* sleeps; before queue pairs are made. Then recv_close(), also if it fails */
void recv_close(struct conn *c);          /* sleeps; queue pairs are gone */
int recv_start(struct lane *l);           /* its queue pair is made: post its buffers, if they are its own */
int recv_post(struct lane *l, u32 index); /* a buffer, again */
/* What is in a buffer; it may be posted again then. */
void recv_copy(struct lane *l, u32 index, struct msg *m, unsigned int n);
bool recv_shared(const struct lane *l);                   /* with other peers */
void recv_show(struct seq_file *f, const struct conn *c); /* how much memory they are */

#endif
