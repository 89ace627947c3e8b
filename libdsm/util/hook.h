/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook.h - named points that a test may stop at: in the build of `make VARIANT=hooks` only. A program that defines
 * dsm_test_hook() is called at each, by the thread that is there. Elsewhere the points are nothing.
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
