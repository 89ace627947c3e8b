/* SPDX-License-Identifier: BSD-2-Clause */
/* gid.h - which GID of a port to use: by type and family, never by a fixed index. Pure. */
#ifndef NET_VERBS_GID_H
#define NET_VERBS_GID_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>

/* Choose among the n entries of a device's table those of this port: RoCE v2 over IPv4 first, then
 * a global IPv6 address, then a link-local one; on InfiniBand the port's GID. want: "", an index,
 * an address, "ipv4" or "ipv6".
 * Return the index in the table. -ENOENT: no entry matches. -EINVAL: want is none of these. why
 * gets the reason as text. */
int gid_choose(const struct ibv_gid_entry *table, size_t n, unsigned int port, const char *want,
	       char *why, size_t size);

/* True for an IPv4-mapped address. */
bool gid_is_ipv4(const union ibv_gid *gid);
/* Format for messages; text has at least 48 bytes. */
const char *gid_print(const union ibv_gid *gid, char *text, size_t size);

#endif
