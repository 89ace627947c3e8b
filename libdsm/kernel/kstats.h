/* SPDX-License-Identifier: BSD-2-Clause */
/* kstats.h - counters of the kernel helper. Only if it is the host. Any thread; nothing blocks. */
#ifndef KERNEL_KSTATS_H
#define KERNEL_KSTATS_H

#include <stdint.h>

struct stats_vectors;

/*
 * Add the helper's counts of a region since the last call to the node's counters. Does nothing if
 * the region is unknown to it.
 */
void kstats_region(uint16_t id);

/* Operations of host_kernel; see job/host_ops.h. */
void kstats_count(void);
int kstats_transfers(uint64_t *off, uint32_t *transfers);
uint64_t kstats_frames(void);
void kstats_vectors(struct stats_vectors *out);

#endif
