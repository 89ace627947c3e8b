// SPDX-License-Identifier: BSD-2-Clause
/*
 * footprint.c - the queue pairs and the registered memory of a job on two nodes, when every rank
 * has used everything.
 *
 * Runs under mpirun, ranks dealt out in turn. Each rank uses blocks, locks and atomics whose home
 * is the rank before it and the one behind it, asks both for their counters, and takes part in
 * broadcasts of both nodes. That opens every connection of the job: a rank has connections to one
 * rank of the other node only. Then the first rank of each node asks the kernel (`rdma resource`)
 * for all queue pairs and memory regions of the devices there, while the others wait, and counts
 * them.
 *
 * Output: one JSON object for each node.
 */
#include <dsm.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define PAGE 4096
#define PAGES 4           /* of each rank */
#define LARGE (64 * 1024) /* a block of each rank that no landing zone has room for */
#define BULK 100000       /* bytes that each rank broadcasts */
#define ANSWER (4 << 20)  /* of `rdma` */

static int rank, size;

struct board {
	dsm_mutex_t mutex;
	dsm_atomic_t atomic;
	int node; /* of the rank */
};

static char *boards;

static char *open_region(const char *name, size_t each, size_t block_size)
{
	struct dsm_region_options o = { .block_size = block_size };
	dsm_region_t *region;

	bench_check(dsm_region_open(name, each * (size_t)size, &o, &region), "dsm_region_open");
	return dsm_region_base(region);
}

static struct board *board_of(int r)
{
	return (struct board *)(boards + (size_t)r * PAGE);
}

/*
 * Reads and writes; the blocks' home is where they were touched first, and their last writer is
 * anywhere.
 */
static void use_blocks(volatile char *base, size_t each, size_t step, int r)
{
	size_t at;

	for (at = 0; at < each; at += step) {
		volatile char *p = base + (size_t)r * each + at;

		(void)*p;
		p[rank + 1]++;
	}
}

static void use_rank(int r, char *pages, char *large)
{
	struct dsm_stats stats;

	bench_check(dsm_mutex_lock(&board_of(r)->mutex), "dsm_mutex_lock");
	bench_check(dsm_mutex_unlock(&board_of(r)->mutex), "dsm_mutex_unlock");
	bench_check(dsm_atomic_fetch_add(&board_of(r)->atomic, 1, NULL), "dsm_atomic_fetch_add");
	use_blocks(pages, (size_t)PAGES * PAGE, PAGE, r);
	use_blocks(large, LARGE, LARGE, r);
	bench_check(dsm_stats_get(r, NULL, &stats), "dsm_stats_get");
}

static void use_all(void)
{
	static char bulk[BULK];
	char *pages = open_region("pages", (size_t)PAGES * PAGE, PAGE),
	     *large = open_region("large", LARGE, LARGE);
	int i;

	boards = open_region("boards", PAGE, PAGE);
	board_of(rank)->node = dsm_node();
	bench_check(dsm_mutex_init(&board_of(rank)->mutex), "dsm_mutex_init");
	bench_check(dsm_atomic_init(&board_of(rank)->atomic, 0, -1), "dsm_atomic_init");
	memset(pages + (size_t)rank * PAGES * PAGE, 1, (size_t)PAGES * PAGE);
	memset(large + (size_t)rank * LARGE, 1, LARGE);
	bench_check(dsm_barrier(), "dsm_barrier");
	use_rank((rank + 1) % size, pages, large);
	use_rank((rank + size - 1) % size, pages, large);
	for (i = 0; i < 2; i++)
		bench_check(dsm_broadcast(bulk, sizeof(bulk), i), "dsm_broadcast");
	bench_check(dsm_barrier(), "dsm_barrier");
}

static bool first_of_node(void)
{
	int r = 0;

	while (board_of(r)->node != dsm_node())
		r++;
	return r == rank;
}

struct count {
	unsigned int rc, ud, of_module, regions;
	unsigned long long registered;
};

static bool has(const char *object, const char *field)
{
	return strstr(object, field) != NULL;
}

/* The kernel's own objects, and those of its modules, belong to no process. */
static void count_pair(const char *object, struct count *n)
{
	bool rc = has(object, "\"type\":\"RC\""), ud = has(object, "\"type\":\"UD\"");

	n->rc += rc;
	n->ud += ud;
	n->of_module += (rc || ud) && !has(object, "\"pid\":");
}

static void count_region(const char *object, struct count *n)
{
	const char *length = strstr(object, "\"mrlen\":");

	if (!length || !has(object, "\"pid\":"))
		return;
	n->regions++;
	n->registered += strtoull(length + strlen("\"mrlen\":"), NULL, 10);
}

/* Each object of the answer, which is JSON without nested objects. */
static void ask_kernel(const char *command, void (*count)(const char *, struct count *),
		       struct count *n)
{
	char *answer = calloc(1, ANSWER), *object, *end;
	FILE *f = popen(command, "r");
	size_t length = answer && f ? fread(answer, 1, ANSWER - 1, f) : 0;

	if (!length || pclose(f))
		dsm_abort(1, "%s fails", command);
	for (object = strchr(answer, '{'); object; object = strchr(end + 1, '{')) {
		end = strchr(object, '}');
		if (!end)
			dsm_abort(1, "%s: what does it say? %.200s", command, object);
		*end = 0;
		count(object, n);
	}
	free(answer);
}

/* A short line: mpirun may mix long ones of several ranks. */
static void report(void)
{
	struct count n = { 0 };

	ask_kernel("rdma -j resource show qp", count_pair, &n);
	ask_kernel("rdma -j resource show mr", count_region, &n);
	printf("{\"node\": %d, \"rc\": %u, \"ud\": %u, \"of_module\": %u, "
	       "\"regions\": %u, \"registered\": %llu}\n",
	       dsm_node(), n.rc, n.ud, n.of_module, n.regions, n.registered);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct option options[] = { { "help", no_argument, NULL, 'h' }, { 0 } };
	int c, err;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		fprintf(c == 'h' ? stdout : stderr,
			"usage: mpirun -n N footprint\n"
			"Queue pairs and registered memory of a job's nodes: JSON lines.\n");
		return c == 'h' ? 0 : 2;
	}
	err = dsm_init(NULL);
	if (err) {
		fprintf(stderr, "footprint: %s\n", dsm_strerror(err));
		return 1;
	}
	rank = dsm_rank();
	size = dsm_size();
	use_all();
	if (first_of_node())
		report();
	bench_check(dsm_barrier(), "dsm_barrier");
	bench_check(dsm_finalize(), "dsm_finalize");
	return 0;
}
