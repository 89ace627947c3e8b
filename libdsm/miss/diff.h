/* SPDX-License-Identifier: BSD-2-Clause */
/* diff.h - core/diff.h with the widest comparison of this processor. */
#ifndef MISS_DIFF_H
#define MISS_DIFF_H

#include "core/diff.h"

typedef size_t (*diff_maker)(const uint8_t *page, const uint8_t *twin, uint8_t *out);

/*
 * All ways to make a diff that this processor has, the fastest first; n: their number. For tests
 * and benchmarks.
 */
const diff_maker *diff_makers(unsigned int *n);

/* As diff_make(), by the fastest of them. Any thread. */
size_t diff_make_fast(const uint8_t *page, const uint8_t *twin, uint8_t *out);

#endif
