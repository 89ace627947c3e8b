// SPDX-License-Identifier: GPL-2.0
/*
 * lane.c - messages and blocks over the queue pairs of a rank: one lane per peer and protocol
 * class.
 *
 * Sending. A message is a send of 32 bytes, inline if the device supports that. A block is one RDMA
 * write with immediate data (conn_ops->imm()) straight into the requester's frame, or several
 * writes, the last one with immediate data. If the message does not fit into that, the block is a
 * write without it, and the message follows. Nobody waits for completions. Every SIGNAL_EVERYth
 * work request is signalled, and each with which blocks reach half a window of bytes. Its
 * completion returns the places in the queue, and the bytes of the window, that it covers. What
 * cannot be sent at once waits (egress.c).
 *
 * On a software device, the processor that posts a message also sends its packet and receives the
 * acknowledgement of another. There MSG_DONE is deferred for late_us, and leaves with the next
 * message to its peer in one packet: a send has up to PACK messages. Nobody waits for MSG_DONE
 * unless another rank wants the block just then.
 *
 * Receiving. A buffer (recv.c) is posted again as soon as its message is copied out. A peer must
 * not send more than there are buffers for, or it would use those of other peers. It may send
 * CREDITS messages, and one more for each credit that this side returns, in a send without data
 * whose immediate value is their number. Half of the credits are returned at a time. A peer that
 * sends without credit is cut off. The last credit is reserved for returning the peer's credits, so
 * the two sides never wait for each other: a side that has spent it has returned half of the
 * other's credits, and the other can return as many.
 */
#include <linux/slab.h>

#include "lane.h"
#include "../base/compat.h"
#include "conn.h"
#include "core/word.h"
#include "../base/debug.h"
#include "egress.h"
#include "key.h"
#include "recv.h"

void lane_broken(struct lane *l, const char *how, int status)
{
	if (READ_ONCE(l->conn->closing) || xchg(&l->broken, true))
		return;
	pr_info_ratelimited("dsm: rank %u: the connection to rank %u is broken (%s, %s)\n",
			    l->conn->cfg.me, l->peer, how,
			    status < 0 ? "errno" : ib_wc_status_msg(status));
	l->conn->cfg.ops->lost(l->conn->cfg.arg, l->peer, -EPIPE);
	conn_drop(l->conn, l->peer);
}

void lane_end_locked(struct lane *l)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (l->qp)
		ib_modify_qp(l->qp, &attr, IB_QP_STATE);
}

void lane_end(struct lane *l)
{
	mutex_lock(&l->conn->modify);
	lane_end_locked(l);
	mutex_unlock(&l->conn->modify);
}

/*
 * The secrets of a connection. They hash the two ranks, the class, the direction and both queue
 * pairs with the key of the job, so only a rank that has the key can compute them. SECRET_PSN is
 * the number of the first packet; the device accepts no other. SECRET_HELLO is the proof that each
 * side sends first. The key itself is never sent.
 */
u64 lane_secret(const struct lane *l, enum lane_secret what, bool theirs)
{
	const u64 mine = l->qp->qp_num, other = l->peer_qpn, me = l->conn->cfg.me, peer = l->peer;
	const u64 way = theirs ? peer << 16 | me : me << 16 | peer;

	return siphash_2u64(way << 32 | (u32)l->class << 8 | what,
			    theirs ? other << 32 | mine : mine << 32 | other, l->conn->cfg.key);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void post_messages(struct lane *l, const struct msg *m, unsigned int n);

/* Send the first message of the lane; there is always room and credit for it. */
static void greet(struct lane *l)
{
	const struct msg hello = { .version = WIRE_VERSION,
				   .type = MSG_HELLO,
				   .src = l->conn->cfg.me,
				   .dst = l->peer,
				   .value = lane_secret(l, SECRET_HELLO, false) };

	l->greeted = true;
	post_messages(l, &hello, 1);
}

/* bytes: the bytes of a block, which count in the window. */
static void lane_post(struct lane *l, struct ib_send_wr *wr, u32 bytes)
{
	int err;

	if (unlikely(!l->greeted))
		greet(l);
	l->room--;
	if (wr->opcode != IB_WR_RDMA_WRITE)
		l->credit--;
	l->unsignalled_bytes += bytes;
	if (++l->unsignalled == SIGNAL_EVERY || l->unsignalled_bytes >= l->signal_bytes) {
		wr->send_flags |= IB_SEND_SIGNALED;
		wr->wr_id = wr_id(WR_SEND, (u16)l->unsignalled, l->unsignalled_bytes);
		l->unsignalled = 0;
		l->unsignalled_bytes = 0;
	}
	err = ib_post_send(l->qp, wr, NULL);
	if (err)
		lane_broken(l, "post", err);
}

static void post_messages(struct lane *l, const struct msg *m, unsigned int n)
{
	struct ib_sge sge = { .addr = (uintptr_t)m, .length = n * sizeof(*m) };
	struct ib_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_INLINE
	};

	if (l->out) {
		/*
		 * There are as many buffers as places in the queue. A place is free, so this buffer
		 * is, too.
		 */
		unsigned int i = l->posted++ % l->conn->depth * l->pack;

		memcpy(&l->out[i], m, sge.length);
		sge.addr = l->out_dma + i * sizeof(*m);
		sge.lkey = l->conn->pd->local_dma_lkey;
		wr.send_flags = 0;
		ib_dma_sync_single_for_device(l->conn->dev, sge.addr, sge.length, DMA_TO_DEVICE);
	}
	lane_post(l, &wr, 0);
}

/* Send a message together with the deferred ones. */
void lane_post_message(struct lane *l, const struct msg *m)
{
	struct msg all[PACK] __uninitialized;
	unsigned int n = l->ndeferred;

	if (!n) {
		post_messages(l, m, 1);
		return;
	}
	memcpy(all, l->deferred, n * sizeof(*m));
	all[n] = *m;
	l->ndeferred = 0;
	post_messages(l, all, n + 1);
}

/*
 * No message took the deferred ones along in time. Sending one does not stop the timer, because
 * restarting it is expensive.
 */
static enum hrtimer_restart deferred_too_long(struct hrtimer *timer)
{
	struct lane *l = container_of(timer, struct lane, defer_timer);
	ktime_t left;
	bool again;

	spin_lock(&l->egress->lock);
	left = ktime_sub(l->deferred_until, ktime_get());
	if (l->ndeferred && left <= 0 && lane_may_send(l)) {
		post_messages(l, l->deferred, l->ndeferred);
		l->ndeferred = 0;
	}
	again = l->armed = l->ndeferred && !READ_ONCE(l->broken) && !READ_ONCE(l->conn->closing);
	if (again)
		hrtimer_forward_now(timer,
				    left > 0 ? left
					     : ns_to_ktime((u64)l->conn->late_us * NSEC_PER_USEC));
	spin_unlock(&l->egress->lock);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/* False: the message must be sent at once. */
static bool defer(struct lane *l, const struct msg *m)
{
	const u32 us = l->conn->late_us;

	if (m->type != MSG_DONE || !us || l->ndeferred == PACK - 1)
		return false;
	if (!l->ndeferred)
		l->deferred_until = ktime_add_us(ktime_get(), us);
	l->deferred[l->ndeferred++] = *m;
	if (!l->armed)
		hrtimer_start(&l->defer_timer, ns_to_ktime((u64)us * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
	l->armed = true;
	return true;
}

void lane_start(struct conn *c, u16 peer, unsigned int class)
{
	struct lane *l = lane_of(c, peer, class);

	l->conn = c;
	l->peer = peer;
	l->class = (u8) class;
	l->pack = class == CLASS_COHERENCE ? PACK : 1;
	compat_timer_setup(&l->defer_timer, deferred_too_long);
}

void lane_stop(struct lane *l)
{
	hrtimer_cancel(&l->defer_timer);
}

void lane_post_block(struct lane *l, const struct msg *m, u32 offset, u32 bytes)
{
	struct conn *c = l->conn;
	u32 page = block_page(m->object), in = page % CHUNK_PAGES;
	struct chunk *k = chunk_with(c->cfg.ctx, page, block_pages(m->object));
	const bool last = offset + bytes == block_pages(m->object) << PAGE_SHIFT;
	const u32 imm = last ? c->cfg.ops->imm(m) : 0;
	const struct peer_key *theirs = &c->keys[l->peer].of[page / CHUNK_PAGES];
	struct ib_sge sge = { .length = bytes };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge,
			.num_sge = 1,
			.opcode = imm ? IB_WR_RDMA_WRITE_WITH_IMM : IB_WR_RDMA_WRITE,
			.ex.imm_data = cpu_to_be32(imm) },
		.remote_addr = theirs->at + ((u64)in << PAGE_SHIFT) + offset,
		.rkey = theirs->rkey,
	};

	if (!key_of_ours(k, page, &sge)) {
		lane_broken(l, "no frames", -EFAULT); /* somebody waits for the block */
		return;
	}
	sge.addr += offset;
	lane_post(l, &wr.wr, bytes);
	/* The peer handles the message only after the earlier writes have landed. */
	if (last && !imm && !READ_ONCE(l->broken))
		post_messages(l, m, 1);
}

/* Only if nothing waits before it and the window has room. False: the queue is too full. */
static bool lane_send_block(struct lane *l, const struct msg *m, u32 bytes)
{
	struct egress *e = l->egress;
	const u32 chunk = e->sched.chunk;
	u32 at = 0;

	if (unlikely(bytes > chunk && l->room <= bytes / chunk + 1))
		return false;
	rs_sched_pass(&e->sched, RS_WEIGHTED, bytes);
	egress_note(e);
	for (; unlikely(bytes - at > chunk); at += chunk)
		lane_post_block(l, m, at, chunk);
	lane_post_block(l, m, at, bytes - at);
	return true;
}

void lane_send(struct lane *l, const struct msg *m, bool block)
{
	const u32 bytes = block ? block_pages(m->object) << PAGE_SHIFT : 0;

	spin_lock(&l->egress->lock);
	if (unlikely(!l->up || READ_ONCE(l->broken))) {
		if (!l->up)
			lane_broken(l, "not connected", -ENOTCONN);
		debug_count(COUNT_UNSENT, 1);
		spin_unlock(&l->egress->lock);
		return;
	}
	debug_count(COUNT_SENT, 1);
	l->sent++;
	if (!block && defer(l, m))
		debug_count(COUNT_POSTPONED, 1);
	else if (!egress_is_free(l, bytes))
		egress_wait(l, m, block);
	else if (!block)
		lane_post_message(l, m);
	else if (!lane_send_block(l, m, bytes))
		egress_wait(l, m, block);
	spin_unlock(&l->egress->lock);
}

void lane_send_waiting(struct lane *l, struct waiting *w)
{
	spin_lock(&l->egress->lock);
	if (READ_ONCE(l->broken)) {
		debug_count(COUNT_UNSENT, 1);
		waiting_put(l->conn, w);
	} else {
		l->sent++;
		egress_add(l, w);
	}
	spin_unlock(&l->egress->lock);
}

void lane_send_to(struct conn *c, u16 peer, const struct msg *m)
{
	lane_send(lane_of(c, peer, wire_class(m->type)), m, false);
}

/* ---- receiving ------------------------------------------------------------------------------ */

/*
 * True if enough credits are due for the peer to be told. Without the lane's lock, they may have
 * been returned by now.
 */
static bool owes(const struct lane *l)
{
	return READ_ONCE(l->taken) - READ_ONCE(l->returned) >= CREDITS / 2;
}

/*
 * The caller holds the lane's lock. If it is not possible now, a later completion or credit repeats
 * it.
 */
static void return_credits(struct lane *l)
{
	struct ib_send_wr wr = { .opcode = IB_WR_SEND_WITH_IMM };
	const u32 n = READ_ONCE(l->taken) - l->returned;

	if (!owes(l) || !l->up || !l->room || !l->credit || READ_ONCE(l->broken))
		return;
	wr.ex.imm_data = cpu_to_be32(n);
	WRITE_ONCE(l->returned, l->returned + n);
	debug_count(COUNT_CREDITS, 1);
	lane_post(l, &wr, 0);
}

static bool credits_came(struct lane *l, u32 imm)
{
	const struct word_KERNEL_CREDITS w = word_get_KERNEL_CREDITS(imm);
	struct word_limits x = { 0 };
	bool ok;

	spin_lock(&l->egress->lock);
	x.spent = CREDITS - l->credit;
	ok = word_is_KERNEL_CREDITS(&w, &x);
	if (ok) {
		l->credit += w.n;
		return_credits(l);
		egress_come_free(l);
	}
	spin_unlock(&l->egress->lock);
	return ok;
}

void lane_up(struct lane *l)
{
	spin_lock_bh(&l->egress->lock);
	WRITE_ONCE(l->up, true);
	return_credits(l);
	spin_unlock_bh(&l->egress->lock);
}

/* Check the first message of a peer, the proof that it has the job's key. */
static bool prove(struct lane *l, const struct msg *m)
{
	const struct conn_config *cfg = &l->conn->cfg;

	l->proved = m->type == MSG_HELLO && m->src == l->peer && !wire_check(m, cfg->limits) &&
		m->value == lane_secret(l, SECRET_HELLO, true);
	if (!l->proved)
		pr_info_ratelimited(
			"dsm: rank %u: the peer that claims to be rank %u has not proved that it belongs to this job\n",
			cfg->me, l->peer);
	return l->proved;
}

/*
 * Handle the messages of a packet; n is 0 if a block has landed, which imm describes. False: no
 * correct peer sends that.
 */
static bool lane_take_msg(struct lane *l, const struct msg *m, unsigned int n, u32 imm)
{
	const struct conn_config *cfg = &l->conn->cfg;

	if (!l->proved) {
		if (!prove(l, n ? m : &(struct msg){ .type = MSG_DATA }))
			return false;
		m++;
		n--;
	} else if (!n) {
		cfg->ops->landed(cfg->arg, l->peer, imm);
	}
	return !n || cfg->ops->messages(cfg->arg, l->peer, l->class, m, n);
}

/* Handle a received send, or a block's write. False: no correct peer sends that. */
static bool came(struct lane *l, const struct ib_wc *wc, const struct msg *m, unsigned int n)
{
	const bool imm = wc->wc_flags & IB_WC_WITH_IMM;

	if (l->taken - READ_ONCE(l->returned) > CREDITS)
		return false;
	if (imm && wc->opcode == IB_WC_RECV)
		return l->proved && !wc->byte_len && credits_came(l, be32_to_cpu(wc->ex.imm_data));
	if (!imm && (!n || n > l->pack || wc->byte_len % sizeof(*m)))
		return false;
	debug_count(COUNT_RECEIVED, n ? n : 1);
	l->received += n ? n : 1; /* one handler at a time */
	return lane_take_msg(l, m, n, imm ? be32_to_cpu(wc->ex.imm_data) : 0);
}

static void lane_received(struct lane *l, const struct ib_wc *wc, u32 index)
{
	const bool ok = wc->status == IB_WC_SUCCESS;
	struct msg m[PACK] __uninitialized;
	unsigned int n = ok && !(wc->wc_flags & IB_WC_WITH_IMM) ? wc->byte_len / sizeof(*m) : 0;

	if (n)
		recv_copy(l, index, m, min(n, l->pack));
	/*
	 * A shared buffer is posted again even if the receive failed; the buffers of a failed queue
	 * pair are not.
	 */
	if ((ok || recv_shared(l)) && recv_post(l, index) && ok)
		lane_broken(l, "receive", -ENOMEM);
	if (!ok) {
		lane_broken(l, "receive", wc->status);
		return;
	}
	if (READ_ONCE(l->broken))
		return;
	WRITE_ONCE(l->taken, l->taken + 1);
	if (!came(l, wc, m, n)) {
		debug_count(COUNT_BAD, 1);
		lane_broken(l, "malformed message", -EBADMSG);
		return;
	}
	if (owes(l)) {
		spin_lock(&l->egress->lock);
		return_credits(l);
		spin_unlock(&l->egress->lock);
	}
}

/* Handle a completion for cq.c; bottom halves are off. */
void lane_completed(void *arg, const struct ib_wc *wc)
{
	struct lane *l = wc->qp->qp_context;
	struct conn *c = arg;
	const u32 number = (u32)wc->wr_id;

	switch ((enum wr_kind)(wc->wr_id >> 48)) {
	case WR_RECEIVE: lane_received(l, wc, number); return;
	case WR_KEY: key_made(c, wc); break;
	case WR_SEND:
	/* an unsignalled request completes only on failure; later ones need not be handled */
	default: break;
	}
	if (wc->status != IB_WC_SUCCESS) {
		lane_broken(l, "send", wc->status);
		return;
	}
	spin_lock(&l->egress->lock);
	l->room += (u16)(wc->wr_id >> 32);
	rs_sched_landed(&l->egress->sched, RS_WEIGHTED, number);
	if (owes(l))
		return_credits(l);
	egress_come_free(l);
	spin_unlock(&l->egress->lock);
}
