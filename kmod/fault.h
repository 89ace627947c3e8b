/* SPDX-License-Identifier: GPL-2.0 */
/* fault.h - faults, and what a request for a block needs before it is made: its frames, states and keys. All sleep. */
#ifndef KMOD_FAULT_H
#define KMOD_FAULT_H

#include "rank.h"

vm_fault_t fault_handle(struct rank *r, struct vm_fault *vmf, u32 page, bool write);

/* The request for the block of a page, as a thread of this rank makes it. fault_request_at(): false: the page is of no region. */
struct msg fault_request(const struct rank *r, const struct region *g, u32 page, u16 slot);
bool fault_request_at(struct rank *r, u32 page, struct msg *ask);
void fault_prefetch(struct rank *r, u32 block, bool write, u8 flags, u16 manager, bool back);

/* Frames, states and keys for what may land there. fault_prepare_now(): with mmap_lock held; -EAGAIN: not with it */
u32 fault_frames(struct rank *r, u32 page); /* pages of the 2 MiB around a page that are of its region; 0: of none */
int fault_prepare(struct rank *r, u32 page, u32 frames);
int fault_prepare_now(struct rank *r, u32 page);

#endif
