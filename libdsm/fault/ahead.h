/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ahead.h - map what other ranks of the node have brought, in a job of several nodes, and find out whether that pays.
 *
 * The kernel maps one page per minor fault where userfaultfd watches write protection (2 us here). A pass (populate.h) maps a page
 * for a quarter to a half of that, by UFFDIO_CONTINUE, with the protection that the kernel would give it. A rank that uses less than
 * half of the pages had better leave them to the kernel. So a pass leaves one chunk in AHEAD_EVERY alone: a later check sees
 * how many of these pages the rank has used.
 */
#ifndef FAULT_AHEAD_H
#define FAULT_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault/frames.h"
#include "fault/populate.h"

#define AHEAD_EVERY 16u
#define AHEAD_SAMPLES (POPULATE_MAX / FRAMES_CHUNK / AHEAD_EVERY)

struct ahead_sample {
	uint32_t chunk;
	uint16_t left; /* pages that the node had, and this rank's mapping did not */
};

/* Zero at the start: mapping pays until it is known not to. */
struct ahead {
	bool idle; /* what was mapped would not be used */
	unsigned int samples;
	struct ahead_sample sample[AHEAD_SAMPLES];
};

/* Is this one of the chunks that are left alone? One of each AHEAD_EVERY, from a multiple of it. */
bool ahead_samples(size_t chunk);
/* A pass has left a chunk alone, whose pages `held` the node has, and of which `mapped` are in this rank's mapping. */
void ahead_note(struct ahead *a, size_t chunk, uint16_t held, uint16_t mapped);
/* The rank has used `used` of `offered` pages that were left alone and are still there. The samples are dropped. */
void ahead_judge(struct ahead *a, unsigned int used, unsigned int offered);

/* After frames_open(): fd is this process's userfaultfd. Without UFFDIO_CONTINUE_MODE_WP (Linux 6.4), or /proc, nothing is mapped
 * ahead. */
void ahead_open(int fd);
void ahead_close(void);

#endif
