// SPDX-License-Identifier: GPL-2.0
/*
 * conn.c - a rank's RDMA: queue pairs to its peers, one for each protocol class, messages and blocks over them, and the keys
 * by which peers write blocks into this rank's frames.
 *
 * Sending. A message is an inline send of 32 bytes, a block one RDMA write with immediate data (host_imm()) straight into the
 * requester's frame. Nobody waits for completions: every SIGNAL_EVERYth work request is signalled, and its completion gives
 * back as many places of the queue as it covers. When no place is left (lane->room), messages wait in lane->waiting.
 *
 * Receiving. Each lane has RECEIVES buffers. A peer has at most SLOTS requests under way, each of which causes a bounded
 * number of messages, and a buffer is posted again as soon as its message is copied out, so the queue does not run dry
 * while this side lives; that it should is what RNR retries are for, and they are counted by the device.
 *
 * Keys. To write into a peer's frames one must know the key of the 2 MiB they are in: MSG_KEY_WANTED asks, MSG_KEY answers,
 * and the block waits meanwhile (once for each 2 MiB and pair of ranks). A key covers those frames and nothing else, for
 * writing only, and is invalidated before they are freed.
 *
 * Locks: lane->lock (bottom halves off), key_lock of a peer inside nothing.
 */
#include <linux/nospec.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "cq.h"
#include "rank.h"

#define RECEIVES 512u
#define SENDS 512u
#define SIGNAL_EVERY 16u
#define ADDRESS_MAGIC 0x316b6d73u /* "smk1" */
#define QP_TIMEOUT 18             /* 4.096 us << 18: a second; emulated machines are slow */

enum { MSG_KEY_WANTED = 0xf0, MSG_KEY = 0xf1 };
enum wr_kind { WR_RECEIVE = 1, WR_SEND, WR_KEY };

struct address {
	u32 magic, version;
	u64 key;
	u16 rank, size;
	u16 lid;
	u8 mtu, global;
	union ib_gid gid;
	u32 qpn[][CLASS_MAX]; /* for each rank */
};

struct waiting {
	struct list_head list;
	struct msg m;
	bool block;
};

struct lane {
	spinlock_t lock;
	struct ib_qp *qp;
	struct conn *conn;
	u16 peer;
	u8 class;
	bool up, broken;
	unsigned int room;       /* places in the send queue */
	unsigned int unsignalled;
	struct list_head waiting;
	struct msg *buffers;     /* RECEIVES of them */
	u64 dma;
};

struct peer_key {
	u32 rkey;
	u64 at;                  /* remote address of the first page */
};

struct peer_keys {
	spinlock_t lock;
	struct peer_key *of;          /* by 2 MiB of the window; rkey 0: not known */
	struct list_head blocks; /* struct waiting: until their key comes */
};

struct chunk_key {
	struct ib_mr *mr;
	struct ib_device *dev;
	struct sg_table sg;
	struct completion done;
	int status;
};

struct conn {
	struct rank *rank;
	struct ib_device *dev;
	u32 port;
	const struct ib_gid_attr *gid;
	u8 mtu;
	u16 lid;
	struct ib_pd *pd;
	struct cq *cqs[CLASS_MAX];
	struct lane *lanes;      /* size * CLASS_MAX */
	struct peer_keys *keys;
	struct mutex key_mutex;  /* one key is made at a time */
	struct chunk_key *making;
	bool closing;
};

static struct lane *lane_of(struct conn *c, u16 peer, unsigned int class)
{
	return &c->lanes[peer * CLASS_MAX + class];
}

/* ---- work request names --------------------------------------------------------------------- */

static u64 wr_id(enum wr_kind kind, const struct lane *l, u32 index)
{
	return (u64)kind << 56 | (u64)l->class << 48 | (u64)l->peer << 32 | index;
}

static void lane_broken(struct lane *l, const char *how, int status)
{
	if (l->conn->closing || xchg(&l->broken, true))
		return;
	pr_info("dsm: rank %u: the connection to rank %u is broken (%s, %s)\n", l->conn->rank->me, l->peer, how,
		status < 0 ? "errno" : ib_wc_status_msg(status));
	rank_peer_lost(l->conn->rank, l->peer, -EPIPE);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void post(struct lane *l, struct ib_send_wr *wr)
{
	int err;

	l->room--;
	if (++l->unsignalled == SIGNAL_EVERY) {
		wr->send_flags |= IB_SEND_SIGNALED;
		wr->wr_id = wr_id(WR_SEND, l, l->unsignalled);
		l->unsignalled = 0;
	}
	err = ib_post_send(l->qp, wr, NULL);
	if (err)
		lane_broken(l, "post", err);
}

static void post_message(struct lane *l, const struct msg *m)
{
	struct ib_sge sge = { .addr = (uintptr_t)m, .length = sizeof(*m) };
	struct ib_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND, .send_flags = IB_SEND_INLINE };

	post(l, &wr);
}

static void post_block(struct lane *l, const struct msg *m)
{
	struct conn *c = l->conn;
	u32 page = block_page(m->object), in = page % CHUNK_PAGES;
	struct chunk *k = chunk_with(c->rank->ctx, page, block_pages(m->object));
	struct chunk_key *mine = k ? smp_load_acquire(&k->key) : NULL;
	const struct peer_key *theirs = &c->keys[l->peer].of[page / CHUNK_PAGES];
	struct ib_sge sge = { .length = block_pages(m->object) << PAGE_SHIFT };
	struct ib_rdma_wr wr = {
		.wr = { .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_RDMA_WRITE_WITH_IMM, .ex.imm_data = cpu_to_be32(host_imm(m)) },
		.remote_addr = theirs->at + ((u64)in << PAGE_SHIFT),
		.rkey = theirs->rkey,
	};

	if (!mine)
		return; /* the range was given up meanwhile: nobody waits for the block */
	sge.addr = mine->mr->iova + ((u64)in << PAGE_SHIFT);
	sge.lkey = mine->mr->lkey;
	post(l, &wr.wr);
}

/* Places in the queue have come free: those that wait go first. Under the lane's lock. */
static void flush_waiting(struct lane *l)
{
	struct waiting *w;

	while (l->room && (w = list_first_entry_or_null(&l->waiting, struct waiting, list))) {
		list_del(&w->list);
		if (w->block)
			post_block(l, &w->m);
		else
			post_message(l, &w->m);
		kfree(w);
	}
}

static struct waiting *waiting_new(const struct msg *m, bool block)
{
	struct waiting *w = kmalloc(sizeof(*w), GFP_ATOMIC | __GFP_HIGH | __GFP_NOWARN);

	if (w) {
		w->m = *m;
		w->block = block;
	}
	return w;
}

static void lane_send(struct lane *l, const struct msg *m, bool block)
{
	struct waiting *w;

	spin_lock(&l->lock);
	if (!l->up || READ_ONCE(l->broken)) {
		spin_unlock(&l->lock);
		return;
	}
	debug_count(COUNT_SENT, 1);
	if (l->room && list_empty(&l->waiting)) {
		if (block)
			post_block(l, m);
		else
			post_message(l, m);
	} else {
		debug_count(COUNT_QUEUED, 1);
		w = waiting_new(m, block);
		if (w)
			list_add_tail(&w->list, &l->waiting);
		else
			lane_broken(l, "memory", -ENOMEM);
	}
	spin_unlock(&l->lock);
}

static unsigned int class_of(u8 type)
{
	return type == MSG_KEY_WANTED || type == MSG_KEY ? CLASS_COHERENCE : wire_class(type);
}

void conn_send(struct conn *c, u16 peer, const struct msg *m)
{
	lane_send(lane_of(c, peer, class_of(m->type)), m, false);
}

void conn_send_block(struct conn *c, u16 peer, const struct msg *m)
{
	struct peer_keys *k = &c->keys[peer];
	struct msg ask = { .version = WIRE_VERSION, .type = MSG_KEY_WANTED, .src = c->rank->me, .dst = peer, .object = m->object };
	bool known;
	struct waiting *w;

	spin_lock(&k->lock);
	known = k->of[block_page(m->object) / CHUNK_PAGES].rkey;
	if (!known) {
		w = waiting_new(m, true);
		if (w)
			list_add_tail(&w->list, &k->blocks);
		else
			lane_broken(lane_of(c, peer, CLASS_DATA), "memory", -ENOMEM);
	}
	spin_unlock(&k->lock);
	if (known) {
		lane_send(lane_of(c, peer, CLASS_DATA), m, true);
	} else {
		debug_count(COUNT_KEYS, 1);
		conn_send(c, peer, &ask);
	}
}

/* ---- keys on the wire ----------------------------------------------------------------------- */

static void key_wanted(struct conn *c, u16 peer, const struct msg *m)
{
	struct chunk *k = chunk_of(c->rank->ctx, block_page(m->object));
	struct chunk_key *key = k ? smp_load_acquire(&k->key) : NULL;
	struct msg reply = { .version = WIRE_VERSION, .type = MSG_KEY, .src = c->rank->me, .dst = peer, .object = m->object };

	if (!key)
		return; /* whoever asks for a block has made the key first */
	reply.aux = key->mr->rkey;
	reply.value = key->mr->iova;
	conn_send(c, peer, &reply);
}

static void key_came(struct conn *c, u16 peer, const struct msg *m)
{
	u32 chunk = block_page(m->object) / CHUNK_PAGES;
	struct peer_keys *k = &c->keys[peer];
	struct waiting *w, *next;
	LIST_HEAD(ready);

	spin_lock(&k->lock);
	k->of[chunk] = (struct peer_key){ .rkey = m->aux, .at = m->value };
	list_for_each_entry_safe(w, next, &k->blocks, list)
		if (block_page(w->m.object) / CHUNK_PAGES == chunk)
			list_move_tail(&w->list, &ready);
	spin_unlock(&k->lock);
	list_for_each_entry_safe(w, next, &ready, list) {
		lane_send(lane_of(c, peer, CLASS_DATA), &w->m, true);
		kfree(w);
	}
}

static bool key_message(struct conn *c, u16 peer, const struct msg *m)
{
	u32 page = block_page(m->object);

	if (m->type != MSG_KEY_WANTED && m->type != MSG_KEY)
		return false;
	if (!m->object || page >= c->rank->ctx->pages)
		debug_count(COUNT_BAD, 1);
	else if (m->type == MSG_KEY_WANTED)
		key_wanted(c, peer, m);
	else
		key_came(c, peer, m);
	return true;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static int post_receive(struct lane *l, u32 index)
{
	struct ib_sge sge = {
		.addr = l->dma + index * sizeof(struct msg), .length = sizeof(struct msg), .lkey = l->conn->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = wr_id(WR_RECEIVE, l, index), .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(l->qp, &wr, NULL);
}

static void received(struct lane *l, const struct ib_wc *wc, u32 index)
{
	struct conn *c = l->conn;
	struct rank *r = c->rank;
	struct msg m;

	if (wc->status != IB_WC_SUCCESS) {
		lane_broken(l, "receive", wc->status);
		return;
	}
	m = l->buffers[index];
	if (post_receive(l, index))
		lane_broken(l, "receive", -ENOMEM);
	debug_count(COUNT_RECEIVED, 1);
	WRITE_ONCE(r->messages_in, r->messages_in + 1);
	if (wc->wc_flags & IB_WC_WITH_IMM) {
		host_landed(r, l->peer, be32_to_cpu(wc->ex.imm_data));
	} else if (wc->byte_len != sizeof(m) || m.src != l->peer) {
		debug_count(COUNT_BAD, 1);
		lane_broken(l, "malformed message", IB_WC_GENERAL_ERR);
	} else if (!key_message(c, l->peer, &m)) {
		if (wire_check(&m, r->me, r->size, SLOTS) || m.type == MSG_DATA) {
			debug_count(COUNT_BAD, 1);
			lane_broken(l, "malformed message", IB_WC_GENERAL_ERR);
		} else {
			host_message(r, &m);
		}
	}
}

static void key_made(struct conn *c, const struct ib_wc *wc)
{
	struct chunk_key *k = READ_ONCE(c->making);

	if (!k)
		return;
	k->status = wc->status == IB_WC_SUCCESS ? 0 : -EIO;
	complete(&k->done);
}

/* A completion, from cq.c; bottom halves are off. */
static void completed(void *arg, const struct ib_wc *wc)
{
	struct conn *c = arg;
	u16 peer = (u16)(wc->wr_id >> 32);
	struct lane *l = lane_of(c, peer, wc->wr_id >> 48 & 0xff);
	u32 index = (u32)wc->wr_id;

	switch ((enum wr_kind)(wc->wr_id >> 56)) {
	case WR_RECEIVE:
		received(l, wc, index);
		return;
	case WR_KEY:
		key_made(c, wc);
		break;
	case WR_SEND:
		break;
	default: /* an unsignalled request: only failures complete */
		return;
	}
	if (wc->status != IB_WC_SUCCESS) {
		lane_broken(l, "send", wc->status);
		return;
	}
	spin_lock(&l->lock);
	l->room += index;
	flush_waiting(l);
	spin_unlock(&l->lock);
}

/* ---- keys of our own ------------------------------------------------------------------------ */

static struct lane *any_lane(struct conn *c)
{
	u16 p;

	for (p = 0; p < c->rank->size; p++)
		if (lane_of(c, p, CLASS_BULK)->up)
			return lane_of(c, p, CLASS_BULK);
	return NULL;
}

static int map_frames(struct conn *c, struct chunk *k, struct chunk_key *key)
{
	struct scatterlist *sg;
	unsigned int i;
	int err;

	err = sg_alloc_table(&key->sg, k->whole ? 1 : k->n, GFP_KERNEL);
	if (err)
		return err;
	if (k->whole)
		sg_set_page(key->sg.sgl, k->frames[0], CHUNK_PAGES << PAGE_SHIFT, 0);
	else
		for_each_sg(key->sg.sgl, sg, k->n, i)
			sg_set_page(sg, k->frames[i], PAGE_SIZE, 0);
	err = ib_dma_map_sgtable_attrs(c->dev, &key->sg, DMA_BIDIRECTIONAL, 0);
	if (err)
		sg_free_table(&key->sg);
	return err;
}

static void unmap_frames(struct chunk_key *key)
{
	ib_dma_unmap_sgtable_attrs(key->dev, &key->sg, DMA_BIDIRECTIONAL, 0);
	sg_free_table(&key->sg);
}

static int register_key(struct conn *c, struct lane *l, struct chunk_key *key)
{
	struct ib_reg_wr wr = {
		.wr = { .opcode = IB_WR_REG_MR, .send_flags = IB_SEND_SIGNALED, .wr_id = wr_id(WR_KEY, l, 1) },
		.mr = key->mr, .access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	int n = ib_map_mr_sg(key->mr, key->sg.sgl, key->sg.nents, NULL, PAGE_SIZE), err = 0;

	if (n != key->sg.nents)
		return n < 0 ? n : -EINVAL;
	ib_update_fast_reg_key(key->mr, (u8)(key->mr->rkey + 1));
	wr.key = key->mr->rkey;
	WRITE_ONCE(c->making, key);
	spin_lock_bh(&l->lock);
	if (l->room && !l->broken) {
		l->room--;
		err = ib_post_send(l->qp, &wr.wr, NULL);
	} else {
		err = -EAGAIN;
	}
	spin_unlock_bh(&l->lock);
	if (!err && !wait_for_completion_timeout(&key->done, 30 * HZ))
		err = -ETIMEDOUT;
	WRITE_ONCE(c->making, NULL);
	return err ? err : key->status;
}

int conn_key(struct conn *c, struct chunk *k)
{
	struct chunk_key *key;
	struct lane *l;
	int err;

	if (smp_load_acquire(&k->key))
		return 0;
	l = any_lane(c);
	if (!l)
		return 0; /* all ranks are of this kernel */
	mutex_lock(&c->key_mutex);
	err = 0;
	if (k->key)
		goto unlock;
	err = -ENOMEM;
	key = kzalloc(sizeof(*key), GFP_KERNEL);
	if (!key)
		goto unlock;
	key->dev = c->dev;
	init_completion(&key->done);
	err = map_frames(c, k, key);
	if (err)
		goto free;
	key->mr = ib_alloc_mr(c->pd, IB_MR_TYPE_MEM_REG, CHUNK_PAGES);
	err = PTR_ERR_OR_ZERO(key->mr);
	if (err)
		goto unmap;
	while ((err = register_key(c, l, key)) == -EAGAIN && !l->broken)
		cond_resched();
	if (!err) {
		smp_store_release(&k->key, key);
		goto unlock;
	}
	ib_dereg_mr(key->mr);
unmap:
	unmap_frames(key);
free:
	kfree(key);
unlock:
	mutex_unlock(&c->key_mutex);
	return err;
}

void conn_free_key(struct chunk *k)
{
	if (!k->key)
		return;
	ib_dereg_mr(k->key->mr);
	unmap_frames(k->key);
	kfree(k->key);
	k->key = NULL;
}

void conn_forget(struct conn *c, u32 chunk)
{
	u16 p;

	for (p = 0; p < c->rank->size; p++)
		if (c->keys[p].of)
			WRITE_ONCE(c->keys[p].of[chunk].rkey, 0);
}

static void free_keys(struct conn *c)
{
	struct ctx *x = c->rank->ctx;
	u32 i;

	for (i = 0; i < x->pages / CHUNK_PAGES; i++) {
		struct chunk *k = x->chunks[i];

		if (k)
			conn_free_key(k);
	}
}

/* ---- opening -------------------------------------------------------------------------------- */

/* RoCE v2 by IPv4 first, then by IPv6, then whatever there is. */
static int gid_worth(const struct ib_gid_attr *a)
{
	if (a->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP)
		return ipv6_addr_v4mapped((const struct in6_addr *)&a->gid) ? 4 :
		       !(ipv6_addr_type((const struct in6_addr *)&a->gid) & IPV6_ADDR_LINKLOCAL) ? 3 : 2;
	return 1;
}

static int choose_gid(struct conn *c, int wanted, int entries)
{
	int i, best = -1, worth = 0;

	for (i = 0; i < entries; i++) {
		const struct ib_gid_attr *a = rdma_get_gid_attr(c->dev, c->port, i);

		if (IS_ERR(a))
			continue;
		if (wanted < 0 ? gid_worth(a) > worth : i == wanted) {
			worth = gid_worth(a);
			best = i;
		}
		rdma_put_gid_attr(a);
	}
	if (best < 0)
		return -EADDRNOTAVAIL;
	c->gid = rdma_get_gid_attr(c->dev, c->port, best);
	return PTR_ERR_OR_ZERO(c->gid);
}

static int make_lane(struct conn *c, struct lane *l)
{
	struct ib_qp_init_attr init = {
		.send_cq = cq_of(c->cqs[l->class]), .recv_cq = cq_of(c->cqs[l->class]), .sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC, .cap = { .max_send_wr = SENDS + 8, .max_recv_wr = RECEIVES, .max_send_sge = 1, .max_recv_sge = 1,
					       .max_inline_data = sizeof(struct msg) },
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = c->port, .qp_access_flags = IB_ACCESS_REMOTE_WRITE };
	unsigned int i;
	int err;

	l->room = SENDS;
	l->buffers = kvcalloc(RECEIVES, sizeof(*l->buffers), GFP_KERNEL);
	if (!l->buffers)
		return -ENOMEM;
	l->dma = ib_dma_map_single(c->dev, l->buffers, RECEIVES * sizeof(*l->buffers), DMA_FROM_DEVICE);
	if (ib_dma_mapping_error(c->dev, l->dma)) {
		l->dma = 0;
		return -ENOMEM;
	}
	l->qp = ib_create_qp(c->pd, &init);
	if (IS_ERR(l->qp)) {
		err = PTR_ERR(l->qp);
		l->qp = NULL;
		return err;
	}
	err = ib_modify_qp(l->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	for (i = 0; !err && i < RECEIVES; i++)
		err = post_receive(l, i);
	return err;
}

static int make_lanes(struct conn *c)
{
	u16 p, class;
	int err = 0;

	for (p = 0; p < c->rank->size; p++)
		for (class = 0; class < CLASS_MAX; class++) {
			struct lane *l = lane_of(c, p, class);

			spin_lock_init(&l->lock);
			INIT_LIST_HEAD(&l->waiting);
			l->conn = c;
			l->peer = p;
			l->class = (u8)class;
		}
	for (p = 0; p < c->rank->size && !err; p++) {
		struct peer_keys *k = &c->keys[p];

		spin_lock_init(&k->lock);
		INIT_LIST_HEAD(&k->blocks);
		if (p == c->rank->me)
			continue;
		k->of = vzalloc((size_t)(c->rank->ctx->pages / CHUNK_PAGES) * sizeof(*k->of));
		if (!k->of)
			err = -ENOMEM;
		for (class = 0; class < CLASS_MAX && !err; class++)
			err = make_lane(c, lane_of(c, p, class));
	}
	return err;
}

static void write_address(struct conn *c, struct address *a, u32 *size)
{
	u16 p, class;

	a->magic = ADDRESS_MAGIC;
	a->version = DSM_UAPI_VERSION;
	a->key = c->rank->key;
	a->rank = c->rank->me;
	a->size = c->rank->size;
	a->lid = c->lid;
	a->mtu = c->mtu;
	a->global = rdma_protocol_roce(c->dev, c->port);
	a->gid = c->gid->gid;
	for (p = 0; p < a->size; p++)
		for (class = 0; class < CLASS_MAX; class++)
			a->qpn[p][class] = p == a->rank ? 0 : lane_of(c, p, class)->qp->qp_num;
	*size = (u32)(sizeof(*a) + a->size * sizeof(a->qpn[0]));
}

static int open_port(struct conn *c, int gid)
{
	struct ib_port_attr attr;
	int err = ib_query_port(c->dev, c->port, &attr);

	if (err)
		return err;
	if (attr.state != IB_PORT_ACTIVE)
		return -ENETDOWN;
	c->mtu = attr.active_mtu;
	c->lid = (u16)attr.lid;
	return choose_gid(c, gid, attr.gid_tbl_len);
}

struct conn *conn_open(struct rank *r, const struct dsm_ioc_join *j, void *address, u32 *size)
{
	struct conn *c = kzalloc(sizeof(*c), GFP_KERNEL);
	unsigned int class, entries = r->size * (SENDS + RECEIVES + 16);
	int err = -ENOMEM;

	BUILD_BUG_ON(sizeof(struct address) + DSM_RANKS_MAX * CLASS_MAX * 4 > DSM_ADDRESS_MAX);
	if (!c)
		return ERR_PTR(-ENOMEM);
	c->rank = r;
	mutex_init(&c->key_mutex);
	c->lanes = kvcalloc((size_t)r->size * CLASS_MAX, sizeof(*c->lanes), GFP_KERNEL);
	c->keys = kvcalloc(r->size, sizeof(*c->keys), GFP_KERNEL);
	if (!c->lanes || !c->keys)
		goto fail;
	err = device_get(j->device, &c->dev, &c->port);
	if (err)
		goto fail;
	r->ctx->node = ibdev_to_node(c->dev);
	err = open_port(c, j->gid);
	if (err)
		goto fail;
	c->pd = ib_alloc_pd(c->dev, 0);
	if (IS_ERR(c->pd)) {
		err = PTR_ERR(c->pd);
		c->pd = NULL;
		goto fail;
	}
	entries = min_t(unsigned int, entries, c->dev->attrs.max_cqe);
	for (class = 0; class < CLASS_MAX; class++) {
		c->cqs[class] = cq_create(c->dev, j->mode, entries, j->vectors[class], completed, c);
		if (IS_ERR(c->cqs[class])) {
			err = PTR_ERR(c->cqs[class]);
			c->cqs[class] = NULL;
			goto fail;
		}
	}
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

/* The link address of the peer, which ib_modify_qp() resolves for processes only: making an address handle as one does it. */
static int resolve(struct conn *c, struct rdma_ah_attr *attr)
{
	struct ib_ah *ah = rdma_create_user_ah(c->pd, attr, NULL);

	if (IS_ERR(ah))
		return PTR_ERR(ah);
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return 0;
}

static int to_ready(struct conn *c, struct lane *l, const struct address *a)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR, .path_mtu = min(c->mtu, a->mtu), .dest_qp_num = a->qpn[c->rank->me][l->class],
		.max_dest_rd_atomic = 1, .min_rnr_timer = 1,
	};
	int err;

	attr.ah_attr.type = rdma_ah_find_type(c->dev, c->port);
	rdma_ah_set_port_num(&attr.ah_attr, c->port);
	rdma_ah_set_dlid(&attr.ah_attr, a->lid);
	if (a->global) {
		union ib_gid gid = a->gid;

		rdma_ah_set_grh(&attr.ah_attr, &gid, 0, c->gid->index, 64, 0);
	}
	err = resolve(c, &attr.ah_attr);
	if (err)
		return err;
	err = ib_modify_qp(l->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
					 IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr = (struct ib_qp_attr){ .qp_state = IB_QPS_RTS, .timeout = QP_TIMEOUT, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1 };
	return ib_modify_qp(l->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
					  IB_QP_MAX_QP_RD_ATOMIC);
}

int conn_connect(struct conn *c, u16 peer, const void *address, u32 size)
{
	const struct address *a = address;
	unsigned int class;
	int err = 0;

	if (peer == c->rank->me || size != sizeof(*a) + c->rank->size * sizeof(a->qpn[0]))
		return -EINVAL;
	if (a->magic != ADDRESS_MAGIC || a->version != DSM_UAPI_VERSION || a->rank != peer || a->size != c->rank->size)
		return -EPROTO;
	if (a->mtu < IB_MTU_256 || a->mtu > IB_MTU_4096)
		return -EPROTO;
	if (lane_of(c, peer, 0)->up)
		return -EEXIST;
	for (class = 0; class < CLASS_MAX && !err; class++) {
		struct lane *l = lane_of(c, peer, class);

		err = to_ready(c, l, a);
		if (!err)
			WRITE_ONCE(l->up, true);
	}
	return err;
}

/* ---- closing -------------------------------------------------------------------------------- */

static void close_lane(struct lane *l)
{
	struct waiting *w, *next;

	if (l->qp)
		ib_destroy_qp(l->qp);
	if (l->dma)
		ib_dma_unmap_single(l->conn->dev, l->dma, RECEIVES * sizeof(*l->buffers), DMA_FROM_DEVICE);
	kvfree(l->buffers);
	if (l->conn)
		list_for_each_entry_safe(w, next, &l->waiting, list)
			kfree(w);
}

/* Send what is posted: a peer may wait for this rank's last messages. Bounded. */
static void drain(struct conn *c)
{
	unsigned int i;

	for (i = 0; c->lanes && i < (unsigned int)c->rank->size * CLASS_MAX; i++) {
		struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

		if (c->lanes[i].qp)
			ib_modify_qp(c->lanes[i].qp, &attr, IB_QP_STATE);
	}
}

void conn_close(struct conn *c)
{
	unsigned int i;
	u16 p;

	WRITE_ONCE(c->closing, true);
	drain(c);
	for (i = 0; i < CLASS_MAX; i++)
		if (c->cqs[i])
			cq_stop(c->cqs[i]);
	for (i = 0; c->lanes && i < (unsigned int)c->rank->size * CLASS_MAX; i++)
		close_lane(&c->lanes[i]);
	for (i = 0; i < CLASS_MAX; i++)
		if (c->cqs[i])
			cq_destroy(c->cqs[i]);
	if (c->pd) {
		free_keys(c);
		ib_dealloc_pd(c->pd);
	}
	for (p = 0; c->keys && p < c->rank->size; p++) {
		struct waiting *w, *next;

		if (c->keys[p].blocks.next)
			list_for_each_entry_safe(w, next, &c->keys[p].blocks, list)
				kfree(w);
		vfree(c->keys[p].of);
	}
	if (!IS_ERR_OR_NULL(c->gid))
		rdma_put_gid_attr(c->gid);
	if (c->dev)
		device_put_back(c->dev);
	kvfree(c->lanes);
	kvfree(c->keys);
	kfree(c);
}

bool conn_is_of(const struct conn *c, const struct ib_device *dev)
{
	return c->dev == dev;
}

int conn_init(void)
{
	return cq_init();
}

void conn_exit(void)
{
	cq_exit();
}
