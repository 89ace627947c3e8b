/* SPDX-License-Identifier: BSD-2-Clause */
/* example.c - the smallest useful program: every rank writes its slot of a shared array, rank 0 adds them up. */
#include <dsm.h>
#include <stdio.h>
#include <stdlib.h>

static void must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "%s: %s\n", what, dsm_strerror(rc));
		exit(1);
	}
}

int main(void)
{
	dsm_region_t *region;
	long *slot, sum = 0;
	int rank, size;

	must(dsm_init(NULL), "dsm_init");
	rank = dsm_rank();
	size = dsm_size();
	must(dsm_region_open("slots", (size_t)size * sizeof(*slot), NULL, &region), "dsm_region_open");
	slot = dsm_region_base(region); /* the same address on every rank, zero at first */

	slot[rank] = rank + 1;
	must(dsm_barrier(), "dsm_barrier");

	if (rank == 0) {
		for (int i = 0; i < size; i++)
			sum += slot[i];
		printf("%d ranks, sum %ld\n", size, sum);
	}
	must(dsm_finalize(), "dsm_finalize");
	return 0;
}
