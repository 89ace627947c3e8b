/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook.h - named points where a test may stop a thread, only in builds with `make VARIANT=hooks`. If the program defines
 * dsm_test_hook(), the thread that reaches a point calls it. In other builds the points compile to nothing.
 */
#ifndef UTIL_HOOK_H
#define UTIL_HOOK_H

#ifdef DSM_HOOKS
extern __attribute__((weak, visibility("default"))) void dsm_test_hook(const char *where);
#define HOOK(where) (dsm_test_hook ? dsm_test_hook(where) : (void)0)
#else
#define HOOK(where) ((void)0)
#endif

#endif
