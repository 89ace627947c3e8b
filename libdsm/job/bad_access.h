/* SPDX-License-Identifier: BSD-2-Clause */
/* bad_access.h - messages about invalid accesses. */
#ifndef JOB_BAD_ACCESS_H
#define JOB_BAD_ACCESS_H

#include <stdbool.h>

/*
 * Print which region an invalid access at addr missed. addr is in the window. In the fault handler;
 * does not block.
 */
void bad_access_report(const char *addr, bool write);

/*
 * Called for an access to a guard page below a stack (fault/guard.h). Set before the first guard
 * page exists.
 */
extern void (*bad_access_guard)(const char *addr);

#endif
