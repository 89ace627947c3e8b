// SPDX-License-Identifier: BSD-2-Clause
/*
 * verbs.c - the transport over RDMA verbs: opening, addresses, closing. How it works, and its
 * locks: verbs.h.
 */
#include "net/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "net/verbs/conn.h"
#include "net/verbs/dev.h"
#include "net/verbs/mem.h"
#include "net/verbs/recv.h"
#include "net/verbs/send.h"
#include "net/verbs/wait.h"
#include "util/clock.h"
#include "util/log.h"

#define CLOSE_MS 2000       /* to send the rest */
#define CLOSE_BROKEN_MS 200 /* the same, if some of it may be for a lost peer */

/* ---- connecting ------------------------------------------------------------------------------ */

static void make_blob(const struct net *n, struct blob *b)
{
	unsigned int i, c;

	memset(b, 0, sizeof(*b));
	b->magic = BLOB_MAGIC;
	b->version = BLOB_VERSION;
	b->rank = n->cfg.rank;
	b->key = n->key;
	b->nslots = n->cfg.nslots;
	b->landing = (uint32_t)n->landing_bytes;
	b->bare = n->cfg.object && n->cfg.nslots <= BARE_SLOTS;
	b->ndevs = (uint16_t)n->ndevs;
	for (i = 0; i < n->ndevs; i++) {
		const struct dev *d = &n->devs[i];

		memcpy(b->devs[i].gid, d->gid.raw, sizeof(b->devs[i].gid));
		b->devs[i].ud_qpn = d->ud.qp->qp_num;
		b->devs[i].qkey = d->ud.qkey;
		b->devs[i].lid = d->pattr.lid;
		b->devs[i].mtu = (uint8_t)d->pattr.active_mtu;
		b->devs[i].port = d->port;
		for (c = 0; c < CLASS_MAX; c++)
			b->devs[i].classes |= (uint32_t)(n->owner[c] == i + 1) << c;
	}
}

/*
 * The devices that a lane uses, seen alike from both ends: links are numbered up to the larger
 * number of devices; each has a device here and one there. Lanes take them by turns, and by class
 * if classes are to be spread. A class that a device owns takes the link of its number, which has
 * to be the same at both ends: same_owners().
 */
static void choose_link(struct lane *l)
{
	const struct net *n = l->peer->net;
	const unsigned int theirs = l->peer->at->ndevs,
			   links = n->ndevs > theirs ? n->ndevs : theirs;
	const unsigned int turn =
		(l->peer->rank + n->cfg.rank + (n->set.spread ? l->class : 0u)) % links;
	const unsigned int link = n->owner[l->class] ? n->owner[l->class] - 1u : turn;

	l->dev = &n->devs[link % n->ndevs];
	l->remote_dev = (uint8_t)(link % theirs);
	l->queue = &l->dev->queues[l->dev->queue_of[l->class]];
	l->route = &l->peer->routes[link];
}

static bool same_owners(const struct net *n, const struct blob *theirs)
{
	struct blob ours;
	unsigned int i;

	make_blob(n, &ours);
	for (i = 0; i < VERBS_DEVICES; i++)
		if (ours.devs[i].classes != (i < theirs->ndevs ? theirs->devs[i].classes : 0u))
			return false;
	return true;
}

static int verbs_connect(struct net *n, uint16_t rank, const void *address, size_t size)
{
	struct blob b;
	struct peer *p;
	unsigned int c;
	int err;

	if (rank >= n->cfg.size)
		return -EINVAL;
	err = blob_read(address, size, rank, n->cfg.nslots, &b);
	if (err == -EPROTO) {
		log_line("rank %d speaks version %d of the verbs transport, this rank version %d",
			 rank, b.version, BLOB_VERSION);
		return -EINVAL;
	}
	p = &n->peers[rank];
	if (p->at)
		return -EEXIST;
	if (err)
		return err;
	if (rank == n->cfg.rank)
		return 0;
	if (!same_owners(n, &b)) {
		log_line(
			"DSM_CQ_GROUPS: the devices that own classes are not those of rank %d: all hosts must have devices of the "
			"same names, in the same order",
			rank);
		return -EINVAL;
	}
	p->at = own_alloc(sizeof(b), 0);
	if (!p->at)
		return -ENOMEM;
	memcpy(p->at, &b, sizeof(b));
	for (c = 0; c < CLASS_MAX; c++) {
		choose_link(&p->lanes[c]);
		if (!p->lanes[c].route->ah)
			conn_route(&p->lanes[c]); /* or later, when it is needed */
	}
	atomic_store(&p->state, PEER_KNOWN);
	return wait_threads_start(n);
}

static void verbs_drop(struct net *n, uint16_t rank)
{
	if (rank >= n->cfg.size || rank == n->cfg.rank)
		return;
	atomic_store(&n->peers[rank].state, PEER_DROPPED);
	conn_forget(&n->peers[rank]);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Both are counters only. */
static void verbs_counters_add(uint64_t *to, const uint64_t *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static void verbs_counters(struct net *n, struct net_counters *out)
{
	const size_t each = sizeof(uint64_t);
	unsigned int d, i, r, c;

	memset(out, 0, sizeof(*out));
	verbs_counters_add((uint64_t *)out, (const uint64_t *)&n->count, sizeof(*out) / each);
	for (r = 0; r < n->cfg.size; r++)
		for (c = 0; c < CLASS_MAX; c++)
			verbs_counters_add((uint64_t *)&out->work,
					   (const uint64_t *)&n->peers[r].lanes[c].work,
					   sizeof(out->work) / each);
	for (d = 0; d < n->ndevs; d++)
		for (i = 0; i < n->devs[d].nqueues; i++) {
			struct queue *q = &n->devs[d].queues[i];

			out->work.completions += atomic_load(&q->completions);
			out->work.locks += atomic_load(&q->locks);
			out->work.idle_locks += atomic_load(&q->idle_locks);
			out->work.events += atomic_load(&q->events);
		}
	out->landing = n->landing_stride * n->cfg.nslots;
}

static unsigned int verbs_vectors(struct net *n, struct net_vector *out, unsigned int max)
{
	unsigned int d, i, rows = 0;

	for (d = 0; d < n->ndevs; d++)
		for (i = 0; i < n->devs[d].nqueues; i++, rows++) {
			struct queue *q = &n->devs[d].queues[i];

			if (rows < max)
				out[rows] = (struct net_vector){ .class = cqgroup_name(q->group),
								 .device = n->devs[d].name,
								 .vector = q->vector,
								 .events = atomic_load(&q->events),
								 .completions = atomic_load(
									 &q->completions) };
		}
	return rows;
}

static unsigned int verbs_lanes(struct net *n, struct net_lane *out, unsigned int max)
{
	unsigned int r, c;

	for (c = 0; c < CLASS_MAX && c < max; c++) {
		out[c] = (struct net_lane){
			.name = net_class_names[c],
			.messages = __atomic_load_n(&n->sent[c].messages, __ATOMIC_RELAXED),
			.bytes = __atomic_load_n(&n->sent[c].bytes, __ATOMIC_RELAXED)
		};
		for (r = 0; r < n->cfg.size; r++)
			out[c].connections += atomic_load(&n->peers[r].lanes[c].state) != LANE_IDLE;
	}
	return CLASS_MAX;
}

/* ---- closing --------------------------------------------------------------------------------- */

/* Tell connected peers that nothing more comes; receive nothing from now on. */
static void notify_quit(struct net *n)
{
	unsigned int r, c;

	for (r = 0; r < n->cfg.size; r++)
		for (c = 0; c < CLASS_MAX; c++) {
			struct lane *l = &n->peers[r].lanes[c];
			struct out *o;

			if (!verbs_peer_well(&n->peers[r]) || atomic_load(&n->peers[r].left) ||
			    l->state == LANE_IDLE)
				continue;
			o = mem_frame_get(l->dev, sizeof(struct frame));
			if (!o)
				continue;
			*(struct frame *)o->data = (struct frame){ .kind = FRAME_QUIT,
								   .class = l->class,
								   .src = n->cfg.rank };
			pthread_mutex_lock(&l->lock);
			lane_put(l, o);
			pthread_mutex_unlock(&l->lock);
		}
}

/* Is anything left for a peer that listens? *broken: its connection is broken. */
static bool unsent(struct net *n, bool *broken)
{
	bool any = false;
	unsigned int r, c;

	*broken = false;
	for (r = 0; r < n->cfg.size; r++)
		for (c = 0; c < CLASS_MAX; c++) {
			struct lane *l = &n->peers[r].lanes[c];

			if (atomic_load(&n->peers[r].state) == PEER_LOST)
				*broken = true;
			if (!verbs_peer_well(&n->peers[r]) || atomic_load(&n->peers[r].left))
				continue;
			pthread_mutex_lock(&l->lock);
			if (l->head || l->sent != l->done || l->lending || l->later) {
				any = true;
				*broken |= l->state != LANE_READY;
			}
			pthread_mutex_unlock(&l->lock);
		}
	return any;
}

static void verbs_finish_sending(struct net *n)
{
	const uint64_t start = clock_ms();
	bool broken;

	notify_quit(n);
	while (unsent(n, &broken) && clock_ms() - start < (broken ? CLOSE_BROKEN_MS : CLOSE_MS)) {
		if (!verbs_poll(n, 64))
			usleep(100);
		conn_serve(n, true);
	}
}

static void verbs_net_free(struct net *n)
{
	struct self *s;
	unsigned int r, c;

	while ((s = n->self)) {
		n->self = s->next;
		own_free(s);
	}
	if (n->landing)
		munmap(n->landing, (n->landing_stride * n->cfg.nslots + 4095) & ~(size_t)4095);
	for (r = 0; r < n->cfg.size; r++) {
		own_free(n->peers[r].at);
		for (c = 0; c < CLASS_MAX; c++)
			pthread_mutex_destroy(&n->peers[r].lanes[c].lock);
	}
	pthread_cond_destroy(&n->send_more);
	pthread_mutex_destroy(&n->leaf);
	pthread_mutex_destroy(&n->conn);
	own_free(n);
}

static void verbs_close(struct net *n)
{
	unsigned int r;

	wait_threads_stop(n);
	verbs_finish_sending(n);
	if (atomic_load(&n->breaks))
		log_line("RDMA: %lu connections were broken on purpose",
			 (unsigned long)atomic_load(&n->breaks));
	for (r = 0; r < n->cfg.size; r++) {
		atomic_store(&n->peers[r].state, PEER_DROPPED);
		conn_forget(&n->peers[r]);
	}
	wait_close(n);
	dev_close_all(n);
	verbs_net_free(n);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void init_peers(struct net *n)
{
	unsigned int r, c;

	for (r = 0; r < n->cfg.size; r++) {
		n->peers[r].net = n;
		n->peers[r].rank = (uint16_t)r;
		for (c = 0; c < CLASS_MAX; c++) {
			struct lane *l = &n->peers[r].lanes[c];

			pthread_mutex_init(&l->lock, NULL);
			l->peer = &n->peers[r];
			l->class = (uint8_t)c;
			l->tail = &l->head;
			l->lent_tail = &l->lent;
			l->later_tail = &l->later;
			l->fetches_tail = &l->fetches;
		}
	}
}

static int verbs_open(const struct net_config *cfg, struct net **out, void *address, size_t *size)
{
	struct net *n = own_zalloc(sizeof(*n) + cfg->size * sizeof(n->peers[0]));
	char why[512];
	struct blob b;
	int err;

	if (!n)
		return -ENOMEM;
	n->cfg = *cfg;
	n->self_tail = &n->self;
	n->send_tail = &n->send_head;
	n->epfd = n->timer = n->kick = n->stop = -1;
	pthread_mutex_init(&n->conn, NULL);
	pthread_mutex_init(&n->leaf, NULL);
	pthread_cond_init(&n->send_more, NULL);
	init_peers(n);
	err = verbs_set_parse(cfg->verbs, &n->set, why, sizeof(why));
	if (err) {
		log_line("%s", why);
		goto free_net;
	}
	n->landing_bytes = n->set.landing;
	n->landing_stride = (HEAD + n->landing_bytes + 63) & ~(size_t)63;
	err = -ENOMEM;
	n->landing = mem_map((n->landing_stride * cfg->nslots + 4095) & ~(size_t)4095, false);
	if (!n->landing)
		goto free_net;
	err = -EIO;
	if (getrandom(&n->key, sizeof(n->key), 0) != sizeof(n->key))
		goto free_net;
	err = dev_open_all(n);
	if (err)
		goto free_net;
	err = wait_open(n);
	if (err)
		goto close_devices;
	make_blob(n, &b);
	memcpy(address, &b, blob_size(&b));
	*size = blob_size(&b);
	*out = n;
	return 0;

close_devices:
	dev_close_all(n);
free_net:
	verbs_net_free(n);
	return err;
}

const struct net_ops net_verbs = {
	.name = "verbs",
	.open = verbs_open,
	.close = verbs_close,
	.connect = verbs_connect,
	.send = verbs_send,
	.poll = verbs_poll,
	.fd = verbs_fd,
	.arm = verbs_arm,
	.wait_step = verbs_wait_step,
	.bundle = (DEV_BULK_BYTES - HEAD) / sizeof(struct msg),
	.threads = true,
	.drop = verbs_drop,
	.counters = verbs_counters,
	.vectors = verbs_vectors,
	.lanes = verbs_lanes,
};
