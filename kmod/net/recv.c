// SPDX-License-Identifier: GPL-2.0
/*
 * recv.c - receive buffers. All peers share those of a class (an SRQ). If the device has no SRQ,
 * each lane has its own.
 *
 * A lane's peer may use CREDITS receives before it is given more (lane.c), so a class has that many
 * buffers per peer, for up to PIECES_MAX peers. Then all peers together find a buffer for each
 * message that they may send. No single peer can take the buffers of others: a peer that sends
 * without credit is cut off. In a larger job, many peers at once may empty the queue. Then the
 * device makes the senders wait and repeat (RNR), without limit; a buffer is posted again as soon
 * as its message is copied out.
 *
 * Completion handlers post the buffers, with bottom halves off, one handler at a time per class.
 * Every other function sleeps.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "recv.h"
#include "conn.h"
#include "lane.h"
#include "../base/pool.h"
#include "../base/test.h"

TEST_PARAM(bool, test_no_srq, false, "receive as on a device without shared receive queues");

#define PIECES_MAX 32u /* peers for which a class has CREDITS buffers each */

struct msg *buffers_make(struct conn *c, unsigned int n, enum dma_data_direction way, u64 *dma)
{
	struct msg *buffers =
		pool_test_refuses(GFP_KERNEL) ? NULL : kcalloc(n, sizeof(*buffers), GFP_CTX);

	if (!buffers)
		return NULL;
	*dma = ib_dma_map_single(c->dev, buffers, n * sizeof(*buffers), way);
	if (!ib_dma_mapping_error(c->dev, *dma))
		return buffers;
	kfree(buffers);
	return NULL;
}

void buffers_free(struct conn *c, struct msg *buffers, unsigned int n, enum dma_data_direction way,
		  u64 dma)
{
	if (!buffers)
		return;
	ib_dma_unmap_single(c->dev, dma, n * sizeof(*buffers), way);
	kfree(buffers);
}

/* The driver calls this in any context. The limit event is never armed. */
static void srq_event(struct ib_event *event, void *arg)
{
	if (event->event == IB_EVENT_SRQ_ERR)
		conn_failed(arg, "receive queue");
}

/* If the device has no SRQ, or none is left, lanes have their own buffers. */
static void make_srq(struct conn *c, struct receives *q)
{
	const u32 pieces = min(q->npieces, PIECES_MAX);
	struct ib_srq_init_attr attr = {
		.event_handler = srq_event,
		.srq_context = c,
		.attr = { .max_wr = pieces * CREDITS, .max_sge = 1 },
		.srq_type = IB_SRQT_BASIC,
	};
	struct ib_srq *srq;

	if (c->dev->attrs.max_srq < (int)CLASS_MAX ||
	    c->dev->attrs.max_srq_wr < (int)attr.attr.max_wr || test_value(test_no_srq))
		return;
	srq = ib_create_srq(c->pd, &attr);
	if (IS_ERR(srq))
		return;
	q->srq = srq;
	q->npieces = pieces;
}

static int recv_post_one(struct conn *c, struct receives *q, struct ib_qp *qp, u32 index)
{
	const u32 size = q->pack * sizeof(struct msg);
	struct ib_sge sge = {
		.addr = q->pieces[index / CREDITS].dma + index % CREDITS * size,
		.length = size,
		.lkey = c->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = wr_id(WR_RECEIVE, 0, index),
				 .sg_list = &sge,
				 .num_sge = 1 };

	ib_dma_sync_single_for_device(c->dev, sge.addr, sge.length, DMA_FROM_DEVICE);
	return q->srq ? ib_post_srq_recv(q->srq, &wr, NULL) : ib_post_recv(qp, &wr, NULL);
}

static int open_class(struct conn *c, struct receives *q)
{
	struct piece *p;
	u32 i;
	int err = 0;

	q->npieces = c->cfg.size - 1u;
	make_srq(c, q);
	if (!pool_test_refuses(GFP_KERNEL))
		q->pieces = kcalloc(q->npieces, sizeof(*q->pieces), GFP_CTX);
	if (!q->pieces)
		return -ENOMEM;
	for (p = q->pieces; p < q->pieces + q->npieces; p++) {
		p->buffers = buffers_make(c, CREDITS * q->pack, DMA_FROM_DEVICE, &p->dma);
		if (!p->buffers)
			return -ENOMEM;
	}
	for (i = 0; q->srq && i < q->npieces * CREDITS && !err; i++)
		err = recv_post_one(c, q, NULL, i);
	return err;
}

int recv_open(struct conn *c)
{
	unsigned int class;
	int err = 0;

	for (class = 0; class < CLASS_MAX && c->cfg.size > 1 && !err; class ++) {
		c->receives[class].pack = class == CLASS_COHERENCE ? PACK : 1;
		err = open_class(c, &c->receives[class]);
	}
	return err;
}

void recv_close(struct conn *c)
{
	unsigned int class;
	u32 i;

	for (class = 0; class < CLASS_MAX; class ++) {
		struct receives *q = &c->receives[class];

		if (q->srq)
			ib_destroy_srq(q->srq);
		for (i = 0; q->pieces && i < q->npieces; i++)
			buffers_free(c, q->pieces[i].buffers, CREDITS * q->pack, DMA_FROM_DEVICE,
				     q->pieces[i].dma);
		kfree(q->pieces);
	}
}

int recv_post(struct lane *l, u32 index)
{
	return recv_post_one(l->conn, &l->conn->receives[l->class], l->qp, index);
}

int recv_start(struct lane *l)
{
	/* The peer's index, not counting this rank. */
	const u32 first = (l->peer - (l->peer > l->conn->cfg.me)) * CREDITS;
	u32 i;
	int err = 0;

	for (i = 0; !l->conn->receives[l->class].srq && i < CREDITS && !err; i++)
		err = recv_post(l, first + i);
	return err;
}

void recv_copy(struct lane *l, u32 index, struct msg *m, unsigned int n)
{
	struct receives *q = &l->conn->receives[l->class];
	const u32 size = q->pack * sizeof(*m), at = index % CREDITS;
	const struct piece *p = &q->pieces[index / CREDITS];

	ib_dma_sync_single_for_cpu(l->conn->dev, p->dma + at * size, size, DMA_FROM_DEVICE);
	memcpy(m, &p->buffers[at * q->pack], n * sizeof(*m));
}

bool recv_shared(const struct lane *l)
{
	return l->conn->receives[l->class].srq;
}

void recv_show(struct seq_file *f, const struct conn *c)
{
	const unsigned int peers = c->cfg.size - 1u;
	size_t bytes = 0;
	unsigned int class;

	for (class = 0; class < CLASS_MAX; class ++)
		bytes += c->receives[class].npieces * CREDITS * c->receives[class].pack *
			sizeof(struct msg);
	seq_printf(f, "  receive buffers: %zu bytes, %zu per peer, %s\n", bytes,
		   peers ? bytes / peers : 0, c->receives[0].srq ? "shared" : "of each connection");
}
