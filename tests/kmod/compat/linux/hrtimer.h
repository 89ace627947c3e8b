/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hrtimer.h - for compat.c: hrtimer_setup() since Linux 6.13, hrtimer_init() before 6.15, which
 * also renamed the function pointer.
 */
#ifndef COMPAT_LINUX_HRTIMER_H
#define COMPAT_LINUX_HRTIMER_H

#include "../linux/version.h"

enum hrtimer_restart { HRTIMER_NORESTART, HRTIMER_RESTART };
enum hrtimer_mode { HRTIMER_MODE_REL_SOFT = 5 };
enum { CLOCK_MONOTONIC = 1 };

struct hrtimer {
#if COMPAT_SINCE(6, 15)
	enum hrtimer_restart (*private_function)(struct hrtimer *);
#else
	enum hrtimer_restart (*function)(struct hrtimer *);
#endif
};

#if !COMPAT_SINCE(6, 15)
static inline void hrtimer_init(struct hrtimer *timer, int clock, enum hrtimer_mode mode)
{
	(void)clock;
	(void)mode;
	timer->function = 0;
}
#endif
#if COMPAT_SINCE(6, 13)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *), int clock,
				 enum hrtimer_mode mode)
{
	(void)clock;
	(void)mode;
#if COMPAT_SINCE(6, 15)
	timer->private_function = function;
#else
	timer->function = function;
#endif
}
#endif

#endif
