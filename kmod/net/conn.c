// SPDX-License-Identifier: GPL-2.0
/*
 * conn.c - RDMA connections of a rank: its device, and one queue pair per peer and protocol class;
 * opening, connecting, closing.
 */
#include <linux/moduleparam.h>
#include <linux/nsproxy.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>
#include <rdma/ib_cache.h>

#include "../base/check.h"
#include "conn.h"
#include "cq.h"
#include "../base/debug.h"
#include "egress.h"
#include "key.h"
#include "lane.h"
#include "../base/pool.h"
#include "recv.h"
#include "../base/test.h"
#include "../base/work.h"

static int late_us = -1;
module_param(late_us, int, 0600);
MODULE_PARM_DESC(
	late_us,
	"microseconds that a MSG_DONE may wait for a message to go with (-1: 100 on rxe, else 0)");
static unsigned int qp_timeout = 18; /* about 1 s: emulated machines are slow */
module_param(qp_timeout, uint, 0600);
MODULE_PARM_DESC(qp_timeout,
		 "4.096 us times 2 to this power until a packet is repeated (1 to 31; 18: 1.07 s)");
TEST_PARAM(bool, test_no_inline, false, "send messages as on a device that cannot send inline");
TEST_PARAM(uint, test_send_room, 0, "places in the send queues of ranks that join, 18 at least");
TEST_PARAM(uint, test_cqe, 0, "entries of completion queues, whatever the job needs");
TEST_PARAM(uint, test_max_cqe, 0, "entries of completion queues that the device is said to allow");
TEST_PARAM(bool, test_late_event, false,
	   "a connection that is closed hears once more that a queue pair is broken");

#define LATE_US 100
#define LATE_US_MAX 10000u

/* ---- opening -------------------------------------------------------------------------------- */

/* RoCE v2 over IPv4 first, then over IPv6, then any other. */
static int gid_worth(const struct ib_gid_attr *a)
{
	if (a->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
		return ipv6_addr_v4mapped((const struct in6_addr *)&a->gid) ? 4
			: !(ipv6_addr_type((const struct in6_addr *)&a->gid) & IPV6_ADDR_LINKLOCAL)
			? 3
			: 2;
	return 1;
}

/*
 * All network namespaces may share a device (the RDMA subsystem's default), but not its addresses:
 * each belongs to a network device, which is in one namespace. InfiniBand addresses belong to none.
 */
static bool gid_is_ours(const struct conn *c, const struct ib_gid_attr *a)
{
	struct net_device *dev;
	bool ours;

	if (!rdma_protocol_roce(c->dev, c->port))
		return true;
	rcu_read_lock();
	dev = rdma_read_gid_attr_ndev_rcu(a);
	ours = !IS_ERR(dev) && net_eq(dev_net(dev), current->nsproxy->net_ns);
	rcu_read_unlock();
	return ours;
}

/* -EADDRNOTAVAIL: no address; -ENODEV: all addresses belong to other network namespaces. */
static int conn_gid_choose(struct conn *c, int wanted, int entries)
{
	int i, best = -1, worth = 0, others = 0;

	for (i = 0; i < entries; i++) {
		const struct ib_gid_attr *a = rdma_get_gid_attr(c->dev, c->port, i);

		if (IS_ERR(a))
			continue;
		if (!gid_is_ours(c, a)) {
			others++;
		} else if (wanted < 0 ? gid_worth(a) > worth : i == wanted) {
			worth = gid_worth(a);
			best = i;
		}
		rdma_put_gid_attr(a);
	}
	if (best < 0)
		return others ? -ENODEV : -EADDRNOTAVAIL;
	c->gid = rdma_get_gid_attr(c->dev, c->port, best);
	return PTR_ERR_OR_ZERO(c->gid);
}

/*
 * The driver calls this in any context. It reports errors of a queue pair that no completion
 * reports.
 */
static void qp_event(struct ib_event *event, void *arg)
{
	struct lane *l = arg;

	if (event->event == IB_EVENT_QP_FATAL || event->event == IB_EVENT_QP_REQ_ERR ||
	    event->event == IB_EVENT_QP_ACCESS_ERR)
		lane_broken(l, ib_event_msg(event->event), -EIO);
}

/*
 * Messages are sent inline if the device supports that, otherwise from buffers. Drivers report
 * missing support in different ways.
 */
static int make_qp(struct conn *c, struct lane *l)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq_of(c->cqs[l->class]),
		.recv_cq = cq_of(c->cqs[l->class]),
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.srq = c->receives[l->class].srq,
		.qp_type = IB_QPT_RC,
		.event_handler = qp_event,
		.qp_context = l,
	};
	const struct ib_qp_cap cap = {
		.max_send_wr = c->depth + SENDS_MORE,
		.max_recv_wr = init.srq ? 0 : CREDITS,
		.max_send_sge = 1,
		.max_recv_sge = init.srq ? 0 : 1,
	};
	const u32 room = (c->late_us ? l->pack : 1) * sizeof(struct msg);
	bool is_inline = !test_value(test_no_inline);

	init.cap = cap;
	init.cap.max_inline_data = is_inline ? room : 0;
	l->qp = ib_create_qp(c->pd, &init);
	if (is_inline && IS_ERR(l->qp)) {
		is_inline = false;
		init.cap = cap;
		l->qp = ib_create_qp(c->pd, &init);
	}
	if (IS_ERR(l->qp)) {
		int err = PTR_ERR(l->qp);

		l->qp = NULL;
		return err;
	}
	if (is_inline && init.cap.max_inline_data >= room)
		return 0;
	l->out = buffers_make(c, c->depth * l->pack, DMA_TO_DEVICE, &l->out_dma);
	return l->out ? 0 : -ENOMEM;
}

static int make_lane(struct conn *c, struct lane *l)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT,
				   .port_num = c->port,
				   .pkey_index = c->pkey,
				   /* Peers write blocks over this class only. */
				   .qp_access_flags =
					   l->class == CLASS_DATA ? IB_ACCESS_REMOTE_WRITE : 0 };
	const unsigned int room = test_value(test_send_room);
	int err;

	l->room = room ? clamp(room, SENDS_LEAST, c->depth) : c->depth;
	l->credit = CREDITS;
	err = make_qp(c, l);
	if (!err)
		err = ib_modify_qp(l->qp, &attr,
				   IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
					   IB_QP_ACCESS_FLAGS);
	return err ? err : recv_start(l);
}

static int make_lanes(struct conn *c)
{
	u16 p, class;
	int err = 0;

	for (p = 0; p < c->cfg.size; p++) {
		egress_start(c, p);
		for (class = 0; class < CLASS_MAX; class ++)
			lane_start(c, p, class);
	}
	for (p = 0; p < c->cfg.size && !err; p++) {
		struct peer_keys *k = &c->keys[p];

		spin_lock_init(&k->lock);
		INIT_LIST_HEAD(&k->blocks);
		if (p == c->cfg.me)
			continue;
		if (!pool_test_refuses(GFP_KERNEL))
			k->of = __vmalloc((size_t)(c->cfg.ctx->pages / CHUNK_PAGES) *
						  sizeof(*k->of),
					  GFP_CTX | __GFP_ZERO);
		if (!k->of)
			err = -ENOMEM;
		for (class = 0; class < CLASS_MAX && !err; class ++)
			err = make_lane(c, lane_of(c, p, class));
	}
	return err;
}

static void write_address(struct conn *c, struct dsm_address *a, u32 *size)
{
	u16 p, class;

	BUILD_BUG_ON(sizeof(a->gid) != sizeof(union ib_gid));
	BUILD_BUG_ON(DSM_MTU_MIN != IB_MTU_256 || DSM_MTU_MAX != IB_MTU_4096);
	a->magic = DSM_ADDRESS_MAGIC;
	a->version = DSM_UAPI_VERSION;
	a->rank = c->cfg.me;
	a->size = c->cfg.size;
	a->mtu = c->mtu;
	a->global = rdma_protocol_roce(c->dev, c->port);
	a->lid = a->global ? 0 : c->lid;
	memcpy(a->gid, &c->gid->gid, sizeof(a->gid));
	for (p = 0; p < a->size; p++)
		for (class = 0; class < CLASS_MAX; class ++)
			address_qp(a, p, class)->qpn =
				p == a->rank ? 0 : lane_of(c, p, class)->qp->qp_num;
	*size = (u32)address_bytes(a->size);
}

static int conn_port_open(struct conn *c, int gid)
{
	struct ib_port_attr attr;
	int err = ib_query_port(c->dev, c->port, &attr);

	if (err)
		return err;
	if (attr.state != IB_PORT_ACTIVE)
		return -ENETDOWN;
	c->mtu = attr.active_mtu;
	c->lid = (u16)attr.lid;
	return conn_gid_choose(c, gid, attr.gid_tbl_len);
}

/*
 * On a software device the thread that posts a message also sends its packet, so delaying messages
 * to send fewer packets pays.
 */
static u32 choose_late_us(const struct ib_device *dev)
{
	const bool soft = dev->ops.driver_id == RDMA_DRIVER_RXE;

	return late_us < 0 ? soft ? LATE_US : 0 : min_t(u32, late_us, LATE_US_MAX);
}

#define DRIVER_BYTES 256u /* a driver's own memory per request and completion, estimated */

size_t conn_peer_bytes(size_t chunks)
{
	const size_t messages = (PACK + CLASS_MAX - 1) * (DEPTH + CREDITS),
		     requests = CLASS_MAX * (DEPTH + CREDITS);

	return chunks * sizeof(struct peer_key) + CLASS_MAX * sizeof(struct lane) +
		sizeof(struct egress) + 2ul * requests * DRIVER_BYTES +
		messages * sizeof(struct msg);
}

/*
 * All posted requests may complete at once: if queue pairs fail, unsignalled requests complete,
 * too.
 */
static unsigned int entries_for(const struct conn *c, unsigned int depth)
{
	return c->cfg.size * (depth + CREDITS + SENDS_MORE);
}

/*
 * The depth is as large as the device's queues allow. A completion queue must not overrun: that
 * would end the rank.
 */
static int choose_depth(struct conn *c)
{
	const struct ib_device_attr *a = &c->dev->attrs;
	const int most = test_value(test_max_cqe) ? min_t(int, test_value(test_max_cqe), a->max_cqe)
						  : a->max_cqe;
	const int each = most / c->cfg.size - (int)(CREDITS + SENDS_MORE);
	const int depth = min3((int)DEPTH, each, a->max_qp_wr - (int)SENDS_MORE);

	if (depth < (int)DEPTH_LEAST) {
		pr_info_ratelimited(
			"dsm: rank %u: %s has completion queues of %d entries and queue pairs of %d; a job of %u ranks needs %u and %u\n",
			c->cfg.me, dev_name(&c->dev->dev), most, a->max_qp_wr, c->cfg.size,
			entries_for(c, DEPTH_LEAST), DEPTH_LEAST + SENDS_MORE);
		return -E2BIG;
	}
	c->depth = depth;
	return 0;
}

/* Completions were lost, and nobody knows of which messages. */
void conn_failed(struct conn *c, const char *queue)
{
	if (READ_ONCE(c->closing) || xchg(&c->failed, true))
		return;
	pr_warn_ratelimited("dsm: rank %u: a %s of %s has failed\n", c->cfg.me, queue,
			    dev_name(&c->dev->dev));
	c->cfg.ops->lost(c->cfg.arg, c->cfg.me, -EOVERFLOW);
}

static void cq_lost(void *arg)
{
	conn_failed(arg, "completion queue");
}

/*
 * Give up peers with a broken lane. Such a peer can write into no frame any more, and notices when
 * it sends. Free the messages that wait for it, which are charged to the user.
 */
static void conn_drop_work(struct work_struct *work)
{
	struct conn *c = container_of(work, struct conn, drop);
	unsigned int peer, class;

	mutex_lock(&c->modify);
	for_each_set_bit(peer, c->dropped, c->cfg.size) {
		if (c->closing)
			break; /* conn_close() destroys them all */
		for (class = 0; class < CLASS_MAX; class ++) {
			struct lane *l = lane_of(c, (u16)peer, class);

			WRITE_ONCE(l->broken, true);
			lane_end_locked(l);
			debug_count(COUNT_UNSENT, egress_forget(l));
		}
		key_forget_blocks(c, (u16)peer);
	}
	mutex_unlock(&c->modify);
}

void conn_drop(struct conn *c, u16 peer)
{
	set_bit(peer, c->dropped);
	queue_work(dsm_wq, &c->drop);
}

struct conn *conn_open(const struct conn_config *cfg, const struct dsm_ioc_join *j, void *address,
		       u32 *size)
{
	struct conn *c = pool_test_refuses(GFP_KERNEL) ? NULL : kzalloc(sizeof(*c), GFP_CTX);
	unsigned int class, entries;
	int err = -ENOMEM;

	BUILD_BUG_ON(sizeof(struct dsm_address) +
			     DSM_RANKS_MAX * CLASS_MAX * sizeof(struct dsm_address_qp) >
		     DSM_ADDRESS_MAX);
	if (!c)
		return ERR_PTR(-ENOMEM);
	c->cfg = *cfg;
	mutex_init(&c->key_mutex);
	mutex_init(&c->modify);
	INIT_WORK(&c->drop, conn_drop_work);
	if (!pool_test_refuses(GFP_KERNEL))
		c->lanes = kvcalloc((size_t)cfg->size * CLASS_MAX, sizeof(*c->lanes), GFP_CTX);
	if (!pool_test_refuses(GFP_KERNEL))
		c->keys = kvcalloc(cfg->size, sizeof(*c->keys), GFP_CTX);
	if (!pool_test_refuses(GFP_KERNEL))
		c->egress = kvcalloc(cfg->size, sizeof(*c->egress), GFP_CTX);
	if (!c->lanes || !c->keys || !c->egress)
		goto fail;
	err = device_get(j->device, &c->dev, &c->port);
	if (err)
		goto fail;
	cfg->ctx->node = ibdev_to_node(c->dev);
	c->late_us = choose_late_us(c->dev);
	err = conn_port_open(c, j->gid);
	if (err)
		goto fail;
	err = caps_check(c->dev, c->port, &c->pkey);
	if (err)
		goto fail;
	c->pd = ib_alloc_pd(c->dev, 0);
	if (IS_ERR(c->pd)) {
		err = PTR_ERR(c->pd);
		c->pd = NULL;
		goto fail;
	}
	err = choose_depth(c);
	if (err)
		goto fail;
	entries = test_value(test_cqe) ? test_value(test_cqe) : entries_for(c, c->depth);
	for (class = 0; class < CLASS_MAX; class ++) {
		c->cqs[class] = cq_create(c->dev, j->mode, entries, j->vectors[class],
					  j->cpus[class], lane_completed, cq_lost, c);
		if (IS_ERR(c->cqs[class])) {
			err = PTR_ERR(c->cqs[class]);
			c->cqs[class] = NULL;
			goto fail;
		}
	}
	err = recv_open(c);
	if (!err)
		err = make_lanes(c);
	if (err)
		goto fail;
	write_address(c, address, size);
	return c;

fail:
	conn_close(c);
	return ERR_PTR(err);
}

/* ---- connecting ----------------------------------------------------------------------------- */

/*
 * Resolve the peer's link address, as creating an address handle does. ib_modify_qp() resolves it
 * only for user processes.
 */
static int conn_resolve(struct conn *c, struct rdma_ah_attr *attr)
{
	struct ib_ah *ah = pool_test_refuses(GFP_KERNEL) ? ERR_PTR(-ENOMEM)
							 : rdma_create_user_ah(c->pd, attr, NULL);

	if (IS_ERR(ah))
		return PTR_ERR(ah);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return 0;
}

#define PSN_MASK 0xffffffu

static int to_receive(struct conn *c, struct lane *l, struct dsm_address *a)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = min(c->mtu, a->mtu),
		.dest_qp_num = address_qp(a, c->cfg.me, l->class)->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
	};
	int err;

	if (l->receives)
		return 0;
	l->peer_qpn = attr.dest_qp_num;
	attr.rq_psn = (u32)lane_secret(l, SECRET_PSN, true) & PSN_MASK;

	attr.ah_attr.type = rdma_ah_find_type(c->dev, c->port);
	rdma_ah_set_port_num(&attr.ah_attr, c->port);
	rdma_ah_set_dlid(&attr.ah_attr, a->lid);
	rdma_ah_set_sl(&attr.ah_attr, caps_service_level());
	if (a->global) {
		union ib_gid gid;

		memcpy(&gid, a->gid, sizeof(gid));
		rdma_ah_set_grh(&attr.ah_attr, &gid, 0, c->gid->index, 64, 0);
	}
	err = conn_resolve(c, &attr.ah_attr);
	if (err)
		return err;
	err = ib_modify_qp(l->qp, &attr,
			   IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
				   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	l->receives = !err;
	return err;
}

static int to_send(struct lane *l)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.timeout = (u8)clamp(qp_timeout, 1u, 31u),
		/* rxe takes 7 for "without limit", and would never notice a dead peer */
		.retry_cnt = 6,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
		.sq_psn = (u32)lane_secret(l, SECRET_PSN, false) & PSN_MASK,
	};
	return ib_modify_qp(l->qp, &attr,
			    IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY |
				    IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

int conn_connect(struct conn *c, u16 peer, void *address, u32 size)
{
	const struct limits limits = { .ranks = c->cfg.size, .me = c->cfg.me, .peer = peer };
	struct dsm_address *a = address;
	bool all = true;
	unsigned int class;
	int err = 0;

	if (peer == c->cfg.me || size != address_bytes(c->cfg.size) ||
	    !check_address(&limits, rdma_protocol_roce(c->dev, c->port), a))
		return -EINVAL;
	for (class = 0; class < CLASS_MAX && !err; class ++) {
		struct lane *l = lane_of(c, peer, class);

		if (READ_ONCE(l->up))
			continue;
		all = false;
		mutex_lock(&c->modify);
		err = c->closing ? -EIO : to_receive(c, l, a);
		if (!err)
			err = to_send(l);
		if (!err)
			lane_up(l);
		mutex_unlock(&c->modify);
	}
	return all ? -EEXIST : err;
}

/* ---- closing -------------------------------------------------------------------------------- */

static void close_lane(struct lane *l)
{
	if (!l->conn)
		return; /* conn_open() failed before it got here */
	lane_stop(l);
	if (l->qp)
		ib_destroy_qp(l->qp);
	buffers_free(l->conn, l->out, l->conn->depth * l->pack, DMA_TO_DEVICE, l->out_dma);
	egress_forget(l);
}

void conn_stop(struct conn *c)
{
	unsigned int i;

	mutex_lock(&c->modify);
	WRITE_ONCE(c->closing, true);
	for (i = 0; c->lanes && i < (unsigned int)c->cfg.size * CLASS_MAX; i++)
		lane_end_locked(&c->lanes[i]);
	mutex_unlock(&c->modify);
}

void conn_close(struct conn *c)
{
	unsigned int i;
	u16 p;

	conn_stop(c);
	for (i = 0; i < CLASS_MAX; i++)
		if (c->cqs[i])
			cq_stop(c->cqs[i]);
	if (test_value(test_late_event))
		/* as a late lane_broken() that has not seen conn_stop() */
		conn_drop(c, !c->cfg.me);
	for (i = 0; c->lanes && i < (unsigned int)c->cfg.size * CLASS_MAX; i++)
		close_lane(&c->lanes[i]);
	/* queue pairs are destroyed, so qp_event() cannot queue it again */
	cancel_work_sync(&c->drop);
	recv_close(c);
	for (i = 0; i < CLASS_MAX; i++)
		if (c->cqs[i])
			cq_destroy(c->cqs[i]);
	if (c->pd && key_free_all(c))
		ib_dealloc_pd(c->pd);
	for (p = 0; c->keys && p < c->cfg.size; p++) {
		if (c->keys[p].blocks.next)
			waiting_put_all(c, &c->keys[p].blocks);
		vfree(c->keys[p].of);
	}
	if (!IS_ERR_OR_NULL(c->gid))
		rdma_put_gid_attr(c->gid);
	if (c->dev)
		device_put_back(c->dev);
	kvfree(c->lanes);
	kvfree(c->keys);
	kvfree(c->egress);
	kfree(c);
}

void conn_show(struct seq_file *f, struct conn *c)
{
	unsigned int i;
	u16 p;

	for (i = 0; i < (unsigned int)c->cfg.size * CLASS_MAX; i++) {
		struct lane *l = &c->lanes[i];

		if (l->qp && (l->broken || c->depth - l->room > l->unsignalled || l->nwaiting))
			seq_printf(
				f,
				"  lane to %u, class %u: %u sent and not completed, credit for %u%s%s\n",
				l->peer, l->class, c->depth - l->room, l->credit,
				l->nwaiting ? ", others wait" : "", l->broken ? ", broken" : "");
	}
	egress_list(f, c);
	for (p = 0; p < c->cfg.size; p++)
		if (p != c->cfg.me && !list_empty(&c->keys[p].blocks))
			seq_printf(f, "  blocks wait for a key of %u\n", p);
}

void conn_queues(const struct conn *c, struct dsm_ioc_queues *out)
{
	unsigned int i;
	u16 p;

	strscpy(out->device, dev_name(&c->dev->dev), sizeof(out->device));
	for (i = 0; i < CLASS_MAX; i++) {
		cq_counts(c->cqs[i], &out->mode, &out->of[i]);
		for (p = 0; p < c->cfg.size; p++) {
			out->of[i].sent += READ_ONCE(c->lanes[p * CLASS_MAX + i].sent);
			out->of[i].received += READ_ONCE(c->lanes[p * CLASS_MAX + i].received);
		}
	}
}

struct ib_device *conn_device(const struct conn *c)
{
	return c->dev;
}

int conn_init(device_gone_fn gone)
{
	int err = egress_init();

	if (!err)
		err = cq_init(gone);
	if (err)
		egress_exit();
	return err;
}

void conn_exit(void)
{
	cq_exit();
	egress_exit();
}
