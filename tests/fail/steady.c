// SPDX-License-Identifier: BSD-2-Clause
/* steady.c - works for some seconds: faults, locks, barriers. Says "ready" and ends with 0, or says
 * what failed.
 *
 *   steady SECONDS [MEGABYTES]     MEGABYTES: of the region, 1
 */
#include <dsm.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common.h"

int main(int argc, char **argv)
{
	size_t size = (argc > 2 ? strtoul(argv[2], NULL, 10) : 1) << 20;
	time_t until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	uint64_t go = 1, rounds = 0;
	volatile uint64_t *v;
	dsm_mutex_t m = { 0 };

	v = join("steady", size);
	if (dsm_rank() == 0) {
		MUST(dsm_mutex_init(&m));
		printf("ready\n");
		fflush(stdout);
	}
	MUST(dsm_broadcast(&m, sizeof(m), 0));
	while (go) {
		MUST(dsm_mutex_lock(&m));
		v[0]++;
		v[4096 * (rounds % 16) / 8 + 1]++;
		MUST(dsm_mutex_unlock(&m));
		rounds++;
		go = dsm_rank() || time(NULL) < until;
		MUST(dsm_reduce(&go, DSM_UINT64, DSM_MIN));
	}
	if (v[0] != rounds * (uint64_t)dsm_size()) {
		fprintf(stderr, "%lu additions instead of %lu\n", (unsigned long)v[0],
			(unsigned long)rounds * (unsigned long)dsm_size());
		return 2;
	}
	MUST(dsm_finalize());
	return 0;
}
