/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * search.h - exhaustive breadth-first search over a world: a plain struct that holds machines of the real core, the
 * channels between them and the threads that use them.
 *
 * A world is at rest between two events. The search fires every event that is possible in every world it finds, stores
 * each world once (packed, whole: no hash compaction, so nothing is missed), and asks of every one of them:
 *   - nothing in it is wrong: model_fail() was not called, neither by the event nor by check();
 *   - something is possible in it, unless it is final: no deadlock, no lost wake-up;
 *   - a final world can be reached from it: no livelock that a fair schedule could not leave.
 * As the search is breadth first, the trace to a fault is a shortest one.
 */
#ifndef MODEL_SEARCH_H
#define MODEL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define EVENTS_MAX 128 /* possible in one world */
#define WORLD_MAX 4096 /* bytes */

struct model {
	size_t size;                                 /* of the world, a multiple of 64 */
	void (*start)(const void *cfg, void *world); /* world is zeroed */
	unsigned int (*list)(const void *cfg, const void *world, uint32_t *events);
	void (*fire)(const void *cfg, void *world, uint32_t event);
	void (*canon)(const void *cfg, void *world); /* worlds that behave alike become equal */
	void (*check)(const void *cfg, const void *world);
	bool (*final)(const void *cfg, const void *world);
	void (*show)(const void *cfg, const void *world); /* to model_trace */
};

struct config {
	const char *name;
	const char *what;
	const struct model *model;
	const void *cfg;
	bool full; /* only with --full or by name */
};

extern const struct config configs[];     /* both end with a NULL name */
extern const struct config host_faults[]; /* only by name: what a host must not do */

struct limits {
	uint64_t states; /* give up beyond */
	double seconds;
};

enum verdict { HOLDS = 0, VIOLATED, GAVE_UP };

/* Prints one line, and the trace after a violation. */
enum verdict search(const struct config *c, const struct limits *limits, bool quiet);

extern FILE *model_trace; /* NULL while searching: fire() and show() print only when a trace is replayed */

/* Something is wrong. The first complaint counts. */
__attribute__((format(printf, 1, 2))) void model_fail(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void model_say(const char *fmt, ...);

#define WORLD_SIZE(type) ((sizeof(type) + 63) / 64 * 64)

/* A model whose file gives its functions these names. */
#define MODEL(type)                                                                                                   \
	{                                                                                                             \
		.size = WORLD_SIZE(type), .start = start, .list = list, .fire = fire, .canon = canon, .check = check, \
		.final = final, .show = show,                                                                         \
	}

#endif
