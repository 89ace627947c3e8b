/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share_old.h - an old connection between the two owners of share_pair.h, which a failure must not
 * affect.
 */
#ifndef UNIT_SHARE_OLD_H
#define UNIT_SHARE_OLD_H

#include "share_pair.h"

static struct rshare_conn *old_a, *old_b;

/* Check that the connection still works. */
static void require_old(void)
{
	char *out = rshare_get(a, 64), *in = rshare_get(b, 64);

	unit_require(!rshare_recv(old_b, in, 64, 1) && !rshare_send(old_a, out, 64, 2));
	unit_require(!next_of(old_b, RSHARE_RECEIVED).status &&
		     !next_of(old_a, RSHARE_SENT).status);
	rshare_put(a, out);
	rshare_put(b, in);
}

#endif
