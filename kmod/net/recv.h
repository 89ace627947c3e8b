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
	unsigned int pack;  /* messages per buffer */
	u32 npieces;
	struct piece {
		struct msg *buffers; /* CREDITS of them */
		u64 dma;
	} * pieces;
};

/*
 * Allocate and DMA-map n messages, to be sent or received. *dma: their DMA address. NULL: no
 * memory.
 */
struct msg *buffers_make(struct conn *c, unsigned int n, enum dma_data_direction way, u64 *dma);
void buffers_free(struct conn *c, struct msg *buffers, unsigned int n, enum dma_data_direction way,
		  u64 dma);

/* before queue pairs are created; call recv_close() even if it fails; sleeps */
int recv_open(struct conn *c);
void recv_close(struct conn *c); /* after the queue pairs are destroyed; sleeps */
int recv_start(struct lane *l);  /* post the lane's own buffers, if any; its queue pair exists */
int recv_post(struct lane *l, u32 index); /* post a buffer again */
/* Copy n messages out of a buffer, which the caller may then post again. */
void recv_copy(struct lane *l, u32 index, struct msg *m, unsigned int n);
/* does it share buffers with other peers? */
bool recv_shared(const struct lane *l);
/* for debugfs: the memory of the buffers */
void recv_show(struct seq_file *f, const struct conn *c);

#endif
