// SPDX-License-Identifier: BSD-2-Clause
/*
 * share_native.c - a native queue pair: one RC queue pair with its own CQ, and no owner. Device,
 * queue pair and receive buffers are made by the functions that librshare's owner uses, so that
 * both sides have the same attributes.
 *
 * One thread at a time; experiments that share the queue pair between threads bring a lock.
 */
#include "share.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

/* receive buffers in all, but at least 16 of them and at most 512 */
#define RECEIVES_BYTES (16u << 20)

struct share_native *share_native_open(uint32_t size, struct rs_address *here)
{
	struct share_native *n = calloc(1, sizeof(*n));
	struct rshare_config c;
	char why[RSHARE_WHY_MAX];

	if (!n)
		share_must(-ENOMEM, "memory");
	rshare_config_init(&c);
	c.chunk = size < 64 ? 64 : size;
	c.ib_port = 1;
	c.peers = 1;
	c.receives = RECEIVES_BYTES / c.chunk;
	c.receives = c.receives < 16 ? 16 : c.receives > 512 ? 512 : c.receives;
	if (rs_device_open(&n->dev, getenv("SHARE_DEVICE"), &c, why) ||
	    rs_qp_create(&n->dev, &n->qp, why)) {
		fprintf(stderr, "share: %s\n", why);
		exit(1);
	}
	n->buffer = aligned_alloc(4096, (c.chunk + 4095u) & ~4095u);
	n->mr = n->buffer ? ibv_reg_mr(n->dev.pd, n->buffer, c.chunk, 0) : NULL;
	if (!n->mr)
		share_must(-ENOMEM, "registering memory");
	*here = (struct rs_address){ .lid = n->dev.port_attr.lid,
				     .mtu = (uint8_t)n->dev.port_attr.active_mtu };
	__builtin_memcpy(here->gid, n->dev.gid.raw, sizeof(here->gid));
	here->qpn[RS_STRICT] = n->qp.qp->qp_num;
	here->psn[RS_STRICT] = n->qp.psn;
	return n;
}

void share_native_connect(struct share_native *n, const struct rs_address *there)
{
	share_must(rs_qp_connect(&n->dev, &n->qp, there, RS_STRICT, 0, 0),
		   "connecting a queue pair");
}

void share_native_close(struct share_native *n)
{
	rs_qp_destroy(&n->dev, &n->qp);
	ibv_dereg_mr(n->mr);
	free(n->buffer);
	rs_device_close(&n->dev);
	free(n);
}

void share_native_chain(struct share_native *n, uint32_t bytes, const uint32_t *ids,
			unsigned int count)
{
	struct ibv_sge sge = { (uintptr_t)n->buffer, bytes, n->mr->lkey };
	struct ibv_send_wr wr[SHARE_CHAIN], *bad;
	unsigned int i;

	for (i = 0; i < count; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = ids[i],
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags =
				IBV_SEND_SIGNALED | (bytes <= n->qp.inlined ? IBV_SEND_INLINE : 0),
		};
	share_must(-ibv_post_send(n->qp.qp, wr, &bad), "posting a send");
	n->doorbells++;
	n->posts += count;
}

void share_native_send(struct share_native *n, uint32_t bytes, uint32_t id)
{
	share_native_chain(n, bytes, &id, 1);
}

int share_native_poll(struct share_native *n, struct ibv_wc *wc, int max)
{
	int i, got = ibv_poll_cq(n->dev.cq, max, wc);

	for (i = 0; i < got; i++) {
		if (wc[i].status != IBV_WC_SUCCESS) {
			fprintf(stderr, "share: native: %s\n", ibv_wc_status_str(wc[i].status));
			exit(1);
		}
		if (wc[i].opcode != IBV_WC_RECV)
			continue;
		rs_landing_put(&n->dev, wc[i].wr_id);
		wc[i].wr_id = SHARE_RECEIVED;
	}
	if (got < max && n->dev.nspare)
		rs_landing_post(&n->dev);
	return got;
}

void share_native_wait(struct share_native *n)
{
	struct pollfd p = { .fd = n->dev.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(n->dev.channel, &cq, &context))
		poll(&p, 1, -1);
	ibv_ack_cq_events(cq, 1);
	n->events++;
}
