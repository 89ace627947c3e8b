/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * block.h - block operations of this rank's threads if this process hosts the core: faults,
 * prefetch, release, pins, placement.
 */
#ifndef MISS_BLOCK_H
#define MISS_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/catch.h"
#include "job/job.h"
#include "miss/slot.h"

/* Handle an access of a program thread to the window at addr, for fault_catch(), with either host.
 * Blocks for other ranks. */
enum fault_answer block_fault(void *addr, bool write);

/* Request a block that no thread waits for, in a slot of this kind. 1: requested; 0: it is here or
 * on its way; -EAGAIN: no slot is free. Anywhere inside the runtime. The actions are queued: call
 * run_work(). */
int block_start_prefetch(uint32_t block, bool write, uint8_t flags, uint16_t manager,
			 enum slot_kind kind);

/* Make progress while waiting for something without a slot: poll, fire timers, yield. Inside the
 * runtime, not while a message is handled. */
void block_help(void);

/* Operations of host_process; see job/host_ops.h. */
int block_attach(const struct dsm_region *r);
enum fault_answer block_miss(struct dsm_region *r, void *addr, bool write);
int block_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait);
void block_release(struct dsm_region *r, size_t off, size_t len, bool evict);
int block_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_place(struct dsm_region *r, size_t off, uint16_t rank);

#endif
