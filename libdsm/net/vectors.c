// SPDX-License-Identifier: BSD-2-Clause
/*
 * vectors.c - the completion vectors of a device that the kernel helper opens, from the table of
 * the groups.
 */
#include <cqgroup.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "net/net.h"
#include "util/log.h"

static bool has_active_port(struct ibv_context *ctx)
{
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	uint8_t p;

	if (ibv_query_device(ctx, &dev))
		return false;
	for (p = 1; p <= dev.phys_port_cnt; p++)
		if (!ibv_query_port(ctx, p, &port) && port.state == IBV_PORT_ACTIVE)
			return true;
	return false;
}

/*
 * The first device that the module would take: if no name is given, none of iWARP, which it
 * refuses.
 */
static struct ibv_context *open_first(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;
	int i;

	for (i = 0; list && list[i] && !ctx; i++) {
		if (*name ? strcmp(name, ibv_get_device_name(list[i]))
			  : list[i]->transport_type != IBV_TRANSPORT_IB)
			continue;
		ctx = ibv_open_device(list[i]);
		if (ctx && !has_active_port(ctx)) {
			ibv_close_device(ctx);
			ctx = NULL;
		}
	}
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

int net_class_vectors(char *device, size_t room, const char *config, unsigned int turn,
		      struct net_place out[CLASS_MAX])
{
	struct cqgroup_table *table;
	struct cqgroup *g;
	char why[CQGROUP_WHY_MAX];
	struct ibv_context *ctx;
	unsigned int c;
	int err, cpu;

	ctx = open_first(device);
	if (!ctx)
		return -ENODEV;
	snprintf(device, room, "%s", ibv_get_device_name(ctx->device));
	if ((!config || !*config) && !cqgroup_vectors_effective(ctx)) {
		ibv_close_device(ctx);
		return 0;
	}
	err = cqgroup_table_create(ctx, config, &table, why);
	if (err) {
		log_line("DSM_CQ_GROUPS: %s: %s", device, why);
	} else {
		for (c = 0; c < CLASS_MAX && !err; c++) {
			const char *owner = cqgroup_table_device(table, (enum cqgroup_class)c);

			if (owner && strcmp(owner, device)) {
				log_line(
					"DSM_CQ_GROUPS: %s owns a class, and the kernel helper uses %s for all",
					owner, device);
				err = -EINVAL;
				break;
			}
			g = cqgroup_table_class(table, (enum cqgroup_class)c);
			cqgroup_set_turn(g, turn);
			out[c].vector = (int16_t)cqgroup_take(g, CQGROUP_LEAST_LOADED);
			cpu = cqgroup_vector_cpu(g, (unsigned int)out[c].vector);
			out[c].cpu = (int16_t)(cpu < 0 ? -1 : cpu);
		}
		cqgroup_table_destroy(table);
	}
	ibv_close_device(ctx);
	return err;
}
