/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.h - the TCP socket of an owner, and addresses of owners. */
#ifndef SHARE_LISTEN_H
#define SHARE_LISTEN_H

#include "share/owner.h"

/* Listen at the configured port, and find the address that peers use. Before the owner's thread starts; a name may be looked
 * up, which blocks. -EINVAL: the configured address is none of this host. -errno of socket(), bind(), listen(). why:
 * RSHARE_WHY_MAX bytes. */
int rs_listen_start(struct rs_owner *o, char *why);

/* An address as one of IPv6. -EAFNOSUPPORT: it is of another family. Pure. */
int rs_listen_in6(const struct sockaddr_storage *from, struct sockaddr_in6 *out);

#endif
