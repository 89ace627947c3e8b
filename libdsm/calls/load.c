// SPDX-License-Identifier: BSD-2-Clause
/* load.c - see load.h. */
#include "calls/load.h"

#include <stdbool.h>

#include "calls/call.h"
#include "job/job.h"

void load_add(int32_t n)
{
	__atomic_fetch_add(&job.mine->threads, (uint32_t)n, __ATOMIC_SEQ_CST);
}

static unsigned int behind(uint16_t rank, uint64_t first)
{
	return (rank + job.size - (unsigned int)(first % job.size)) % job.size;
}

static bool is_less(struct load a, struct load b, uint64_t first)
{
	if (a.threads != b.threads)
		return a.threads < b.threads;
	return behind(a.rank, first) < behind(b.rank, first);
}

struct load load_here(uint64_t first)
{
	struct load least = { .threads = UINT32_MAX };
	uint16_t r;

	for (r = 0; r < job.size; r++) {
		const struct rank_ctl *c = rank_info(r)->ctl;
		struct load one = { .rank = r };

		if (!c)
			continue;
		one.threads = __atomic_load_n(&c->threads, __ATOMIC_SEQ_CST);
		if (is_less(one, least, first))
			least = one;
	}
	return least;
}

static int load_of(uint16_t node, uint64_t first, struct load *out)
{
	if (node != job.node)
		return call_rank(job.first[node], CALL_LOAD, &first, sizeof(first), out,
				 sizeof(*out));
	*out = load_here(first);
	return 0;
}

int load_on(uint16_t node, uint16_t first, uint16_t *rank)
{
	struct load least;
	int err = load_of(node, first, &least);

	if (err)
		return err;
	*rank = least.rank;
	return 0;
}

int load_least(uint16_t first, uint16_t *rank)
{
	struct load least = load_here(first);
	uint16_t n;

	for (n = 0; n < job.nodes; n++) {
		struct load there;
		int err = load_of(n, first, &there);

		if (err)
			return err;
		if (is_less(there, least, first))
			least = there;
	}
	*rank = least.rank;
	return 0;
}
