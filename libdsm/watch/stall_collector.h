/* SPDX-License-Identifier: BSD-2-Clause */
/* stall_collector.h - a thread that calls other ranks on behalf of threads that must not wait for
 * the answers. */
#ifndef WATCH_STALL_COLLECTOR_H
#define WATCH_STALL_COLLECTOR_H

#include <stdbool.h>

/* Run ask() in a new thread, which does not count as a thread of the program. Any thread outside
 * the fault handler; does not block. False: another ask() is running, the thread cannot be created,
 * or stall_collector_close() was called. */
bool stall_collector_start(void (*ask)(void));
/* Wait until no ask() is running. For threads of the program, which may wait for other ranks. */
void stall_collector_wait(void);
/* Refuse further calls, and wait for a running ask(). Called while all ranks still answer. */
void stall_collector_close(void);

#endif
