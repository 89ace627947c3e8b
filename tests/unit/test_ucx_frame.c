// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_ucx_frame.c - net/ucx/frame.c: the rules of addresses, and of active messages as UCX
 * describes them.
 */
#include "net/ucx/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../ucx_values.h"
#include "rule_walk.h"

#define RANKS 5
#define ME 2
#define BEHIND 64

static const struct ucx_limits lim = { .behind = BEHIND, .nodes = RANKS };
static const struct net_config cfg = { .rank = ME, .size = RANKS, .nslots = 4 };

/* The rules, expressed in another way. */
static bool means(unsigned int rule, uint64_t v)
{
	switch ((enum ucx_rule)rule) {
	case UCX_RULE_ANY:
	case UCX_RULE_COUNT: break;
	case UCX_RULE_ZERO: return !v;
	case UCX_RULE_MAGIC: return v == 0x78637532;
	case UCX_RULE_BEHIND: return v == BEHIND;
	case UCX_RULE_HEADER: return v == 32;
	case UCX_RULE_PAYLOAD: return v <= 4 << 20;
	case UCX_RULE_NODE: return v < RANKS;
	}
	return true;
}

static bool blob_taken(unsigned int shape, const void *at)
{
	char buf[sizeof(struct ucx_blob) + BEHIND + 1];
	struct ucx_blob out;

	(void)shape;
	memset(buf, 0, sizeof(buf));
	memcpy(buf + 1, at, sizeof(struct ucx_blob));
	return !ucx_blob_read(buf + 1, sizeof(buf) - 1, &out) && !memcmp(&out, at, sizeof(out));
}

/* MSG_RETURN has the largest payload of all types. */
static bool arrival_taken(unsigned int shape, const void *at)
{
	struct ucx_arrival want, a;
	struct msg m = { .version = WIRE_VERSION, .type = MSG_RETURN, .dst = ME };
	char header[256] = { 0 };

	(void)shape;
	memcpy(&want, at, sizeof(want));
	if (want.header > sizeof(header) || want.src > UINT16_MAX)
		return false;
	m.src = (uint16_t)want.src;
	m.req_node = ME;
	memcpy(header, &m, sizeof(m));
	return !ucx_message_read(&cfg, header, want.header, want.data, &a, &m);
}

/* True for this rank: no peer may claim to be it. */
static bool other_node(const struct rule_field *f, uint64_t v)
{
	return !strcmp(f->name, "src") && v == ME;
}

UNIT_TEST(every_field_is_held_to_its_rule)
{
	struct rule_walk w = { .table = &ucx_table, .limits = &lim, .means = means };

	walk_shape(&w, UCX_SHAPE_BLOB, blob_taken, NULL);
	walk_shape(&w, UCX_SHAPE_ARRIVAL, arrival_taken, other_node);
	walk_end(&w);
}

UNIT_TEST(an_address_has_its_length)
{
	static char buf[NET_ADDRESS_MAX + 64];
	struct ucx_blob b = { .magic = UCX_BLOB_MAGIC }, out;
	size_t size;

	for (size = 0; size < sizeof(buf); size++) {
		b.size = (uint32_t)(size - sizeof(b));
		memcpy(buf, &b, sizeof(b));
		ck_assert_int_eq(ucx_blob_read(buf, size, &out),
				 size > sizeof(b) && size <= NET_ADDRESS_MAX ? 0 : -EINVAL);
	}
}

/* A malformed message ends the connection to its sender, if there is one. */
UNIT_TEST(only_a_peer_is_blamed)
{
	struct ucx_arrival a = { .header = sizeof(struct msg) };

	for (a.src = 0; a.src < 2 * RANKS; a.src++)
		ck_assert(ucx_sender_known(&cfg, &a) == (a.src < RANKS && a.src != ME));
	a.src = 0;
	for (a.header = 0; a.header < 64; a.header++)
		ck_assert(ucx_sender_known(&cfg, &a) == (a.header == sizeof(struct msg)));
}

UNIT_SUITE("ucx_frame")
