/* SPDX-License-Identifier: GPL-2.0 */
/* map.h - views: the window in the address space of a process. All sleep. */
#ifndef KMOD_MAP_H
#define KMOD_MAP_H

#include "ctx.h"

struct view *view_create(void);            /* of the caller's address space. -EINVAL: it has none; -ENOMEM, -EUSERS */
void view_close(struct view *v);           /* the file is closed: nothing of the process is touched any more */
int view_window(struct view *v, u64 size); /* make a context. -EBUSY: the view has one; -ENOMEM, -EDQUOT, -EINTR */
/* To a context that another view keeps meanwhile. -EBUSY: the view has one; -EACCES, -EUSERS, -ENOMEM, -EINTR */
int view_attach(struct view *v, struct ctx *c);
int view_mmap(struct view *v, struct vm_area_struct *vma);

#endif
