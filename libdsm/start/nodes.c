// SPDX-License-Identifier: BSD-2-Clause
/*
 * nodes.c - which ranks form a node, and which rank of another node this rank talks to. All ranks
 * derive the same from what they published (start/info.h).
 */
#include "start/nodes.h"

#include <stdlib.h>

#include "job/job.h"

/* The nearest lower rank on the same host as r; -1: there is none. */
static int nodes_before(const uint64_t *host, int r)
{
	int q = r - 1;

	while (q >= 0 && host[q] != host[r])
		q--;
	return q;
}

static void deal(const uint64_t *host, uint16_t most)
{
	uint16_t r;

	job.nodes = 0;
	for (r = 0; r < job.size; r++) {
		struct rank_info *p = rank_info(r);
		int q = nodes_before(host, r);

		job.node_of[r] = q < 0 ? job.nodes : node_of((uint16_t)q);
		p->local = q < 0 ? 0 : (uint16_t)(rank_info((uint16_t)q)->local + 1);
		if (most && p->local == most) {
			job.node_of[r] = job.nodes;
			p->local = 0;
		}
		if (node_of(r) == job.nodes)
			job.first[job.nodes++] = r;
		job.width[node_of(r)]++;
	}
}

/*
 * The process that has a message sends it, to the rank of the other node with its own index, modulo
 * that node's number of ranks.
 */
static void choose_pairs(void)
{
	uint16_t n, r;

	for (n = 0; n < job.nodes; n++) {
		uint16_t place = job.local % job.width[n];

		for (r = job.first[n]; node_of(r) != n || rank_info(r)->local != place; r++)
			;
		job.pair[n] = r;
	}
}

int nodes_make(const uint64_t *host, uint16_t most)
{
	job.node_of = calloc(job.size, sizeof(*job.node_of));
	job.first = calloc(job.size, sizeof(*job.first));
	job.pair = calloc(job.size, sizeof(*job.pair));
	job.width = calloc(job.size, sizeof(*job.width));
	if (!job.node_of || !job.first || !job.pair || !job.width)
		return -ENOMEM;
	deal(host, most);
	job.node = node_of(job.rank);
	job.local = rank_info(job.rank)->local;
	job.locals = job.width[job.node];
	choose_pairs();
	return 0;
}

void nodes_forget(void)
{
	free(job.node_of);
	free(job.first);
	free(job.pair);
	free(job.width);
	job.node_of = job.first = job.pair = job.width = NULL;
}
