/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * objects.h - worlds of one reader-writer lock, semaphore or condition queue, with its home and the
 * threads that use it.
 */
#ifndef MODEL_OBJECTS_H
#define MODEL_OBJECTS_H

#include "core/sync.h"
#include "search.h"

enum use {
	USE_READ = 0,
	USE_WRITE,
	USE_TRY_READ,
	USE_TRY_WRITE,
	USE_TIMED_READ,
	USE_TIMED_WRITE, /* reader-writer lock */
	USE_WAIT,
	USE_TIMED,
	USE_TRY,
	USE_POST,
	USE_POST2, /* from USE_WAIT on: semaphore; USE_WAIT and USE_TIMED also: condition */
	USE_SIGNAL,
	USE_BROADCAST,
	USE_DROP, /* semaphore: a wait without limit, whose thread is cancelled */
	USE_DESTROY,
	USES
};

struct obj_cfg {
	uint8_t kind; /* enum sync_kind */
	uint8_t nnodes, nthreads;
	uint8_t initial;
	uint8_t ops[4];   /* by rank: operations of each thread */
	uint16_t uses[4]; /* 1 << enum use */
	bool fifo;
};

extern const struct model obj_model;

#endif
