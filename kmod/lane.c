// SPDX-License-Identifier: GPL-2.0
/*
 * lane.c - messages and blocks over the queue pairs of a rank: one lane to each peer for each protocol class.
 *
 * Sending. A message is a send of 32 bytes, inline where the device offers that, a block one RDMA write with immediate data
 * (host_imm()) straight into the requester's frame. Nobody waits for completions: every SIGNAL_EVERYth work request is
 * signalled, and its completion gives back as many places of the queue as it covers. When no place is left (lane->room),
 * messages wait in lane->waiting.
 *
 * Receiving. Each lane has RECEIVES buffers. A peer has at most SLOTS requests under way, each of which causes a bounded
 * number of messages, and a buffer is posted again as soon as its message is copied out, so the queue does not run dry
 * while this side lives; that it should is what RNR retries are for, and they are counted by the device.
 */
#include <linux/slab.h>

#include "conn.h"
#include "pool.h"


static struct pool waitings; /* of messages that wait for a place or a key */

void lane_broken(struct lane *l, const char *how, int status)
{
	if (READ_ONCE(l->conn->closing) || xchg(&l->broken, true))
		return;
	pr_info("dsm: rank %u: the connection to rank %u is broken (%s, %s)\n", l->conn->rank->me, l->peer, how,
		status < 0 ? "errno" : ib_wc_status_msg(status));
	rank_peer_lost(l->conn->rank, l->peer, -EPIPE);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void post(struct lane *l, struct ib_send_wr *wr)
{
	int err;

	l->room--;
	if (++l->unsignalled == SIGNAL_EVERY) {
		wr->send_flags |= IB_SEND_SIGNALED;
		wr->wr_id = wr_id(WR_SEND, l, l->unsignalled);
		l->unsignalled = 0;
	}
	err = ib_post_send(l->qp, wr, NULL);
	if (err)
		lane_broken(l, "post", err);
}

static void post_message(struct lane *l, const struct msg *m)
{
	struct ib_sge sge = { .addr = (uintptr_t)m, .length = sizeof(*m) };
	struct ib_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_INLINE };

	if (l->out) {
		/* As many buffers as places in the queue: that SENDS messages were posted since says that this one is free. */
		unsigned int i = l->posted++ % SENDS;

		l->out[i] = *m;
		sge.addr = l->out_dma + i * sizeof(*m);
		sge.lkey = l->conn->pd->local_dma_lkey;
		wr.send_flags = 0;
		ib_dma_sync_single_for_device(l->conn->dev, sge.addr, sizeof(*m), DMA_TO_DEVICE);
	}
	post(l, &wr);
}

static void post_block(struct lane *l, const struct msg *m)
{
	struct conn *c = l->conn;
	u32 page = block_page(m->object), in = page % CHUNK_PAGES;
	struct chunk *k = chunk_with(c->rank->ctx, page, block_pages(m->object));
	const struct peer_key *theirs = &c->keys[l->peer].of[page / CHUNK_PAGES];
	struct ib_sge sge = { .length = block_pages(m->object) << PAGE_SHIFT };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE_WITH_IMM, .ex.imm_data = cpu_to_be32(host_imm(m)) },
		.remote_addr = theirs->at + ((u64)in << PAGE_SHIFT),
		.rkey = theirs->rkey,
	};

	if (!key_of_ours(k, page, &sge)) {
		lane_broken(l, "no frames", -EFAULT); /* somebody waits for the block */
		return;
	}
	post(l, &wr.wr);
}

/* Places in the queue have come free: those that wait go first. Under the lane's lock. */
static void flush_waiting(struct lane *l)
{
	struct waiting *w;

	while (l->room && (w = list_first_entry_or_null(&l->waiting, struct waiting, list))) {
		list_del(&w->list);
		if (w->block)
			post_block(l, &w->m);
		else
			post_message(l, &w->m);
		waiting_put(w);
	}
}

struct waiting *waiting_new(const struct msg *m, bool block)
{
	struct waiting *w = pool_get(&waitings);

	if (w) {
		w->m = *m;
		w->block = block;
	}
	return w;
}

void waiting_put(struct waiting *w)
{
	pool_put(&waitings, w);
}

int lane_init(void)
{
	return pool_create(&waitings, "dsm_waiting", sizeof(struct waiting), __alignof__(struct waiting));
}

void lane_exit(void)
{
	pool_destroy(&waitings);
}

void lane_send(struct lane *l, const struct msg *m, bool block)
{
	struct waiting *w;

	spin_lock(&l->lock);
	if (!l->up)
		lane_broken(l, "not connected", -ENOTCONN);
	if (!l->up || READ_ONCE(l->broken)) {
		debug_count(COUNT_UNSENT, 1);
		spin_unlock(&l->lock);
		return;
	}
	debug_count(COUNT_SENT, 1);
	if (l->room && list_empty(&l->waiting)) {
		if (block)
			post_block(l, m);
		else
			post_message(l, m);
	} else {
		debug_count(COUNT_QUEUED, 1);
		w = waiting_new(m, block);
		if (w)
			list_add_tail(&w->list, &l->waiting);
		else
			lane_broken(l, "memory", -ENOMEM);
	}
	spin_unlock(&l->lock);
}

static bool is_ours(u8 type)
{
	return type == MSG_KEY_WANTED || type == MSG_KEY || type == MSG_ECHO;
}

static unsigned int class_of(u8 type)
{
	return is_ours(type) ? CLASS_COHERENCE : wire_class(type);
}

void conn_send(struct conn *c, u16 peer, const struct msg *m)
{
	lane_send(lane_of(c, peer, class_of(m->type)), m, false);
}

/* ---- receiving ------------------------------------------------------------------------------ */

int lane_receive(struct lane *l, u32 index)
{
	struct ib_sge sge = {
		.addr = l->dma + index * sizeof(struct msg), .length = sizeof(struct msg), .lkey = l->conn->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = wr_id(WR_RECEIVE, l, index), .sg_list = &sge, .num_sge = 1 };

	ib_dma_sync_single_for_device(l->conn->dev, sge.addr, sizeof(struct msg), DMA_FROM_DEVICE);
	return ib_post_recv(l->qp, &wr, NULL);
}

static void received(struct lane *l, const struct ib_wc *wc, u32 index)
{
	struct conn *c = l->conn;
	struct rank *r = c->rank;
	struct msg m;

	if (wc->status != IB_WC_SUCCESS) {
		lane_broken(l, "receive", wc->status);
		return;
	}
	ib_dma_sync_single_for_cpu(c->dev, l->dma + index * sizeof(m), sizeof(m), DMA_FROM_DEVICE);
	m = l->buffers[index];
	if (lane_receive(l, index))
		lane_broken(l, "receive", -ENOMEM);
	debug_count(COUNT_RECEIVED, 1);
	WRITE_ONCE(r->messages_in, r->messages_in + 1);
	if (wc->wc_flags & IB_WC_WITH_IMM) {
		host_landed(r, l->peer, be32_to_cpu(wc->ex.imm_data));
	} else if (wc->byte_len != sizeof(m) || m.src != l->peer ||
		   (is_ours(m.type) ? key_message(c, l->peer, &m)
				       : wire_check(&m, r->me, r->size, SLOTS) || m.type == MSG_DATA)) {
		debug_count(COUNT_BAD, 1);
		lane_broken(l, "malformed message", -EBADMSG);
	} else if (!is_ours(m.type)) {
		host_message(r, &m);
	}
}

/* A completion, from cq.c; bottom halves are off. */
void lane_completed(void *arg, const struct ib_wc *wc)
{
	struct conn *c = arg;
	u16 peer = (u16)(wc->wr_id >> 32);
	struct lane *l = lane_of(c, peer, wc->wr_id >> 48 & 0xff);
	u32 index = (u32)wc->wr_id;

	switch ((enum wr_kind)(wc->wr_id >> 56)) {
	case WR_RECEIVE:
		received(l, wc, index);
		return;
	case WR_KEY:
		key_made(c, wc);
		break;
	case WR_SEND:
		break;
	default: /* an unsignalled request: only failures complete */
		return;
	}
	if (wc->status != IB_WC_SUCCESS) {
		lane_broken(l, "send", wc->status);
		return;
	}
	spin_lock(&l->lock);
	l->room += index;
	flush_waiting(l);
	spin_unlock(&l->lock);
}
