/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ahead.h - map pages that other ranks of the node have fetched, in a job of several nodes, and
 * measure whether that pays.
 *
 * With userfaultfd write protection, the kernel maps one page per minor fault (2 us on this
 * machine). A pass (populate.h) maps a page by UFFDIO_CONTINUE for a quarter to a half of that,
 * with the protection that the kernel would set. If a rank uses less than half of the pages, minor
 * faults are cheaper. So a pass skips one chunk in AHEAD_EVERY: a later check counts how many of
 * its pages the rank has used.
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
	uint16_t left; /* bitmap: pages that the node had, and this rank's mapping lacked */
};

/* Zero-initialised: mapping is assumed to pay until a check shows otherwise. */
struct ahead {
	bool idle; /* mapping does not pay: too few of the pages are used */
	unsigned int samples;
	struct ahead_sample sample[AHEAD_SAMPLES];
};

/* Is this chunk skipped? One chunk is in each group of AHEAD_EVERY that begins at a multiple of
 * it. */
bool ahead_samples(size_t chunk);
/* A pass has skipped a chunk. held: bitmap of its pages that the node has; mapped: of those in this
 * rank's mapping. */
void ahead_note(struct ahead *a, size_t chunk, uint16_t held, uint16_t mapped);
/* The rank has used `used` of the `offered` skipped pages that still exist. Decide whether mapping
 * pays; drop the samples. */
void ahead_judge(struct ahead *a, unsigned int used, unsigned int offered);

/* Call after frames_open(). fd: this process's userfaultfd. Without UFFDIO_CONTINUE_MODE_WP (Linux
 * 6.4) or /proc, nothing is mapped ahead. */
void ahead_open(int fd);
void ahead_close(void);

#endif
