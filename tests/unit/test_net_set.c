// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_net_set.c - net/verbs_set and net/verbs_gid: settings, and the choice of a GID. Needs no
 * device.
 */
#include "suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/verbs/gid.h"
#include "net/verbs/set.h"

static char why[512];

/* ---- settings ------------------------------------------------------------------------------- */

UNIT_TEST(techniques_have_defaults_and_are_read)
{
	struct verbs_set s;

	ck_assert_int_eq(verbs_set_parse("", &s, why, sizeof(why)), 0);
	ck_assert_uint_eq(s.imm, 1);
	ck_assert_uint_eq(s.solicit, 1);
	ck_assert_uint_eq(s.coalesce, 1);
	ck_assert_uint_eq(s.chain, VERBS_CHAIN_MAX);
	ck_assert_uint_eq(s.breaks, 0);
	ck_assert_uint_eq(s.timeout, 18);
	ck_assert_int_eq(verbs_set_parse("coalesce=0,chain=0,inline=64,signal=1,break=7", &s, why,
					 sizeof(why)),
			 0);
	ck_assert_uint_eq(s.coalesce, 0);
	ck_assert_uint_eq(s.chain, 1); /* no chains */
	ck_assert_uint_eq(s.inlined, 64);
	ck_assert_uint_eq(s.signal, 1);
	ck_assert_uint_eq(s.breaks, 7);
	ck_assert_uint_eq(s.direct, 1);
}

UNIT_TEST(wrong_techniques_are_refused_in_words)
{
	static const char *const wrong[][2] = {
		{ "coalesc=1", "knows no coalesc" },
		{ "chain", "chain may be 0 to 16" },
		{ "chain=", "chain may be" },
		{ "chain=17", "chain may be" },
		{ "chain=-1", "chain may be" },
		{ "chain=1x", "chain may be" },
		{ "signal=0", "signal may be 1 to" },
		{ "depth=5", "a power of two" },
		{ "=1", "knows no" },
		{ "inline=99999999999999999999", "inline may be" },
		{ "signal=1,,batch=2", "knows no" },
	};
	struct verbs_set s = { .chain = 99 };
	size_t i;

	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(verbs_set_parse(wrong[i][0], &s, why, sizeof(why)), -EINVAL);
		ck_assert_msg(strstr(why, wrong[i][1]), "%s: %s", wrong[i][0], why);
	}
	ck_assert_uint_eq(s.chain, 99); /* the setting is unchanged */
	verbs_set_parse("nothing=1", &s, why, sizeof(why));
	/* the message lists the valid settings */
	ck_assert(strstr(why, "coalesce") && strstr(why, "break"));
}

UNIT_TEST(devices_are_named_with_or_without_ports)
{
	struct verbs_names n;

	ck_assert_int_eq(verbs_names_parse("", &n, why, sizeof(why)), 0);
	ck_assert(verbs_names_have(&n, "anything", 1));
	ck_assert_int_eq(verbs_names_parse("mlx5_0:2,rxe0", &n, why, sizeof(why)), 0);
	ck_assert(verbs_names_have(&n, "rxe0", 1));
	ck_assert(verbs_names_have(&n, "mlx5_0", 2));
	ck_assert(verbs_names_have(&n, "mlx5_0", 0));
	ck_assert(!verbs_names_have(&n, "mlx5_0", 1));
	ck_assert(!verbs_names_have(&n, "mlx5_1", 1));
	ck_assert_int_eq(verbs_names_parse("rxe0:", &n, why, sizeof(why)), -EINVAL);
	ck_assert_int_eq(verbs_names_parse(":1", &n, why, sizeof(why)), -EINVAL);
	ck_assert_int_eq(verbs_names_parse("rxe0:x", &n, why, sizeof(why)), -EINVAL);
	ck_assert_int_eq(verbs_names_parse("a,b,c,d,e,f,g,h,i", &n, why, sizeof(why)), -EINVAL);
}

/* ---- GIDs ------------------------------------------------------------------------------------ */

static struct ibv_gid_entry entry(unsigned int index, unsigned int port, unsigned int type,
				  const char *address)
{
	struct ibv_gid_entry e = { .gid_index = index, .port_num = port, .gid_type = type };
	char mapped[64];

	if (strchr(address, '.')) {
		snprintf(mapped, sizeof(mapped), "::ffff:%s", address);
		address = mapped;
	}
	ck_assert_int_eq(inet_pton(AF_INET6, address, e.gid.raw), 1);
	return e;
}

/* As ibv_devinfo -v showed it for a RoCE adapter, and a second port. */
static size_t recorded(struct ibv_gid_entry *t)
{
	t[0] = entry(0, 1, IBV_GID_TYPE_ROCE_V1, "fe80::5054:ff:fe12:3456");
	t[1] = entry(1, 1, IBV_GID_TYPE_ROCE_V2, "fe80::5054:ff:fe12:3456");
	t[2] = entry(2, 1, IBV_GID_TYPE_ROCE_V1, "10.10.0.1");
	t[3] = entry(3, 1, IBV_GID_TYPE_ROCE_V2, "fd10::1");
	t[4] = entry(4, 1, IBV_GID_TYPE_ROCE_V2, "10.10.0.1");
	t[5] = entry(5, 1, IBV_GID_TYPE_ROCE_V2, "::");
	t[6] = entry(0, 2, IBV_GID_TYPE_ROCE_V2, "fe80::1");
	return 7;
}

static int choose(const struct ibv_gid_entry *t, size_t n, unsigned int port, const char *want)
{
	return gid_choose(t, n, port, want, why, sizeof(why));
}

UNIT_TEST(the_best_gid_is_chosen_by_type_and_family)
{
	struct ibv_gid_entry t[8], ib = entry(0, 1, IBV_GID_TYPE_IB, "fe80::2c9:300:1:1");
	size_t n = recorded(t);

	ck_assert_int_eq(choose(t, n, 1, ""), 4); /* RoCE v2 over IPv4 */
	ck_assert_int_eq(choose(t, 4, 1, ""), 3); /* then a global IPv6 address */
	ck_assert_int_eq(choose(t, 3, 1, ""), 1); /* then a link-local one */
	ck_assert_int_eq(choose(t, 1, 1, ""), 0); /* version 1, if there is no other */
	ck_assert_int_eq(choose(t, n, 2, ""), 6);
	ck_assert_int_eq(choose(&ib, 1, 1, ""), 0);
}

UNIT_TEST(a_gid_can_be_asked_for)
{
	struct ibv_gid_entry t[8];
	size_t n = recorded(t);

	ck_assert_int_eq(choose(t, n, 1, "ipv4"), 4);
	ck_assert_int_eq(choose(t, n, 1, "ipv6"), 3);
	ck_assert_int_eq(choose(t, n, 1, "1"), 1);
	ck_assert_int_eq(choose(t, n, 1, "10.10.0.1"), 4);
	ck_assert_int_eq(choose(t, n, 1, "fd10::1"), 3);
	ck_assert_int_eq(choose(t, n, 1, "fe80::5054:ff:fe12:3456"), 1);
	ck_assert_int_eq(choose(t, n, 1, "10.10.0.2"), -ENOENT);
	ck_assert(strstr(why, "none of the 5 GIDs"));
	ck_assert_int_eq(choose(t, n, 2, "ipv4"), -ENOENT);
	ck_assert_int_eq(choose(t, n, 1, "5"), -ENOENT); /* an empty entry */
	ck_assert_int_eq(choose(t, n, 1, "ipv5"), -EINVAL);
}

UNIT_TEST(an_empty_table_is_said_to_be_empty)
{
	struct ibv_gid_entry t[8];

	recorded(t);
	ck_assert_int_eq(choose(t, 0, 1, ""), -ENOENT);
	ck_assert(strstr(why, "is empty"));
	ck_assert_int_eq(choose(t, 7, 3, "ipv4"), -ENOENT);
	ck_assert(strstr(why, "is empty"));
}

UNIT_SUITE("net_set")
