/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share_world.h - two nodes whose hubs are connected by queues in this process instead of queue
 * pairs, with clients that use the rings as rshare.c does. Posts arrive and complete in order on
 * each lane, and in any order between lanes.
 */
#ifndef UNIT_SHARE_WORLD_H
#define UNIT_SHARE_WORLD_H

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rshare.h"
#include "share/conn.h"
#include "share/peer.h"

#define WORLD_CHUNK 256u
#define WORLD_DEPTH 8u
#define WORLD_POOL (1u << 20)
#define WORLD_QUEUE 256u

struct world_post {
	uint32_t bytes;
	char data[sizeof(struct rs_frame) + WORLD_CHUNK];
};

struct world_lane {
	struct world_post post[WORLD_QUEUE];
	unsigned int head, tail;
};

struct world_client {
	struct rs_client rs;
	struct {
		uint32_t sq, rq, cq; /* the client's positions */
	} at[4096];
};

struct world_node {
	struct rs_hub hub;
	struct rs_peer peer;
	struct world_client client[2];
	struct world_lane lane[RS_LANES]; /* lanes to the other node */
	struct world_node *other;
	int error; /* result of rs_peer_receive() */
	unsigned int wakes, set_wakes;
};

static char world_said[256];

/* What the wire reads or writes lies in the pool of a process, and has the length of the post. */
static void world_check_spans(const struct rs_peer *p, const struct rs_post *v)
{
	const struct rs_client *c;
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < v->spans; sum += v->span[i++].len) {
		const char *at = v->span[i].data;

		for (c = p->hub->clients; c && !v->copied; c = c->sibling) {
			const uint64_t offset = (uint64_t)(at - c->base) - c->layout.pool_offset;

			if (offset < c->layout.pool_bytes &&
			    v->span[i].len <= c->layout.pool_bytes - offset)
				break;
		}
		if ((!c && !v->copied) || !v->span[i].len || v->spans > p->hub->pieces)
			abort();
	}
	if (sum != v->len)
		abort();
}

static void world_gather(char *to, const struct rs_post *v)
{
	unsigned int i;

	for (i = 0; i < v->spans; to += v->span[i++].len)
		memcpy(to, v->span[i].data, v->span[i].len);
}

static void world_wire_post(struct rs_peer *p, enum rs_lane lane, const struct rs_post *v,
			    unsigned int n)
{
	struct world_node *w = p->link;

	for (; n--; v++) {
		struct world_lane *l = &w->lane[lane];
		struct world_post *o = &l->post[l->tail++ % WORLD_QUEUE];

		if (l->tail - l->head > WORLD_QUEUE || v->frame.len > WORLD_CHUNK)
			abort();
		world_check_spans(p, v);
		o->bytes = 0; /* an RDMA write or read */
		if (v->op != RS_OP_SEND)
			continue;
		o->bytes = (uint32_t)sizeof(v->frame) + v->frame.len;
		memcpy(o->data, &v->frame, sizeof(v->frame));
		if (v->frame.len)
			world_gather(o->data + sizeof(v->frame), v);
	}
}

static bool world_helps; /* others use the hub during long posts */
static unsigned int world_helped;

/* What a helper of the owner does: the strict lane's posts, and all completions and arrivals. */
static void world_help(struct world_node *w);

static void world_wire_post_long(struct rs_peer *p, const struct rs_post *v, unsigned int n)
{
	world_wire_post(p, RS_WEIGHTED, v, n);
	if (world_helps)
		world_help(p->link);
}

static void world_wire_wake(struct rs_conn *c)
{
	((struct world_node *)((char *)c->client->hub - offsetof(struct world_node, hub)))->wakes++;
}

static void world_wire_wake_set(struct rs_client *c)
{
	((struct world_node *)((char *)c->hub - offsetof(struct world_node, hub)))->set_wakes++;
}

static void world_wire_freed(struct rs_conn *c)
{
	(void)c;
}

static void world_wire_log(const char *text)
{
	snprintf(world_said, sizeof(world_said), "%s", text);
}

static const struct rs_wire world_wire = {
	world_wire_post,  world_wire_wake, world_wire_wake_set,
	world_wire_freed, world_wire_log,  world_wire_post_long
};

static inline void world_peers(struct world_node *a)
{
	const uint32_t window[RS_LANES] = { 4 * WORLD_CHUNK, 4 * WORLD_CHUNK };

	memset(a->lane, 0, sizeof(a->lane));
	memset(&a->peer, 0, sizeof(a->peer));
	if (rs_peer_init(&a->peer, &a->hub, WORLD_CHUNK, window, 16))
		abort();
	rs_sched_narrow(&a->peer.sched, 2 * WORLD_CHUNK);
	a->peer.link = a;
}

static inline struct world_node *world_create(uint32_t conns)
{
	const struct rs_layout l = rs_layout(conns, WORLD_DEPTH, WORLD_POOL);
	struct world_node *n = calloc(2, sizeof(*n));
	unsigned int i, k;

	for (i = 0; i < 2; i++) {
		rs_hub_init(&n[i].hub, &world_wire);
		n[i].other = &n[!i];
		world_peers(&n[i]);
		rs_peer_ready(&n[i].peer, WORLD_CHUNK);
		for (k = 0; k < 2; k++)
			if (rs_client_init(&n[i].client[k].rs, &n[i].hub, &l, calloc(1, l.bytes)))
				abort();
	}
	return n;
}

/*
 * Deliver one chunk of the lane. If the queue pair breaks before its completion, the completion is
 * lost. False: there is none.
 */
static inline bool world_arrive(struct world_node *from, enum rs_lane lane)
{
	struct world_lane *l = &from->lane[lane];
	const struct world_post *o = &l->post[l->head % WORLD_QUEUE];
	void *exact;

	if (l->head == l->tail)
		return false;
	l->head++;
	if (o->bytes && from->other->peer.chunk) {
		exact = malloc(o->bytes);
		memcpy(exact, o->data, o->bytes);
		from->other->error = rs_peer_receive(&from->other->peer, lane, exact, o->bytes)
			?: from->other->error;
		free(exact);
	}
	return true;
}

static inline bool world_deliver(struct world_node *from, enum rs_lane lane)
{
	const bool any = world_arrive(from, lane);

	if (any)
		rs_peer_sent(&from->peer, lane, 1);
	return any;
}

static void world_help(struct world_node *w)
{
	unsigned int k;

	for (k = 0; k < 2; k++)
		rs_client_kick(&w->client[k].rs);
	world_helped += rs_peer_pump_strict(&w->peer);
	for (k = 0; k < RS_LANES; k++) {
		while (world_deliver(w, (enum rs_lane)k))
			;
		while (world_deliver(w->other, (enum rs_lane)k))
			;
	}
	rs_hub_notify(&w->hub);
}

/*
 * All queue pairs break after so many outstanding posts of each lane have arrived; then they are
 * made again.
 */
static inline void world_break(struct world_node *n, const unsigned int arrive[2][RS_LANES])
{
	unsigned int i, k, j;

	for (i = 0; i < 2; i++) {
		rs_peer_stop(&n[i].peer);
		for (k = 0; k < RS_LANES; k++)
			for (j = 0; j < arrive[i][k]; j++)
				world_arrive(&n[i], (enum rs_lane)k);
	}
	for (i = 0; i < 2; i++) {
		const uint32_t received[RS_LANES] = { n[!i].peer.lane[RS_STRICT].received,
						      n[!i].peer.lane[RS_WEIGHTED].received };

		for (k = 0; k < RS_LANES; k++)
			n[i].lane[k].head = n[i].lane[k].tail;
		if (rs_peer_arrived(&n[i].peer, received) < 0)
			n[i].error = -EBADMSG;
	}
	for (i = 0; i < 2; i++)
		rs_peer_resume(&n[i].peer);
}

/* A turn of each owner; the random word chooses the deliveries. */
static inline unsigned int world_turn(struct world_node *n, uint64_t random)
{
	unsigned int i, k, done = 0;

	for (i = 0; i < 2; i++) {
		for (k = 0; k < 2; k++)
			done += rs_client_kick(&n[i].client[k].rs);
		done += rs_peer_pump(&n[i].peer);
		rs_hub_notify(&n[i].hub);
		for (k = 0; k < RS_LANES; k++)
			for (unsigned int j = 0; j < (random >> (8 * i + 4 * k) & 3); j++)
				done += world_deliver(&n[i], (enum rs_lane)k);
	}
	return done;
}

/* As an owner before it sleeps: a credit is sent by the second pump. */
static inline void world_settle(struct world_node *n)
{
	unsigned int idle = 0;

	while (idle < 2)
		idle = world_turn(n, ~0ull) ? 0 : idle + 1;
}

static inline void world_destroy(struct world_node *n)
{
	unsigned int i, k;

	for (i = 0; i < 2; i++)
		for (k = 0; k < 2; k++)
			rs_client_gone(&n[i].client[k].rs);
	world_settle(n);
	for (i = 0; i < 2; i++)
		rs_peer_lost(&n[i].peer, -ECONNRESET);
	for (i = 0; i < 2; i++) {
		for (k = 0; k < 2; k++) {
			if (!rs_client_idle(&n[i].client[k].rs))
				abort();
			free(n[i].client[k].rs.base);
			rs_client_exit(&n[i].client[k].rs);
		}
		rs_hub_exit(&n[i].hub);
	}
	free(n);
}

/* ---- what a client does ---------------------------------------------------------------------- */

static inline void world_ready(struct world_client *c, uint32_t index)
{
	struct rs_seg_head *head = (struct rs_seg_head *)c->rs.base;

	__atomic_fetch_or(&head->ready[index / 64], 1ull << index % 64, __ATOMIC_SEQ_CST);
}

static inline struct rs_seg_conn *world_seg(struct world_client *c, uint32_t index)
{
	return rs_seg_conn(&c->rs.layout, c->rs.base, index);
}

/* Submit an operation that rshare_send() does not make. */
static inline bool world_submit(struct world_client *c, uint32_t index, const struct rs_sqe *e)
{
	const bool put = rs_ring_put_shared(rs_seg_sq(world_seg(c, index)), &c->at[index].sq,
					    WORLD_DEPTH, e, sizeof(*e));

	world_ready(c, index);
	return put;
}

/* The same for an operation of two entries. */
static inline bool world_submit_pair(struct world_client *c, uint32_t index, const struct rs_sqe *e,
				     const void *second)
{
	const bool put = rs_ring_put_pair(rs_seg_sq(world_seg(c, index)), &c->at[index].sq,
					  WORLD_DEPTH, e, second, sizeof(*e));

	world_ready(c, index);
	return put;
}

static inline bool world_send(struct world_client *c, uint32_t index, uint64_t offset, uint32_t len,
			      uint64_t cookie)
{
	const struct rs_sqe e = {
		.op = RS_OP_SEND, .len = len, .offset = offset, .cookie = cookie
	};

	return world_submit(c, index, &e);
}

static inline bool world_recv(struct world_client *c, uint32_t index, uint64_t offset, uint32_t len,
			      uint64_t cookie)
{
	const struct rs_rqe e = { .len = len, .offset = offset, .cookie = cookie };
	const bool put = rs_ring_put_shared(rs_seg_rq(&c->rs.layout, world_seg(c, index)),
					    &c->at[index].rq, WORLD_DEPTH, &e, sizeof(e));

	world_ready(c, index);
	return put;
}

static inline bool world_poll(struct world_client *c, uint32_t index, struct rs_cqe *e)
{
	return rs_ring_take_shared(rs_seg_cq(&c->rs.layout, world_seg(c, index)), &c->at[index].cq,
				   RS_CQ_FACTOR * WORLD_DEPTH, e, sizeof(*e));
}

static inline char *world_pool(struct world_client *c, uint64_t offset)
{
	return c->rs.base + c->rs.layout.pool_offset + offset;
}

/*
 * Connect client a of node 0 to client b of node 1, which listens. Sets the connection's index at
 * both ends.
 */
static inline void world_connect(struct world_node *n, unsigned int a, unsigned int b,
				 uint8_t priority, uint32_t *at0, uint32_t *at1)
{
	struct rs_conn *l, *c;
	struct rs_cqe e;

	if (rs_conn_listen(&n[1].client[b].rs, 7, &l) ||
	    rs_conn_connect(&n[0].client[a].rs, &n[0].peer, 7, priority, 1, &c))
		abort();
	memset(&n[0].client[a].at[c->index], 0, sizeof(n[0].client[a].at[0]));
	memset(&n[1].client[b].at[l->index], 0, sizeof(n[0].client[a].at[0]));
	world_settle(n);
	if (!world_poll(&n[1].client[b], l->index, &e) || e.type != RS_EVENT_ACCEPT)
		abort();
	rs_conn_release(l);
	*at0 = c->index;
	*at1 = (uint32_t)e.cookie;
	memset(&n[1].client[b].at[*at1], 0, sizeof(n[0].client[a].at[0]));
	if (!world_poll(&n[0].client[a], *at0, &e) || e.type != RSHARE_CONNECTED ||
	    !world_poll(&n[1].client[b], *at1, &e) || e.type != RSHARE_CONNECTED)
		abort();
}

#endif
