/* SPDX-License-Identifier: GPL-2.0 */
/* timer.h - blocks that are held back for some time. Bottom halves are off. */
#ifndef KMOD_TIMER_H
#define KMOD_TIMER_H

#include <linux/ktime.h>

struct rank;

/* The clock of the core: microseconds, modulo 2^32. */
static inline u32 now_us(void)
{
	return (u32)(ktime_get_ns() / 1000);
}

/* The block is held back until a time, in us: then PE_REPLAY. */
void timer_replay(struct rank *r, u32 object, u32 at);
int timer_start(void);
void timer_stop(void);

#endif
