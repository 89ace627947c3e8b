/* SPDX-License-Identifier: BSD-2-Clause */
/* stray.h - messages about invalid accesses. */
#ifndef JOB_STRAY_H
#define JOB_STRAY_H

#include <stdbool.h>

/* Print which region an invalid access at addr missed. addr is in the window. In the fault handler; does not block. */
void bad_access_report(const char *addr, bool write);

/* Called for an access to a guard page below a stack (fault/guard.h). Set before the first guard page exists. */
extern void (*stray_guard)(const char *addr);

#endif
