/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * example.c - the smallest useful program: every rank writes its slot of a shared array, rank 0
 * adds them up.
 */
#include <dsm.h>
#include <stdio.h>

int main(void)
{
	dsm_region_t *region;
	long *slot, sum = 0;
	int err = dsm_init(NULL);

	if (!err)
		err = dsm_region_open("slots", (size_t)dsm_size() * sizeof(*slot), NULL, &region);
	if (err) {
		fprintf(stderr, "example: %s\n", dsm_strerror(err));
		return 1;
	}
	slot = dsm_region_base(region); /* the same address on every rank, zero at first */
	slot[dsm_rank()] = dsm_rank() + 1;
	if (dsm_barrier() < 0)
		return 1;
	if (dsm_rank() == 0) {
		for (int i = 0; i < dsm_size(); i++)
			sum += slot[i];
		printf("%d ranks, sum %ld\n", dsm_size(), sum);
	}
	return dsm_finalize() < 0;
}
