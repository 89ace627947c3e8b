/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.h - the TCP socket of an owner, and addresses of owners. */
#ifndef SHARE_LISTEN_H
#define SHARE_LISTEN_H

#include "share/owner.h"

/* Listen on the configured port, and find the address that peers use. Call before the owner's
 * thread starts; may look up a name, which blocks. -EINVAL: the configured address is not of this
 * host. -errno of socket(), bind(), listen(). why: RSHARE_WHY_MAX bytes. */
int rs_listen_start(struct rs_owner *o, char *why);

/* Convert an address to IPv6. -EAFNOSUPPORT: neither IPv4 nor IPv6. Pure. */
int rs_listen_in6(const struct sockaddr_storage *from, struct sockaddr_in6 *out);

#endif
