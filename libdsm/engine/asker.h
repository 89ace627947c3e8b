/* SPDX-License-Identifier: BSD-2-Clause */
/* asker.h - a thread that asks the other ranks, for those who must not wait for their answers. */
#ifndef ENGINE_ASKER_H
#define ENGINE_ASKER_H

#include <stdbool.h>

/* Run ask() in a thread of its own, whose waits are nobody's. Any thread outside the fault handler; does not block. False: another
 * asks, none can be made, or there are none any more. */
bool asker_start(void (*ask)(void));
/* Until none asks. By a thread of the program, which may wait for other ranks. */
void asker_wait(void);
/* None from here on; waits for one that asks. While all ranks still answer. */
void asker_close(void);

#endif
