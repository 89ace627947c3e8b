/* SPDX-License-Identifier: BSD-2-Clause */
/* icv.h - the internal control variables, from the environment at first. */
#ifndef OPENMP_ICV_H
#define OPENMP_ICV_H

#include <stddef.h>

/* As omp_sched_t; SCHED_RUNTIME is none of its values. */
enum { SCHED_RUNTIME, SCHED_STATIC, SCHED_DYNAMIC, SCHED_GUIDED, SCHED_AUTO };

struct icv {
	unsigned int threads; /* of the next region */
	int schedule;         /* of loops with schedule(runtime) */
	long chunk;           /* 0: none was given */
};

/* Those of this thread. */
struct icv *icv_mine(void);
/* Of the job. */
unsigned int icv_processors(void);
/* The most threads of a team. */
unsigned int icv_limit(void);
/* Bytes of a thread's stack; 0: as usual. */
size_t icv_stack(void);

#endif
