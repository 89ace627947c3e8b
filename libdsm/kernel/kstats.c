// SPDX-License-Identifier: BSD-2-Clause
/*
 * kstats.c - what the kernel helper counts, where it is the core's host. Counters of its node are
 * added to those of the library when somebody reads them; transfers and completion queues are asked
 * for.
 */

#include <dsm_uapi.h>
#include <stdio.h>

#include "job/job.h"
#include "job/stats.h"
#include "kernel/kernel.h"
#include "net/net.h"

static void raise_to(uint64_t *max, uint64_t value)
{
	uint64_t seen = __atomic_load_n(max, __ATOMIC_RELAXED);

	while (value > seen &&
	       !__atomic_compare_exchange_n(max, &seen, value, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

static void kstats_add_region(struct region_stats *to, const struct dsm_ioc_stats *from)
{
	unsigned int i, b;

	_Static_assert(DSM_BUCKETS == DSM_LAT_BUCKETS, "the same buckets");
	count(&to->read_faults, from->read_faults);
	count(&to->write_faults, from->write_faults);
	count(&to->upgrades, from->upgrades);
	count(&to->local_faults, from->local_faults);
	count(&to->prefetched, from->prefetched);
	count(&to->invalidations, from->invalidations);
	count(&to->downgrades, from->downgrades);
	count(&to->blocks_in, from->blocks_in);
	count(&to->blocks_out, from->blocks_out);
	count(&to->bytes_in, from->bytes_in);
	count(&to->bytes_out, from->bytes_out);
	count(&to->homes_in, from->homes_in);
	for (i = 0; i < 3; i++) {
		count(&to->latency_count[i], from->latency_count[i]);
		count(&to->latency_sum[i], from->latency_sum[i]);
		raise_to(&to->latency_max[i], from->latency_max[i]);
		for (b = 0; b < DSM_LAT_BUCKETS; b++)
			count(&to->latency[i][b], from->latency[i][b]);
	}
}

/* What the helper counts is of the node: it stands with the first rank. */
static struct rank_ctl *counters(void)
{
	return rank_info(job.first[job.node])->ctl;
}

void kstats_region(uint16_t id)
{
	struct dsm_ioc_stats s = { .region = id, .flags = DSM_STATS_RESET };
	struct rank_ctl *to = counters();
	uint32_t end = __atomic_load_n(&to->region_end, __ATOMIC_RELAXED);

	if (kernel_ioctl(DSM_IOC_STATS, &s))
		return;
	while (end <= id &&
	       !__atomic_compare_exchange_n(&to->region_end, &end, id + 1u, 0, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	kstats_add_region(&to->region_stats[id], &s);
}

void kstats_count(void)
{
	struct dsm_ioc_stats s = { .region = 0xffff, .flags = DSM_STATS_RESET };
	struct rank_ctl *to = counters();
	unsigned int i;

	if (!kernel_ioctl(DSM_IOC_STATS, &s)) {
		count(&to->stats.messages_in, s.messages_in);
		count(&to->stats.messages_out, s.messages_out);
		count(&to->stats.steps, s.steps);
	}
	for (i = 0; i < job.mine->region_end; i++)
		if (job.regions[i].attached)
			kstats_region((uint16_t)i);
}

uint64_t kstats_frames(void)
{
	struct dsm_ioc_info info;

	return kernel_ioctl(DSM_IOC_INFO, &info) ? 0 : info.frames << PAGE_SHIFT;
}

int kstats_transfers(uint64_t *off, uint32_t *transfers)
{
	struct dsm_ioc_hot h = { .page = (uint32_t)(*off >> PAGE_SHIFT),
				 .transfers = (uintptr_t)transfers };
	int err = kernel_ioctl(DSM_IOC_HOT, &h);

	_Static_assert(DSM_UNIT == UNIT_BYTES, "the same units");
	if (!err)
		*off = (uint64_t)h.page << PAGE_SHIFT;
	return err;
}

void kstats_vectors(struct stats_vectors *out)
{
	struct dsm_ioc_queues q;
	unsigned int i;

	if (kernel_ioctl(DSM_IOC_QUEUES, &q) || !q.device[0])
		return;
	for (i = 0; i < CLASS_MAX && out->n < STATS_VECTORS; i++) {
		struct stats_vector *v = &out->rows[out->n++];

		snprintf(v->class, sizeof(v->class), "%s", net_class_names[i]);
		snprintf(v->device, sizeof(v->device), "%.24s/dsm", q.device);
		v->vector = q.of[i].vector;
		v->events = q.of[i].events;
		v->softirq = q.of[i].softirq + q.of[i].ksoftirqd;
		v->completions = v->softirq + q.of[i].process;
	}
}
