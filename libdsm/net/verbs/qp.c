// SPDX-License-Identifier: BSD-2-Clause
/*
 * qp.c - the queue pair of a lane: created, connected with the peer's data, and ended. Under
 * net.conn and the lane's lock.
 */
#include "net/verbs/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "net/verbs/dev.h"
#include "net/verbs/mem.h"
#include "net/verbs/recv.h"
#include "net/verbs/send.h"
#include "util/log.h"

void qp_address(const struct lane *l, struct ibv_ah_attr *ah)
{
	const struct blob_dev *to = &l->peer->at->devs[l->remote_dev];

	memset(ah, 0, sizeof(*ah));
	ah->port_num = l->dev->port;
	ah->dlid = to->lid;
	if (l->dev->pattr.link_layer == IBV_LINK_LAYER_INFINIBAND &&
	    !memcmp(to->gid, l->dev->gid.raw, 8))
		return; /* one subnet: no routing header */
	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, to->gid, sizeof(to->gid));
	ah->grh.sgid_index = l->dev->gid_index;
	ah->grh.hop_limit = 64;
}

static void qp_end(struct lane *l)
{
	if (!l->qp)
		return;
	queue_freeze(l);
	dev_lane_set(l->dev, l->qp->qp_num, NULL);
	ibv_destroy_qp(l->qp);
	l->qp = NULL;
	l->reads = 0;
	lane_due(l);
}

void qp_lane_end(struct lane *l)
{
	struct later *later;
	struct fetch *f;
	struct buf *b;
	struct out *o;

	qp_end(l);
	l->state = LANE_DEAD;
	while ((f = l->fetches)) {
		l->fetches = f->next;
		buf_put(l->dev, f->buf);
		own_free(f);
	}
	l->fetches_tail = &l->fetches;
	while ((b = l->lent)) {
		l->lent = b->next;
		buf_put(l->dev, b);
	}
	l->lent_tail = &l->lent;
	while ((later = l->later)) {
		l->later = later->next;
		own_free(later);
	}
	l->later_tail = &l->later;
	l->lending = 0;
	while ((o = l->head)) {
		l->head = o->next;
		mem_frame_put(l->dev, o);
	}
	l->tail = &l->head;
	lane_due(l);
	lane_retire(l, l->sent);
	own_free(l->ring);
	l->ring = NULL;
}

static int ring_create(struct lane *l)
{
	const struct verbs_set *set = &l->peer->net->set;

	if (l->ring)
		return 0;
	l->depth = set->depth >= 4                                 ? set->depth
		: l->class == CLASS_DATA || l->class == CLASS_BULK ? 32
								   : 64;
	l->ring = own_zalloc(l->depth * sizeof(*l->ring));
	return l->ring ? 0 : -ENOMEM;
}

static struct ibv_qp *qp_create(struct lane *l)
{
	struct ibv_qp_init_attr init = {
		.send_cq = l->queue->cq,
		.recv_cq = l->queue->cq,
		.srq = l->dev->srq[l->class],
		.cap = { .max_send_wr = 2 * l->depth + READS + 4,
			 .max_send_sge = 1,
			 .max_inline_data = l->dev->inlined },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(l->dev->pd, &init);

	while (!qp && init.cap.max_inline_data && (errno == EINVAL || errno == ENOMEM)) {
		init.cap.max_inline_data /= 2; /* more than the device supports */
		l->dev->inlined = init.cap.max_inline_data;
		qp = ibv_create_qp(l->dev->pd, &init);
	}
	return qp;
}

int qp_begin(struct lane *l)
{
	const struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = l->dev->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	int err = ring_create(l);

	qp_end(l);
	l->last_rx = l->rx_seq;
	if (err)
		return err;
	l->qp = qp_create(l);
	if (!l->qp) {
		log_line("RDMA: %s: cannot create another queue pair: %s", l->dev->name,
			 strerror(errno));
		return -ENOMEM;
	}
	if (ibv_modify_qp(l->qp, (struct ibv_qp_attr *)&attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
		log_line("RDMA: %s: cannot initialise a queue pair: %s", l->dev->name,
			 strerror(errno));
		return -EIO;
	}
	if (getrandom(&l->psn, sizeof(l->psn), 0) != sizeof(l->psn))
		l->psn = l->qp->qp_num * 2654435761u;
	l->psn &= 0xffffff;
	l->inlined = l->dev->inlined;
	dev_lane_set(l->dev, l->qp->qp_num, l);
	if (dev_lane(l->dev, l->qp->qp_num) != l)
		return -ENOMEM;
	pthread_mutex_lock(&l->queue->lock);
	l->rx_qpn = l->qp->qp_num;
	pthread_mutex_unlock(&l->queue->lock);
	return 0;
}

int qp_connect(struct lane *l, const struct shake *s)
{
	const struct blob_dev *to = &l->peer->at->devs[l->remote_dev];
	const struct verbs_set *set = &l->peer->net->set;
	struct ibv_qp_attr attr = {
		/* the address below */
		.qp_state = IBV_QPS_RTR,
		.path_mtu = l->dev->pattr.active_mtu < to->mtu ? l->dev->pattr.active_mtu
							       : (enum ibv_mtu)to->mtu,
		.dest_qp_num = s->qpn,
		.rq_psn = s->psn,
		.max_dest_rd_atomic = s->rd_atomic,
		.min_rnr_timer = 8,
	};

	dev_gid_refresh(l->dev);
	qp_address(l, &attr.ah_attr);
	if (attr.max_dest_rd_atomic > l->dev->attr.max_qp_rd_atom)
		attr.max_dest_rd_atomic = (uint8_t)l->dev->attr.max_qp_rd_atom;
	if (ibv_modify_qp(l->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -errno;
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = (uint8_t)set->timeout;
	attr.retry_cnt = (uint8_t)set->retry;
	attr.rnr_retry = 7; /* without limit */
	attr.sq_psn = l->psn;
	attr.max_rd_atomic = attr.max_dest_rd_atomic;
	if (ibv_modify_qp(l->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return -errno;
	l->peer_qpn = s->qpn;
	l->peer_psn = s->psn;
	l->landing = s->landing;
	l->landing_rkey = s->rkey;
	return 0;
}
