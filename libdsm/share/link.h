/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h - links: how two owners meet, and end. The owner's thread only; nothing blocks. A link that fails is marked dead at
 * once and freed by the next rs_link_reap(), so pointers stay valid until then.
 */
#ifndef SHARE_LINK_H
#define SHARE_LINK_H

#include "share/owner.h"

/* Find the link to an owner, or begin one. A new link may be dead already: it cannot be reached, and the reason was logged.
 * -EAFNOSUPPORT: at is no IP address. -ENOSPC: `peers` nodes are connected. -ENOMEM. -errno of socket(). */
int rs_link_get(struct rs_owner *o, const struct sockaddr_storage *at, struct rs_link **out);
/* Handler of the TCP socket that listens: accept one owner. A refusal is logged. */
void rs_link_accept(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* The link and the lane that a queue pair belongs to. NULL: none. */
struct rs_link *rs_link_of_qp(struct rs_owner *o, uint32_t qpn, enum rs_lane *lane);

/* End a link: its connections will end with status. what: logged with the peer's name; NULL: nothing to report. Later calls
 * change nothing. */
void rs_link_fail(struct rs_owner *o, struct rs_link *l, int status, const char *what);
/* Free the dead ones, after what is left of their queue pairs has been taken from the CQ: rs_owner_drain(). */
void rs_link_reap(struct rs_owner *o);
/* Check the deadlines of links that are not up, of repairs and of unanswered connections. Returns ms until the next call,
 * -1: none. */
int rs_link_deadlines(struct rs_owner *o);

/* The address of this side of a link: what the peer connects its queue pairs to. */
void rs_link_address(const struct rs_owner *o, const struct rs_link *l, struct rs_address *out);
/* Create the queue pairs that the link does not have. Errors of rs_qp_create(), with why (RSHARE_WHY_MAX bytes). Those that
 * exist stay. */
int rs_link_create_qps(struct rs_owner *o, struct rs_link *l, char *why);
/* Connect them to what l->in.address says. Errors of rs_qp_connect(). */
int rs_link_connect_qps(struct rs_owner *o, struct rs_link *l);

#endif
