/* SPDX-License-Identifier: BSD-2-Clause */
/* stray.h - an access to no memory. */
#ifndef ENGINE_STRAY_H
#define ENGINE_STRAY_H

#include <stdbool.h>

/* Say which region it missed. In the fault handler; does not block. addr is in the window. */
void stray_say(const char *addr, bool write);

/* The same for a page below a stack (fault/guard.h). Set before the first of them. */
extern void (*stray_guard)(const char *addr);

#endif
