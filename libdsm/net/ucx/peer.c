// SPDX-License-Identifier: BSD-2-Clause
/*
 * peer.c - the peers of a transport over UCX, the inbox, and pools of objects in flight. All under
 * net.lock.
 */
#include "net/ucx/peer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "util/log.h"

#define CHUNK 16 /* copies, and inbox items, allocated at a time */

/* ---- pools; under lock ---------------------------------------------------------------------- */

static void *chunk_create(struct net *n, size_t each)
{
	struct chunk *c = own_zalloc(sizeof(*c) + CHUNK * each);

	if (!c)
		return NULL;
	c->next = n->chunks;
	n->chunks = c;
	return c + 1;
}

struct item *item_get(struct net *n)
{
	struct item *it = n->items;
	int i;

	if (!it) {
		it = chunk_create(n, sizeof(*it));
		if (!it)
			return NULL;
		for (i = 0; i < CHUNK; i++) {
			it[i].net = n;
			it[i].next = i + 1 < CHUNK ? &it[i + 1] : NULL;
		}
	}
	n->items = it->next;
	it->data = NULL;
	it->size = 0;
	it->err = 0;
	it->owner = DATA_NONE;
	return it;
}

void item_put(struct net *n, struct item *it)
{
	if (it->owner == DATA_UCX)
		n->ucp->ucp_am_data_release(n->worker, it->data);
	else if (it->owner == DATA_HEAP)
		own_free(it->data);
	it->owner = DATA_NONE;
	if (it->err)
		return; /* a part of its peer */
	it->next = n->items;
	n->items = it;
}

void inbox_add(struct net *n, struct item *it)
{
	it->next = NULL;
	*n->tail = it;
	n->tail = &it->next;
}

struct item *ucx_inbox_take(struct net *n)
{
	struct item *it = n->head;

	if (it) {
		n->head = it->next;
		if (!n->head)
			n->tail = &n->head;
	}
	return it;
}

struct out *out_get(struct net *n)
{
	const size_t each = sizeof(struct out) + OUT_SMALL;
	struct out *o = n->outs;
	char *raw;
	int i;

	if (!o) {
		raw = chunk_create(n, each);
		if (!raw)
			return NULL;
		for (i = 0; i < CHUNK; i++) {
			o = (struct out *)(raw + (size_t)i * each);
			o->net = n;
			o->pooled = 1;
			o->next = n->outs;
			n->outs = o;
		}
	}
	n->outs = o->next;
	return o;
}

void ucx_out_put(struct net *n, struct out *o)
{
	if (!o->pooled) {
		own_free(o);
		return;
	}
	o->next = n->outs;
	n->outs = o;
}

/* ---- peers; under lock ---------------------------------------------------------------------- */

int out_of_descriptors(unsigned int wanted)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), out;

	if (fd < 0)
		return errno == EMFILE || errno == ENFILE;
	out = wanted > 1 && out_of_descriptors(wanted - 1);
	close(fd);
	return out;
}

/*
 * The first failure of a peer: report it through the inbox. May run inside UCX, so its endpoint is
 * closed later.
 */
void peer_fail(struct net *n, struct peer *p, int err)
{
	if (p->state != PEER_KNOWN && p->state != PEER_NONE)
		return;
	p->state = PEER_LOST;
	p->reap = 1;
	n->reap = 1;
	p->lost.err = err;
	p->lost.rank = (uint16_t)(p - n->peers);
	inbox_add(n, &p->lost);
}

static void ucx_peer_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct peer *p = arg;

	(void)ep;
	(void)status;
	peer_fail(p->net, p, out_of_descriptors(1) ? -EMFILE : -EPIPE);
}

void peer_close(struct net *n, struct peer *p)
{
	const ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					    .flags = UCP_EP_CLOSE_FLAG_FORCE };
	ucs_status_ptr_t req;

	p->reap = 0;
	if (!p->ep || !p->forceful) /* destroying the worker frees it */
		return;
	n->broken = 1;
	req = n->ucp->ucp_ep_close_nbx(p->ep, &param);
	if (UCS_PTR_IS_PTR(req))
		n->ucp->ucp_request_free(req);
	p->ep = NULL;
}

void peers_reap(struct net *n)
{
	unsigned int i;

	n->reap = 0;
	for (i = 0; i < n->cfg.size; i++)
		if (n->peers[i].reap)
			peer_close(n, &n->peers[i]);
}

static ucs_status_t endpoint(struct net *n, struct peer *p, ucp_err_handling_mode_t mode)
{
	ucp_ep_params_t param = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = p->address,
		.err_mode = mode,
		.err_handler = { .cb = ucx_peer_failed, .arg = p },
	};

	p->forceful = mode == UCP_ERR_HANDLING_MODE_PEER;
	return n->ucp->ucp_ep_create(n->worker, &param, &p->ep);
}

/* Make sure that the peer has an endpoint, or return the reason. */
int peer_ready(struct net *n, struct peer *p)
{
	ucs_status_t status;
	int err;

	if (p->state == PEER_LOST || p->state == PEER_DROPPED)
		return -EPIPE;
	if (p->state == PEER_NONE)
		return -ENOTCONN;
	if (p->ep)
		return 0;
	status = endpoint(n, p, UCP_ERR_HANDLING_MODE_PEER);
	/* from transports that report no errors */
	if (status == UCS_ERR_UNREACHABLE || status == UCS_ERR_UNSUPPORTED)
		status = endpoint(n, p, UCP_ERR_HANDLING_MODE_NONE);
	if (status == UCS_OK) {
		ucx_count(&n->lane.connections, 1);
		return 0;
	}
	p->ep = NULL;
	/* or the peer has died, which the caller can find out */
	err = out_of_descriptors(1) ? -EMFILE : -EHOSTUNREACH;
	peer_fail(n, p, err);
	return err;
}
