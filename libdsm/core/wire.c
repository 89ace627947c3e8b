// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* wire.c - what a peer may send, which class carries it, and what it is called. */
#include "core/wire.h"

static const struct {
	const char *name;
	uint8_t class;
	uint8_t remote; /* may come from another rank */
	uint8_t slot;   /* req_slot names a request */
} types[MSG_TYPES] = {
	[MSG_NONE]      = { "NONE", CLASS_COHERENCE, 0, 0 },
	[MSG_READ_REQ]  = { "READ_REQ", CLASS_COHERENCE, 1, 1 },
	[MSG_WRITE_REQ] = { "WRITE_REQ", CLASS_COHERENCE, 1, 1 },
	[MSG_DONE]      = { "DONE", CLASS_COHERENCE, 1, 1 },
	[MSG_FWD_READ]  = { "FWD_READ", CLASS_COHERENCE, 1, 1 },
	[MSG_FWD_WRITE] = { "FWD_WRITE", CLASS_COHERENCE, 1, 1 },
	[MSG_INV]       = { "INV", CLASS_COHERENCE, 1, 1 },
	[MSG_INV_ACK]   = { "INV_ACK", CLASS_COHERENCE, 1, 1 },
	[MSG_GRANT]     = { "GRANT", CLASS_COHERENCE, 1, 1 },
	[MSG_DATA]      = { "DATA", CLASS_DATA, 1, 1 },
	[MSG_HOME]      = { "HOME", CLASS_COHERENCE, 1, 1 },
	[MSG_HOME_ACK]  = { "HOME_ACK", CLASS_COHERENCE, 1, 1 },
	[MSG_PLACE]     = { "PLACE", CLASS_COHERENCE, 1, 1 },
	[MSG_RELEASE]   = { "RELEASE", CLASS_COHERENCE, 1, 0 },
	[MSG_RESUME]    = { "RESUME", CLASS_COHERENCE, 0, 1 },
	[MSG_LOCK]      = { "LOCK", CLASS_SYNC, 1, 1 },
	[MSG_TRYLOCK]   = { "TRYLOCK", CLASS_SYNC, 1, 1 },
	[MSG_UNLOCK]    = { "UNLOCK", CLASS_SYNC, 1, 0 },
	[MSG_NEXT]      = { "NEXT", CLASS_SYNC, 1, 1 },
	[MSG_LOCKED]    = { "LOCKED", CLASS_SYNC, 1, 1 },
	[MSG_FREED]     = { "FREED", CLASS_SYNC, 1, 0 },
	[MSG_SYNC]      = { "SYNC", CLASS_SYNC, 1, 1 },
	[MSG_REPLY]     = { "REPLY", CLASS_SYNC, 1, 1 },
	[MSG_ARRIVE]    = { "ARRIVE", CLASS_SYNC, 1, 0 },
	[MSG_DEPART]    = { "DEPART", CLASS_SYNC, 1, 0 },
	[MSG_CALL]      = { "CALL", CLASS_BULK, 1, 1 },
	[MSG_RETURN]    = { "RETURN", CLASS_BULK, 1, 1 },
	[MSG_PING]      = { "PING", CLASS_SYNC, 1, 0 },
	[MSG_BYE]       = { "BYE", CLASS_SYNC, 1, 0 },
};

int wire_check(const struct msg *m, uint16_t me, uint16_t nranks, uint32_t nslots)
{
	if (m->version != WIRE_VERSION || m->type >= MSG_TYPES || !types[m->type].remote)
		return -EBADMSG;
	if (m->src >= nranks || m->dst != me || m->req_rank >= nranks)
		return -EBADMSG;
	if (types[m->type].slot && m->req_slot >= nslots)
		return -EBADMSG;
	if ((m->type == MSG_GRANT || m->type == MSG_DATA) && m->home >= nranks)
		return -EBADMSG; /* that is where MSG_DONE goes */
	return 0;
}

enum msg_class wire_class(uint8_t type)
{
	return type < MSG_TYPES ? (enum msg_class)types[type].class : CLASS_BULK;
}

const char *wire_name(uint8_t type)
{
	return type < MSG_TYPES ? types[type].name : "?";
}
