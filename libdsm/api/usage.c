// SPDX-License-Identifier: BSD-2-Clause
/* usage.c - prints the memory of all nodes by kind. */
#include "api/stats.h"

#include <inttypes.h>
#include <string.h>

#include "calls/call.h"
#include "job/job.h"
#include "job/usage.h"

static const struct {
	/* In the table, and in JSON. */
	const char *name, *key;
	/* clang-format off */
} kinds[USAGE_KINDS] = {
	[USAGE_FRAMES] = { "frames", "frames" },
	[USAGE_STATES] = { "states", "states" },
	[USAGE_QUEUES] = { "queues", "queues" },
	[USAGE_TABLES] = { "tables", "tables" },
	[USAGE_STAGE] = { "stage", "stage" },
	[USAGE_TWINS] = { "twins", "twins" },
	[USAGE_LANDING] = { "landing", "landing" },
	[USAGE_PAGE_TABLES] = { "page tables", "page_tables" },
	[USAGE_PRIVATE] = { "private", "private" },
	[USAGE_RESIDENT] = { "largest rank", "resident" },
};
/* clang-format on */

/*
 * Add a rank to the sum of its node, or a node to that of the job. What is resident is no part of a
 * sum.
 */
static void usage_add(struct stats_memory *sum, const struct stats_memory *one)
{
	unsigned int i;

	for (i = 0; i < USAGE_RESIDENT; i++) {
		sum->now[i] += one->now[i];
		sum->most[i] += one->most[i];
	}
	if (sum->now[USAGE_RESIDENT] < one->now[USAGE_RESIDENT])
		sum->now[USAGE_RESIDENT] = one->now[USAGE_RESIDENT];
	if (sum->most[USAGE_RESIDENT] < one->most[USAGE_RESIDENT])
		sum->most[USAGE_RESIDENT] = one->most[USAGE_RESIDENT];
	if (!sum->limit || (one->limit && one->limit < sum->limit))
		sum->limit = one->limit;
	if (!sum->bound || (one->bound && one->bound < sum->bound))
		sum->bound = one->bound;
	sum->rough |= one->rough;
}

static uint64_t usage_all(const uint64_t *of)
{
	uint64_t all = 0;
	unsigned int i;

	for (i = 0; i < USAGE_RESIDENT; i++)
		all += of[i];
	return all;
}

/* The sum over the ranks of a node; 0 or -errno. */
static int usage_of_node(uint16_t node, struct stats_memory *sum)
{
	const uint64_t none = 0;
	struct stats_memory one;
	uint16_t r;
	int err;

	memset(sum, 0, sizeof(*sum));
	for (r = 0; r < job.size; r++) {
		if (node_of(r) != node)
			continue;
		err = call_rank(r, CALL_MEMORY, &none, sizeof(none), &one, sizeof(one));
		if (err)
			return err;
		usage_add(sum, &one);
	}
	return 0;
}

static void usage_print_node(FILE *f, uint16_t node, const struct stats_memory *m)
{
	unsigned int i;

	fprintf(f,
		"%s{\"node\": %u, \"ranks\": %u, \"limit\": %" PRIu64 ", \"bound\": %" PRIu64
		", \"rough\": %s",
		node ? ", " : "", node, job.width[node], m->limit, m->bound,
		m->rough ? "true" : "false");
	for (i = 0; i < USAGE_KINDS; i++)
		fprintf(f, ", \"%s\": {\"now\": %" PRIu64 ", \"most\": %" PRIu64 "}", kinds[i].key,
			m->now[i], m->most[i]);
	fputc('}', f);
}

static double in_mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void usage_print_table(FILE *f, const struct stats_memory *all, uint16_t node,
			      const struct stats_memory *largest)
{
	unsigned int i;

	fprintf(f, "  %-14s %12s %12s %12s %12s\n", "memory, MiB", "now", "at most",
		"node:", "at most");
	for (i = 0; i < USAGE_KINDS; i++) {
		if (i == USAGE_RESIDENT)
			fprintf(f, "  %-14s %12.1f %12.1f %12u %12.1f of %.0f\n", "all",
				in_mib(usage_all(all->now)), in_mib(usage_all(all->most)), node,
				in_mib(usage_all(largest->most)), in_mib(largest->limit));
		if (all->most[i])
			fprintf(f, "  %-14s %12.1f %12.1f %12u %12.1f%s\n", kinds[i].name,
				in_mib(all->now[i]), in_mib(all->most[i]), node,
				in_mib(largest->most[i]),
				i == USAGE_PRIVATE && all->rough ? " (anonymous memory alone)"
								 : "");
	}
}

void usage_print(FILE *f, bool json)
{
	struct stats_memory all = { 0 }, one, largest = { 0 };
	uint16_t node, most = 0;

	for (node = 0; node < job.nodes; node++) {
		if (usage_of_node(node, &one))
			continue;
		if (json)
			usage_print_node(f, node, &one);
		usage_add(&all, &one);
		if (usage_all(one.most) > usage_all(largest.most)) {
			largest = one;
			most = node;
		}
	}
	if (!json)
		usage_print_table(f, &all, most, &largest);
}
