/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_fuzzer.h - the threads of a rank that does everything which the module lets it try: calls on its own context and on
 * others of its process (windows without a job, more ranks, also with the other job's key), accesses, all that other system
 * calls do to a mapping and to a file, children.
 *
 * What is cheap dominates: most of what a thread does are calls on contexts that stand. What makes and ends things comes once
 * in some hundred of them.
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
	unsigned int calm; /* one call in so many is of those that end a job's connections, or its sense */
	_Atomic uint64_t objects[AIM_OBJECTS];
};

/* What all processes share. */
struct fuzzer_shared {
	_Atomic bool go;
	struct fuzzer_job jobs[FUZZER_JOBS];
	struct outcomes *outcomes;
};

/* The process of a rank, the number-th of all; does not return. */
void fuzzer_rank(struct fuzzer_shared *all, struct fuzzer_job *job, unsigned int number, unsigned int rank,
		 uint64_t seed);

#endif
