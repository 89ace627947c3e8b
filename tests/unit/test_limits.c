// SPDX-License-Identifier: BSD-2-Clause
/*
 * test_limits.c - util/limits: the least limit of memory of the host, the cgroup of the process and
 * those above it.
 */
#include "suite.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/limits.h"
#include "util/lines.h"

#define MIB (1ull << 20)
#define HOST (4096 * MIB)
#define OF_V1 \
	"30 20 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n31 20 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
#define OF_V2 \
	"25 20 0:25 / /proc rw - proc proc rw\n26 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static char root[64];

static int take_away(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	return remove(path);
}

/* A file below the root, with the folders above it. */
static void put(const char *name, const char *text)
{
	char path[512];
	FILE *f;
	char *p;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (p = strchr(path + strlen(root) + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(path, 0700);
		*p = '/';
	}
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void set_up(void)
{
	strcpy(root, "/tmp/test_limits-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	put("/proc/meminfo", "MemTotal:        4194304 kB\nMemFree:         1000 kB\n");
}

static void tear_down(void)
{
	nftw(root, take_away, 8, FTW_DEPTH | FTW_PHYS);
}

static struct memory_limit limit_of(const char *groups, const char *mounts)
{
	struct memory_limit l;

	put("/proc/self/cgroup", groups);
	put("/proc/self/mountinfo", mounts);
	limits_memory(root, &l);
	return l;
}

UNIT_TEST(without_cgroups_the_host_limits)
{
	struct memory_limit l;

	limits_memory(root, &l);
	ck_assert_uint_eq(l.bytes, HOST);
	ck_assert_uint_eq(l.group, 0);
	l = limit_of("0::/\n", OF_V2);
	ck_assert_uint_eq(l.bytes, HOST);
	ck_assert_uint_eq(l.group, 0);
}

UNIT_TEST(each_cgroup_above_limits)
{
	struct memory_limit own, above, high;

	put("/sys/fs/cgroup/a/memory.max", "max\n");
	put("/sys/fs/cgroup/a/b/memory.max", "1073741824\n");
	put("/sys/fs/cgroup/a/b/c/memory.max", "2147483648\n");
	put("/sys/fs/cgroup/a/b/d/memory.max", "1048576\n"); /* another's */
	above = limit_of("0::/a/b/c\n", OF_V2);
	ck_assert_uint_eq(above.bytes, 1024 * MIB);
	put("/sys/fs/cgroup/a/b/c/memory.max", "536870912\n");
	own = limit_of("0::/a/b/c\n", OF_V2);
	ck_assert_uint_eq(own.bytes, 512 * MIB);
	put("/sys/fs/cgroup/a/memory.high", "268435456\n");
	high = limit_of("0::/a/b/c\n", OF_V2);
	ck_assert_uint_eq(high.bytes, 256 * MIB);
	ck_assert(own.group && above.group && high.group);
	ck_assert(own.group != above.group && above.group != high.group);
	ck_assert_uint_eq(limit_of("0::/a\n", OF_V2).group, high.group);
}

UNIT_TEST(both_versions_count)
{
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "3221225472\n");
	put("/sys/fs/cgroup/memory/job/rank/memory.limit_in_bytes", "9223372036854771712\n");
	ck_assert_uint_eq(limit_of("9:cpu,cpuacct:/x\n4:memory:/job/rank\n0::/\n", OF_V1).bytes,
			  3072 * MIB);
	ck_assert_uint_eq(limit_of("9:cpu,memory2:/job\n", OF_V1).bytes, HOST);
	put("/sys/fs/cgroup/unified/memory.max", "134217728\n");
	ck_assert_uint_eq(limit_of("4:memory:/job\n0::/\n",
				   OF_V1 "40 20 0:40 / /sys/fs/cgroup/unified rw - cgroup2 x rw\n")
				  .bytes,
			  128 * MIB);
}

/* In a container, the mount shows the container's cgroup, and the name may be that of the host. */
UNIT_TEST(a_mount_may_begin_at_any_cgroup)
{
	static const char mount[] =
		"31 20 0:31 /docker/one /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n";

	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
	put("/sys/fs/cgroup/memory/in/memory.limit_in_bytes", "536870912\n");
	ck_assert_uint_eq(limit_of("4:memory:/docker/one\n", mount).bytes, 1024 * MIB);
	ck_assert_uint_eq(limit_of("4:memory:/docker/one/in\n", mount).bytes, 512 * MIB);
	ck_assert_uint_eq(limit_of("4:memory:/docker/one_more/in\n", mount).bytes, 1024 * MIB);
	ck_assert_uint_eq(limit_of("4:memory:/../in\n", mount).bytes, 1024 * MIB);
}

UNIT_TEST(lines_come_whole_and_long_ones_in_pieces)
{
	static char text[3 * 4096];
	struct lines l;
	char name[96];
	unsigned int i;

	memset(text, 'x', 2 * 4096);
	strcpy(text + 2 * 4096, "\n\nlast");
	put("/text", text);
	snprintf(name, sizeof(name), "%s/text", root);
	ck_assert(lines_open(&l, name));
	for (i = 0; i < 2; i++)
		ck_assert_uint_eq(strlen(lines_next(&l)), 4095);
	ck_assert_str_eq(lines_next(&l), "xx");
	ck_assert_str_eq(lines_next(&l), "");
	ck_assert_str_eq(lines_next(&l), "last");
	ck_assert_ptr_null(lines_next(&l));
	lines_close(&l);
	ck_assert(!lines_open(&l, "/proc/none"));
}

UNIT_SUITE("limits", .setup = set_up, .teardown = tear_down)
