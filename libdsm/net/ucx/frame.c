// SPDX-License-Identifier: BSD-2-Clause
/* frame.c - checks addresses and active messages of peers. Pure. */
#include "net/ucx/frame.h"

#include <errno.h>
#include <string.h>

#include "net/ucx/rules.h"

int ucx_blob_read(const void *address, size_t size, struct ucx_blob *out)
{
	struct ucx_limits x = { .behind = 0 };
	struct ucx_blob b;

	if (size < sizeof(b))
		return -EINVAL;
	x.behind = size - sizeof(b);
	memcpy(&b, address, sizeof(b));
	if (!ucx_is_BLOB(&b, &x))
		return -EINVAL;
	*out = b;
	return 0;
}

int ucx_message_read(const struct net_config *cfg, const void *header, size_t header_size,
		     size_t size, struct ucx_arrival *a, struct msg *m)
{
	const struct ucx_limits x = { .nodes = net_nodes(cfg) };

	memset(m, 0, sizeof(*m));
	/* may be unaligned */
	memcpy(m, header, header_size < sizeof(*m) ? header_size : sizeof(*m));
	*a = (struct ucx_arrival){ .header = header_size, .data = size, .src = m->src };
	return ucx_is_ARRIVAL(a, &x) ? net_check(cfg, m, size) : -EBADMSG;
}

bool ucx_sender_known(const struct net_config *cfg, const struct ucx_arrival *a)
{
	const struct ucx_limits x = { .nodes = net_nodes(cfg) };

	return ucx_holds_HEADER(a->header, &x) && ucx_holds_NODE(a->src, &x) &&
		a->src != net_me(cfg);
}
