/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall.h - reports of long waits: which threads wait, and for what.
 *
 * Any thread inside the runtime may call these functions, also in the fault handler. Only a report
 * blocks: it waits for the answers of other nodes, outside the fault handler.
 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/note.h"

/* Report if it is due. Called by a thread that has waited since `since`. */
void stall_check(uint64_t since, uint64_t now);
/* True if a report by this thread is due; then it is not due to any thread of this node for a
 * while. Does not block. */
bool stall_is_due(uint64_t since, uint64_t now);
/* Start the thread that collects and reports, if a wait in the fault handler or in the kernel
 * helper is due. stall_check_kernel() checks the waits in the kernel helper. The service thread
 * calls both; neither blocks. */
void stall_ask(void);
void stall_check_kernel(void);

/* Format what a thread waits for as in reports: "mutex 0x4040a0". */
void stall_object(const struct stall_row *row, char *buf, size_t size);
/* Do both name the same object of the library? */
bool stall_same(const struct wait_about *a, const struct wait_about *b);

#endif
