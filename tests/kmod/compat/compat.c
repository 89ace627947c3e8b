// SPDX-License-Identifier: BSD-2-Clause
/*
 * compat.c - kmod/base/compat.h with the interface of another version of Linux, as the folders
 * beside this file declare it: only the functions that the version has. scripts/check-kernel-build
 * compiles and runs it for each version in its table, with COMPAT_MAJOR and COMPAT_MINOR. Exit
 * status 0: every function of compat.h does its work.
 */
#include <stdio.h>

#include "../../../kmod/base/compat.h"

static enum hrtimer_restart due(struct hrtimer *timer)
{
	(void)timer;
	return HRTIMER_NORESTART;
}

static int wrong(const char *what)
{
	printf("Linux %d.%d: %s\n", COMPAT_MAJOR, COMPAT_MINOR, what);
	return 1;
}

int main(void)
{
	struct mm_struct mm = { .locked = 1 };
	struct vm_area_struct vma = { .vm_mm = &mm, .vm_flags = 6 };
	struct vm_fault vmf = { .vma = &vma };
	struct hrtimer timer = { 0 };

	compat_timer_setup(&timer, due);
#if COMPAT_SINCE(6, 15)
	if (timer.private_function != due)
#else
	if (timer.function != due)
#endif
		return wrong("a timer has no function");
	compat_flags_set(&vma, 1);
	compat_flags_clear(&vma, 2);
	if (vma.vm_flags != 5)
		return wrong("flags of a mapping");
	compat_fault_unlock(&vmf);
	if (mm.locked)
		return wrong("a fault keeps its lock");
	if (compat_may_poll_in_handler() != !COMPAT_SINCE(6, 4))
		return wrong("polling in handlers");
	if (compat_broadcasts_flushes() != COMPAT_SINCE(6, 15))
		return wrong("a processor that flushes by broadcast is not noticed");
	return 0;
}
