/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mm.h - for compat.c: flags of mappings are constant, and set by functions, since Linux 6.3; locks
 * of mappings since 6.4.
 */
#ifndef COMPAT_LINUX_MM_H
#define COMPAT_LINUX_MM_H

#include <stdbool.h>

#include "../linux/version.h"

struct mm_struct {
	int locked;
};
struct vm_area_struct {
	struct mm_struct *vm_mm;
#if COMPAT_SINCE(6, 3)
	const unsigned long vm_flags;
#else
	unsigned long vm_flags;
#endif
};
struct vm_fault {
	struct vm_area_struct *vma;
};

#if COMPAT_SINCE(6, 3)
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	*(unsigned long *)&vma->vm_flags |= flags;
}
static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	*(unsigned long *)&vma->vm_flags &= ~flags;
}
#endif
#if COMPAT_SINCE(6, 4)
static inline void release_fault_lock(struct vm_fault *vmf)
{
	vmf->vma->vm_mm->locked = 0;
}
#else
static inline void mmap_read_unlock(struct mm_struct *mm)
{
	mm->locked = 0;
}
#endif

#endif
