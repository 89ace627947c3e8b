/* SPDX-License-Identifier: GPL-2.0 */
/* debug.h - counters and gauges, in debugfs. */
#ifndef KMOD_DEBUG_H
#define KMOD_DEBUG_H

#include <linux/percpu.h>

#include "ctx.h"

enum counter {
	COUNT_FAULTS,
	COUNT_CHANGED,
	COUNT_ALONE,
	COUNT_BATCHES,
	COUNT_DEFERRED,
	COUNT_TRYLOCK,
	COUNT_NO_TABLE,
	COUNT_SHOOTDOWNS,
	COUNT_ACKS,
	COUNT_SOFTIRQ,
	COUNT_KSOFTIRQD,
	COUNT_PROCESS,
	COUNT_LATER,
	COUNT_SENT,
	COUNT_POSTPONED,
	COUNT_RECEIVED,
	COUNT_QUEUED,
	COUNT_NO_CREDIT,
	COUNT_CREDITS,
	COUNT_KEYS,
	COUNT_BAD,
	COUNT_STRAY,
	COUNT_LOST,
	COUNT_UNSENT,
	COUNT_NO_MEMORY,
	COUNT_USED_UP,
	COUNT_OVER,
	COUNT_AGAIN,
	COUNT_ZAPPED,
	COUNT_TOLD,
	COUNT_CHUNKS,
	COUNT_WINDOW_FULL,
	COUNT_STRICT_FIRST,
	GAUGE_VIEWS,
	GAUGE_CONTEXTS,
	GAUGE_RANKS,
	GAUGE_FRAMES,
	GAUGE_CHARGED,
	GAUGE_WAITING, /* GAUGE_*: current values */
	MOST_RUN,      /* MOST_*: maximum so far */
	COUNTERS
};

struct debug_counts {
	u64 v[COUNTERS];
};
DECLARE_PER_CPU(struct debug_counts, debug_counts);

static inline void debug_count(enum counter c, u64 n)
{
	this_cpu_add(debug_counts.v[c], n);
}

/* Bottom halves are off. */
static inline void debug_most(enum counter c, u64 n)
{
	if (n > __this_cpu_read(debug_counts.v[c]))
		__this_cpu_write(debug_counts.v[c], n);
}

void debug_create(void);
/* for root; after create, before remove */
void debug_file(const char *name, const struct file_operations *fops);
void debug_remove(void);

#endif
