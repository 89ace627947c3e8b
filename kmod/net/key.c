// SPDX-License-Identifier: GPL-2.0
/*
 * key.c - keys for RDMA writes: of peers into this rank's frames, and of this rank into theirs.
 *
 * A write into a peer's frames needs the key of their 2 MiB. MSG_KEY_WANTED asks for it, MSG_KEY
 * answers, and the block waits meanwhile, once per 2 MiB and pair of ranks. A key covers only those
 * frames, permits only writing, and is invalidated before the frames are freed.
 */
#include <linux/delay.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "key.h"
#include "../base/account.h"
#include "conn.h"
#include "../base/debug.h"
#include "egress.h"
#include "lane.h"
#include "../base/pool.h"
#include "../base/test.h"

TEST_PARAM(uint, test_fail_dereg, 0, "so many times, the device does not end a key");

struct chunk_key {
	struct ib_mr *mr;
	struct ib_device *dev;
	struct sg_table sg;
	struct completion done;
	int status;
	/*
	 * address of the first page, for peers and for this rank's requests: its offset in the
	 * window
	 */
	u64 at;
	struct ctx *ctx;
	long charged;
};

/* ---- peers' keys ---------------------------------------------------------------------------- */

void key_send_block(struct conn *c, u16 peer, const struct msg *m)
{
	struct peer_keys *k = &c->keys[peer];
	struct msg ask = { .version = WIRE_VERSION,
			   .type = MSG_KEY_WANTED,
			   .src = c->cfg.me,
			   .dst = peer,
			   .object = m->object };
	struct peer_key *key = &k->of[block_page(m->object) / CHUNK_PAGES];
	struct lane *l = lane_of(c, peer, CLASS_DATA);
	bool now, asked = false;
	struct waiting *w;

	spin_lock(&k->lock);
	/* nothing may wait for a peer that was given up: drop() in conn.c */
	now = key->rkey || READ_ONCE(l->broken);
	if (!now) {
		asked = key->asked;
		key->asked = true;
		w = waiting_new(l, k->n, m, true, "it sends no key");
		if (w) {
			list_add_tail(&w->list, &k->blocks);
			k->n++;
		}
	}
	spin_unlock(&k->lock);
	if (now) {
		lane_send(l, m, true);
	} else if (!asked) {
		debug_count(COUNT_KEYS, 1);
		lane_send_to(c, peer, &ask);
	}
}

void key_forget_blocks(struct conn *c, u16 peer)
{
	struct peer_keys *k = &c->keys[peer];
	LIST_HEAD(all);

	spin_lock_bh(&k->lock);
	list_splice_init(&k->blocks, &all);
	k->n = 0;
	spin_unlock_bh(&k->lock);
	debug_count(COUNT_UNSENT, waiting_put_all(c, &all));
}

/*
 * -EBADMSG: a rank makes the key before it requests a block, and asks for a key only if it has a
 * block to send.
 */
static int key_wanted(struct conn *c, u16 peer, const struct msg *m)
{
	struct chunk *k = chunk_of(c->cfg.ctx, block_page(m->object));
	struct chunk_key *key = k ? smp_load_acquire(&k->key) : NULL;
	struct msg reply = { .version = WIRE_VERSION,
			     .type = MSG_KEY,
			     .src = c->cfg.me,
			     .dst = peer,
			     .object = m->object };

	if (!key)
		return -EBADMSG;
	reply.aux = key->mr->rkey;
	reply.value = key->at;
	lane_send_to(c, peer, &reply);
	return 0;
}

static int key_came(struct conn *c, u16 peer, const struct msg *m)
{
	u32 chunk = block_page(m->object) / CHUNK_PAGES;
	struct peer_keys *k = &c->keys[peer];
	struct waiting *w, *next;
	LIST_HEAD(ready);

	spin_lock(&k->lock);
	if (!k->of[chunk].asked || !m->aux) {
		spin_unlock(&k->lock);
		return -EBADMSG;
	}
	k->of[chunk] = (struct peer_key){ .rkey = m->aux, .at = m->value };
	list_for_each_entry_safe(w, next, &k->blocks, list)
		if (block_page(w->m.object) / CHUNK_PAGES == chunk) {
			list_move_tail(&w->list, &ready);
			k->n--;
		}
	spin_unlock(&k->lock);
	list_for_each_entry_safe(w, next, &ready, list)
		lane_send_waiting(lane_of(c, peer, CLASS_DATA), w);
	return 0;
}

/* Without frames or a key, the echo is answered by a message. */
static int key_echo(struct conn *c, u16 peer, const struct msg *m)
{
	struct msg reply = { .version = WIRE_VERSION,
			     .type = MSG_ECHO,
			     .src = c->cfg.me,
			     .dst = peer,
			     .object = m->object,
			     .req_node = peer,
			     .req_slot = m->req_slot };
	struct ib_sge sge;

	if (!c->cfg.ops->is_block(c->cfg.arg, m->object))
		return -EBADMSG;
	if (key_of_ours(chunk_with(c->cfg.ctx, block_page(m->object), block_pages(m->object)),
			block_page(m->object), &sge)) {
		key_send_block(c, peer, &reply);
	} else {
		reply.type = MSG_REPLY;
		reply.count = -ENXIO;
		lane_send_to(c, peer, &reply);
	}
	return 0;
}

int key_message(struct conn *c, u16 peer, const struct msg *m)
{
	if (m->type == MSG_ECHO)
		return key_echo(c, peer, m);
	return m->type == MSG_KEY_WANTED ? key_wanted(c, peer, m) : key_came(c, peer, m);
}

/* ---- keys of our own ------------------------------------------------------------------------ */

bool key_of_ours(const struct chunk *k, u32 page, struct ib_sge *sge)
{
	const struct chunk_key *mine = k ? smp_load_acquire(&k->key) : NULL;

	if (!mine)
		return false;
	sge->addr = mine->at + ((u64)(page % CHUNK_PAGES) << PAGE_SHIFT);
	sge->lkey = mine->mr->lkey;
	return true;
}

/*
 * A connected lane to register keys with. NULL: no rank on another host is connected, so nobody
 * needs a key.
 */
static struct lane *any_lane(struct conn *c)
{
	u16 p;

	for (p = 0; p < c->cfg.size; p++) {
		struct lane *l = lane_of(c, p, CLASS_BULK);

		if (READ_ONCE(l->up) && !READ_ONCE(l->broken))
			return l;
	}
	return NULL;
}

static int map_frames(struct conn *c, struct chunk *k, struct chunk_key *key)
{
	struct scatterlist *sg;
	unsigned int i;
	int err;

	err = sg_alloc_table(&key->sg, k->whole ? 1 : k->n, GFP_CTX);
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

void key_made(struct conn *c, const struct ib_wc *wc)
{
	struct chunk_key *k = READ_ONCE(c->making);

	if (!k)
		return;
	k->status = wc->status == IB_WC_SUCCESS ? 0 : -EIO;
	complete(&k->done);
}

#define KEY_PATIENCE (30 * HZ)

/*
 * The request belongs to the queue until it completes, even if the waiting thread is gone. While
 * the queue pair works, that may take seconds: earlier messages to a dead peer are ahead of it.
 */
static int wait_for_key(struct conn *c, struct lane *l, struct chunk_key *key)
{
	/*
	 * A killed debugger, child of vfork(2), or one of several processes does not end the rank.
	 */
	const bool ours = ctx_dies_with_caller(c->cfg.ctx);
	long left = ours ? wait_for_completion_killable_timeout(&key->done, KEY_PATIENCE)
			 : (long)wait_for_completion_timeout(&key->done, KEY_PATIENCE);

	if (left <= 0) {
		if (left)
			conn_stop(c); /* the process ends */
		else
			lane_broken(l, "key", -ETIMEDOUT);
		lane_end(l);
		wait_for_completion(&key->done);
	}
	return key->status;
}

/*
 * Peers write at the addresses that the device is given here, and read them in MSG_KEY.
 * ib_map_mr_sg() takes those of the frames, which are addresses of the kernel or of the bus. Peers
 * get the place in the window instead, which they know anyway.
 *
 * -EAGAIN: the queue is full.
 */
static int register_key(struct conn *c, struct lane *l, struct chunk_key *key)
{
	struct ib_reg_wr wr = {
		.wr = { .opcode = IB_WR_REG_MR,
			.send_flags = IB_SEND_SIGNALED,
			.wr_id = wr_id(WR_KEY, 1, 0) },
		.mr = key->mr,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	int n = ib_map_mr_sg(key->mr, key->sg.sgl, key->sg.nents, NULL, PAGE_SIZE), err = 0;

	if (n != key->sg.nents)
		return n < 0 ? n : -EINVAL;
	key->mr->iova = key->at;
	ib_update_fast_reg_key(key->mr, (u8)(key->mr->rkey + 1));
	wr.key = key->mr->rkey;
	WRITE_ONCE(c->making, key);
	spin_lock_bh(&l->egress->lock);
	if (READ_ONCE(l->broken) || READ_ONCE(c->closing)) {
		err = -EPIPE;
	} else if (l->room) {
		err = ib_post_send(l->qp, &wr.wr, NULL);
		l->room -= !err;
	} else {
		err = fatal_signal_pending(current) ? -EINTR : -EAGAIN;
	}
	spin_unlock_bh(&l->egress->lock);
	if (!err)
		err = wait_for_key(c, l, key);
	WRITE_ONCE(c->making, NULL);
	return err;
}

/*
 * ib_dereg_mr() invalidates the key; if it fails, peers may still use that. A queue pair that is
 * destroyed may be what it needs.
 */
static int end_key(struct chunk_key *key)
{
	return test_spend(test_fail_dereg) ? -EBUSY : ib_dereg_mr(key->mr);
}

/*
 * A key of this rank outlives its use, so peers could write to frames after they are freed: nobody
 * may reach them from here on.
 */
static void key_outlives(struct conn *c, int err)
{
	if (READ_ONCE(c->closing))
		return; /* key_free_all() tries again */
	pr_err_ratelimited(
		"dsm: rank %u: the device does not invalidate a key (%d): the rank stops, and keeps the frames until its queue pairs are gone\n",
		c->cfg.me, err);
	conn_stop(c);
	c->cfg.ops->lost(c->cfg.arg, c->cfg.me, -EIO);
}

/* The size of its scatter list and of the device's list of pages. */
static long key_charge(const struct chunk *k)
{
	return account_pages((k->whole ? 1 : k->n) * sizeof(struct scatterlist)) +
		account_pages(k->n * 2 * sizeof(u64));
}

bool key_ready(struct conn *c, const struct chunk *k)
{
	return smp_load_acquire(&k->key) || !any_lane(c);
}

static int key_make_one(struct conn *c, struct lane *l, struct chunk *k, u32 unit)
{
	struct chunk_key *key =
		pool_test_refuses(GFP_KERNEL) ? NULL : kzalloc(sizeof(*key), GFP_CTX);
	int err = -EDQUOT, ended;

	if (!key)
		return -ENOMEM;
	key->dev = c->dev;
	key->at = (u64)unit * CHUNK_PAGES * PAGE_SIZE;
	key->ctx = c->cfg.ctx;
	key->charged = key_charge(k);
	if (!account_charge(key->ctx, key->charged))
		goto free_only;
	init_completion(&key->done);
	err = map_frames(c, k, key);
	if (err)
		goto free;
	/*
	 * rxe before Linux 6.3 reads the entry after the last of a full table, and ignores its
	 * value.
	 */
	key->mr = ib_alloc_mr(c->pd, IB_MR_TYPE_MEM_REG,
			      k->n + (c->dev->ops.driver_id == RDMA_DRIVER_RXE));
	err = PTR_ERR_OR_ZERO(key->mr);
	if (err)
		goto unmap;
	while ((err = register_key(c, l, key)) == -EAGAIN)
		usleep_range(50, 100);
	if (!err) {
		smp_store_release(&k->key, key);
		return 0;
	}
	ended = end_key(key);
	if (ended) {
		smp_store_release(&k->key, key); /* ends with the frames, as any other */
		key_outlives(c, ended);
		return err;
	}
unmap:
	unmap_frames(key);
free:
	account_uncharge(key->ctx, key->charged);
free_only:
	kfree(key);
	return err;
}

/*
 * A broken lane is no reason to fail: other lanes may be up, or no rank on another host may be
 * left.
 */
int key_make(struct conn *c, struct chunk *k, u32 unit)
{
	struct lane *l;
	int err = 0;

	if (smp_load_acquire(&k->key) || !any_lane(c))
		return 0;
	if (mutex_lock_killable(&c->key_mutex))
		return -EINTR;
	while (!k->key && (l = any_lane(c))) {
		err = key_make_one(c, l, k, unit);
		if (!err || !READ_ONCE(l->broken) || READ_ONCE(c->closing))
			break;
		err = 0;
	}
	mutex_unlock(&c->key_mutex);
	return err;
}

bool key_free(struct conn *c, struct chunk *k)
{
	int err;

	if (!k->key)
		return true;
	err = end_key(k->key);
	if (err) {
		key_outlives(c, err);
		return false;
	}
	unmap_frames(k->key);
	account_uncharge(k->key->ctx, k->key->charged);
	kfree(k->key);
	k->key = NULL;
	return true;
}

void key_forget(struct conn *c, u32 chunk)
{
	u16 p;

	for (p = 0; p < c->cfg.size; p++)
		if (c->keys[p].of)
			WRITE_ONCE(c->keys[p].of[chunk].rkey, 0);
}

bool key_free_all(struct conn *c)
{
	struct ctx *x = c->cfg.ctx;
	u32 i, kept = 0;

	for (i = 0; i < x->pages / CHUNK_PAGES; i++) {
		struct chunk *k = x->chunks[i];

		if (!k || key_free(c, k))
			continue;
		/* Its mapping for the device stays, too, as does all that the driver has of it. */
		account_uncharge(x, k->key->charged);
		k->key = NULL;
		k->kept = true;
		kept++;
	}
	if (!kept)
		return true;
	__module_get(THIS_MODULE); /* the device's list of objects has a name in this module */
	pr_err_ratelimited(
		"dsm: rank %u: the device still has keys of %u times 2 MiB of frames, which are never freed: restart the machine\n",
		c->cfg.me, kept);
	return false;
}
