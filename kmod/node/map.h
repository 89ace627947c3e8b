/* SPDX-License-Identifier: GPL-2.0 */
/* map.h - views: the window in the address space of a process. All functions sleep. */
#ifndef KMOD_MAP_H
#define KMOD_MAP_H

#include "../base/ctx.h"

/* for the caller's address space. -EINVAL: it has none; -ENOMEM, -EUSERS */
struct view *view_create(void);
/* the file is closed; the process is not accessed afterwards */
void view_close(struct view *v);
/* create a context. -EBUSY: the view has one; -ENOMEM, -EDQUOT, -EINTR */
int view_window(struct view *v, u64 size);
/*
 * Attach the view to a context that another view keeps. -EBUSY: has one; -EACCES: another user's;
 * -EUSERS, -ENOMEM, -EINTR
 */
int view_attach(struct view *v, struct ctx *c);
/*
 * For mmap(2), under mmap_lock. -ENXIO: no window, or another process; -EBUSY: mapped already;
 * -EINVAL: size, flags, address
 */
int view_mmap(struct view *v, struct vm_area_struct *vma);

#endif
