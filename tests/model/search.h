/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * search.h - exhaustive breadth-first search over a world: a plain struct that holds machines of
 * the real core, the channels between them and the threads that use them.
 *
 * A world is at rest between two events. The search fires every possible event in every world it
 * finds, and stores each world once (packed but complete: no hash compaction, so nothing is
 * missed). It checks in each world:
 *   - nothing is wrong: neither the event nor check() has called model_fail();
 *   - an event is possible, unless the world is final: no deadlock, no lost wake-up;
 *   - a final world can be reached: no livelock that a fair schedule could not leave.
 * The search is breadth-first, so the trace to a fault is a shortest one.
 */
#ifndef MODEL_SEARCH_H
#define MODEL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EVENTS_MAX 128 /* events possible in one world */
#define WORLD_MAX 8192 /* size of a world in bytes */

struct model {
	size_t size;                                 /* size of the world, a multiple of 64 */
	void (*start)(const void *cfg, void *world); /* world is zeroed before */
	unsigned int (*list)(const void *cfg, const void *world, uint32_t *events);
	void (*fire)(const void *cfg, void *world, uint32_t event);
	void (*canon)(const void *cfg, void *world); /* make equivalent worlds equal */
	void (*check)(const void *cfg, const void *world);
	bool (*final)(const void *cfg, const void *world);
	void (*show)(const void *cfg, const void *world); /* print to model_trace */
};

struct config {
	const char *name;
	const char *what;
	const struct model *model;
	const void *cfg;
	bool full; /* only with --full, or by name */
};

extern const struct config configs[]; /* both end with a NULL name */
/* searched only by name: hosts that break their contract */
extern const struct config host_faults[];

struct limits {
	uint64_t states; /* give up after so many */
	double seconds;
};

enum verdict { HOLDS = 0, VIOLATED, GAVE_UP };

/* Prints one line, and the trace after a violation. */
enum verdict search(const struct config *c, const struct limits *limits, bool quiet);

/* NULL during the search: fire() and show() print only when a trace is replayed */
extern FILE *model_trace;

/* Report an error in the world. Only the first report counts. */
__attribute__((format(printf, 1, 2))) void model_fail(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void model_say(const char *fmt, ...);

#define WORLD_SIZE(type) ((sizeof(type) + 63) / 64 * 64)

/* The operations of a model whose file gives its functions these names. */
#define MODEL(type)                                                                   \
	{                                                                             \
		.size = WORLD_SIZE(type), .start = start, .list = list, .fire = fire, \
		.canon = canon, .check = check, .final = final, .show = show,         \
	}

#endif
