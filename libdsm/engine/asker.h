/* SPDX-License-Identifier: BSD-2-Clause */
/* asker.h - a thread that asks the other ranks, for those who must not wait for their answers. */
#ifndef ENGINE_ASKER_H
#define ENGINE_ASKER_H

#include <stdbool.h>

/* Run ask() in a new thread; its waits count for no thread of the program. Any thread outside the fault handler; does not block.
 * False: another call is running, the thread cannot be created, or asker_close() was called. */
bool asker_start(void (*ask)(void));
/* Wait until no ask() is running. By a thread of the program, which may wait for other ranks. */
void asker_wait(void);
/* Refuse further calls, and wait for the one that is running. Called while all ranks still answer. */
void asker_close(void);

#endif
