// SPDX-License-Identifier: BSD-2-Clause
/*
 * msg.c - messages of the transport over UCX: sending, receiving, delivering. Threads and locks:
 * ucx.h.
 */
#include "net/ucx/msg.h"

#include <stdlib.h>

#include "core/bundle.h"
#include "net/ucx/peer.h"
#include "util/hook.h"
#include "util/log.h"

#define PROGRESS_MAX 64 /* UCX calls per poll that deliver no message */

/* ---- sending -------------------------------------------------------------------------------- */

void ucx_kick(struct net *n, int unfinished)
{
	const enum ucx_armed armed = n->armed;

	if (armed == ARMED_NOT || (!n->head && !unfinished))
		return;
	n->armed = ARMED_NOT;
	if (armed == ARMED_BELL)
		bell_ring_own(&n->bell);
	else
		n->ucp->ucp_worker_signal(n->worker);
}

static void ucx_sent(void *req, ucs_status_t status, void *arg)
{
	struct out *o = arg;
	struct net *n = o->net;

	n->sends--;
	if (status != UCS_OK && status != UCS_ERR_CANCELED)
		peer_fail(n, &n->peers[o->rank], -EPIPE);
	bell_ring(&n->peers[o->rank].rope, false);
	ucx_out_put(n, o);
	n->ucp->ucp_request_free(req);
}

static void count_sent(struct net *n, const struct msg *m, size_t size)
{
	ucx_count(&n->count.sent, 1);
	ucx_count(&n->count.bytes_sent, size);
	ucx_count(&n->count.by_class[bundle_class(m)], 1);
}

/* Under the lock. After it, UCX owns o, or o is free again. */
static int ucx_submit(struct net *n, struct out *o, size_t size)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
		.cb.send = ucx_sent,
		.user_data = o,
	};
	struct peer *p = &n->peers[o->rank];
	int err = peer_ready(n, p);
	ucs_status_ptr_t req;

	if (err) {
		ucx_out_put(n, o);
		return err;
	}
	req = n->ucp->ucp_am_send_nbx(p->ep, UCX_AM_ID, &o->m, sizeof(o->m), o->data, size, &param);
	if (UCS_PTR_IS_ERR(req)) {
		ucx_out_put(n, o);
		if (UCS_PTR_STATUS(req) == UCS_ERR_NO_MEMORY)
			return -ENOMEM;
		peer_fail(n, p, -EPIPE);
		return -EPIPE;
	}
	count_sent(n, &o->m, size);
	ucx_count(&n->lane.messages, 1);
	ucx_count(&n->lane.bytes, size);
	if (req)
		n->sends++;
	else
		ucx_out_put(n, o);
	return 0;
}

/* A message to this rank itself goes into the inbox. */
static int ucx_send_self(struct net *n, const struct msg *m, const void *payload, size_t size)
{
	void *copy = size ? own_alloc(size, 0) : NULL;
	struct item *it;

	if (size && !copy)
		return -ENOMEM;
	if (size)
		memcpy(copy, payload, size);
	pthread_mutex_lock(&n->lock);
	it = item_get(n);
	if (it) {
		it->m = *m;
		it->data = copy;
		it->size = size;
		it->owner = copy ? DATA_HEAP : DATA_NONE;
		it->rank = n->cfg.rank;
		inbox_add(n, it);
		count_sent(n, m, size);
		ucx_kick(n, 0);
	}
	pthread_mutex_unlock(&n->lock);
	if (!it)
		own_free(copy);
	return it ? 0 : -ENOMEM;
}

int ucx_send(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size)
{
	struct out *o = NULL;
	unsigned int before;
	int err;

	HOOK(send);
	err = net_check_send(&n->cfg, rank, m, size);
	if (err)
		return err;
	if (rank == n->cfg.rank)
		return ucx_send_self(n, m, payload, size);
	if (size > OUT_SMALL) {
		o = own_alloc(sizeof(*o) + size, 0);
		if (!o)
			return -ENOMEM;
		o->net = n;
		o->pooled = 0;
	} else if (size) {
		pthread_mutex_lock(&n->lock);
		o = out_get(n);
		pthread_mutex_unlock(&n->lock);
		if (!o)
			return -ENOMEM;
	}
	if (size)
		memcpy(o->data, payload, size);
	pthread_mutex_lock(&n->lock);
	before = n->sends;
	if (!o)
		o = out_get(n);
	err = -ENOMEM;
	if (o) {
		o->rank = rank;
		o->m = *m;
		err = ucx_submit(n, o, size);
	}
	/* a full queue, a handshake, a rendezvous: polling threads do the rest */
	ucx_kick(n, n->sends > before);
	pthread_mutex_unlock(&n->lock);
	bell_ring(&n->peers[rank].rope, n->cfg.late && n->cfg.late(m));
	return err;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void message_in(struct net *n, struct item *it)
{
	ucx_count(&n->count.received, 1);
	ucx_count(&n->count.bytes_received, it->size);
	inbox_add(n, it);
}

/* A rendezvous has completed. */
static void data_came(void *req, ucs_status_t status, size_t length, void *arg)
{
	struct item *it = arg;
	struct net *n = it->net;
	struct peer *p = &n->peers[it->rank];

	n->recvs--;
	bell_ring(&p->rope, false); /* for UCX's own answer */
	if (status == UCS_OK && length == it->size && p->state < PEER_LOST) {
		message_in(n, it);
	} else {
		item_put(n, it);
		if (status != UCS_ERR_CANCELED)
			peer_fail(n, p, -EPIPE);
	}
	if (req)
		n->ucp->ucp_request_free(req);
}

/* Fetch announced data into memory of the transport. */
static ucs_status_t ucx_fetch(struct net *n, struct item *it, void *desc)
{
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
			UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
		.cb.recv_am = data_came,
		.user_data = it,
	};
	ucs_status_ptr_t req;

	it->data = own_alloc(it->size, 0);
	if (!it->data) {
		peer_fail(n, &n->peers[it->rank], -ENOMEM);
		item_put(n, it);
		return UCS_OK;
	}
	it->owner = DATA_HEAP;
	n->recvs++;
	req = n->ucp->ucp_am_recv_data_nbx(n->worker, desc, it->data, it->size, &param);
	if (!UCS_PTR_IS_PTR(req))
		data_came(NULL, UCS_PTR_STATUS(req), req ? 0 : it->size, it);
	return UCS_INPROGRESS;
}

/*
 * A bad message: the node that it names as its sender is dropped; one without a valid node is only
 * counted.
 */
static void ucx_malformed(struct net *n, const struct msg *m, const struct ucx_arrival *a)
{
	struct peer *p;

	ucx_count(&n->count.malformed, 1);
	if (!ucx_sender_known(&n->cfg, a))
		return;
	p = &n->peers[net_rank_of(&n->cfg, m->src)];
	if (p->state < PEER_LOST)
		log_line("malformed message of node %d: version %d, type %d, %zu bytes behind it",
			 m->src, m->version, m->type, (size_t)a->data);
	peer_fail(n, p, -EBADMSG);
}

ucs_status_t ucx_received(void *arg, const void *header, size_t header_size, void *data,
			  size_t size, const ucp_am_recv_param_t *param)
{
	struct net *n = arg;
	struct peer *p;
	struct ucx_arrival a;
	struct item *it;
	struct msg m;

	if (ucx_message_read(&n->cfg, header, header_size, size, &a, &m)) {
		ucx_malformed(n, &m, &a);
		return UCS_OK;
	}
	p = &n->peers[net_rank_of(&n->cfg, m.src)];
	if (p->state >= PEER_LOST)
		return UCS_OK;
	it = item_get(n);
	if (!it) {
		peer_fail(n, p, -ENOMEM);
		return UCS_OK;
	}
	it->m = m;
	it->rank = (uint16_t)(p - n->peers);
	it->size = size;
	if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)
		return ucx_fetch(n, it, data);
	if (size && (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA)) {
		it->data = data; /* UCX lends it until the handler has returned */
		it->owner = DATA_UCX;
		message_in(n, it);
		return UCS_INPROGRESS;
	}
	if (size) {
		it->data = own_alloc(size, 0);
		if (!it->data) {
			item_put(n, it);
			peer_fail(n, p, -ENOMEM);
			return UCS_OK;
		}
		it->owner = DATA_HEAP;
		memcpy(it->data, data, size);
	}
	message_in(n, it);
	return UCS_OK;
}

static void ucx_deliver(struct net *n, const struct item *it)
{
	HOOK(deliver);
	if (!it->err)
		n->cfg.handler(n->cfg.arg, &it->m, it->data, it->size);
	else if (n->cfg.lost)
		n->cfg.lost(n->cfg.arg, it->rank, it->err);
}

/* A call of UCX may take only one message. */
unsigned int ucx_progress(struct net *n, unsigned int budget)
{
	unsigned int moved = 0;

	while (moved < (n->head ? budget : PROGRESS_MAX) && n->ucp->ucp_worker_progress(n->worker))
		moved++;
	return moved;
}

int ucx_poll(struct net *n, unsigned int budget)
{
	unsigned int done = 0, moved = 0;
	struct item *it;

	if (pthread_mutex_trylock(&n->lock))
		return 0;
	if (!n->head)
		moved = ucx_progress(n, budget);
	if (n->reap)
		peers_reap(n);
	if (moved)
		n->idle_busy = 0;
	while (done < budget && (it = ucx_inbox_take(n))) {
		pthread_mutex_unlock(&n->lock);
		ucx_deliver(n, it);
		pthread_mutex_lock(&n->lock);
		done += bundle_count(&it->m);
		item_put(n, it);
	}
	ucx_count(&n->count.polls, 1);
	if (!done)
		ucx_count(&n->count.empty_polls, 1);
	ucx_kick(n, moved && (n->sends || n->recvs));
	pthread_mutex_unlock(&n->lock);
	return (int)done;
}
