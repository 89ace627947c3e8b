// SPDX-License-Identifier: BSD-2-Clause
/* stats.c - counters in control segments, summed on demand. */
#include "job/stats.h"

#include <stdio.h>
#include <string.h>

#include "heap/heap.h"
#include "job/host_ops.h"
#include "job/job.h"
#include "net/net.h"
#include "util/futex.h"
#include "util/top.h"

void stats_latency(uint64_t *count_, uint64_t *sum, uint64_t *max, uint64_t *buckets, uint64_t ns)
{
	unsigned int bucket = ns ? 63 - (unsigned int)__builtin_clzll(ns) : 0;
	uint64_t seen = __atomic_load_n(max, __ATOMIC_RELAXED);

	count(count_, 1);
	count(sum, ns);
	count(&buckets[bucket < DSM_LAT_BUCKETS ? bucket : DSM_LAT_BUCKETS - 1], 1);
	while (ns > seen &&
	       !__atomic_compare_exchange_n(max, &seen, ns, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void add_latencies(struct dsm_stats *out, unsigned int first, const uint64_t *counts,
			  const uint64_t *sums, const uint64_t *maxima,
			  const uint64_t (*buckets)[DSM_LAT_BUCKETS])
{
	unsigned int i, b;

	for (i = 0; i < 3; i++) {
		out->latency_count[first + i] += counts[i];
		out->latency_sum_ns[first + i] += sums[i];
		if (out->latency_max_ns[first + i] < maxima[i])
			out->latency_max_ns[first + i] = maxima[i];
		for (b = 0; b < DSM_LAT_BUCKETS; b++)
			out->latency[first + i][b] += buckets[i][b];
	}
}

static void add_region(struct dsm_stats *out, const struct region_stats *s)
{
	out->read_faults += s->read_faults;
	out->write_faults += s->write_faults;
	out->upgrades += s->upgrades;
	out->local_faults += s->local_faults;
	out->prefetched += s->prefetched;
	out->invalidations += s->invalidations;
	out->downgrades += s->downgrades;
	out->blocks_in += s->blocks_in;
	out->blocks_out += s->blocks_out;
	out->bytes_in += s->bytes_in;
	out->bytes_out += s->bytes_out;
	out->homes_in += s->homes_in;
	out->repeated_faults += s->repeated_faults;
	out->protect_calls += s->protect_calls;
	out->pushed += s->pushed;
	add_latencies(out, DSM_LAT_READ_MISS, s->latency_count, s->latency_sum, s->latency_max,
		      (const uint64_t(*)[DSM_LAT_BUCKETS])s->latency);
}

void stats_vectors(struct stats_vectors *out)
{
	struct net_vector rows[STATS_VECTORS];
	unsigned int n, i;

	memset(out, 0, sizeof(*out));
	n = job.net && job.netops->vectors ? job.netops->vectors(job.net, rows, STATS_VECTORS) : 0;
	out->n = n < STATS_VECTORS ? n : STATS_VECTORS;
	for (i = 0; i < out->n; i++) {
		struct stats_vector *v = &out->rows[i];

		snprintf(v->class, sizeof(v->class), "%s", rows[i].class);
		snprintf(v->device, sizeof(v->device), "%s", rows[i].device);
		v->vector = rows[i].vector;
		v->events = rows[i].events;
		v->completions = rows[i].completions;
	}
	if (job.host->vectors)
		job.host->vectors(out);
}

void stats_lanes(struct stats_lanes *out)
{
	struct net_lane rows[STATS_LANES];
	unsigned int n, i;

	memset(out, 0, sizeof(*out));
	n = job.net && job.netops->lanes ? job.netops->lanes(job.net, rows, STATS_LANES) : 0;
	out->n = n < STATS_LANES ? n : STATS_LANES;
	for (i = 0; i < out->n; i++) {
		struct stats_lane *l = &out->rows[i];

		snprintf(l->name, sizeof(l->name), "%s", rows[i].name);
		l->connections = rows[i].connections;
		l->messages = rows[i].messages;
		l->bytes = rows[i].bytes;
	}
}

/* Including counts that threads keep on their own. */
static uint64_t locks(const struct rank_ctl *c)
{
	uint64_t n = c->stats.locks;
	unsigned int i;

	for (i = 0; i < CTL_LANES; i++)
		n += __atomic_load_n(&c->lanes[i].locks, __ATOMIC_RELAXED);
	return n;
}

int stats_serve(uint16_t rank, uint32_t region, struct dsm_stats *out)
{
	struct rank_info *p = rank_info(rank);
	const struct rank_stats *s = &p->ctl->stats;
	unsigned int i;

	if (job.host->count)
		job.host->count();
	memset(out, 0, sizeof(*out));
	if (region < CTL_REGIONS) {
		add_region(out, &p->ctl->region_stats[region]);
		return 0;
	}
	for (i = 0; i < p->ctl->region_end; i++)
		if (i == 0 || p->ctl->region_stats[i].local_faults ||
		    p->ctl->region_stats[i].latency_count[0] ||
		    p->ctl->region_stats[i].latency_count[1] || p->ctl->region_stats[i].blocks_in ||
		    p->ctl->region_stats[i].blocks_out || p->ctl->region_stats[i].invalidations ||
		    p->ctl->region_stats[i].homes_in || p->ctl->region_stats[i].protect_calls)
			add_region(out, &p->ctl->region_stats[i]);
	out->messages_out = s->messages_out;
	out->messages_in = s->messages_in;
	out->steps = s->steps;
	out->locks = locks(p->ctl);
	out->lock_waits = s->lock_waits;
	out->locks_kept = s->locks_kept;
	out->barriers = s->barriers;
	out->atomics = s->atomics;
	out->populated = s->populated;
	out->closes = s->closes;
	out->flushes = s->flushes;
	out->flushed_bytes = s->flushed_bytes;
	out->notices = s->notices;
	out->told = s->told;
	out->lent = s->lent;
	out->drops = s->drops;
	out->refetches = s->refetches;
	out->evicted_clean = s->evicted_clean;
	out->evicted_owned = s->evicted_owned;
	out->evict_short = s->evict_short;
	out->empty_invalidations = s->empty_invalidations;
	if (p->local == 0) {
		out->twins = __atomic_load_n(&job.me->twins, __ATOMIC_RELAXED);
		out->twins_most = __atomic_load_n(&job.me->twins_most, __ATOMIC_RELAXED);
	}
	out->allocations = p->heap->allocations;
	out->frees = p->heap->frees;
	out->remote_frees = p->heap->remote_frees;
	add_latencies(out, DSM_LAT_LOCK, s->latency_count, s->latency_sum, s->latency_max,
		      (const uint64_t(*)[DSM_LAT_BUCKETS])s->latency);
	return 0;
}

static void add_hot(struct top *top, uint64_t page, uint32_t transfers)
{
	const struct hot h = { page << PAGE_SHIFT, PAGE_BYTES, transfers };

	if (transfers)
		top_add(top, &h);
}

static void hot_counted(struct top *top)
{
	const struct memory *p = &job.mem;
	size_t at, end = job.set.space >> PAGE_SHIFT;
	off_t where = (off_t)job.layout.transfers;

	for (at = 0; at < end; at++) {
		if (at % (PAGE_BYTES / sizeof(uint32_t)) == 0) {
			/* skip pages that were never touched */
			off_t data =
				lseek(p->ctlfd, where + (off_t)(at * sizeof(uint32_t)), SEEK_DATA);

			if (data < 0 || data >= (off_t)job.layout.sharing)
				break;
			if (data > where + (off_t)(at * sizeof(uint32_t)))
				at = (size_t)(data - where) / sizeof(uint32_t);
		}
		if (at < end)
			add_hot(top, at, p->transfers[at]);
	}
}

/* For hosts that count themselves. */
static int hot_asked(struct top *top)
{
	uint32_t transfers[UNIT_BYTES / PAGE_BYTES];
	uint64_t off;
	size_t i;
	int err;

	for (off = 0; off < job.set.space; off += UNIT_BYTES) {
		err = job.host->transfers(&off, transfers);
		if (err)
			return err == -ENOENT ? 0 : err;
		for (i = 0; i < UNIT_BYTES / PAGE_BYTES; i++)
			add_hot(top, (off >> PAGE_SHIFT) + i, transfers[i]);
	}
	return 0;
}

int stats_hot_serve(struct hot *out, int n)
{
	struct top top = { .list = out,
			   .size = sizeof(*out),
			   .key = offsetof(struct hot, transfers) };
	int err = 0;

	if (n < 1)
		return -EINVAL;
	top.n = (unsigned int)n;
	if (job.host->transfers)
		err = hot_asked(&top);
	else
		hot_counted(&top);
	return err ? err : (int)top.have;
}
