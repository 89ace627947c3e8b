// SPDX-License-Identifier: GPL-2.0
/*
 * pingpong.c - an upper-layer protocol that uses the CQ groups of dsm.ko, for tests
 * (tests/kmod/groups).
 *
 * On each RoCE device it has a pair of queue pairs for each class, connected to each other, with
 * one CQ on a vector of the class. One side sends the number of the round, the other sends it back,
 * `rounds` times. The messages have no data but the immediate. /sys/kernel/debug/pingpong/DEVICE
 * shows a line for each class: its vector, rounds, and 0 or the first error.
 *
 * A pair runs in softirq, in the handlers of its CQ, which are never called at the same time. It
 * ends when its queue pairs are drained.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "cqgroup.h"

MODULE_DESCRIPTION("Ping-pong over the CQ groups of dsm.ko, for tests");
MODULE_LICENSE("GPL");

#define RECEIVES 2 /* a message is answered before its receive is posted again */
#define PORT 1

static unsigned int rounds = 100;
module_param(rounds, uint, 0400);
MODULE_PARM_DESC(rounds, "of each class, on each device");

struct pair;

struct side {
	struct pair *pair;
	struct ib_qp *qp;
	struct ib_cqe received, sent;
	bool answers, connected;
	bool sending, waiting; /* a message that has not completed; one that waits for that */
	__be32 imm;            /* of the one that waits */
};

struct pair {
	struct device_pairs *owner;
	struct ib_cq *cq;
	int vector; /* negative: none */
	struct side sides[2];
	unsigned int round;
	int err;
};

struct device_pairs {
	struct ib_device *dev;
	struct ib_pd *pd;
	const struct ib_gid_attr *gid;
	struct dentry *file;
	struct pair pairs[CQGROUP_CLASSES];
};

static struct dentry *folder;

/* ---- messages ------------------------------------------------------------------------------- */

static void fail(struct pair *p, int err)
{
	if (!p->err)
		WRITE_ONCE(p->err, err);
}

static int post_receive(struct side *s)
{
	struct ib_recv_wr wr = { .wr_cqe = &s->received };

	return ib_post_recv(s->qp, &wr, NULL);
}

/* One message at a time: there is room for it in the send queue. */
static int send_waiting(struct side *s)
{
	struct ib_send_wr wr = {
		.wr_cqe = &s->sent,
		.opcode = IB_WR_SEND_WITH_IMM,
		.send_flags = IB_SEND_SIGNALED,
		.ex.imm_data = s->imm,
	};

	if (s->sending || !s->waiting)
		return 0;
	s->sending = true;
	s->waiting = false;
	return ib_post_send(s->qp, &wr, NULL);
}

static int send(struct side *s, __be32 imm)
{
	s->imm = imm;
	s->waiting = true;
	return send_waiting(s);
}

/* What side 0 sent has come back. */
static int next_round(struct pair *p, __be32 imm)
{
	if (imm != cpu_to_be32(p->round))
		return -EBADMSG;
	WRITE_ONCE(p->round, p->round + 1);
	return p->round < rounds ? send(&p->sides[0], cpu_to_be32(p->round)) : 0;
}

/* Queue pairs that are drained flush their receives: that is no error. */
static void received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = container_of(wc->wr_cqe, struct side, received);
	int err;

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	if (wc->status != IB_WC_SUCCESS || !(wc->wc_flags & IB_WC_WITH_IMM)) {
		fail(s->pair, -EIO);
		return;
	}
	err = s->answers ? send(s, wc->ex.imm_data) : next_round(s->pair, wc->ex.imm_data);
	if (!err)
		err = post_receive(s);
	if (err)
		fail(s->pair, err);
}

static void sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct side *s = container_of(wc->wr_cqe, struct side, sent);
	int err;

	if (wc->status == IB_WC_WR_FLUSH_ERR)
		return;
	s->sending = false;
	err = wc->status == IB_WC_SUCCESS ? send_waiting(s) : -EIO;
	if (err)
		fail(s->pair, err);
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static int connect(struct side *s, u32 peer)
{
	const struct ib_gid_attr *gid = s->pair->owner->gid;
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = PORT };
	int err;

	err = ib_modify_qp(s->qp, &attr,
			   IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;
	attr = (struct ib_qp_attr){
		.qp_state = IB_QPS_RTR,
		.path_mtu = IB_MTU_1024,
		.dest_qp_num = peer,
		.min_rnr_timer = 1,
	};
	attr.ah_attr.type = rdma_ah_find_type(s->qp->device, PORT);
	rdma_ah_set_port_num(&attr.ah_attr, PORT);
	rdma_ah_set_grh(&attr.ah_attr, (union ib_gid *)&gid->gid, 0, gid->index, 64, 0);
	err = rdma_read_gid_l2_fields(gid, NULL, attr.ah_attr.roce.dmac);
	if (err)
		return err;
	err = ib_modify_qp(s->qp, &attr,
			   IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr = (struct ib_qp_attr){
		.qp_state = IB_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7
	};
	return ib_modify_qp(s->qp, &attr,
			    IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

static int side_open(struct side *s)
{
	struct pair *p = s->pair;
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.send_cq = p->cq,
		.recv_cq = p->cq,
		/* One more, with which ib_drain_qp() ends. */
		.cap = { .max_send_wr = RECEIVES + 1,
			 .max_recv_wr = RECEIVES + 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ib_qp *qp = ib_create_qp(p->owner->pd, &attr);

	if (IS_ERR(qp))
		return PTR_ERR(qp);
	s->qp = qp;
	s->received.done = received;
	s->sent.done = sent;
	return 0;
}

static void pair_close(struct pair *p)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(p->sides); i++)
		if (p->sides[i].connected)
			ib_drain_qp(p->sides[i].qp);
	for (i = 0; i < ARRAY_SIZE(p->sides); i++)
		if (p->sides[i].qp)
			ib_destroy_qp(p->sides[i].qp);
	if (p->cq)
		ib_free_cq(p->cq);
	if (p->vector >= 0)
		cqgroup_put_vector(p->owner->dev, p->vector);
}

static int pair_start(struct pair *p)
{
	struct side *s = p->sides;
	int err, i;

	for (i = 0; i < 2; i++) {
		err = connect(&s[i], s[1 - i].qp->qp_num);
		if (err)
			return err;
		s[i].connected = true;
	}
	for (i = 0; i < 2 * RECEIVES; i++) {
		err = post_receive(&s[i % 2]);
		if (err)
			return err;
	}
	return rounds ? send(&s[0], cpu_to_be32(0)) : 0;
}

static int pair_open(struct device_pairs *d, enum cqgroup_class class)
{
	struct pair *p = &d->pairs[class];
	struct ib_cq *cq;
	int i, err;

	p->vector = cqgroup_get_vector(d->dev, class);
	if (p->vector < 0)
		return p->vector;
	cq = ib_alloc_cq(d->dev, NULL, 2 * (RECEIVES + 1 + 1 + 1), p->vector, IB_POLL_SOFTIRQ);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	p->cq = cq;
	for (i = 0; i < 2; i++) {
		p->sides[i].answers = i;
		err = side_open(&p->sides[i]);
		if (err)
			return err;
	}
	return pair_start(p);
}

/* ---- devices -------------------------------------------------------------------------------- */

static int pairs_show(struct seq_file *f, void *unused)
{
	static const char *const names[CQGROUP_CLASSES] = { "coherence", "data", "sync", "bulk" };
	struct device_pairs *d = f->private;
	unsigned int c;

	for (c = 0; c < CQGROUP_CLASSES; c++)
		seq_printf(f, "%s %d %u %d\n", names[c], d->pairs[c].vector,
			   READ_ONCE(d->pairs[c].round), READ_ONCE(d->pairs[c].err));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pairs);

static void device_close(struct device_pairs *d)
{
	unsigned int c;

	debugfs_remove(d->file); /* waits for readers */
	for (c = 0; c < CQGROUP_CLASSES; c++)
		pair_close(&d->pairs[c]);
	if (d->gid)
		rdma_put_gid_attr(d->gid);
	if (d->pd)
		ib_dealloc_pd(d->pd);
	kfree(d);
}

/* The first address of the port that is one of RoCEv2. */
static const struct ib_gid_attr *find_gid(struct ib_device *dev)
{
	const struct ib_gid_attr *gid;
	int i;

	for (i = 0; i < dev->port_data[PORT].immutable.gid_tbl_len; i++) {
		gid = rdma_get_gid_attr(dev, PORT, i);
		if (IS_ERR(gid))
			continue;
		if (gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
			return gid;
		rdma_put_gid_attr(gid);
	}
	return NULL;
}

static int device_open(struct device_pairs *d)
{
	struct ib_pd *pd = ib_alloc_pd(d->dev, 0);
	unsigned int c;
	int err;

	if (IS_ERR(pd))
		return PTR_ERR(pd);
	d->pd = pd;
	d->gid = find_gid(d->dev);
	if (!d->gid)
		return -EADDRNOTAVAIL;
	if (cqgroup_get_vector(d->dev, CQGROUP_CLASSES) != -EINVAL)
		return -EPROTO;
	for (c = 0; c < CQGROUP_CLASSES; c++) {
		err = pair_open(d, c);
		if (err)
			return err;
	}
	return 0;
}

static struct ib_client client;

static int pingpong_add(struct ib_device *dev)
{
	struct device_pairs *d;
	unsigned int c, i;
	int err;

	if (!rdma_protocol_roce_udp_encap(dev, PORT))
		return -EOPNOTSUPP;
	d = kzalloc(sizeof(*d), GFP_KERNEL);
	if (!d)
		return -ENOMEM;
	d->dev = dev;
	for (c = 0; c < CQGROUP_CLASSES; c++) {
		d->pairs[c].owner = d;
		d->pairs[c].vector = -1;
		for (i = 0; i < 2; i++)
			d->pairs[c].sides[i].pair = &d->pairs[c];
	}
	err = device_open(d);
	if (err) {
		dev_err(&dev->dev, "pingpong: error %d\n", err);
		device_close(d);
		return err;
	}
	ib_set_client_data(dev, &client, d);
	d->file = debugfs_create_file(dev_name(&dev->dev), 0400, folder, d, &pairs_fops);
	return 0;
}

static void pingpong_remove(struct ib_device *dev, void *data)
{
	device_close(data);
}

static struct ib_client client = { .name = "pingpong",
				   .add = pingpong_add,
				   .remove = pingpong_remove };

static int __init pingpong_init(void)
{
	int err;

	folder = debugfs_create_dir("pingpong", NULL);
	err = ib_register_client(&client);
	if (err)
		debugfs_remove(folder);
	return err;
}

static void __exit pingpong_exit(void)
{
	ib_unregister_client(&client);
	debugfs_remove(folder);
}

module_init(pingpong_init);
module_exit(pingpong_exit);
