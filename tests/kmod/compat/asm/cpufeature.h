/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpufeature.h - for compat.c: INVLPGB since Linux 6.15, RAR in a later one (18 here); the
 * processor has the newest.
 */
#ifndef COMPAT_ASM_CPUFEATURE_H
#define COMPAT_ASM_CPUFEATURE_H

#include "../linux/version.h"

#if COMPAT_SINCE(6, 15)
#define X86_FEATURE_INVLPGB (13 * 32 + 3)
#if COMPAT_SINCE(6, 18)
#define X86_FEATURE_RAR (21 * 32 + 20)
#define cpu_feature_enabled(bit) ((bit) == X86_FEATURE_RAR)
#else
#define cpu_feature_enabled(bit) ((bit) == X86_FEATURE_INVLPGB)
#endif
#endif

#endif
