/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hook.h - named points on the ways of a miss, a call and a start. Each is a static probe (USDT) of
 * the provider `libdsm`: a nop, and a note by which gdb, perf and bpftrace find it (docs/tuning.md,
 * "Probes"). Without <sys/sdt.h> there are no probes. In builds with `make VARIANT=hooks`, where a
 * test may stop a thread, the thread calls dsm_test_hook() instead, if the program defines it.
 */
#ifndef UTIL_HOOK_H
#define UTIL_HOOK_H

#ifdef DSM_HOOKS
extern __attribute__((weak, visibility("default"))) void dsm_test_hook(const char *where);
#define HOOK(where) (dsm_test_hook ? dsm_test_hook(#where) : (void)0)
#elif __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define HOOK(where) DTRACE_PROBE(libdsm, where)
#else
#define HOOK(where) ((void)0)
#endif

#endif
