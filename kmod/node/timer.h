/* SPDX-License-Identifier: GPL-2.0 */
/*
 * timer.h - timers for the end of a block's hold time (hold_us) at this rank. Bottom halves are
 * off.
 */
#ifndef KMOD_TIMER_H
#define KMOD_TIMER_H

#include <linux/ktime.h>

struct rank;

/* The clock of the core: microseconds, modulo 2^32. */
static inline u32 now_us(void)
{
	return (u32)(ktime_get_ns() / 1000);
}

/*
 * The hold time of the block ends at `at` (now_us()): replay its queued requests then (PE_REPLAY).
 */
void timer_replay(struct rank *r, u32 object, u32 at);
int timer_start(void);
void timer_stop(void);

#endif
