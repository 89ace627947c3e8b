// SPDX-License-Identifier: BSD-2-Clause
/*
 * dev.c - RDMA devices: which are used, with which GID, and the queues on each. All before any
 * other thread uses the transport, and after.
 *
 * Receive buffers belong to a class of a device, not to a peer, and are as many as the protocol can
 * have under way: no credits are counted. A request slot of a rank causes, at one receiver and at
 * one time, at most a request and the DONE of the one before, or a forward or an invalidation;
 * answers are to slots of the receiver itself. With P peers and S slots:
 *
 *   coherence  2 P S  requests, and forwards or invalidations for others' slots
 *              + S    answers to the slots of this rank itself
 *   data       2 S    one for each slot, and room for as many that are being given back to the device
 *   sync       2 P S
 *   bulk       2 S    a call for each waiting thread, and answers; of bundles, which come here, too,
 *                     there may be more for a moment
 *
 * up to RECV_MAX each. Beyond it, or when this rank is slow, the sender's device waits and tries
 * again (RNR), for good.
 */
#include "net/verbs/dev.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/redirect.h"
#include "net/verbs/gid.h"
#include "net/verbs/mem.h"
#include "net/verbs/ud.h"
#include "util/log.h"

#define RECV_MAX 4096
#define RECV_MIN 64

uint32_t dev_recv_bytes(unsigned int class)
{
	return class == CLASS_BULK ? DEV_BULK_BYTES : 128;
}

static uint32_t wanted_receives(const struct dev *d, unsigned int class)
{
	const struct net_config *c = &d->net->cfg;
	uint64_t peers = c->size - 1u, slots = c->nslots, n = 0;

	switch ((enum msg_class) class) {
	case CLASS_COHERENCE: n = 2 * peers * slots + slots; break;
	case CLASS_SYNC: n = 2 * peers * slots; break;
	case CLASS_DATA:
	case CLASS_BULK:
	case CLASS_MAX: n = 2 * slots; break;
	}
	if (d->net->set.srq)
		n = d->net->set.srq;
	else if (n < RECV_MIN)
		n = RECV_MIN;
	if (n > RECV_MAX)
		n = RECV_MAX;
	return n < (uint64_t)d->attr.max_srq_wr ? (uint32_t)n : (uint32_t)d->attr.max_srq_wr;
}

int dev_post_recvs(struct dev *d, unsigned int class, const uint32_t *index, unsigned int count)
{
	struct ibv_recv_wr wr[VERBS_BATCH_MAX], *bad;
	struct ibv_sge sge[VERBS_BATCH_MAX];
	const unsigned int chain = d->net->set.chain;
	unsigned int i, k;

	for (i = 0; i < count; i += k) {
		for (k = 0; k < chain && i + k < count; k++) {
			sge[k] = (struct ibv_sge){ .addr = (uintptr_t)d->recv[class] +
							   (uint64_t)index[i + k] *
								   dev_recv_bytes(class),
						   .length = dev_recv_bytes(class),
						   .lkey = d->recv_lkey[class] };
			wr[k] = (struct ibv_recv_wr){
				.wr_id = wr_make(WR_RECV, (uint64_t) class << 32 | index[i + k]),
				.sg_list = &sge[k],
				.num_sge = 1,
				.next = &wr[k + 1]
			};
		}
		wr[k - 1].next = NULL;
		if (ibv_post_srq_recv(d->srq[class], wr, &bad))
			return -ENOMEM;
	}
	return 0;
}

static int srq_open(struct dev *d, unsigned int class)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = wanted_receives(d, class),
						    .max_sge = 1 } };
	struct ibv_mr *mr;
	uint32_t i;
	int err = 0;

	d->recv_n[class] = attr.attr.max_wr;
	d->recv[class] =
		mem_cut(d, MEM_PRIVATE, (size_t)d->recv_n[class] * dev_recv_bytes(class), &mr);
	if (!d->recv[class])
		return -ENOMEM;
	d->recv_lkey[class] = mr->lkey;
	d->srq[class] = ibv_create_srq(d->pd, &attr);
	if (!d->srq[class]) {
		log_line("RDMA: %s: cannot create a shared receive queue of %u buffers: %s",
			 d->name, d->recv_n[class], strerror(errno));
		return -ENOMEM;
	}
	for (i = 0; i < d->recv_n[class] && !err; i++)
		err = dev_post_recvs(d, class, &i, 1);
	return err;
}

/*
 * Room for all receive buffers, and for everything that may be in flight on the lanes, even when it
 * is flushed.
 */
static int cq_entries(const struct dev *d)
{
	uint64_t n = 256, peers = d->net->cfg.size - 1u;
	unsigned int class;

	for (class = 0; class < CLASS_MAX; class ++)
		n += d->recv_n[class];
	n += peers * CLASS_MAX * 4 * (d->net->set.depth ? d->net->set.depth : 64);
	return n < (uint64_t)d->attr.max_cqe ? (int)n : d->attr.max_cqe;
}

static int queue_open(struct dev *d, struct cqgroup *g)
{
	struct queue *q = &d->queues[d->nqueues];
	int err;

	q->net = d->net;
	q->dev = d;
	q->group = g;
	q->channel = ibv_create_comp_channel(d->ctx);
	if (!q->channel) {
		log_line("RDMA: %s: cannot create an event channel: %s", d->name, strerror(errno));
		return errno == EMFILE || errno == ENFILE ? -EMFILE : -ENOMEM;
	}
	cqgroup_set_turn(g, d->net->cfg.rank);
	err = cqgroup_create_cq(g, cq_entries(d), q, q->channel, CQGROUP_LEAST_LOADED, &q->cq);
	if (err) {
		log_line("RDMA: %s: cannot create a completion queue of %d entries: %s", d->name,
			 cq_entries(d), strerror(-err));
		ibv_destroy_comp_channel(q->channel);
		return -ENOMEM;
	}
	q->vector = cqgroup_cq_vector(g, q->cq);
	pthread_mutex_init(&q->lock, NULL);
	arrivals_init(&q->inbox);
	d->nqueues++;
	return 0;
}

static int queues_open(struct dev *d)
{
	char why[CQGROUP_WHY_MAX];
	unsigned int c, i;
	int err = cqgroup_table_create(d->ctx, d->net->cfg.cq_groups, &d->groups, why);

	if (err) {
		log_line("DSM_CQ_GROUPS: %s: %s", d->name, why);
		return err == -ENODEV ? -EINVAL : err; /* this device is there */
	}
	for (c = 0; c < CLASS_MAX; c++) {
		struct cqgroup *g = cqgroup_table_class(d->groups, (enum cqgroup_class)c);

		for (i = 0; i < d->nqueues && d->queues[i].group != g; i++)
			;
		if (i == d->nqueues)
			err = queue_open(d, g);
		if (err)
			return err;
		d->queue_of[c] = (uint8_t)i;
	}
	/* Printed only if groups were asked for; by default nobody would miss them. */
	if (!d->net->cfg.rank && d->net->cfg.cq_groups && *d->net->cfg.cq_groups &&
	    strcmp(d->net->cfg.cq_groups, "off") && !cqgroup_vectors_effective(d->ctx))
		log_line(
			"DSM_CQ_GROUPS: %s has no completion vectors of its own; only the processors of the groups' threads matter",
			d->name);
	return 0;
}

static void queue_close(struct queue *q)
{
	if (q->cq && cqgroup_destroy_cq(q->group, q->cq))
		ibv_destroy_cq(q->cq);
	ibv_destroy_comp_channel(q->channel);
	pthread_mutex_destroy(&q->lock);
	arrivals_free(&q->inbox);
}

void dev_lane_set(struct dev *d, uint32_t qpn, struct lane *l)
{
	_Atomic(struct lane *) *low = atomic_load(&d->lanes[qpn >> 12 & 4095]);

	if (!low) {
		low = own_zalloc(4096 * sizeof(*low));
		atomic_store_explicit(&d->lanes[qpn >> 12 & 4095], low, memory_order_release);
	}
	if (low)
		atomic_store_explicit(&low[qpn & 4095], l, memory_order_release);
}

/* ---- one device ------------------------------------------------------------------------------ */

/* *said: the reason, unless quiet. */
static int dev_gid_choose(struct dev *d, bool quiet, bool *said)
{
	struct ibv_gid_entry *table;
	char why[256];
	ssize_t n;
	int i;

	table = own_zalloc(((size_t)d->pattr.gid_tbl_len + 1) * sizeof(*table));
	if (!table)
		return -ENOMEM;
	n = ibv_query_gid_table(d->ctx, table, (size_t)d->pattr.gid_tbl_len, 0);
	i = gid_choose(table, n < 0 ? 0 : (size_t)n, d->port, d->net->cfg.gid, why, sizeof(why));
	if (i >= 0) {
		d->gid = table[i].gid;
		d->gid_type = table[i].gid_type;
		d->gid_index = (uint8_t)table[i].gid_index;
	} else if (!quiet || i == -EINVAL) {
		log_line("RDMA: %s: %s", d->name, why);
		*said = true;
	}
	own_free(table);
	return i >= 0 ? 0 : i == -EINVAL ? -EINVAL : -ENODEV;
}

void dev_gid_refresh(struct dev *d)
{
	struct ibv_gid_entry e;

	if (!ibv_query_gid_ex(d->ctx, d->port, d->gid_index, &e, 0) &&
	    !memcmp(&e.gid, &d->gid, sizeof(e.gid)) && e.gid_type == d->gid_type)
		return;
	for (int i = 0; i < d->pattr.gid_tbl_len && i < 256; i++)
		if (!ibv_query_gid_ex(d->ctx, d->port, (uint32_t)i, &e, 0) &&
		    !memcmp(&e.gid, &d->gid, sizeof(e.gid)) && e.gid_type == d->gid_type)
			d->gid_index = (uint8_t)i;
}

static bool has_odp(struct dev *d)
{
	const uint32_t wanted = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE |
		IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex ex;

	memset(&ex, 0, sizeof(ex));
	if (!d->net->set.odp || ibv_query_device_ex(d->ctx, NULL, &ex))
		return false;
	return (ex.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
		(ex.odp_caps.per_transport_caps.rc_odp_caps & wanted) == wanted &&
		(ex.odp_caps.per_transport_caps.ud_odp_caps & IBV_ODP_SUPPORT_SEND);
}

static int dev_resources(struct dev *d)
{
	struct net *n = d->net;
	unsigned int class;
	int err;

	d->odp = has_odp(d);
	d->inlined = n->set.inlined;
	d->pd = ibv_alloc_pd(d->ctx);
	if (!d->pd) {
		log_line("RDMA: %s: %s", d->name, strerror(errno));
		return -ENOMEM;
	}
	d->landing = mem_register(
		d, n->landing, (n->landing_stride * n->cfg.nslots + 4095) & ~(size_t)4095,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, "arriving blocks");
	if (!d->landing)
		return -ENOMEM;
	for (class = 0; class < CLASS_MAX; class ++) {
		err = srq_open(d, class);
		if (err)
			return err;
	}
	err = queues_open(d);
	return err ? err : ud_open(d);
}

/* Undo what dev_resources() has made, even if it failed half-way. */
static void dev_close(struct dev *d)
{
	unsigned int i;

	ud_close(d);
	for (i = 0; i < d->nqueues; i++)
		queue_close(&d->queues[i]);
	cqgroup_table_destroy(d->groups);
	for (i = 0; i < CLASS_MAX; i++)
		if (d->srq[i])
			ibv_destroy_srq(d->srq[i]);
	if (d->landing)
		ibv_dereg_mr(d->landing);
	mem_free(d);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	ibv_close_device(d->ctx);
	for (i = 0; i < 4096; i++)
		own_free((void *)atomic_load(&d->lanes[i]));
	pthread_mutex_destroy(&d->mem);
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct search {
	struct verbs_names names;
	unsigned int devices, named; /* devices found; those of them that DSM_NET_DEVICE allows */
	char seen[512];              /* their names */
	char other[64];              /* one of another protocol than InfiniBand's */
	bool said;                   /* printed why a device cannot be used */
};

static bool port_works(struct ibv_context *ctx, unsigned int port, struct ibv_port_attr *attr)
{
	return !ibv_query_port(ctx, (uint8_t)port, attr) && attr->state == IBV_PORT_ACTIVE &&
		(attr->link_layer == IBV_LINK_LAYER_ETHERNET ||
		 attr->link_layer == IBV_LINK_LAYER_INFINIBAND ||
		 attr->link_layer == IBV_LINK_LAYER_UNSPECIFIED);
}

/*
 * Lanes need queue pairs that are connected without a connection manager, by datagrams, and writes
 * with immediate data. The transport of RoCE is InfiniBand's.
 */
static bool has_protocol(const struct ibv_device *device)
{
	return device->transport_type == IBV_TRANSPORT_IB;
}

static void log_protocol(const char *name)
{
	log_line(
		"RDMA: %s is no InfiniBand or RoCE device: its protocol (iWARP, usNIC) has no datagrams and no writes with "
		"immediate data; use another device, or DSM_NET=ucx",
		name);
}

/*
 * Leave out a device of another protocol: with a line if DSM_NET_DEVICE names it, else complain()
 * has one if no device works.
 */
static void skip_protocol(const struct net *n, struct search *s, const char *name)
{
	snprintf(s->other, sizeof(s->other), "%s", name);
	if (!n->cfg.optional && s->names.n) {
		log_protocol(name);
		s->said = true;
	}
}

/* Use the working ports of one device, which is opened once for each. */
static int dev_try(struct net *n, struct ibv_device *device, struct search *s)
{
	const bool quiet = n->cfg.optional;
	unsigned int port, ports = 1;
	int err = -ENODEV, last;

	for (port = 1; port <= ports && n->ndevs < VERBS_DEVICES; port++) {
		struct dev *d = &n->devs[n->ndevs];

		memset(d, 0, sizeof(*d));
		d->net = n;
		d->port = (uint8_t)port;
		snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(device));
		d->ctx = ibv_open_device(device);
		if (!d->ctx) {
			if (!quiet)
				log_line("RDMA: %s cannot be opened: %s", d->name, strerror(errno));
			return err;
		}
		if (ibv_query_device(d->ctx, &d->attr))
			d->attr.phys_port_cnt = 0;
		ports = d->attr.phys_port_cnt;
		last = -ENODEV;
		if (ports && verbs_names_have(&s->names, d->name, port) &&
		    port_works(d->ctx, port, &d->pattr))
			last = dev_gid_choose(d, quiet, &s->said);
		if (last) {
			ibv_close_device(d->ctx);
			if (last != -ENODEV)
				return last;
			continue;
		}
		pthread_mutex_init(&d->mem, NULL);
		n->ndevs++; /* before, so that a failure below also frees it */
		err = dev_resources(d);
		if (err)
			return err;
	}
	return err;
}

static int dev_search_complain(const struct net *n, const struct search *s)
{
	if (n->cfg.optional || s->said)
		return -ENODEV;
	if (!s->devices)
		log_line(
			"no RDMA device: load the driver of the adapter, or make a soft-RoCE device with `rdma link add rxe0 type "
			"rxe netdev eth0`, or use DSM_NET=ucx");
	else if (!s->named)
		log_line("no RDMA device is called %s; there are:%s", n->cfg.device, s->seen);
	else if (*s->other)
		log_protocol(s->other);
	else
		log_line(
			"no RDMA device with an active port and a GID among:%s (`ibv_devinfo` and `rdma link` show the state; a "
			"soft-RoCE device is active when its network interface is up)",
			s->seen);
	return -ENODEV;
}

/*
 * Find the devices that own classes, by DSM_CQ_GROUPS. A class of a device that is not used here
 * would go nowhere.
 */
static int dev_owners(struct net *n)
{
	const char *name;
	unsigned int c, i;

	for (c = 0; c < CLASS_MAX; c++) {
		name = cqgroup_table_device(n->devs[0].groups, (enum cqgroup_class)c);
		for (i = 0; name && i < n->ndevs && strcmp(n->devs[i].name, name);)
			i++;
		if (name && i == n->ndevs) {
			log_line(
				"DSM_CQ_GROUPS: %s owns a class, and is not used: it is not active, or DSM_NET_DEVICE leaves it out",
				name);
			return -EINVAL;
		}
		n->owner[c] = (uint8_t)(name ? i + 1 : 0);
	}
	return 0;
}

int dev_open_all(struct net *n)
{
	struct search s = { .devices = 0 };
	struct ibv_device **list;
	size_t used = 0;
	char why[256];
	int i, count = 0, err = verbs_names_parse(n->cfg.device, &s.names, why, sizeof(why));

	if (err) {
		log_line("%s", why);
		return err;
	}
	n->devs = own_zalloc(VERBS_DEVICES * sizeof(*n->devs));
	if (!n->devs)
		return -ENOMEM;
	list = ibv_get_device_list(&count); /* NULL: the kernel knows nothing of RDMA */
	redirect_malloc();                  /* providers are loaded */
	for (i = 0; list && i < count && !err; i++) {
		const char *name = ibv_get_device_name(list[i]);

		s.devices++;
		if (used < sizeof(s.seen))
			used += (size_t)snprintf(s.seen + used, sizeof(s.seen) - used, " %s", name);
		if (!verbs_names_have(&s.names, name, 0))
			continue;
		s.named++;
		if (!has_protocol(list[i])) {
			skip_protocol(n, &s, name);
			continue;
		}
		err = dev_try(n, list[i], &s);
		if (err == -ENODEV)
			err = 0;
	}
	if (list)
		ibv_free_device_list(list);
	if (!err && !n->ndevs)
		err = dev_search_complain(n, &s);
	if (!err)
		err = dev_owners(n);
	if (err)
		dev_close_all(n);
	return err;
}

void dev_close_all(struct net *n)
{
	while (n->ndevs)
		dev_close(&n->devs[--n->ndevs]);
	own_free(n->devs);
	n->devs = NULL;
}
