// SPDX-License-Identifier: BSD-2-Clause
/*
 * closes.c - rank 0 sends what it has stored to rank 1, which may be stopped. Two ranks, two nodes.
 */
#include <dsm.h>

#include <stdio.h>
#include <unistd.h>

#include "common.h"

int main(void)
{
	const struct dsm_region_options opt = { .home = DSM_HOME_FIXED,
						.home_rank = 1,
						.consistency = DSM_CONSISTENCY_RELEASE };
	volatile int *words;
	dsm_region_t *r;
	int got[1024] = { 0 }; /* so large that it is sent after what has been stored */

	MUST(dsm_init(NULL));
	MUST(dsm_region_open("closes", 4096, &opt, &r));
	words = dsm_region_base(r);
	if (dsm_rank() == 1)
		words[1] = 1;
	MUST(dsm_barrier());
	check(words[1] == 1, "a store of rank 1 is not seen");
	MUST(dsm_barrier());
	if (dsm_rank() == 0) {
		printf("ready\n");
		fflush(stdout);
	}
	sleep(2);
	if (dsm_rank() == 0)
		words[0] = got[0] = 2;
	MUST(dsm_broadcast(got, sizeof(got), 0));
	check(words[0] == 2 && got[0] == 2, "a store of rank 0 is not seen");
	MUST(dsm_barrier());
	MUST(dsm_finalize());
	return 0;
}
