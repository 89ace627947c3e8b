// SPDX-License-Identifier: BSD-2-Clause
/*
 * ud.c - the datagrams by which lanes are connected: a UD queue pair for each device. All under
 * net.conn, except opening and closing.
 */
#include "net/verbs/ud.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>

#include "net/verbs/conn.h"
#include "net/verbs/mem.h"
#include "util/log.h"

#define UD_RECVS 256
#define UD_SENDS 64
#define UD_HEADER 40 /* routing header before received data */
#define UD_ROOM 128  /* bytes per buffer */

static int ud_post_recv(struct dev *d, unsigned int i)
{
	struct ibv_sge sge = { .addr = (uintptr_t)d->ud.mem + (uint64_t)i * UD_ROOM,
			       .length = UD_ROOM,
			       .lkey = d->ud.lkey };
	struct ibv_recv_wr wr = { .wr_id = wr_make(WR_RECV, i), .sg_list = &sge, .num_sge = 1 },
			   *bad;

	return ibv_post_recv(d->ud.qp, &wr, &bad) ? -ENOMEM : 0;
}

static int ud_to_rts(struct dev *d)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = d->port,
				    .qkey = d->ud.qkey };

	if (ibv_modify_qp(d->ud.qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		return -EIO;
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE))
		return -EIO;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) ? -EIO : 0;
}

int ud_open(struct dev *d)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = UD_SENDS,
			 .max_recv_wr = UD_RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_UD,
	};
	struct ud *u = &d->ud;
	struct ibv_mr *mr;
	unsigned int i;
	int err = 0;

	u->mem = mem_cut(d, MEM_PRIVATE, (UD_RECVS + UD_SENDS) * UD_ROOM, &mr);
	if (!u->mem)
		return -ENOMEM;
	u->lkey = mr->lkey;
	if (getrandom(&u->qkey, sizeof(u->qkey), 0) != sizeof(u->qkey))
		return -EIO;
	u->qkey &= 0x7fffffff; /* the highest bit would select the sending queue pair's own key */
	u->channel = ibv_create_comp_channel(d->ctx);
	if (u->channel)
		u->cq = ibv_create_cq(d->ctx, UD_RECVS + UD_SENDS, NULL, u->channel, 0);
	init.send_cq = init.recv_cq = u->cq;
	if (u->cq)
		u->qp = ibv_create_qp(d->pd, &init);
	if (!u->qp) {
		log_line("RDMA: %s: cannot create the datagram queue pair: %s", d->name,
			 strerror(errno));
		return -ENOMEM;
	}
	fcntl(u->channel->fd, F_SETFL, fcntl(u->channel->fd, F_GETFL) | O_NONBLOCK);
	err = ud_to_rts(d);
	for (i = 0; i < UD_RECVS && !err; i++)
		err = ud_post_recv(d, i);
	if (!err && ibv_req_notify_cq(u->cq, 0))
		err = -EIO;
	if (err)
		log_line("RDMA: %s: cannot initialise the datagram queue pair: %s", d->name,
			 strerror(-err));
	return err;
}

void ud_close(struct dev *d)
{
	if (d->ud.qp)
		ibv_destroy_qp(d->ud.qp);
	if (d->ud.cq)
		ibv_destroy_cq(d->ud.cq);
	if (d->ud.channel)
		ibv_destroy_comp_channel(d->ud.channel);
}

void ud_send(struct lane *l, enum shake_type type, uint32_t epoch, uint8_t reason)
{
	struct dev *d = l->dev;
	struct peer *p = l->peer;
	const struct blob_dev *to = &p->at->devs[l->remote_dev];
	const unsigned int i = UD_RECVS + d->ud.next % UD_SENDS;
	struct shake *s = (struct shake *)(d->ud.mem + (size_t)i * UD_ROOM);
	struct ibv_sge sge = { .addr = (uintptr_t)s, .length = sizeof(*s), .lkey = d->ud.lkey };
	struct ibv_send_wr wr = { .wr_id = wr_make(WR_SEND, i),
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;

	if (d->ud.posted == UD_SENDS)
		return;
	if (!l->route->ah) {
		conn_route_renew(l);
		return;
	}
	*s = (struct shake){
		.magic = SHAKE_MAGIC,
		.version = SHAKE_VERSION,
		.type = (uint8_t)type,
		.class = l->class,
		.from = p->net->cfg.rank,
		.to = p->rank,
		.epoch = epoch,
		.key = p->at->key,
		.psn = l->psn,
		.received = l->last_rx,
		.rkey = d->landing->rkey,
		.landing = (uintptr_t)p->net->landing,
		.rd_atomic =
			(uint8_t)(d->attr.max_qp_rd_atom < READS ? d->attr.max_qp_rd_atom : READS),
		.reason = reason,
		.qpn = l->qp ? l->qp->qp_num : 0,
	};
	wr.wr.ud.ah = l->route->ah;
	wr.wr.ud.remote_qpn = to->ud_qpn;
	wr.wr.ud.remote_qkey = to->qkey;
	if (!ibv_post_send(d->ud.qp, &wr, &bad)) {
		d->ud.posted++;
		d->ud.next++;
	}
}

/* Without a route to the peer, a send puts even a datagram queue pair into the error state. */
static void ud_mend(struct dev *d)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct ibv_wc wc;
	unsigned int i;

	d->ud.broken = false;
	ibv_modify_qp(d->ud.qp, &attr, IBV_QP_STATE);
	while (ibv_poll_cq(d->ud.cq, 1, &wc) > 0)
		; /* from before the reset; senders repeat their datagrams */
	d->ud.posted = 0;
	ud_to_rts(d);
	for (i = 0; i < UD_RECVS; i++)
		if (ud_post_recv(d, i))
			break; /* they were still there */
}

static void verbs_ud_received(struct dev *d, const struct ibv_wc *wc)
{
	const char *at = d->ud.mem + (wc->wr_id & 0xffff) * UD_ROOM;

	if (wc->byte_len >= UD_HEADER)
		conn_received(d, at + UD_HEADER, wc->byte_len - UD_HEADER, wc->src_qp);
	else
		verbs_count(&d->net->count.malformed, 1);
}

void ud_serve(struct dev *d)
{
	struct ibv_wc wc[16];
	int i, n;

	while ((n = ibv_poll_cq(d->ud.cq, 16, wc)) > 0)
		for (i = 0; i < n; i++) {
			if (wc[i].wr_id >> 56 == WR_SEND) {
				d->ud.posted--;
				d->ud.broken |= wc[i].status != IBV_WC_SUCCESS;
				continue;
			}
			if (wc[i].status == IBV_WC_SUCCESS)
				verbs_ud_received(d, &wc[i]);
			ud_post_recv(d, (unsigned int)(wc[i].wr_id & 0xffff));
		}
	if (d->ud.broken)
		ud_mend(d);
}
