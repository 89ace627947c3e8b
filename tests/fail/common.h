/* SPDX-License-Identifier: BSD-2-Clause */
/* common.h - what the programs of tests/fail share: the start, ending with a message, and the time. */
#ifndef FAIL_COMMON_H
#define FAIL_COMMON_H

#include <dsm.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MUST(call) must(call, #call)

static inline void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "rank %d: %s: %d: %s\n", dsm_rank(), what, err, dsm_strerror(err));
	exit(2);
}

static inline void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "rank %d: %s\n", dsm_rank(), what);
	exit(2);
}

/* Start, with a region of this name. */
static inline void *join(const char *name, size_t size)
{
	dsm_region_t *r;

	MUST(dsm_init(NULL));
	MUST(dsm_region_open(name, size, NULL, &r));
	return dsm_region_base(r);
}

static inline long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

#endif
