// SPDX-License-Identifier: BSD-2-Clause
/* gid.c - the choice of a GID. */
#include "net/verbs/gid.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

bool gid_is_ipv4(const union ibv_gid *gid)
{
	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static bool is_link_local(const union ibv_gid *gid)
{
	return gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
}

const char *gid_print(const union ibv_gid *gid, char *text, size_t size)
{
	if (gid_is_ipv4(gid))
		return inet_ntop(AF_INET, gid->raw + 12, text, (socklen_t)size);
	return inet_ntop(AF_INET6, gid->raw, text, (socklen_t)size);
}

/*
 * The higher the better; 0: unusable. RoCE v1 does not pass routers, and newer devices no longer
 * support it.
 */
static int verbs_gid_worth(const struct ibv_gid_entry *e)
{
	static const union ibv_gid none;

	if (!memcmp(&e->gid, &none, sizeof(none)))
		return 0;
	switch (e->gid_type) {
	case IBV_GID_TYPE_IB: return 2;
	case IBV_GID_TYPE_ROCE_V2: return gid_is_ipv4(&e->gid) ? 5 : is_link_local(&e->gid) ? 3 : 4;
	case IBV_GID_TYPE_ROCE_V1: return 1;
	}
	return 0;
}

/* The GID that DSM_NET_GID asks for. */
struct want {
	enum { ANY, INDEX, ADDRESS, IPV4, IPV6 } what;
	unsigned long index;
	union ibv_gid gid;
};

static int understand(const char *text, struct want *w)
{
	char *end;

	memset(w, 0, sizeof(*w));
	if (!*text)
		return 0;
	if (!strcmp(text, "ipv4") || !strcmp(text, "ipv6")) {
		w->what = text[3] == '4' ? IPV4 : IPV6;
		return 0;
	}
	w->index = strtoul(text, &end, 10);
	if (isdigit((unsigned char)*text) && !*end) {
		w->what = INDEX;
		return 0;
	}
	w->what = ADDRESS;
	if (inet_pton(AF_INET, text, w->gid.raw + 12) == 1) {
		memcpy(w->gid.raw, mapped, sizeof(mapped));
		return 0;
	}
	return inet_pton(AF_INET6, text, w->gid.raw) == 1 ? 0 : -EINVAL;
}

static bool gid_fits(const struct want *w, const struct ibv_gid_entry *e)
{
	switch (w->what) {
	case ANY: return true;
	case INDEX: return e->gid_index == w->index;
	case ADDRESS: return !memcmp(&e->gid, &w->gid, sizeof(w->gid));
	case IPV4: return gid_is_ipv4(&e->gid);
	case IPV6: return !gid_is_ipv4(&e->gid);
	}
	return false;
}

int gid_choose(const struct ibv_gid_entry *table, size_t n, unsigned int port, const char *want,
	       char *why, size_t size)
{
	int best = -ENOENT, most = 0;
	size_t i, here = 0;
	struct want w;

	if (understand(want ? want : "", &w)) {
		snprintf(why, size, "DSM_NET_GID=%s is no index, no address, not ipv4 and not ipv6",
			 want);
		return -EINVAL;
	}
	for (i = 0; i < n; i++) {
		int v = verbs_gid_worth(&table[i]);

		if (table[i].port_num != port || !v)
			continue;
		here++;
		if (v > most && gid_fits(&w, &table[i])) {
			best = (int)i;
			most = v;
		}
	}
	if (best < 0 && !here)
		snprintf(
			why, size,
			"the GID table of port %u is empty; give its network interface an IP address",
			port);
	else if (best < 0)
		snprintf(
			why, size,
			"DSM_NET_GID=%s: none of the %zu GIDs of port %u; `rdma link` and `ibv_devinfo -v` list them",
			want, here, port);
	return best;
}
