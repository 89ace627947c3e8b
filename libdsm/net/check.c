// SPDX-License-Identifier: BSD-2-Clause
/*
 * check.c - checks the fields of a message that the transport uses, and the size of its payload by
 * its type. Pure.
 */
#include "net/check.h"

#include "core/bundle.h"
#include "util/sizes.h"

const char *const net_class_names[CLASS_MAX] = { "coherence", "data", "sync", "bulk" };

size_t net_payload_max(uint8_t type)
{
	switch (type) {
	/* the engine checks that it is a block of its region */
	case MSG_DATA: return UNIT_BYTES;
	case MSG_CALL:
	case MSG_RETURN:
	case MSG_CHUNK:
	case MSG_FLUSH:
	case MSG_FLUSHED:
	case MSG_NOTE: return NET_PAYLOAD_MAX;
	case MSG_BUNDLE: return WIRE_BUNDLE_MAX * sizeof(struct msg) + BUNDLE_BYTES;
	case MSG_AFTER: return sizeof(struct msg);
	default: return 0;
	}
}

int net_check_send(const struct net_config *cfg, uint16_t rank, const struct msg *m, size_t payload)
{
	if (rank >= cfg->size)
		return -EINVAL;
	return payload > net_payload_max(m->type) ? -EMSGSIZE : 0;
}

int net_check(const struct net_config *cfg, const struct msg *m, size_t payload)
{
	if (wire_envelope(m, net_me(cfg), net_nodes(cfg)) || !(wire_hosts(m->type) & HOST_LIBRARY))
		return -EBADMSG;
	if (wire_class(m->type) <= CLASS_DATA &&
	    (m->req_node >= net_nodes(cfg) ||
	     m->req_slot >= (cfg->block_slots ? cfg->block_slots : cfg->nslots)))
		return -EBADMSG;
	if (m->src == net_me(cfg)) /* this rank's own messages never arrive from outside */
		return -EBADMSG;
	return payload > net_payload_max(m->type) ? -EBADMSG : 0;
}
