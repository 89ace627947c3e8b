// SPDX-License-Identifier: BSD-2-Clause
/*
 * shared.c - the transport over librshare: opening, connecting, losing, closing. Threads and locks:
 * shared.h.
 */
#include "net/shared/shared.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "net/redirect.h"
#include "net/shared/conns.h"
#include "net/shared/lane.h"
#include "net/shared/receive.h"
#include "util/clock.h"
#include "util/log.h"

#define OPEN_MS 20000 /* for the node's first rank to open the device */
#define CLOSE_MS 2000 /* to send the rest, and for the other ranks of the node */

/*
 * Messages that a thread waits for come first. Blocks get more turns than bulk data. A region's
 * priority changes its share. Each rank reserves memory for all kinds; few programs use priorities
 * other than normal, so those have fewer receives.
 */
const struct lane_kind_row lane_kinds[KINDS] = {
	[KIND_COHERENCE] = { "coherence", CLASS_COHERENCE, RSHARE_PRIORITY_MAX, 1, DEPTH, 0 },
	[KIND_SYNC] = { "sync", CLASS_SYNC, RSHARE_PRIORITY_MAX, 1, DEPTH, 0 },
	[KIND_BULK] = { "bulk", CLASS_BULK, 0, 1, DEPTH / 2, INLINE_MAX },
	[KIND_DATA] = { "data", CLASS_DATA, 0, 4, DEPTH / 2, INLINE_MAX },
	[KIND_DATA_LOW] = { "data low", CLASS_DATA, 0, 1, DEPTH / 4, INLINE_MAX },
	[KIND_DATA_HIGH] = { "data high", CLASS_DATA, 0, 16, DEPTH / 4, INLINE_MAX },
	[KIND_DATA_URGENT] = { "data urgent", CLASS_DATA, RSHARE_PRIORITY_MAX - 1, 1, DEPTH / 4,
			       INLINE_MAX },
};

static void shared_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* ---- peers ---------------------------------------------------------------------------------- */

void peer_gone(struct peer *p, int err)
{
	uint8_t known = PEER_KNOWN;

	if (!atomic_compare_exchange_strong(&p->state, &known, PEER_LOST))
		return;
	p->lost = (struct item){ .err = err, .rank = p->rank };
	inbox_put(p->net, &p->lost);
}

static int shared_connect(struct net *n, uint16_t rank, const void *address, size_t size)
{
	uint8_t none = PEER_NONE;
	struct shared_blob b;
	struct peer *p;

	if (rank >= n->cfg.size || shared_blob_read(address, size, n->cfg.nslots, &b))
		return -EINVAL;
	if (rank == n->cfg.rank)
		return 0;
	p = &n->peers[rank];
	if (atomic_load(&p->state) != PEER_NONE)
		return -EEXIST;
	memcpy(p->node, b.node, sizeof(p->node));
	p->landing = b.landing;
	p->nslots = b.nslots;
	return atomic_compare_exchange_strong(&p->state, &none, PEER_KNOWN) ? 0 : -EEXIST;
}

static void shared_drop(struct net *n, uint16_t rank)
{
	if (rank < n->cfg.size)
		atomic_store(&n->peers[rank].state, PEER_DROPPED);
}

static int shared_fd(struct net *n)
{
	return n->epfd;
}

static void shared_counters(struct net *n, struct net_counters *out)
{
	const uint64_t *from = (const uint64_t *)&n->count;
	uint64_t *to = (uint64_t *)out;
	struct rshare_info info;
	size_t i;

	for (i = 0; i < sizeof(*out) / sizeof(*to); i++)
		to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	if (!rshare_get_info(n->r, &info))
		out->queue_pairs = info.queue_pairs;
	out->landing = (uint64_t)SHARED_LANDING * n->cfg.nslots;
}

static unsigned int shared_lanes(struct net *n, struct net_lane *out, unsigned int max)
{
	unsigned int k;

	for (k = 0; k < KINDS && k < max; k++)
		out[k] = (struct net_lane){
			.name = lane_kinds[k].name,
			.connections = __atomic_load_n(&n->sent[k].connections, __ATOMIC_RELAXED),
			.messages = __atomic_load_n(&n->sent[k].messages, __ATOMIC_RELAXED),
			.bytes = __atomic_load_n(&n->sent[k].bytes, __ATOMIC_RELAXED),
		};
	return KINDS;
}

/* ---- closing -------------------------------------------------------------------------------- */

static bool all_sent(struct net *n)
{
	struct lane *l;
	struct in *in;
	bool idle;

	pthread_mutex_lock(&n->lock);
	pthread_mutex_lock(&n->leaf);
	idle = !n->wanted;
	pthread_mutex_unlock(&n->leaf);
	for (in = n->ins; in; in = in->next) /* peers that also close wait for answers */
		in_serve(in, false);
	for (l = n->lanes; l; l = l->next)
		if (shared_peer_well(l->peer))
			idle &= lane_idle(l);
	inbox_drop(n);
	pthread_mutex_unlock(&n->lock);
	return idle || atomic_load(&n->dead);
}

static int shared_wait_ms(uint64_t until, bool well)
{
	const uint64_t now = clock_ms();

	return well && now < until ? (int)(until - now) : 0;
}

static void disconnect(struct net *n, uint64_t until)
{
	struct lane *l;
	struct in *in;

	for (l = n->lanes; l; l = l->next)
		rshare_disconnect(l->conn, shared_wait_ms(until, shared_peer_well(l->peer)));
	for (in = n->ins; in; in = in->next)
		rshare_disconnect(
			in->conn,
			shared_wait_ms(until,
				       in->rank >= 0 && shared_peer_well(&n->peers[in->rank])));
}

static void shared_net_free(struct net *n)
{
	unsigned int r, c;
	struct in *in;

	while ((in = n->ins)) {
		n->ins = in->next;
		in_free(in);
	}
	for (c = 0; c < KINDS; c++)
		fetches_free(n->waiting[c]);
	for (r = 0; r < n->cfg.size; r++)
		for (c = 0; c < KINDS; c++)
			lane_free(&n->peers[r].lanes[c]);
	rshare_close(n->r);
	close(n->epfd);
	close(n->kick);
	close(n->wake);
	pthread_mutex_destroy(&n->lock);
	pthread_mutex_destroy(&n->leaf);
	own_free(n);
}

/* If the owner ends, all connections of the node end. */
static void wait_for_clients(struct net *n)
{
	const uint64_t until = clock_ms() + CLOSE_MS;
	struct rshare_info info;

	while (n->owner && !rshare_get_info(n->r, &info) && info.clients > 1 && clock_ms() < until)
		shared_nap();
}

static void shared_close(struct net *n)
{
	const uint64_t until = clock_ms() + CLOSE_MS;
	unsigned int c;

	while (!all_sent(n) && clock_ms() < until)
		shared_nap();
	conns_stop(n);
	disconnect(n, until);
	for (c = 0; c < KINDS; c++)
		rshare_unlisten(n->listeners[c]);
	wait_for_clients(n);
	shared_net_free(n);
}

/* ---- opening -------------------------------------------------------------------------------- */

/*
 * This rank's index in its node, and the number of ranks of other nodes that talk to it: ranks i
 * modulo a node's ranks talk to its rank i.
 */
static unsigned int count_talkers(struct net *n)
{
	const struct net_config *c = &n->cfg;
	uint16_t *seen = own_zalloc(net_nodes(c) * sizeof(*seen));
	unsigned int r, talkers = 0;

	if (!seen)
		return c->size;
	for (r = 0; r < c->size; r++)
		if (net_node_of(c, (uint16_t)r) == net_me(c)) {
			n->local = r < c->rank ? n->local + 1 : n->local;
			n->locals++;
		}
	for (r = 0; r < c->size; r++) {
		const uint16_t node = net_node_of(c, (uint16_t)r);

		talkers += node != net_me(c) && seen[node]++ % n->locals == n->local;
	}
	own_free(seen);
	return talkers;
}

/* The first of "mlx5_0:1,...". */
static int choose_device(const struct net_config *c, char *name, size_t size,
			 struct rshare_config *rc)
{
	char *end = NULL, *port;

	snprintf(name, size, "%.*s", (int)strcspn(c->device, ","), c->device);
	port = strchr(name, ':');
	if (port) {
		*port = 0;
		rc->ib_port = atoi(port + 1);
	}
	if (!*c->gid || !strcmp(c->gid, "ipv4"))
		return 0;
	rc->gid_index = (int)strtol(c->gid, &end, 10);
	if (!*end && rc->gid_index >= 0)
		return 0;
	log_line("DSM_NET_GID=%s: with DSM_NET=shared it is an index, or ipv4", c->gid);
	return -EINVAL;
}

static int shared_attach(struct net *n)
{
	const struct net_config *c = &n->cfg;
	const unsigned int talkers = count_talkers(n);
	const uint64_t until = clock_ms() + OPEN_MS;
	char name[64], device[64], why[RSHARE_WHY_MAX];
	struct rshare_config rc;
	int err;

	snprintf(name, sizeof(name), "dsm-%016llx-%u", (unsigned long long)c->number, net_me(c));
	rshare_config_init(&rc);
	n->owner = !n->local;
	rc.role = n->owner ? RSHARE_OWNER : RSHARE_CLIENT;
	rc.name = name;
	rc.key = c->key;
	rc.any_port = 1;
	rc.remote = 1;
	rc.connections = KINDS * (talkers + net_nodes(c) + 2);
	rc.depth = DEPTH;
	rc.peers = 2u * net_nodes(c); /* both sides may begin at once */
	rc.repair = c->lost_ms;
	rc.pool = (uint64_t)SHARED_LANDING * c->nslots + FETCHES * NET_PAYLOAD_MAX + LENT_ROOM +
		(talkers + net_nodes(c)) * conns_memory();
	rc.thread = c->thread;
	rc.arg = c->arg;
	err = choose_device(c, device, sizeof(device), &rc);
	if (err)
		return err;
	do
		err = rshare_open(*device ? device : NULL, &rc, &n->r, why);
	while (err == -ECONNREFUSED && !n->owner && clock_ms() < until && (shared_nap(), true));
	if (err)
		log_line("shared queue pairs: %s", why);
	return err == -ECONNREFUSED ? -ETIMEDOUT : err;
}

static int take_memory(struct net *n)
{
	n->landing = rshare_get(n->r, (size_t)SHARED_LANDING * n->cfg.nslots);
	while (n->nfree < FETCHES && (n->fetch_free[n->nfree] = rshare_get(n->r, NET_PAYLOAD_MAX)))
		n->nfree++;
	return n->landing && n->nfree == FETCHES ? 0 : -ENOMEM;
}

static int shared_publish(struct net *n, void *address, size_t *size)
{
	struct shared_blob b = { .magic = SHARED_BLOB_MAGIC, .nslots = n->cfg.nslots };
	struct rshare_info info;
	int err = rshare_get_info(n->r, &info);

	if (!err)
		err = rshare_export(n->r, n->landing, (size_t)SHARED_LANDING * n->cfg.nslots,
				    &b.landing);
	if (err)
		return err;
	memcpy(b.node, info.address, sizeof(b.node));
	memcpy(address, &b, sizeof(b));
	*size = sizeof(b);
	return 0;
}

static void init(struct net *n, const struct net_config *cfg)
{
	unsigned int r, c;

	n->cfg = *cfg;
	n->inbox_end = &n->inbox;
	for (c = 0; c < KINDS; c++)
		n->waiting_end[c] = &n->waiting[c];
	pthread_mutex_init(&n->lock, NULL);
	pthread_mutex_init(&n->leaf, NULL);
	for (r = 0; r < cfg->size; r++) {
		n->peers[r].net = n;
		n->peers[r].rank = (uint16_t)r;
		for (c = 0; c < KINDS; c++) {
			struct lane *l = &n->peers[r].lanes[c];

			pthread_mutex_init(&l->lock, NULL);
			l->peer = &n->peers[r];
			l->kind = (uint8_t)c;
			l->tail = &l->head;
			l->lent_tail = &l->lent;
		}
	}
	n->epfd = epoll_create1(EPOLL_CLOEXEC);
	n->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	n->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* A miss may wait for memory of librshare: see own.h. */
static void shared_set_allocator(void)
{
	rshare_set_allocator(own_zalloc, own_free);
}

static int shared_open(const struct net_config *cfg, struct net **out, void *address, size_t *size)
{
	/* once: threads of an earlier transport of this process allocate */
	static pthread_once_t allocator = PTHREAD_ONCE_INIT;
	struct net *n = own_zalloc(sizeof(*n) + cfg->size * sizeof(n->peers[0]));
	struct epoll_event e = { .events = EPOLLIN };
	int err;

	if (!n)
		return -ENOMEM;
	pthread_once(&allocator, shared_set_allocator);
	init(n, cfg);
	err = n->epfd < 0 || n->wake < 0 || epoll_ctl(n->epfd, EPOLL_CTL_ADD, n->kick, &e) ? -EMFILE
											   : 0;
	if (!err)
		err = shared_attach(n);
	redirect_malloc(); /* the owner has loaded the device's provider by now */
	if (!err)
		err = take_memory(n);
	if (!err)
		err = shared_publish(n, address, size);
	if (!err)
		err = conns_start(n);
	if (err) {
		shared_net_free(n);
		return err;
	}
	*out = n;
	return 0;
}

const struct net_ops net_shared = {
	.name = "shared",
	.open = shared_open,
	.close = shared_close,
	.connect = shared_connect,
	.send = shared_send,
	.poll = shared_poll,
	.fd = shared_fd,
	.arm = shared_arm,
	.drop = shared_drop,
	.counters = shared_counters,
	.lanes = shared_lanes,
};
