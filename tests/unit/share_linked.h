/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * share_linked.h - one connection between the first clients of the two nodes of share_world.h, and
 * what its ends must be told.
 */
#ifndef UNIT_SHARE_LINKED_H
#define UNIT_SHARE_LINKED_H

#include "suite.h"

#include "share_world.h"

static struct world_node *n;
static uint32_t c0, c1; /* index of the connection at node 0 and at node 1 */

#define CLIENT0 (&n[0].client[0])
#define CLIENT1 (&n[1].client[0])
#define CONN0 (n[0].client[0].rs.conn[c0])
#define CONN1 (n[1].client[0].rs.conn[c1])

/* conns: that each client may have. */
static inline void begin_with(uint32_t conns)
{
	n = world_create(conns);
	world_connect(n, 0, 0, 0, &c0, &c1);
}

static inline void begin(void)
{
	begin_with(64);
}

static inline void end(void)
{
	world_destroy(n);
}

/* The next event of a connection. */
static inline struct rs_cqe expect(struct world_client *c, uint32_t index, uint32_t type,
				   int status, uint64_t cookie)
{
	struct rs_cqe e;

	ck_assert_msg(world_poll(c, index, &e), "no event");
	ck_assert_uint_eq(e.type, type);
	ck_assert_int_eq(e.status, status);
	ck_assert_uint_eq(e.cookie, cookie);
	return e;
}

static inline void expect_none(struct world_client *c, uint32_t index)
{
	struct rs_cqe e;

	ck_assert(!world_poll(c, index, &e));
}

#endif
