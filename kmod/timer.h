/* SPDX-License-Identifier: GPL-2.0 */
/* timer.h - blocks that are held back for some time. Bottom halves are off. */
#ifndef KMOD_TIMER_H
#define KMOD_TIMER_H

#include "rank.h"

/* The block is held back until a time, in us: then PE_REPLAY. */
void timer_replay(struct rank *r, u32 object, u32 at);
int timer_start(void);
void timer_stop(void);

#endif
