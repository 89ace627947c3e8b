/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compat.h - what differs between versions of Linux. No other file tests the version.
 * tests/kmod/compat compiles each branch against declarations of the version's interface.
 */
#ifndef KMOD_COMPAT_H
#define KMOD_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

#include <asm/cpufeature.h>

/*
 * pte.c relies on the insides of the memory manager (docs/kernel.md, "What pte.c relies on"), which
 * were compared with the sources of 6.1.192 and 6.12.117.
 */
#if (LINUX_VERSION_CODE >> 8) == (KERNEL_VERSION(6, 1, 0) >> 8) || \
	(LINUX_VERSION_CODE >> 8) == (KERNEL_VERSION(6, 12, 0) >> 8)
#define COMPAT_KNOWN_KERNEL 1
#else
#define COMPAT_KNOWN_KERNEL 0
#endif
#if !COMPAT_KNOWN_KERNEL && !defined(DSM_UNKNOWN_KERNEL)
#error "dsm.ko is made for Linux 6.1 and 6.12. It may let processes use pages after they were closed on other versions. To build it nevertheless, add DSM_UNKNOWN_KERNEL=y to the make line"
#endif

/*
 * fit.c: can the module run on this kernel and machine? At load. Logs the reason and returns
 * -EOPNOTSUPP if it cannot.
 */
int fit_check(void);

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "dsm.ko needs Linux 6.1 or later"
#endif

/* Prepare a timer whose function runs in softirq; it is not started. */
static inline void compat_timer_setup(struct hrtimer *timer,
				      enum hrtimer_restart (*function)(struct hrtimer *))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	timer->function = function;
#endif
}

/* The caller holds mmap_lock for writing. */
static inline void compat_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline void compat_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_clear(vma, flags);
#else
	vma->vm_flags &= ~flags;
#endif
}

/* Drop the lock that a fault holds: mmap_lock, or, since Linux 6.4, maybe that of the mapping. */
static inline void compat_fault_unlock(struct vm_fault *vmf)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	release_fault_lock(vmf);
#else
	mmap_read_unlock(vmf->vma->vm_mm);
#endif
}

/*
 * May a driver's completion handler that runs in softirq poll its queue? From Linux 6.4 on, rxe
 * calls the handler with the queue's lock held.
 */
static inline bool compat_may_poll_in_handler(void)
{
	return LINUX_VERSION_CODE < KERNEL_VERSION(6, 4, 0);
}

/*
 * Does the kernel flush translations without interrupts (AMD INVLPGB, Intel RAR)? Processes then
 * get global address space identifiers, and a processor that comes back to a process does not
 * compare tlb_gen. Not by version: distributions may have the code in older kernels.
 */
static inline bool compat_broadcasts_flushes(void)
{
	bool does = false;

#ifdef X86_FEATURE_INVLPGB
	does |= cpu_feature_enabled(X86_FEATURE_INVLPGB);
#endif
#ifdef X86_FEATURE_RAR
	does |= cpu_feature_enabled(X86_FEATURE_RAR);
#endif
	return does;
}

#endif
