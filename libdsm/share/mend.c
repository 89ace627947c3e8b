// SPDX-License-Identifier: BSD-2-Clause
/*
 * mend.c - replaces broken queue pairs, and posts again what has not arrived: the connections
 * between the two nodes only notice a delay. repair.h has the messages, fifo.h what is posted
 * again. The owner's thread.
 */
#include "share/mend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "share/link.h"
#include "share/peer.h"

#define STOP_US 200     /* for a device that is still receiving a message */
#define TICK_MS 50      /* between two attempts to connect while the port is down */
#define FRUITLESS_MAX 4 /* repairs in a row, begun by this side, after which nothing arrived */

void rs_mend_want(struct rs_link *l)
{
	l->broken |= l->state == RS_LINK_UP && l->repair.state == RS_WHOLE;
}

/*
 * Count the arrivals before the peer is told their number. In the error state the old queue pairs
 * acknowledge nothing more, and what they have acknowledged leaves the CQ. Otherwise the peer could
 * forget messages that are then thrown away.
 */
static void stop(struct rs_owner *o, struct rs_link *l)
{
	unsigned int i;

	rs_peer_stop(&l->peer);
	for (i = 0; i < RS_LANES; i++)
		rs_qp_stop(&l->qp[i]);
	rs_owner_drain(o);
	usleep(STOP_US);
	rs_owner_drain(o);
	for (i = 0; i < RS_LANES; i++)
		rs_qp_destroy(&o->dev, &l->qp[i]);
	/*
	 * A later queue pair may have the same number: first take the old ones' completions from
	 * the CQ.
	 */
	rs_owner_drain(o);
	l->broken = false;
}

static int mend_send(struct rs_owner *o, struct rs_link *l, enum rs_repair_kind kind)
{
	struct rs_repair_message m = { .magic = RS_REPAIR_MAGIC,
				       .kind = kind,
				       .epoch = l->repair.epoch };
	unsigned int i;

	if (kind == RS_REPAIR_ASK) {
		rs_link_address(o, l, &m.address);
		for (i = 0; i < RS_LANES; i++)
			m.received[i] = l->peer.lane[i].received;
	}
	return send(l->source.fd, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m) ? 0 : -ECONNRESET;
}

static void mend_ask(struct rs_owner *o, struct rs_link *l)
{
	char why[RSHARE_WHY_MAX];
	int err;

	stop(o, l);
	if (l->dead)
		return;
	o->repairs++;
	l->deadline = rs_owner_now() + o->config.repair * 1000000ull;
	err = rs_link_create_qps(o, l, why);
	if (err)
		rs_link_fail(o, l, err, why);
	else if (mend_send(o, l, RS_REPAIR_ASK))
		rs_link_fail(o, l, -ECONNRESET, NULL); /* the peer is gone */
}

/* The peer reports what has arrived. Connecting may have to wait for the port. */
static void mend_agree(struct rs_owner *o, struct rs_link *l)
{
	const int n = rs_peer_arrived(&l->peer, l->said.received);

	if (n < 0) {
		o->hub.stats.malformed++;
		rs_link_fail(o, l, -EBADMSG, "says to have received what was not sent; dropped");
		return;
	}
	if (n)
		l->fruitless = 0;
	l->in.address = l->said.address;
	rs_mend_tick(o, l, rs_owner_now());
}

static void act(struct rs_owner *o, struct rs_link *l, int actions)
{
	if (actions & RS_DO_ASK)
		mend_ask(o, l);
	if (actions & RS_DO_CONNECT && !l->dead)
		mend_agree(o, l);
	if (actions & RS_DO_TELL && !l->dead && mend_send(o, l, RS_REPAIR_READY))
		rs_link_fail(o, l, -ECONNRESET, NULL);
	if (actions & RS_DO_RESUME && !l->dead)
		rs_peer_resume(&l->peer);
}

unsigned int rs_mend_begin(struct rs_owner *o)
{
	struct rs_link *l;
	unsigned int n = 0;

	for (l = o->links; l;)
		if (l->broken && !l->dead) {
			if (++l->fruitless > FRUITLESS_MAX)
				rs_link_fail(o, l, -ECONNRESET,
					     "queue pairs to it break again and again");
			else
				act(o, l, rs_repair_step(&l->repair, RS_BREAKS));
			n++;
			l = o->links; /* it has emptied the CQ, so other links may have changed */
		} else {
			l = l->next;
		}
	return n;
}

/* Something of the peer is unread: this thread may not have run for a long time. */
static bool mend_is_told(const struct rs_link *l)
{
	char first;

	return recv(l->source.fd, &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT) > 0;
}

int rs_mend_tick(struct rs_owner *o, struct rs_link *l, uint64_t now)
{
	char text[64];

	if ((l->repair.state == RS_AGREED || l->repair.state == RS_AWAITED) &&
	    !rs_link_connect_qps(o, l)) {
		act(o, l, rs_repair_step(&l->repair, RS_CONNECTS));
		return TICK_MS;
	}
	if (now >= l->deadline && !mend_is_told(l)) {
		snprintf(text, sizeof(text), "queue pairs to it broke; no repair in %u ms",
			 o->config.repair);
		rs_link_fail(o, l, -ECONNRESET, text);
	}
	return TICK_MS;
}

void rs_mend_hear(struct rs_owner *o, struct rs_link *l)
{
	const ssize_t n = recv(l->source.fd, (char *)&l->said + l->said_bytes,
			       sizeof(l->said) - l->said_bytes, MSG_DONTWAIT);
	int actions;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		rs_link_fail(o, l, -ECONNRESET, NULL);
		return;
	}
	l->said_bytes += (uint32_t)n;
	if (l->said_bytes < sizeof(l->said))
		return;
	l->said_bytes = 0;
	actions = rs_repair_hear(&l->repair, &l->said);
	if (actions < 0) {
		o->hub.stats.malformed++;
		rs_link_fail(o, l, -EBADMSG, "sent a repair message that is not due; dropped");
		return;
	}
	act(o, l, actions);
}
