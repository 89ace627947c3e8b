/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_outcome.h - the results of a fuzzer's calls: how often each call had which result, and the
 * last ones of each thread. In memory that all its processes share.
 */
#ifndef KMOD_OUTCOME_H
#define KMOD_OUTCOME_H

#include <stdatomic.h>

#include "common.h"
#include "common_args.h"

#define OUTCOME_PROCESSES 6u
#define OUTCOME_THREADS 5u
#define OUTCOME_RECORDS 4u /* of each thread */
#define OUTCOME_ERRNOS 134u

struct outcome {
	uint8_t variant, file, under_way;
	int16_t err;
	char arg[sizeof(struct dsm_ioc_join)];
};

struct outcomes {
	/* of ioctl(2); 0: success */
	_Atomic unsigned long by[dsm_narguments][OUTCOME_ERRNOS];
	/* what the object's home said, where it did */
	_Atomic unsigned long answered[dsm_narguments][OUTCOME_ERRNOS];
	/* by which a rank would connect once more: refused, and right */
	_Atomic unsigned long addresses[2];
	_Atomic unsigned long accesses, signals, others, killed, forks;
	struct outcome last[OUTCOME_PROCESSES][OUTCOME_THREADS][OUTCOME_RECORDS];
};

struct outcomes *outcomes_new(void);

/*
 * A call and what became of it: counted, and kept as the n-th of its thread. Returns errno, or 0.
 */
int outcome_call(struct outcomes *o, struct outcome *last, unsigned int variant, int fd,
		 unsigned long cmd, void *at);

/* System calls; accesses, of which most do not fault, are not counted. */
unsigned long outcomes_inputs(const struct outcomes *o);
void outcomes_show(const struct outcomes *o, double seconds);
void outcomes_show_last(const struct outcomes *o);
/*
 * False, and said if asked for: something that was called often was always refused, so that nothing
 * behind the refusal was tried.
 */
bool outcomes_reach(const struct outcomes *o, bool say);

#endif
