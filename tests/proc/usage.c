// SPDX-License-Identifier: BSD-2-Clause
/*
 * usage.c - what the statistics say of memory, by kind: frames of the heap and of a region that
 * goes, states and page tables with them, twins, private memory of one rank. Beside each there is
 * as much of the same that nobody touches, which must not count.
 */
#include "common.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1ull << 20)
#define HEAP (16 * MIB)    /* of each node's first rank */
#define REGION (24 * MIB)  /* written by rank 0 */
#define PRIVATE (32 * MIB) /* of the last rank */
#define TWINS (8 * MIB)    /* of blocks of rank 0, which the last rank writes */
#define IDLE (256 * MIB)   /* allocated and not touched */

static char *said; /* what libdsm has printed */

struct counted {
	uint64_t now, most;
};

static struct counted counted_of(const char *node, const char *kind)
{
	struct counted c = { 0, 0 };
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), "\"%s\": {", kind);
	at = strstr(node, key);
	REQUIRE(at &&
			sscanf(at + strlen(key), "\"now\": %" PRIu64 ", \"most\": %" PRIu64, &c.now,
			       &c.most) == 2,
		"nothing of %s: %s", kind, node);
	REQUIRE(c.now <= c.most, "%s: now %lu, at most %lu", kind, (unsigned long)c.now,
		(unsigned long)c.most);
	return c;
}

/* Is it want, and at most `more` on top? */
static void about(const char *what, int node, uint64_t got, uint64_t want, uint64_t more)
{
	REQUIRE(got >= want && got <= want + more,
		"node %d: %s: %lu KiB, where %lu to %lu were used", node, what,
		(unsigned long)got >> 10, (unsigned long)want >> 10,
		(unsigned long)(want + more) >> 10);
	printf("  node %d: %-20s %6lu KiB, of them the program's %lu\n", node, what,
	       (unsigned long)got >> 10, (unsigned long)want >> 10);
}

static void check_node(const char *text, int node, int nodes, int width)
{
	const uint64_t region = node ? 0 : REGION;
	const struct counted frames = counted_of(text, "frames"),
			     states = counted_of(text, "states");
	const struct counted private = counted_of(text, "private"),
			     tables = counted_of(text, "page_tables");
	const uint64_t own = node == nodes - 1 ? PRIVATE : 0;
	const uint64_t twins = nodes > 1 && node == nodes - 1 ? TWINS : 0;

	about("frames", node, frames.now, HEAP + TWINS, 4 * MIB);
	if (test_size > 1)
		about("frames, at most", node, frames.most, HEAP + region, 12 * MIB);
	if (nodes > 1) { /* 24 bytes of a copy at least */
		about("states, at most", node, states.most, (HEAP + region) / 4096 * 24, 6 * MIB);
		REQUIRE(node || states.now + region / 4096 * 24 <= states.most,
			"states of a region that is gone count: now %lu, at most %lu",
			(unsigned long)states.now, (unsigned long)states.most);
	}
	about("twins, at most", node, counted_of(text, "twins").most, twins, MIB);
	about("stage, at most", node, counted_of(text, "stage").most, 0, 4 * MIB);
	about("private", node, private.now, own, (uint64_t)width * 16 * MIB);
	about("page tables", node, tables.now, (HEAP + own) / 512, (uint64_t)width * 2 * MIB);
	REQUIRE(counted_of(text, "tables").now > 0 && counted_of(text, "resident").most >= HEAP,
		"%s", text);
}

static void check_said(int nodes)
{
	const char *at = strstr(said, "\"memory\": [");
	char key[32];
	int n;

	REQUIRE(at, "the statistics say nothing of memory: %s", said);
	for (n = 0; n < nodes; n++) {
		unsigned int width = 0;
		uint64_t limit = 0, bound = 0;

		snprintf(key, sizeof(key), "{\"node\": %d, ", n);
		at = strstr(at, key);
		REQUIRE(at &&
				sscanf(at + strlen(key),
				       "\"ranks\": %u, \"limit\": %" PRIu64 ", \"bound\": %" PRIu64,
				       &width, &limit, &bound) == 3 &&
				limit > 0,
			"nothing of node %d: %s", n, said);
		REQUIRE(nodes > 1 ? bound >= 64 * MIB && bound < limit : !bound, "%lu MiB of %lu",
			(unsigned long)bound >> 20, (unsigned long)limit >> 20);
		REQUIRE(strstr(at, "\"rough\": false"), "%s", at);
		check_node(at, n, nodes, (int)width);
	}
}

static void touch(char *p, uint64_t bytes)
{
	uint64_t i;

	for (i = 0; i < bytes; i += 4096)
		((volatile char *)p)[i] = 1;
}

static char *map_private(uint64_t bytes)
{
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	REQUIRE(p != MAP_FAILED, "%m");
	madvise(p, bytes, MADV_NOHUGEPAGE);
	return p;
}

/* The node's first rank touches memory of the heap. */
static void use_heap(void)
{
	char *p = dsm_malloc(HEAP), *idle = dsm_malloc(IDLE);

	REQUIRE(p && idle, "no memory");
	if (!test_rank || dsm_node_of(test_rank) != dsm_node_of(test_rank - 1))
		touch(p, HEAP);
	test_sync();
}

static void use_region(void)
{
	dsm_region_t *r, *idle;
	char *p = test_open("goes", REGION, DSM_HOME_FIRST_TOUCH, &r);

	test_open("idle", IDLE, DSM_HOME_FIRST_TOUCH, &idle);
	if (!test_rank)
		touch(p, REGION);
	test_sync();
	test_close("goes", r);
	test_sync();
}

/*
 * Rank 0 is the home of release blocks that the last rank reads, opens, and then writes: it would
 * get the homes of those that it only writes, or writes in order.
 */
static void use_twins(void)
{
	const struct dsm_region_options opt = { .consistency = DSM_CONSISTENCY_RELEASE,
						.home = DSM_HOME_FIXED };
	dsm_region_t *r;
	uint64_t i;
	char *p;

	MUST(dsm_region_open("twins", TWINS, &opt, &r));
	p = dsm_region_base(r);
	if (!test_rank)
		touch(p, TWINS);
	test_sync();
	for (i = 0; test_rank == test_size - 1 && i < TWINS; i += 4096)
		REQUIRE(((volatile char *)p)[i] == 1, "page %lu has %d", (unsigned long)i / 4096,
			p[i]);
	if (test_rank == test_size - 1) {
		MUST(dsm_prefetch(p, TWINS, DSM_WRITE));
		touch(p, TWINS);
	}
	test_sync();
}

static void use_private(void)
{
	map_private(IDLE);
	if (test_rank == test_size - 1)
		touch(map_private(PRIVATE), PRIVATE);
	test_sync();
}

/* What libdsm prints goes to a file, then to stderr but for the statistics. */
static void collect(int fd, int to)
{
	const off_t size = lseek(fd, 0, SEEK_END);
	char *line, *end;

	said = calloc(1, (size_t)size + 1);
	REQUIRE(said && pread(fd, said, (size_t)size, 0) == size, "%m");
	for (line = said; *line; line = end) {
		end = strchr(line, '\n') ? strchr(line, '\n') + 1 : line + strlen(line);
		if (*line != '{')
			REQUIRE(write(to, line, (size_t)(end - line)) == end - line, "%m");
	}
}

int main(int argc, char **argv)
{
	const int fd = memfd_create("usage", MFD_CLOEXEC), old = dup(STDERR_FILENO);
	int nodes;

	test_options(argc, argv, "What the statistics say of memory.", NULL, 0);
	setenv("DSM_STATS", "json", 1);
	setenv("DSM_HUGE", "off", 1);
	REQUIRE(fd >= 0 && old >= 0 && dup2(fd, STDERR_FILENO) >= 0, "%m");
	test_join();
	REQUIRE(dup2(old, STDERR_FILENO) >= 0, "%m");
	nodes = dsm_nodes();
	use_heap();
	use_region();
	use_twins();
	use_private();
	MUST(dsm_finalize());
	collect(fd, old);
	if (!test_rank)
		check_said(nodes);
	test_say("usage: ok");
	return 0;
}
