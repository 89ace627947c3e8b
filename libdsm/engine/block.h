/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * block.h - block operations of this rank's threads if this process hosts the core: faults, prefetch, release, pins, placement.
 */
#ifndef ENGINE_BLOCK_H
#define ENGINE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/job.h"
#include "engine/slot.h"
#include "fault/catch.h"

/* A block's name in messages: twice its first page, plus a marker bit whose position is the block's order (log2 of its pages). */
static inline uint32_t block_id(size_t off, size_t bytes)
{
	return (uint32_t)(off >> PAGE_SHIFT << 1 | bytes >> PAGE_SHIFT);
}

static inline size_t block_bytes(uint32_t id)
{
	return (size_t)(id & -id) << PAGE_SHIFT;
}

static inline uint32_t block_page(uint32_t id)
{
	return (id & (id - 1)) >> 1;
}

static inline size_t block_off(uint32_t id)
{
	return (size_t)block_page(id) << PAGE_SHIFT;
}

/* The lock of a block's state, by its first page: if the block is in no region, two nodes may name different sizes. */
static inline uint32_t *block_stripe(uint32_t id)
{
	return stripe_of(block_page(id));
}

/* The node's copy of the block at off. */
static inline struct copy *block_copy(size_t off)
{
	return &job.mem.pages[off >> PAGE_SHIFT];
}

/* Handle an access of a program thread to the window at addr, for fault_catch(), with either host. Blocks for other ranks. */
enum fault_answer block_fault(void *addr, bool write);

/* The manager of a block of r, which is asked first. Does not block. */
uint16_t block_home(const struct dsm_region *r, size_t off);
/* The same for any block. SET_NOBODY: no rank of this node is attached to its region. Does not block. */
uint16_t block_manager(size_t off);

/* Request a block that no thread waits for, in a slot of this kind. False: not requested, because no slot is free, or the block
 * is here or on its way. Anywhere inside the runtime. The actions are queued: call run_work(). */
bool block_start_prefetch(uint32_t block, bool write, uint8_t flags, uint16_t manager, enum slot_kind kind);

/* Make progress while waiting for something without a slot: poll, fire timers, yield. Inside the runtime, not while a message is
 * handled. */
void block_help(void);

/* Operations of host_process; see host.h. */
int block_attach(const struct dsm_region *r);
enum fault_answer block_miss(struct dsm_region *r, void *addr, bool write);
int block_fetch(struct dsm_region *r, size_t off, size_t len, uint8_t access, bool wait);
void block_release(struct dsm_region *r, size_t off, size_t len, bool evict);
int block_pin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_unpin(struct dsm_region *r, size_t off, size_t len, uint8_t access);
int block_place(struct dsm_region *r, size_t off, uint16_t rank);

#endif
