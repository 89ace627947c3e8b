/* SPDX-License-Identifier: BSD-2-Clause */
/* release.h - shared by the files of release: release_runs.c has the tests of pages in order. */
#ifndef PROC_RELEASE_H
#define PROC_RELEASE_H

#include "common.h"

#define BYTES 4096u /* of a page */

extern uint64_t sequential; /* the regions are: nothing is counted that only others do */

struct dsm_stats counted(int rank, const dsm_region_t *of);
bool one_node(void);
/* A release region of so many pages; test_close() is its end. */
void *open_more(const char *name, unsigned int n, dsm_region_t **r);
/* The same, and its home is this rank; of the former, rank 0. */
void *open_at(int home, const char *name, unsigned int n, dsm_region_t **r);

void part_runs(void);
void part_given(void);
void part_order(void);
void part_raised(void);
void part_touch(void);
void part_fresh(void);

#endif
