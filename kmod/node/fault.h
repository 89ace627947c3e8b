/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fault.h - page faults, and the frames, states and keys that a request for a block needs. All
 * functions sleep.
 */
#ifndef KMOD_FAULT_H
#define KMOD_FAULT_H

#include "rank.h"

vm_fault_t fault_handle(struct rank *r, struct vm_fault *vmf, u32 page, bool write);

/*
 * The request of a thread of this rank for the block of a page. fault_request_at(): false: the page
 * is in no region.
 */
struct msg fault_request(const struct rank *r, const struct region *g, u32 page, u16 slot);
bool fault_request_at(struct rank *r, u32 page, struct msg *ask);
void fault_prefetch(struct rank *r, u32 block, bool write, u8 flags, u16 manager, bool back);

/*
 * Allocate frames, states and keys for blocks that may arrive. -EINTR: killed. fault_prepare_now():
 * under mmap_lock; -EAGAIN: would block.
 */
/* pages of its region in the 2 MiB around a page; 0: no region */
u32 fault_frames(struct rank *r, u32 page);
int fault_prepare(struct rank *r, u32 page, u32 frames);
int fault_prepare_now(struct rank *r, u32 page);

#endif
