/* SPDX-License-Identifier: BSD-2-Clause */
/* micro.h - what the files of the benchmark micro share; its groups of rows. */
#ifndef BENCH_MICRO_H
#define BENCH_MICRO_H

#include <dsm.h>

#include "common.h"

#define BLOCK 4096
#define REPEATS_MAX 15

extern struct micro {
	int rank, size;
	/* --blocks, --repeats, --rounds: fewer of each for machines that are slow. */
	int blocks, repeats, rounds;
	const char *label;
	char *area; /* of so many blocks, whose home is rank 0 */
} micro;

/* Operations of a repetition, for rows that do not go through blocks. */
int micro_rounds(int usual);
/* By all ranks: a region that nobody has touched. */
void micro_fresh(void);
/* By all ranks: one of them touches every block. */
void micro_write_all(int by, char value);
void micro_read_all(int by);
/*
 * By all ranks: the median of each repetition's value, as the rank that passes a value (v) has
 * measured it.
 */
void micro_report(const char *name, double *v, int n, const char *unit);

/* micro_blocks.c */
void micro_misses(void);
void micro_first(void);
void micro_second(void);
void micro_streams(void);
void micro_pingpong(void);
void micro_producers(void);
void micro_false_sharing(void);
void micro_busy_home(void);
void micro_computing_home(void);
void micro_large(void);

/* micro_memory.c */
void micro_memory(void);
void micro_back(void);

/* micro_sync.c */
void micro_locks(void);
void micro_barrier(void);
void micro_atomics(void);
void micro_storm(void);

/* micro_contended.c */
void micro_handoff(void);
void micro_semaphores(void);

#endif
