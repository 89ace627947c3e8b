// SPDX-License-Identifier: BSD-2-Clause
/*
 * How many thousands of ticks a second this machine's time stamp counter makes: one number. An
 * emulated guest has the same counter, and cannot measure it while the machine is busy.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

enum { TRIES = 20, NS = 50000000 };

struct sample {
	uint64_t ns, ticks;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both at once: of some samples the one that was interrupted least. */
static struct sample sample(void)
{
	struct sample best = { 0, 0 };
	uint64_t least = UINT64_MAX;
	int i;

	for (i = 0; i < TRIES; i++) {
		uint64_t before = __rdtsc(), ns = now_ns(), after = __rdtsc();

		if (after - before < least) {
			least = after - before;
			best = (struct sample){ ns, before + (after - before) / 2 };
		}
	}
	return best;
}

int main(void)
{
	struct sample from = sample(), to;

	nanosleep(&(struct timespec){ .tv_nsec = NS }, NULL);
	to = sample();
	printf("%llu\n",
	       (unsigned long long)((to.ticks - from.ticks) * 1000000 / (to.ns - from.ns)));
	return 0;
}
