/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common.h - what benchmarks share. What they count beside time: system calls and context switches
 * of all threads of this process, from the kernel's own counters (perf events; no program is
 * needed, the rights of root usually are).
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stdbool.h>
#include <stdint.h>

struct bench_cost {
	uint64_t calls;    /* system calls; 0 where they cannot be counted */
	uint64_t switches; /* times that a thread went to sleep or was put aside */
	double cpu_us;     /* processor time, user and system */
	double us;         /* of the clock */
};

double bench_now_us(void);
double bench_thread_us(void);                     /* processor time of the calling thread */
int bench_by_value(const void *a, const void *b); /* doubles, for qsort() */

/* An option's number; ends the program where it is none from least to most. */
unsigned int bench_number(const char *text, unsigned int least, unsigned int most);
/* Of a call of libdsm, after dsm_init(): ends the job where err is one. */
void bench_check(int err, const char *what);

/*
 * Before threads are made: only threads of later are counted along. False: system calls cannot be
 * counted here.
 */
bool bench_cost_open(void);
void bench_cost_read(struct bench_cost *out);

#endif
