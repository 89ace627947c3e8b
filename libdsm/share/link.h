/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - creation and end of the links between two owners. Owner's thread only; no function
 * blocks. A failed link is marked dead at once and freed by the next rs_link_reap(), so pointers
 * stay valid until then.
 */
#ifndef SHARE_LINK_H
#define SHARE_LINK_H

#include "share/owner.h"

/* Find the link to an owner, or create one. A new link may be dead already: the owner is
 * unreachable, and the reason was logged. -EAFNOSUPPORT: at is not an IP address. -ENOSPC: `peers`
 * nodes are connected. -ENOMEM. -errno of socket(). */
int rs_link_get(struct rs_owner *o, const struct sockaddr_storage *at, struct rs_link **out);
/* Handle an event of the listening TCP socket: accept one owner. A refusal is logged. */
void rs_link_accept(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* Return the link and the lane of a queue pair. NULL: none. */
struct rs_link *rs_link_of_qp(struct rs_owner *o, uint32_t qpn, enum rs_lane *lane);

/* End a link and its connections, with status. what: logged with the peer's name; NULL: log
 * nothing. Later calls have no effect. */
void rs_link_fail(struct rs_owner *o, struct rs_link *l, int status, const char *what);
/* Free dead links, after polling the remaining completions of their queue pairs:
 * rs_owner_drain(). */
void rs_link_reap(struct rs_owner *o);
/* Check the deadlines of links that are not up, of repairs and of unanswered connections. Return ms
 * until the next call, -1: none. */
int rs_link_deadlines(struct rs_owner *o);

/* Fill in the local address of a link, to which the peer connects its queue pairs. */
void rs_link_address(const struct rs_owner *o, const struct rs_link *l, struct rs_address *out);
/* Create the link's missing queue pairs. Errors of rs_qp_create(), with why (RSHARE_WHY_MAX bytes).
 * Existing ones stay. */
int rs_link_create_qps(struct rs_owner *o, struct rs_link *l, char *why);
/* Connect them to l->in.address. Errors of rs_qp_connect(). */
int rs_link_connect_qps(struct rs_owner *o, struct rs_link *l);

#endif
