/* SPDX-License-Identifier: BSD-2-Clause */
/* kstats.h - what the kernel helper counts; only where it is the host. Any thread; nothing blocks. */
#ifndef ENGINE_KSTATS_H
#define ENGINE_KSTATS_H

#include <stdint.h>

struct stats_vectors;

/* Add what it has counted of a region since the last time to the node's counters. Nothing happens if it does not know the region. */
void kstats_region(uint16_t id);

/* Members of host_kernel: host.h has their contracts. */
void kstats_count(void);
int kstats_transfers(uint64_t *off, uint32_t *transfers);
void kstats_vectors(struct stats_vectors *out);

#endif
