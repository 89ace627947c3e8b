// SPDX-License-Identifier: BSD-2-Clause
/*
 * transport.c - opens the transport to the ranks of other nodes, and exchanges its address, only if
 * there are other nodes.
 *
 * All ranks decide that from the same published data, so either all or none take part in the
 * exchange.
 */
#include "start/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls/region.h"
#include "job/inside.h"
#include "job/job.h"
#include "job/lost.h"
#include "miss/run.h"
#include "miss/slot.h"
#include "net/net.h"
#include "util/log.h"

#define TRANSPORT_SECONDS 60

struct where {
	char net[16]; /* the transport that the address belongs to */
	uint32_t size;
	uint8_t address[NET_ADDRESS_MAX];
};

/* The home waits for it only if another request waits there, and then it does not doze. */
static bool is_late(const struct msg *m)
{
	const uint8_t type = m->type == MSG_BUNDLE ? m->op : m->type;

	return type == MSG_DONE && job.width[m->dst] == 1;
}

static bool is_on_this_host(void *arg, uint16_t rank)
{
	(void)arg;
	return rank_info(rank)->same_host;
}

/* The transport that the setting names; or the first of AUTO that finds a device. */
#define AUTO 2
static int open_net(void *address, size_t *size)
{
	static const struct net_ops *const all[] = { &net_verbs, &net_ucx, &net_shared };
	const bool any = !strcmp(job.set.net, "auto");
	const unsigned int n = any ? AUTO : sizeof(all) / sizeof(all[0]);
	struct net_config cfg = {
		.rank = job.rank,
		.size = job.size,
		.node_of = job.node_of,
		.rank_of = job.pair,
		.node = job.node,
		.nodes = job.nodes,
		.nslots = CTL_SLOTS,
		.block_slots = job.limits.block_slots,
		.handler = run_net,
		.lost = lost_net,
		.thread = engine_thread,
		.object = slot_object,
		.waited = slot_waited,
		.late = is_late,
		.same_host = is_on_this_host,
		.priority = region_priority,
		.key = job.key,
		.number = job.number,
		.lost_ms = job.set.lost_ms,
		.device = job.set.net_device,
		.gid = job.set.net_gid,
		.cq_groups = job.set.cq_groups,
		.verbs = job.set.verbs,
	};
	const size_t room = *size;
	unsigned int i;
	int err = -ENODEV;

	_Static_assert((int)NET_LOW == DSM_PRIORITY_LOW && (int)NET_NORMAL == DSM_PRIORITY_NORMAL &&
			       (int)NET_HIGH == DSM_PRIORITY_HIGH &&
			       (int)NET_URGENT == DSM_PRIORITY_URGENT,
		       "the transport's priorities are those of regions");

	for (i = 0; i < n && err == -ENODEV; i++) {
		if (!any && strcmp(job.set.net, all[i]->name))
			continue;
		job.netops = all[i];
		cfg.optional = any && i + 1 < n;
		*size = room;
		err = job.netops->open(&cfg, &job.net, address, size);
	}
	return err;
}

static int connect_to(uint16_t rank, struct where *its, const struct where *mine)
{
	size_t size = sizeof(*its);
	int err = start_get(rank, "dsm-address", its, &size);

	if (err || size != sizeof(*its) || its->size > sizeof(its->address)) {
		log_line("rank %d has not published an address: %s", rank,
			 dsm_strerror(err ? err : -EPROTO));
		return -EPROTO;
	}
	if (memcmp(its->net, mine->net, sizeof(its->net))) {
		/* The same connection, seen from either side. */
		const struct where *high = rank > job.rank ? its : mine,
				   *low = rank > job.rank ? mine : its;

		log_line(
			"rank %d uses the transport %.*s and rank %d %.*s; DSM_NET chooses one for all ranks",
			rank > job.rank ? rank : job.rank, (int)sizeof(high->net), high->net,
			rank > job.rank ? job.rank : rank, (int)sizeof(low->net), low->net);
		return -EPROTO;
	}
	return is_here(rank) ? 0 : job.netops->connect(job.net, rank, its->address, its->size);
}

static int exchange(struct where *mine, struct where *its)
{
	size_t size = sizeof(mine->address);
	int err = open_net(mine->address, &size);
	uint16_t r;

	if (err)
		return err;
	mine->size = (uint32_t)size;
	snprintf(mine->net, sizeof(mine->net), "%s", job.netops->name);
	err = start_failed(
		launch_exchange(&job.launch, "dsm-address", mine, sizeof(*mine), TRANSPORT_SECONDS),
		"dsm-address", TRANSPORT_SECONDS);
	/* before asking for its address: if there is none, the launcher takes seconds */
	lost_scan();
	for (r = 0; r < job.size && !err; r++)
		if (r != job.rank)
			err = connect_to(r, its, mine);
	return err;
}

int transport_open_others(void)
{
	struct where *w;
	int err;

	if (one_node())
		return 0;
	w = calloc(2, sizeof(*w));
	err = w ? exchange(&w[0], &w[1]) : -ENOMEM;
	free(w);
	return err;
}
