// SPDX-License-Identifier: BSD-2-Clause
/* frame.c - checks what another rank sends by the transport over librshare. Pure. */
#include "net/shared/frame.h"

#include <errno.h>
#include <string.h>

#include "net/shared/rules.h"

bool shared_sender(const struct net_config *cfg, uint16_t rank)
{
	const struct shared_limits x = { .ranks = cfg->size };

	return shared_holds_RANK(rank, &x) && rank != cfg->rank;
}

static struct shared_limits shared_frame_limits(const struct shared_place *p,
						const struct shared_frame *f)
{
	return (struct shared_limits){ .lent = p->lent,
				       .fetches = p->fetches,
				       .behind = (uint32_t)(p->bytes - sizeof(*f)),
				       .size = f->size,
				       .peer = p->peer,
				       .lane = p->lane };
}

/* Is it a block for a request in a slot of this rank? */
static bool shared_lands(const struct net_config *cfg, const struct msg *m)
{
	return m->type == MSG_DATA && m->req_node == net_me(cfg) && m->req_slot < cfg->nslots;
}

bool shared_frame_ok(const struct shared_place *p, const struct shared_frame *f)
{
	const struct shared_limits x = shared_frame_limits(p, f);

	if (p->bytes < sizeof(*f) || net_check(p->cfg, &f->m, f->size) ||
	    wire_class(f->m.type) != p->class || f->m.src != net_node_of(p->cfg, p->peer))
		return false;
	switch ((enum shared_kind)f->kind) {
	case SHARED_MSG: return shared_is_MSG(f, &x) && shared_is_NOWHERE(&f->from, &x);
	case SHARED_LAND:
		return shared_is_LAND(f, &x) && shared_is_NOWHERE(&f->from, &x) && !x.behind &&
			shared_lands(p->cfg, &f->m);
	case SHARED_FETCH:
		return shared_is_FETCH(f, &x) && shared_is_LENT(&f->from, &x) && !x.behind;
	case SHARED_FETCHED:
	default: return false;
	}
}

bool shared_release_ok(const struct shared_place *p, const struct shared_frame *f)
{
	const struct shared_limits x = shared_frame_limits(p, f);

	return p->bytes == sizeof(*f) && shared_is_FETCHED(f, &x) &&
		shared_is_NOWHERE(&f->from, &x) && shared_is_NOTHING(&f->m, &x);
}

int shared_blob_read(const void *address, size_t size, uint32_t nslots, struct shared_blob *out)
{
	const struct shared_limits x = { .nslots = nslots };
	struct shared_blob b;

	if (size != sizeof(b))
		return -EINVAL;
	memcpy(&b, address, sizeof(b)); /* may be unaligned */
	if (!shared_is_BLOB(&b, &x) || !shared_is_LANDING(&b.landing, &x))
		return -EINVAL;
	*out = b;
	return 0;
}
