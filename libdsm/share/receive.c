// SPDX-License-Identifier: BSD-2-Clause
/*
 * receive.c - arriving frames: chunks are copied out of the landing buffer at once, so that no
 * reader can hold it.
 */
#include "share/peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "rshare.h"
#include "share/check.h"
#include "share/conn.h"

#define LAYOUT(c) (&(c)->client->layout)

/* ---- messages ------------------------------------------------------------------------------- */

/* Take the client's next buffer. 1: that has ended the connection. */
static int begin_message(struct rs_conn *c, const struct rs_frame *f)
{
	const bool immediate = f->kind != RS_FRAME_DATA;
	const struct rs_layout *l = LAYOUT(c);
	struct rs_rqe e;

	if (c->rq == c->rq_seen)
		return -EBADMSG; /* more messages than it was granted */
	if (!rs_ring_take(rs_seg_rq(l, c->seg), &c->rq, l->depth, &e, sizeof(e)) ||
	    !rs_receive_ok(&e, l->pool_bytes)) {
		conn_forged(c, "a receive that rshare_recv() does not make; reset");
		return 1;
	}
	c->rx = (struct rs_buffer){ .cookie = e.cookie, .offset = e.offset, .len = e.len };
	c->rx_open = true;
	conn_grant(c);
	c->rx_total = f->total;
	c->rx_at = 0;
	c->rx_tagged = immediate;
	c->rx_immediate = immediate ? f->offset : 0;
	return 0;
}

static void end_message(struct rs_conn *c)
{
	const bool fits = c->rx_total <= c->rx.len;
	const struct rs_cqe e = { .type = RSHARE_RECEIVED,
				  .status = fits ? 0 : -EMSGSIZE,
				  .len = fits ? c->rx_total : c->rx.len,
				  .cookie = c->rx.cookie,
				  .tagged = c->rx_tagged,
				  .immediate = c->rx_immediate };

	c->rx_open = false;
	c->stats.messages_received++;
	c->stats.bytes_received += c->rx_total;
	conn_report(c, &e);
}

/* Check and count the number of a frame on its connection. */
static int next_frame(struct rs_conn *c, const struct rs_frame *f)
{
	if (f->seq != c->rx_seq)
		return -EBADMSG;
	c->rx_seq++;
	c->stats.chunks_received++;
	return 0;
}

/* A write with immediate data is in place. It takes a buffer, and leaves it alone. */
static int written(struct rs_conn *c, const struct rs_frame *f)
{
	int err = next_frame(c, f);
	struct rs_cqe e = { .type = RSHARE_WRITTEN, .len = f->total };

	if (err || c->rx_open)
		return -EBADMSG;
	err = begin_message(c, f);
	if (err)
		return err < 0 ? err : 0;
	c->rx_open = false;
	c->stats.written++;
	e.cookie = c->rx.cookie;
	e.tagged = c->rx_tagged;
	e.immediate = c->rx_immediate;
	conn_report(c, &e);
	return 0;
}

static int data(struct rs_conn *c, const struct rs_frame *f, const char *payload)
{
	const bool first = f->kind == RS_FRAME_FIRST;
	const uint32_t offset = first ? 0 : f->offset;
	uint32_t room;
	int err = next_frame(c, f);

	if (err)
		return err;
	if (!c->rx_open) {
		if (offset)
			return -EBADMSG;
		err = begin_message(c, f);
		if (err)
			return err < 0 ? err : 0;
	} else if (offset != c->rx_at || f->total != c->rx_total) {
		return -EBADMSG;
	}
	room = offset < c->rx.len ? c->rx.len - offset : 0;
	memcpy(c->client->base + LAYOUT(c)->pool_offset + c->rx.offset + offset, payload,
	       f->len < room ? f->len : room);
	c->rx_at += f->len;
	if (c->rx_at == c->rx_total)
		end_message(c);
	return 0;
}

/* ---- atomic operations ---------------------------------------------------------------------- */

static uint64_t word_change(uint64_t *word, const struct rs_atomic *a)
{
	uint64_t old = a->compare;

	if (a->op == RS_OP_FETCH_ADD)
		return __atomic_fetch_add(word, a->operand, __ATOMIC_SEQ_CST);
	__atomic_compare_exchange_n(word, &old, a->operand, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return old;
}

/*
 * The owner performs it rather than the device. If a queue pair breaks, nobody could tell whether
 * the device did; and few devices are atomic with the processor.
 */
static int atomic(struct rs_conn *c, const struct rs_frame *f, const char *payload)
{
	struct rs_frame answer = {
		.kind = RS_FRAME_RESULT, .to = f->from, .from = c->id, .seq = f->seq
	};
	struct rs_atomic a;
	uint64_t *word, old;
	int err = next_frame(c, f);

	memcpy(&a, payload, sizeof(a));
	if (err || !rs_atomic_ok(&a))
		return -EBADMSG;
	if (c->closed_sent)
		return 0; /* at the peer, the close ends it */
	word = hub_word_find(c->client->hub, a.rkey, a.address);
	if (word) {
		old = word_change(word, &a);
		answer.total = (uint32_t)old;
		answer.offset = (uint32_t)(old >> 32);
	}
	answer.credit = !word;
	return rs_peer_reply(c->peer, &answer);
}

static int result(struct rs_conn *c, const struct rs_frame *f)
{
	const uint64_t old = f->total | (uint64_t)f->offset << 32;
	const struct rs_work *w = conn_atomic_answered(c, f->seq);

	if (!w)
		return -EBADMSG;
	if (f->credit) {
		conn_refused(c);
		return 0;
	}
	memcpy(c->client->base + LAYOUT(c)->pool_offset + w->e.offset, &old, sizeof(old));
	conn_retire(c);
	conn_load(c);
	conn_progress(c);
	return 0;
}

/* ---- opening -------------------------------------------------------------------------------- */

static struct rs_conn *hub_listener(struct rs_hub *h, uint32_t service)
{
	struct rs_conn *l = h->listeners;

	while (l && (l->service != service || l->state != RS_LISTENING))
		l = l->next;
	return l;
}

/* A listener whose ring is full of unaccepted connections refuses more. */
static bool has_room(struct rs_conn *l)
{
	return rs_ring_free(rs_seg_cq(LAYOUT(l), l->seg), l->cq, RS_CQ_FACTOR * LAYOUT(l)->depth,
			    sizeof(struct rs_cqe));
}

/* Logged once per process, until its listener has room again. */
static int create_for(struct rs_conn *l, struct rs_peer *p, struct rs_conn **out)
{
	const int err = hub_conn_create(l->client, p, out);
	char text[160];

	if (err && !l->client->refusing) {
		snprintf(text, sizeof(text), "listener of service %u: refuses %s: %s", l->service,
			 p->name,
			 err == -ENOMEM
				 ? "no memory"
				 : "no connection is left; raise `connections` of its process");
		p->hub->wire->log(text);
	}
	l->client->refusing = err != 0;
	return err;
}

static int peer_conn_open(struct rs_peer *p, const struct rs_frame *f)
{
	struct rs_conn *l = hub_listener(p->hub, f->seq), *c;
	int err = l && has_room(l) ? create_for(l, p, &c) : -ECONNREFUSED;
	struct rs_open o;

	memcpy(&o, f, sizeof(o));
	if (err) {
		p->hub->stats.refused++;
		return rs_peer_loose(p, RS_FRAME_REFUSED, f->from, (uint32_t)-err);
	}
	rs_flow_init(&c->flow, o.priority, o.weight);
	c->state = RS_OPEN;
	c->remote = f->from;
	c->tx_granted = f->credit;
	conn_owe(c, RS_FRAME_OPENED);
	conn_event(c, RSHARE_CONNECTED, 0, 0, 0);
	conn_event(l, RS_EVENT_ACCEPT, 0, c->index, 0);
	return 0;
}

static int opened(struct rs_conn *c, const struct rs_frame *f)
{
	if (c->remote || (c->state != RS_OPENING && c->state != RS_CLOSING))
		return -EBADMSG;
	c->remote = f->from;
	conn_answered(c);
	if (c->state == RS_OPENING) {
		c->state = RS_OPEN;
		conn_event(c, RSHARE_CONNECTED, 0, 0, 0);
	}
	rs_conn_kick(c);
	return 0;
}

/* ---- closing -------------------------------------------------------------------------------- */

/* Called when everything that the peer sent before its CLOSE has arrived, on both lanes. */
static void close_if_due(struct rs_conn *c)
{
	if (!c->close_seen || c->state == RS_ENDED || c->rx_seq != c->close_at)
		return;
	conn_owe(c, RS_FRAME_CLOSED);
	/*
	 * If both sides have closed, nothing is lost. Otherwise the unsent operations of this side
	 * fail with -EPIPE.
	 */
	conn_end(c, 0);
}

static void take_credit(struct rs_conn *c, const struct rs_frame *f)
{
	if ((int32_t)(f->credit - c->tx_granted) <= 0)
		return; /* older than a frame of the other lane */
	c->tx_granted = f->credit;
	conn_load(c);
}

/* A frame that counts on the connection. */
static int counted(struct rs_conn *c, const struct rs_frame *f, const char *payload)
{
	if (f->kind == RS_FRAME_WRITTEN)
		return written(c, f);
	return f->kind == RS_FRAME_ATOMIC ? atomic(c, f, payload) : data(c, f, payload);
}

static int for_conn(struct rs_conn *c, const struct rs_frame *f, const char *payload)
{
	int err = 0;

	if (c->state == RS_ENDED) {
		if (f->kind == RS_FRAME_OPENED && !c->remote)
			/* given up before the answer came */
			return rs_peer_loose(c->peer, RS_FRAME_RESET, f->from, 0);
		return 0;
	}
	switch (f->kind) {
	case RS_FRAME_DATA:
	case RS_FRAME_FIRST:
	case RS_FRAME_WRITTEN:
	case RS_FRAME_ATOMIC:
		err = counted(c, f, payload);
		if (!err && c->state != RS_ENDED)
			take_credit(c, f);
		if (!err)
			close_if_due(c);
		break;
	case RS_FRAME_CREDIT: take_credit(c, f); break;
	case RS_FRAME_RESULT: return result(c, f);
	case RS_FRAME_OPENED:
		/* not older than a frame of the other lane */
		if ((int32_t)(f->credit - c->tx_granted) > 0)
			c->tx_granted = f->credit;
		err = opened(c, f);
		break;
	case RS_FRAME_REFUSED:
		if (c->remote)
			return -EBADMSG;
		conn_end(c, -(int)f->total);
		break;
	case RS_FRAME_CLOSE:
		c->close_seen = true;
		c->close_at = f->seq;
		close_if_due(c);
		break;
	case RS_FRAME_CLOSED:
		if (!c->closed_sent)
			return -EBADMSG;
		conn_end(c, 0);
		break;
	case RS_FRAME_RESET: conn_end(c, -ECONNRESET); break;
	default: return -EBADMSG;
	}
	return err;
}

/* Would the sender of this frame wait in vain if there is no connection? */
static bool wants_answer(const struct rs_frame *f)
{
	return f->kind == RS_FRAME_DATA || f->kind == RS_FRAME_FIRST ||
		f->kind == RS_FRAME_WRITTEN || f->kind == RS_FRAME_ATOMIC ||
		f->kind == RS_FRAME_CLOSE || f->kind == RS_FRAME_OPENED;
}

int rs_peer_receive(struct rs_peer *p, enum rs_lane lane, const void *message, uint32_t bytes)
{
	struct rs_hub *h = p->hub;
	struct rs_conn *c;
	struct rs_frame f;
	int err = rs_frame_parse(message, bytes, p->sched.chunk, &f);

	h->stats.frames_in++;
	if (!err)
		err = rs_fifo_take(&p->lane[lane], f.number);
	if (!err && f.kind == RS_FRAME_OPEN) {
		err = peer_conn_open(p, &f);
	} else if (!err) {
		c = hub_conn_find(h, f.to);
		if (c && c->peer == p) {
			err = for_conn(c, &f, (const char *)message + sizeof(f));
		} else {
			h->stats.unknown++; /* late or invented */
			if (wants_answer(&f))
				err = rs_peer_loose(p, RS_FRAME_RESET, f.from, 0);
		}
	}
	h->stats.malformed += err == -EBADMSG;
	return err;
}
