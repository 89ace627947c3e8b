/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h - what the programs of tests/fail share: the start, ending with a message, the time, and
 * what others do.
 */
#ifndef FAIL_COMMON_H
#define FAIL_COMMON_H

#include <dsm.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

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

static inline void expect(int got, int want, const char *what)
{
	if (got == want)
		return;
	fprintf(stderr, "rank %d: %s: %d (%s) instead of %d\n", dsm_rank(), what, got,
		dsm_strerror(got), want);
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

/* Until that process or thread is stopped (T), or asleep (S). */
static inline void await_state(int tid, char state)
{
	char path[64], now = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	while (now != state) {
		f = fopen(path, "r");
		check(f && fscanf(f, "%*d (%*[^)]) %c", &now) == 1,
		      "who was to stop or to sleep has gone");
		fclose(f);
		usleep(1000);
	}
}

#endif
