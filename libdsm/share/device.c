// SPDX-License-Identifier: BSD-2-Clause
/* device.c - verbs calls. Only the owner's thread, after rs_device_open(). */
#include "share/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "share/mem.h"
#include "share/why.h"

#define INLINE_MAX 220 /* bytes with header; most devices support it */
#define QP_DEPTH (2 * RS_SLOTS)
#define WR_SENT (1ull << 32) /* and the number of the post; landing buffers have smaller values */
#define HEADERS_BYTES (QP_DEPTH * sizeof(struct rs_header)) /* of a queue pair */
#define POST_BATCH 16

/* errno of the call that has just failed. */
static int verbs_error(void)
{
	return errno ? -errno : -EIO;
}

/* ---- opening -------------------------------------------------------------------------------- */

/*
 * Without a name, the first device of InfiniBand or RoCE. Those of iWARP have no connections
 * without a connection manager.
 */
static int find_device(struct rs_device *d, const char *name, char *why)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i, err = 0;

	for (i = 0; list && list[i]; i++)
		if (name ? !strcmp(name, ibv_get_device_name(list[i]))
			 : list[i]->transport_type == IBV_TRANSPORT_IB)
			break;
	if (!list || !list[i]) {
		snprintf(why, RSHARE_WHY_MAX,
			 "no RDMA device%s%s of InfiniBand or RoCE; `rdma link` lists them",
			 name ? " " : "", name ? name : "");
		err = -ENODEV;
	} else if (list[i]->transport_type != IBV_TRANSPORT_IB) {
		snprintf(why, RSHARE_WHY_MAX,
			 "%s is no InfiniBand or RoCE device; queue pairs need one of these", name);
		err = -ENODEV;
	} else {
		snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(list[i]));
		d->ctx = ibv_open_device(list[i]);
		if (!d->ctx) {
			err = errno ? -errno : -EIO;
			snprintf(why, RSHARE_WHY_MAX, "%s: cannot be opened: %s", d->name,
				 strerror(-err));
		}
	}
	if (list)
		ibv_free_device_list(list);
	return err;
}

/* RoCE v2 over IPv4 before IPv6 before link-local; InfiniBand: the first. */
static int device_gid_worth(const struct ibv_gid_entry *e)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	switch (e->gid_type) {
	case IBV_GID_TYPE_ROCE_V2:
		return !memcmp(e->gid.raw, mapped, 12) ? 5 : e->gid.raw[0] == 0xfe ? 3 : 4;
	case IBV_GID_TYPE_IB: return 2;
	case IBV_GID_TYPE_ROCE_V1: return 1;
	}
	return 0;
}

static int device_gid_choose(struct rs_device *d, int wanted, char *why)
{
	struct ibv_gid_entry table[256];
	const ssize_t n = ibv_query_gid_table(d->ctx, table, 256, 0);
	int best = 0;
	ssize_t i;

	for (i = 0; i < n; i++) {
		if (table[i].port_num != d->port ||
		    (wanted >= 0 && table[i].gid_index != (uint32_t)wanted) ||
		    device_gid_worth(&table[i]) <= best)
			continue;
		best = device_gid_worth(&table[i]);
		d->gid = table[i].gid;
		d->gid_index = (uint8_t)table[i].gid_index;
		d->gid_type = table[i].gid_type;
	}
	if (best)
		return 0;
	snprintf(why, RSHARE_WHY_MAX,
		 "%s: no such GID at port %u; give its network interface an IP address", d->name,
		 d->port);
	return -ENODEV;
}

/* If a link went down and up, its GID may be at another index. -ENODEV: it is gone. */
static int find_gid(struct rs_device *d)
{
	struct ibv_gid_entry table[256];
	const ssize_t n = ibv_query_gid_table(d->ctx, table, 256, 0);
	ssize_t i;

	for (i = 0; i < n; i++)
		if (table[i].port_num == d->port && table[i].gid_type == d->gid_type &&
		    !memcmp(&table[i].gid, &d->gid, sizeof(d->gid))) {
			d->gid_index = (uint8_t)table[i].gid_index;
			return 0;
		}
	return -ENODEV;
}

static int device_port_open(struct rs_device *d, const struct rshare_config *config, char *why)
{
	d->port = (uint8_t)config->ib_port;
	if (ibv_query_port(d->ctx, d->port, &d->port_attr) ||
	    d->port_attr.state != IBV_PORT_ACTIVE) {
		snprintf(why, RSHARE_WHY_MAX, "%s: port %u is not active", d->name, d->port);
		return -ENODEV;
	}
	return device_gid_choose(d, config->gid_index, why);
}

static int create_landing(struct rs_device *d, const struct rshare_config *config, char *why)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = config->receives, .max_sge = 1 } };
	const size_t bytes = (size_t)config->receives * d->stride;
	int err;

	d->receives = config->receives;
	d->spare = rs_zalloc(config->receives, sizeof(*d->spare));
	d->landing = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d->landing == MAP_FAILED)
		d->landing = NULL;
	if (!d->spare || !d->landing)
		return rs_why(why, -ENOMEM, "%u landing buffers (receives in the config)",
			      config->receives);
	d->landing_mr = ibv_reg_mr(d->pd, d->landing, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!d->landing_mr) {
		err = verbs_error();
		snprintf(
			why, RSHARE_WHY_MAX,
			"%s: %zu bytes of landing buffers cannot be registered: %s; raise `ulimit -l`",
			d->name, bytes, strerror(-err));
		return err;
	}
	d->registered += bytes;
	d->srq = ibv_create_srq(d->pd, &attr);
	if (!d->srq) {
		err = verbs_error();
		snprintf(why, RSHARE_WHY_MAX,
			 "%s: no shared receive queue of %u entries: %s; set receives lower",
			 d->name, config->receives, strerror(-err));
		return err;
	}
	while (d->nspare < d->receives) {
		d->spare[d->nspare] = d->nspare;
		d->nspare++;
	}
	err = rs_landing_post(d);
	return err ? rs_why(why, err, "%s: the shared receive queue refuses receives", d->name) : 0;
}

/* A send has its header before the pieces; a read has none, but some devices take fewer there. */
static uint32_t device_pieces(const struct ibv_device_attr *attr)
{
	int n = attr->max_sge - 1;

	if (attr->max_sge_rd > 0 && attr->max_sge_rd < n)
		n = attr->max_sge_rd;
	return n < 1 ? 1 : n < RS_PIECES_MAX ? (uint32_t)n : RS_PIECES_MAX;
}

static int create_queue(struct rs_device *d, const struct rshare_config *config, char *why)
{
	struct ibv_device_attr attr;
	int cqe = (int)(config->receives + config->peers * RS_LANES * QP_DEPTH), err;

	if (ibv_query_device(d->ctx, &attr))
		return rs_why(why, verbs_error(), "%s: the device cannot be queried", d->name);
	d->pieces = device_pieces(&attr);
	if (cqe > attr.max_cqe)
		cqe = attr.max_cqe;
	d->channel = ibv_create_comp_channel(d->ctx);
	if (!d->channel || fcntl(d->channel->fd, F_SETFL, O_NONBLOCK))
		return rs_why(why, verbs_error(), "%s: no completion channel", d->name);
	err = cqgroup_create(d->ctx, "share", config->vectors, config->cpus ? config->cpus : "none",
			     &d->group, why);
	if (err)
		return err;
	err = cqgroup_create_cq(d->group, cqe, d, d->channel, CQGROUP_LEAST_LOADED, &d->cq);
	if (!err)
		d->vector = (unsigned int)cqgroup_cq_vector(d->group, d->cq);
	else
		snprintf(why, RSHARE_WHY_MAX,
			 "%s: no completion queue of %d entries: set peers or receives lower",
			 d->name, cqe);
	return err;
}

int rs_device_open(struct rs_device *d, const char *name, const struct rshare_config *config,
		   char *why)
{
	int err;

	memset(d, 0, sizeof(*d));
	d->chunk = config->chunk;
	d->stride = (config->chunk + (uint32_t)sizeof(struct rs_frame) + 63) & ~63u;
	err = find_device(d, name, why);
	if (!err)
		err = device_port_open(d, config, why);
	if (!err) {
		d->pd = ibv_alloc_pd(d->ctx);
		if (!d->pd)
			err = rs_why(why, verbs_error(), "%s: no protection domain", d->name);
	}
	if (!err)
		err = create_queue(d, config, why);
	if (!err)
		err = create_landing(d, config, why);
	if (err)
		rs_device_close(d);
	return err;
}

void rs_device_close(struct rs_device *d)
{
	if (d->srq)
		ibv_destroy_srq(d->srq);
	if (d->landing_mr)
		ibv_dereg_mr(d->landing_mr);
	if (d->landing)
		munmap(d->landing, (size_t)d->receives * d->stride);
	if (d->cq)
		cqgroup_destroy_cq(d->group, d->cq);
	cqgroup_destroy(d->group);
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	if (d->ctx)
		ibv_close_device(d->ctx);
	rs_free(d->spare);
	memset(d, 0, sizeof(*d));
}

/* ---- landing buffers ------------------------------------------------------------------------ */

void *rs_landing(struct rs_device *d, uint64_t wr_id)
{
	return d->landing + wr_id * d->stride;
}

void rs_landing_put(struct rs_device *d, uint64_t wr_id)
{
	d->spare[d->nspare++] = (uint32_t)wr_id;
	if (d->nspare >= POST_BATCH)
		rs_landing_post(d);
}

int rs_landing_post(struct rs_device *d)
{
	struct ibv_recv_wr wr[POST_BATCH], *bad;
	struct ibv_sge sge[POST_BATCH];
	uint32_t i, n;
	int err = 0;

	while (d->nspare && !err) {
		n = d->nspare < POST_BATCH ? d->nspare : POST_BATCH;
		for (i = 0; i < n; i++) {
			const uint32_t b = d->spare[d->nspare - 1 - i];

			sge[i] = (struct ibv_sge){ (uintptr_t)rs_landing(d, b), d->stride,
						   d->landing_mr->lkey };
			wr[i] = (struct ibv_recv_wr){ .wr_id = b,
						      .sg_list = &sge[i],
						      .num_sge = 1 };
			wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		}
		err = -ibv_post_srq_recv(d->srq, wr, &bad);
		/* Receives before the refused one are posted; the others stay spare. */
		d->nspare -= err ? (uint32_t)(bad - wr) : n;
	}
	return err;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static struct ibv_qp *new_qp(struct rs_device *d, uint32_t *inlined)
{
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.srq = d->srq,
		.cap = { .max_send_wr = QP_DEPTH,
			 .max_send_sge = 1 + d->pieces,
			 .max_inline_data = INLINE_MAX },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(d->pd, &init);

	if (!qp) {
		init.cap.max_inline_data = 0;
		qp = ibv_create_qp(d->pd, &init);
	}
	*inlined = init.cap.max_inline_data;
	return qp;
}

int rs_qp_create(struct rs_device *d, struct rs_qp *q, char *why)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = d->port,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};

	int err = 0;

	memset(q, 0, sizeof(*q));
	q->header = mmap(NULL, HEADERS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
	if (q->header == MAP_FAILED) {
		q->header = NULL;
		return rs_why(why, -ENOMEM, "the headers of a queue pair");
	}
	q->header_mr = ibv_reg_mr(d->pd, q->header, HEADERS_BYTES, 0);
	if (!q->header_mr) {
		err = verbs_error();
		snprintf(
			why, RSHARE_WHY_MAX,
			"%s: the headers of a queue pair cannot be registered: %s; raise `ulimit -l` of the owner",
			d->name, strerror(-err));
		goto undo;
	}
	q->qp = new_qp(d, &q->inlined);
	if (!q->qp) {
		err = verbs_error();
		snprintf(
			why, RSHARE_WHY_MAX,
			"%s: no queue pair beside its %u: %s; `rdma resource show qp` lists those of all programs",
			d->name, d->queue_pairs, strerror(-err));
		goto undo;
	}
	d->registered += HEADERS_BYTES;
	d->queue_pairs++;
	if (ibv_modify_qp(q->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) {
		err = rs_why(why, verbs_error(), "%s: a queue pair cannot be initialised", d->name);
		goto undo;
	}
	if (getrandom(&q->psn, sizeof(q->psn), 0) != sizeof(q->psn))
		q->psn = q->qp->qp_num;
	q->psn &= 0xffffff;
	return 0;
undo:
	rs_qp_destroy(d, q);
	return err;
}

void rs_qp_stop(struct rs_qp *q)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	ibv_modify_qp(q->qp, &attr, IBV_QP_STATE);
}

void rs_qp_destroy(struct rs_device *d, struct rs_qp *q)
{
	if (q->qp) {
		ibv_destroy_qp(q->qp);
		d->queue_pairs--;
		d->registered -= HEADERS_BYTES;
	}
	if (q->header_mr)
		ibv_dereg_mr(q->header_mr);
	if (q->header)
		munmap(q->header, HEADERS_BYTES);
	memset(q, 0, sizeof(*q));
}

int rs_qp_connect(struct rs_device *d, struct rs_qp *q, const struct rs_address *to,
		  enum rs_lane lane, uint8_t sl, uint8_t traffic_class)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = d->port_attr.active_mtu,
		.dest_qp_num = to->qpn[lane],
		.rq_psn = to->psn[lane],
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 8,
		.ah_attr = { .port_num = d->port, .dlid = to->lid, .sl = sl },
	};

	if (q->connected)
		return 0;
	if (find_gid(d))
		return -ENODEV;
	if (to->mtu && to->mtu < attr.path_mtu)
		attr.path_mtu = (enum ibv_mtu)to->mtu;
	if (d->port_attr.link_layer != IBV_LINK_LAYER_INFINIBAND ||
	    memcmp(to->gid, d->gid.raw, 8)) {
		attr.ah_attr.is_global = 1;
		memcpy(attr.ah_attr.grh.dgid.raw, to->gid, sizeof(to->gid));
		attr.ah_attr.grh.sgid_index = d->gid_index;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.traffic_class = traffic_class;
	}
	if (ibv_modify_qp(q->qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return verbs_error();
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS,
		/* about 1 s; slow guests would resend at less although nothing is lost */
		.timeout = 18,
		.retry_cnt = 6, /* 7: soft-RoCE would never give up */
		.rnr_retry = 7, /* without limit: the other owner posts receives as it works */
		.sq_psn = q->psn,
		.max_rd_atomic = 16,
	};
	if (ibv_modify_qp(q->qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return verbs_error();
	q->connected = true;
	return 0;
}

/* ---- posting -------------------------------------------------------------------------------- */

/* Copy what is not registered to where it is. */
static struct rs_header *header_next(struct rs_qp *q, const struct rs_post *v, uint32_t len)
{
	struct rs_header *h = &q->header[q->next++ % QP_DEPTH];

	h->frame = v->frame;
	if (v->copied && len)
		memcpy(h->data, v->span[0].data, len);
	return h;
}

/* The registered memory of a post. Returns the number of entries. */
static int fill_spans(const struct rs_post *v, struct ibv_sge *sge)
{
	unsigned int i;

	for (i = 0; i < v->spans; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)v->span[i].data, v->span[i].len, v->lkey };
	return v->spans;
}

static void fill_send(struct rs_qp *q, const struct rs_post *v, struct ibv_send_wr *wr,
		      struct ibv_sge *sge)
{
	const struct rs_header *h = header_next(q, v, v->frame.len);
	const uint32_t behind = v->copied ? v->frame.len : 0;

	sge[0] = (struct ibv_sge){ (uintptr_t)h, (uint32_t)sizeof(h->frame) + behind,
				   q->header_mr->lkey };
	wr->opcode = IBV_WR_SEND;
	/* Without payload, it may have been a chunk that is posted again as a reset. */
	wr->num_sge = v->frame.len && !v->copied ? 1 + fill_spans(v, &sge[1]) : 1;
	if (sizeof(h->frame) + v->frame.len <= q->inlined)
		wr->send_flags = IBV_SEND_INLINE;
}

static void fill_rdma(struct rs_qp *q, const struct rs_post *v, struct ibv_send_wr *wr,
		      struct ibv_sge *sge)
{
	wr->num_sge = fill_spans(v, sge);
	if (v->copied)
		sge[0] = (struct ibv_sge){ (uintptr_t)header_next(q, v, v->len)->data, v->len,
					   q->header_mr->lkey };
	if (v->copied && v->len <= q->inlined)
		wr->send_flags = IBV_SEND_INLINE;
	wr->opcode = v->op == RS_OP_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = v->remote;
	wr->wr.rdma.rkey = v->rkey;
}

static int device_post(struct rs_qp *q, struct ibv_send_wr *wr, struct rs_gate *g)
{
	struct ibv_send_wr *bad;
	int err;

	if (!g)
		return -ibv_post_send(q->qp, wr, &bad);
	__atomic_store_n(&g->open, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&g->lock);
	err = -ibv_post_send(q->qp, wr, &bad);
	/* First, so that threads which come without end do not keep the lock. */
	__atomic_store_n(&g->open, 0, __ATOMIC_RELAXED);
	pthread_mutex_lock(&g->lock);
	return err;
}

int rs_qp_post_open(struct rs_device *d, struct rs_qp *q, const struct rs_post *v, unsigned int n,
		    struct rs_gate *g)
{
	struct ibv_send_wr wr[RS_BATCH];
	struct ibv_sge sge[RS_BATCH][1 + RS_PIECES_MAX];
	unsigned int i;

	memset(wr, 0, n * sizeof(*wr));
	for (i = 0; i < n; i++) {
		wr[i].wr_id = WR_SENT | q->posted++;
		wr[i].sg_list = sge[i];
		if (v[i].op == RS_OP_SEND)
			fill_send(q, &v[i], &wr[i], sge[i]);
		else
			fill_rdma(q, &v[i], &wr[i], sge[i]);
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	wr[n - 1].send_flags |= IBV_SEND_SIGNALED;
	q->chain[q->chain_tail++ % QP_DEPTH] = (uint8_t)n;
	d->doorbells++;
	return device_post(q, wr, g);
}

int rs_qp_post(struct rs_device *d, struct rs_qp *q, const struct rs_post *v, unsigned int n)
{
	return rs_qp_post_open(d, q, v, n, NULL);
}

unsigned int rs_qp_chain_done(struct rs_qp *q)
{
	const unsigned int n =
		q->chain_head == q->chain_tail ? 0 : q->chain[q->chain_head++ % QP_DEPTH];

	q->done += n;
	return n;
}

unsigned int rs_qp_before(const struct rs_qp *q, uint64_t wr_id)
{
	return (uint32_t)wr_id - q->done;
}
