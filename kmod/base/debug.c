// SPDX-License-Identifier: GPL-2.0
/*
 * debug.c - debugfs, below dsm/: one file per counter. Counters are per processor, and summed when
 * read. `views` (open files), `contexts`, `joined`, `frames` (also those that are kept for ever),
 * `charged` (pages of other memory) and `sends_waiting` are gauges. Other parts of dsm.ko add their
 * own files (debug_file()).
 */
#include <linux/debugfs.h>

#include "debug.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* clang-format off */
static const char *const names[COUNTERS] = {
	[COUNT_FAULTS] = "faults", [COUNT_CHANGED] = "pages_changed", [COUNT_ALONE] = "pages_changed_alone", [COUNT_BATCHES] = "batches",
	[COUNT_DEFERRED] = "deferred", [COUNT_TRYLOCK] = "trylock_failures", [COUNT_NO_TABLE] = "missing_tables",
	[COUNT_SHOOTDOWNS] = "shootdowns", [COUNT_ACKS] = "shootdown_acks", [COUNT_SOFTIRQ] = "handled_in_softirq", [COUNT_KSOFTIRQD] = "handled_in_ksoftirqd",
	[COUNT_PROCESS] = "handled_in_process", [COUNT_LATER] = "left_to_worker", [COUNT_SENT] = "messages_sent", [COUNT_POSTPONED] = "messages_postponed",
	[COUNT_RECEIVED] = "messages_received", [COUNT_QUEUED] = "send_queue_full", [COUNT_NO_CREDIT] = "out_of_credit", [COUNT_CREDITS] = "credits_returned", [COUNT_KEYS] = "keys_asked",
	[COUNT_BAD] = "bad_messages", [COUNT_STRAY] = "stray_messages", [COUNT_LOST] = "ranks_given_up", [COUNT_UNSENT] = "messages_to_lost_ranks",
	[COUNT_NO_MEMORY] = "from_reserve", [COUNT_USED_UP] = "reserve_used_up", [COUNT_OVER] = "over_budget",
	[COUNT_AGAIN] = "tried_again", [COUNT_ZAPPED] = "zaps_notified", [COUNT_TOLD] = "lowerings_notified",
	[COUNT_CHUNKS] = "chunks_sent", [COUNT_WINDOW_FULL] = "send_window_full", [COUNT_STRICT_FIRST] = "strict_first",
	[GAUGE_VIEWS] = "views", [GAUGE_CONTEXTS] = "contexts", [GAUGE_RANKS] = "joined", [GAUGE_FRAMES] = "frames", [GAUGE_CHARGED] = "charged",
	[GAUGE_WAITING] = "sends_waiting", [MOST_RUN] = "softirq_run_most",
};
/* clang-format on */

DEFINE_PER_CPU(struct debug_counts, debug_counts);
static struct dentry *folder;

static int counter_get(void *data, u64 *out)
{
	enum counter c = (unsigned long)data;
	int cpu;

	*out = 0;
	for_each_possible_cpu(cpu)
		*out = c == MOST_RUN ? max(*out, per_cpu(debug_counts, cpu).v[c])
				     : *out + per_cpu(debug_counts, cpu).v[c];
	return 0;
}

/* Any value written to a maximum clears it. */
static int counter_set(void *data, u64 unused)
{
	enum counter c = (unsigned long)data;
	int cpu;

	if (c != MOST_RUN)
		return -EPERM;
	for_each_possible_cpu(cpu)
		WRITE_ONCE(per_cpu(debug_counts, cpu).v[c], 0);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(counter_fops, counter_get, counter_set, "%llu\n");

void debug_create(void)
{
	unsigned long i;

	folder = debugfs_create_dir("dsm", NULL);
	for (i = 0; i < COUNTERS; i++)
		debugfs_create_file_unsafe(names[i], i == MOST_RUN ? 0644 : 0444, folder, (void *)i,
					   &counter_fops);
}

void debug_file(const char *name, const struct file_operations *fops)
{
	debugfs_create_file(name, 0400, folder, NULL, fops);
}

void debug_remove(void)
{
	debugfs_remove_recursive(folder);
}
