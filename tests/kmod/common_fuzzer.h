/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_fuzzer.h - the threads of a rank that tries everything that the module permits: calls on
 * its own context and on others of its process (windows without a job, more ranks, also with the
 * other job's key), accesses, all other system calls on a mapping and a file, children.
 *
 * Cheap operations dominate: most are calls on existing contexts. Operations that create or destroy
 * contexts are one in some hundred.
 */
#ifndef KMOD_FUZZER_H
#define KMOD_FUZZER_H

#include "common_aim.h"
#include "common_outcome.h"

#define FUZZER_JOBS 2u
#define FUZZER_RANKS 3u

struct fuzzer_job {
	struct job job;
	uid_t uid;
	/* one call in so many is of those that end a job's connections, or its sense */
	unsigned int calm;
	_Atomic uint64_t objects[AIM_OBJECTS];
};

/* What all processes share. */
struct fuzzer_shared {
	_Atomic bool go;
	struct fuzzer_job jobs[FUZZER_JOBS];
	struct outcomes *outcomes;
};

/* The process of a rank, the number-th of all; does not return. */
void fuzzer_rank(struct fuzzer_shared *all, struct fuzzer_job *job, unsigned int number,
		 unsigned int rank, uint64_t seed);

#endif
