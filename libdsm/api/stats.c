// SPDX-License-Identifier: BSD-2-Clause
/*
 * stats.c - statistics for programs and for people: sums over ranks, the hottest blocks, and the
 * memory that they contain.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/init.h"
#include "api/region.h"
#include "api/stats.h"
#include "calls/call.h"
#include "calls/owner.h"
#include "calls/payload.h"
#include "fault/fault.h"
#include "fault/range.h"
#include "heap/heap.h"
#include "job/host_ops.h"
#include "job/job.h"
#include "job/stats.h"
#include "net/net.h"
#include "util/log.h"
#include "util/sys.h"
#include "util/top.h"
#include "util/variables.h"

#define HOT_MAX 64
#define HOT_SHOWN 8
#define SHARING_SHOWN 8

static const char *const latency_names[DSM_LAT_MAX] = { "read miss", "write miss", "upgrade",
							"lock",      "barrier",    "atomic" };

static void stats_add(struct dsm_stats *sum, const struct dsm_stats *one)
{
	const uint64_t *from = (const uint64_t *)one;
	uint64_t *to = (uint64_t *)sum;
	struct dsm_stats before = *sum;
	size_t i;

	for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
	for (i = 0; i < DSM_LAT_MAX; i++)
		sum->latency_max_ns[i] = before.latency_max_ns[i] > one->latency_max_ns[i]
			? before.latency_max_ns[i]
			: one->latency_max_ns[i];
}

DSM_API int dsm_stats_get(int rank, const dsm_region_t *region, struct dsm_stats *out)
{
	const struct dsm_region *of = region_of(region);
	uint64_t id = of ? of->id : CTL_REGIONS;
	struct dsm_stats sum, one;
	int err = job_ready(), r;

	if (err)
		return err;
	if (rank < -1 || rank >= job.size || !out || (region && !of))
		return -EINVAL;
	heap_settle();
	memset(&sum, 0, sizeof(sum));
	for (r = rank < 0 ? 0 : rank; r < (rank < 0 ? job.size : rank + 1); r++) {
		err = call_rank((uint16_t)r, CALL_STATS, &id, sizeof(id), &one, sizeof(one));
		if (err)
			return err;
		stats_add(&sum, &one);
	}
	*out = sum;
	return 0;
}

DSM_API int dsm_stats_reset(void)
{
	int err = job_ready();

	if (err)
		return err;
	if (job.host->count)
		job.host->count(); /* reads, and so resets, the host's own counters */
	memset(&job.mine->stats, 0, sizeof(job.mine->stats));
	memset(job.mine->region_stats, 0, job.mine->region_end * sizeof(job.mine->region_stats[0]));
	return 0;
}

/*
 * Name a block of adopted memory by the program's variables in it: the largest, and how many more.
 */
static void name_variables(struct dsm_hot_block *b, void *at)
{
	const size_t room = sizeof(b->name) - sizeof(" and 4294967295 more");
	struct variable v;
	char name[sizeof(b->name)];

	if (variables_find(at, b->size, &v, name, sizeof(name)))
		return;
	if (v.n == 1 || v.size >= b->size) {
		snprintf(b->name, sizeof(b->name), "%s", name);
		b->object = v.at;
		b->object_size = v.size;
		return;
	}
	snprintf(b->name, sizeof(b->name), "%.*s and %u more", (int)room, name, v.n - 1);
	b->object = at;
	b->object_size = b->size;
}

void stats_name_block(struct dsm_hot_block *b, size_t off)
{
	struct dsm_region *r = region_at(off);
	struct found f;
	uint64_t at;
	int owner;

	if (!r)
		return;
	b->size = r->block_size;
	memcpy(b->name, r->name, sizeof(b->name));
	b->object = range_at(r->off);
	b->object_size = r->size;
	if (r->adopted)
		name_variables(b, range_at(off));
	if (r->off >= job.heap)
		return;
	owner = unit_owner(off);
	/* The first allocation that overlaps the block. */
	for (at = 0; owner >= 0 && at < r->block_size && off + at < job.heap; at += 64) {
		uint64_t addr = (uint64_t)(uintptr_t)range_at(off + at);

		if (call_rank((uint16_t)owner, CALL_FIND, &addr, sizeof(addr), &f, sizeof(f)))
			continue;
		if (f.object.name[0])
			snprintf(b->name, sizeof(b->name), "%s", f.object.name);
		b->object = f.object.start;
		b->object_size = f.object.size;
		memcpy(b->site, f.site, sizeof(b->site));
		return;
	}
}

DSM_API int dsm_stats_hot(struct dsm_hot_block *out, int n)
{
	struct hot all[HOT_MAX], some[HOT_MAX];
	struct top top = { .list = all,
			   .size = sizeof(all[0]),
			   .key = offsetof(struct hot, transfers) };
	int err = job_ready(), r, i;

	if (err)
		return err;
	if (!out || n < 1)
		return -EINVAL;
	if (n > HOT_MAX)
		n = HOT_MAX;
	top.n = (unsigned int)n;
	for (r = 0; r < job.nodes; r++) {
		int got =
			call_rank(job.first[r], CALL_HOT, "", 0, some, (size_t)n * sizeof(some[0]));

		if (got < 0)
			return got;
		got /= (int)sizeof(some[0]);
		for (i = 0; i < got; i++)
			top_add(&top, &some[i]);
	}
	for (i = 0; i < (int)top.have; i++) {
		memset(&out[i], 0, sizeof(out[i]));
		out[i].addr = range_at(all[i].off);
		out[i].size = all[i].bytes;
		out[i].transfers = all[i].transfers;
		stats_name_block(&out[i], all[i].off);
	}
	return (int)top.have;
}

/* Upper bound of the bucket that the given share of all waits does not exceed. */
static uint64_t percentile(const uint64_t *buckets, uint64_t total, double share)
{
	uint64_t seen = 0;
	int i;

	for (i = 0; i < DSM_LAT_BUCKETS; i++) {
		seen += buckets[i];
		if (seen && (double)seen >= share * (double)total)
			return 2ull << i;
	}
	return 0;
}

static const struct counter {
	const char *name;
	size_t at;
	/* clang-format off */
} counters[] = {
#define COUNTER(n) { #n, offsetof(struct dsm_stats, n) }
	COUNTER(read_faults), COUNTER(write_faults), COUNTER(upgrades), COUNTER(local_faults), COUNTER(prefetched),
	COUNTER(invalidations), COUNTER(downgrades), COUNTER(blocks_in), COUNTER(blocks_out),
	COUNTER(bytes_in), COUNTER(bytes_out), COUNTER(messages_out), COUNTER(messages_in), COUNTER(steps), COUNTER(locks), COUNTER(lock_waits),
	COUNTER(barriers), COUNTER(atomics), COUNTER(allocations), COUNTER(frees), COUNTER(remote_frees),
	COUNTER(homes_in), COUNTER(repeated_faults), COUNTER(populated), COUNTER(protect_calls), COUNTER(pushed),
	COUNTER(closes), COUNTER(flushes), COUNTER(flushed_bytes), COUNTER(notices), COUNTER(drops), COUNTER(refetches),
	COUNTER(twins), COUNTER(twins_most), COUNTER(evicted_clean), COUNTER(evicted_owned), COUNTER(evict_short),
	COUNTER(empty_invalidations), COUNTER(told), COUNTER(lent), COUNTER(locks_kept),
};
/* clang-format on */
#define COUNTERS (sizeof(counters) / sizeof(counters[0]))

static uint64_t value(const struct dsm_stats *s, size_t at)
{
	uint64_t v;

	memcpy(&v, (const char *)s + at, sizeof(v));
	return v;
}

/*
 * Add a vector: equal vectors of equally named devices on all ranks make one row. False: there is
 * no room.
 */
static bool add_vector(struct stats_vectors *sum, const struct stats_vector *v)
{
	struct stats_vector *at = sum->rows;

	for (; at < sum->rows + sum->n; at++)
		if (at->vector == v->vector && !strcmp(at->class, v->class) &&
		    !strcmp(at->device, v->device)) {
			at->events += v->events;
			at->completions += v->completions;
			at->softirq += v->softirq;
			return true;
		}
	if (sum->n == STATS_VECTORS)
		return false;
	sum->rows[sum->n++] = *v;
	return true;
}

static void all_vectors(struct stats_vectors *sum)
{
	struct stats_vectors one;
	uint32_t i;
	int r;

	memset(sum, 0, sizeof(*sum));
	for (r = 0; r < job.size; r++) {
		uint64_t none = 0;

		if (call_rank((uint16_t)r, CALL_VECTORS, &none, sizeof(none), &one, sizeof(one)))
			continue;
		for (i = 0; i < one.n && i < STATS_VECTORS; i++)
			if (!add_vector(sum, &one.rows[i]))
				return;
	}
}

static void print_vectors(FILE *f, bool json)
{
	struct stats_vectors all;
	uint32_t i;

	all_vectors(&all);
	if (!json && all.n)
		fprintf(f, "  %-14s %12s %12s %12s %12s %12s\n", "vectors of", "device", "vector",
			"completions", "in softirq", "events");
	for (i = 0; i < all.n; i++) {
		const struct stats_vector *v = &all.rows[i];

		fprintf(f,
			json ? "%s{\"class\": \"%s\", \"device\": \"%s\", \"vector\": %d, \"completions\": %" PRIu64
			       ", \"softirq\": %" PRIu64 ", \"events\": %" PRIu64 "}"
			     : "%s%-14s %12s %12d %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
			json ? i ? ", " : "" : "  ", v->class, v->device, v->vector, v->completions,
			v->softirq, v->events);
	}
}

/* Sums over all ranks, which have the same kinds of lanes. Kinds that no rank uses are left out. */
static void print_lanes(FILE *f, bool json)
{
	struct stats_lanes sum = { 0 }, one;
	const char *between = "";
	uint32_t i;
	int r;

	for (r = 0; r < job.size && job.net && job.netops->lanes; r++) {
		const uint64_t none = 0;

		if (call_rank((uint16_t)r, CALL_LANES, &none, sizeof(none), &one, sizeof(one)))
			continue;
		sum.n = one.n < STATS_LANES ? one.n : STATS_LANES;
		for (i = 0; i < sum.n; i++) {
			memcpy(sum.rows[i].name, one.rows[i].name, sizeof(sum.rows[i].name));
			sum.rows[i].connections += one.rows[i].connections;
			sum.rows[i].messages += one.rows[i].messages;
			sum.rows[i].bytes += one.rows[i].bytes;
		}
	}
	if (!json && sum.n)
		fprintf(f, "  %-14s %12s %12s %12s\n", "connections of", "open", "messages",
			"bytes");
	for (i = 0; i < sum.n; i++) {
		const struct stats_lane *l = &sum.rows[i];

		if (!l->connections)
			continue;
		fprintf(f,
			json ? "%s{\"of\": \"%s\", \"open\": %" PRIu64 ", \"messages\": %" PRIu64
			       ", \"bytes\": %" PRIu64 "}"
			     : "%s  %-14s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
			between, l->name, l->connections, l->messages, l->bytes);
		between = json ? ", " : "";
	}
}

/* Queue pairs that the ranks of this node share; 0: none. */
static uint64_t queue_pairs(void)
{
	struct net_counters c = { 0 };

	if (job.net)
		job.netops->counters(job.net, &c);
	return c.queue_pairs;
}

static uint64_t faults(const struct dsm_stats *s)
{
	return s->read_faults + s->write_faults + s->upgrades;
}

static unsigned int percent(uint64_t part, uint64_t whole)
{
	return whole ? (unsigned int)((100 * part + whole / 2) / whole) : 0;
}

static void print_sharing(FILE *f, const struct dsm_stats *s)
{
	struct sharing_row rows[SHARING_SHOWN], rest;
	int n, i;

	if (job.host->kind != HOST_LIBRARY) {
		fprintf(f, "  repeated faults: not measured with the kernel helper\n");
		return;
	}
	if (!faults(s))
		return;
	n = sharing_rows(rows, SHARING_SHOWN, &rest);
	fprintf(f, "  repeated faults (lost since the last acquire): %u %%; by memory:\n",
		percent(s->repeated_faults, faults(s)));
	for (i = 0; i < n; i++) {
		const struct dsm_hot_block *of = &rows[i].of;

		fprintf(f, "  %12" PRIu64 " faults, %3u %% repeated: %s at %p, %zu bytes",
			rows[i].misses, percent(rows[i].repeated, rows[i].misses), of->name,
			of->object, of->object_size);
		if (rows[i].objects > 1)
			fprintf(f, " and %u more", rows[i].objects - 1);
		fprintf(f, "%s%s\n", of->site[0] ? ", allocated at " : "", of->site);
	}
	if (n >= 0 && rest.misses)
		fprintf(f, "  %12" PRIu64 " faults, %3u %% repeated: %u more\n", rest.misses,
			percent(rest.repeated, rest.misses), rest.objects);
	if (n < 0)
		fprintf(f, "  not known: %s\n", dsm_strerror(n));
}

static void print_table(FILE *f, const struct dsm_stats *s, const struct dsm_hot_block *hot,
			int nhot)
{
	size_t i;
	int k;

	fprintf(f, "\nlibdsm statistics: %d ranks in %d node%s, faults by %s%s%s", job.size,
		job.nodes, job.nodes == 1 ? "" : "s", job.fault->name,
		job.net ? ", messages by " : "", job.net ? job.netops->name : "");
	if (queue_pairs())
		fprintf(f, ", %" PRIu64 " queue pairs in this node", queue_pairs());
	fputc('\n', f);
	for (i = 0; i < COUNTERS; i++)
		fprintf(f, "  %-14s %14" PRIu64 "%s", counters[i].name, value(s, counters[i].at),
			i % 3 == 2 || i + 1 == COUNTERS ? "\n" : "");
	fprintf(f, "  %-14s %12s %12s %12s %12s %12s\n", "waits", "count", "mean us", "p50 us <",
		"p99 us <", "max us");
	for (i = 0; i < DSM_LAT_MAX; i++) {
		uint64_t n = s->latency_count[i];

		if (n)
			fprintf(f, "  %-14s %12" PRIu64 " %12.1f %12.1f %12.1f %12.1f\n",
				latency_names[i], n, (double)s->latency_sum_ns[i] / (double)n / 1e3,
				(double)percentile(s->latency[i], n, 0.5) / 1e3,
				(double)percentile(s->latency[i], n, 0.99) / 1e3,
				(double)s->latency_max_ns[i] / 1e3);
	}
	print_vectors(f, false);
	print_lanes(f, false);
	usage_print(f, false);
	print_sharing(f, s);
	for (k = 0; k < nhot; k++)
		fprintf(f,
			"%s  %p %6zu bytes, written alternately %" PRIu64
			" times: %s at %p, %zu bytes%s%s\n",
			k ? "" : "  blocks that change hands most\n", hot[k].addr, hot[k].size,
			hot[k].transfers, hot[k].name, hot[k].object, hot[k].object_size,
			hot[k].site[0] ? ", allocated at " : "", hot[k].site);
}

static void print_text(FILE *f, const char *s)
{
	fputc('"', f);
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(f, "\\%c", *s);
		else if ((unsigned char)*s < ' ')
			fprintf(f, "\\u%04x", *s);
		else
			fputc(*s, f);
	fputc('"', f);
}

static void print_sharing_json(FILE *f)
{
	struct sharing_row rows[SHARING_SHOWN], rest;
	int n = sharing_rows(rows, SHARING_SHOWN, &rest), i;

	for (i = 0; i < n; i++) {
		const struct dsm_hot_block *of = &rows[i].of;

		fprintf(f, "%s{\"faults\": %" PRIu64 ", \"repeated\": %" PRIu64 ", \"name\": ",
			i ? ", " : "", rows[i].misses, rows[i].repeated);
		print_text(f, of->name);
		fprintf(f,
			", \"objects\": %u, \"object\": \"%p\", \"object_bytes\": %zu, \"site\": ",
			rows[i].objects, of->object, of->object_size);
		print_text(f, of->site);
		fprintf(f, "}");
	}
	fprintf(f,
		"], \"sharing_more\": [{\"faults\": %" PRIu64 ", \"repeated\": %" PRIu64
		", \"objects\": %u}",
		rest.misses, rest.repeated, rest.objects);
}

static void print_json(FILE *f, const struct dsm_stats *s, const struct dsm_hot_block *hot,
		       int nhot)
{
	size_t i;
	int k;

	fprintf(f, "{\"ranks\": %d, \"fault\": \"%s\", \"net\": \"%s\", \"queue_pairs\": %" PRIu64,
		job.size, job.fault->name, job.net ? job.netops->name : "none", queue_pairs());
	for (i = 0; i < COUNTERS; i++)
		fprintf(f, ", \"%s\": %" PRIu64, counters[i].name, value(s, counters[i].at));
	fprintf(f, ", \"latency_ns\": {");
	for (i = 0; i < DSM_LAT_MAX; i++)
		fprintf(f,
			"%s\"%s\": {\"count\": %" PRIu64 ", \"sum\": %" PRIu64 ", \"p50\": %" PRIu64
			", \"p99\": %" PRIu64 ", \"max\": %" PRIu64 "}",
			i ? ", " : "", latency_names[i], s->latency_count[i], s->latency_sum_ns[i],
			percentile(s->latency[i], s->latency_count[i], 0.5),
			percentile(s->latency[i], s->latency_count[i], 0.99), s->latency_max_ns[i]);
	fprintf(f, "}, \"vectors\": [");
	print_vectors(f, true);
	fprintf(f, "], \"connections\": [");
	print_lanes(f, true);
	fprintf(f, "], \"memory\": [");
	usage_print(f, true);
	fprintf(f, "], \"sharing\": [");
	print_sharing_json(f);
	fprintf(f, "], \"hot\": [");
	for (k = 0; k < nhot; k++) {
		fprintf(f,
			"%s{\"address\": \"%p\", \"bytes\": %zu, \"transfers\": %" PRIu64
			", \"name\": ",
			k ? ", " : "", hot[k].addr, hot[k].size, hot[k].transfers);
		print_text(f, hot[k].name);
		fprintf(f, ", \"object\": \"%p\", \"object_bytes\": %zu, \"site\": ", hot[k].object,
			hot[k].object_size);
		print_text(f, hot[k].site);
		fprintf(f, "}");
	}
	fprintf(f, "]}\n");
}

void stats_report(void)
{
	struct dsm_hot_block hot[HOT_SHOWN];
	struct dsm_stats sum;
	bool json = !strcmp(job.set.stats, "json");
	int n, fd;
	FILE *f;

	if (job.rank != 0 || !strcmp(job.set.stats, "off") || !strcmp(job.set.stats, "0"))
		return;
	if (dsm_stats_get(-1, NULL, &sum))
		return;
	n = dsm_stats_hot(hot, HOT_SHOWN);
	fd = sys_dup(log_descriptor());
	f = fd < 0 ? NULL : fdopen(fd, "w");
	if (!f) {
		log_line("no statistics: %s", strerror(errno));
		return;
	}
	if (json)
		print_json(f, &sum, hot, n < 0 ? 0 : n);
	else
		print_table(f, &sum, hot, n < 0 ? 0 : n);
	fclose(f);
}
