/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * handle.h - encode and decode handles of synchronisation objects. Any thread, inside or outside
 * the runtime; nothing blocks.
 */
#ifndef SYNC_HANDLE_H
#define SYNC_HANDLE_H

#include <errno.h>
#include <stdint.h>

#include "core/objects.h"
#include "job/job.h"
#include "job/note.h"

#define HANDLE_KIND (0xfull << 36)
/* Stored in place of a destroyed object's handle: zero in shared memory would be a new object. */
#define HANDLE_GONE (~0ull)

/*
 * A handle: generation (24 bits), kind (4), home (12), index (24). Zero is none. name:
 * core/objects.h, object_name().
 */
static inline uint64_t handle_make(enum sync_kind kind, uint16_t home, uint64_t name)
{
	return name >> 24 << 40 | (uint64_t)kind << 36 | (uint64_t)home << 24 |
		(name & SYNC_INDEX_MAX);
}

static inline uint16_t handle_home(uint64_t id)
{
	return id >> 24 & 0xfff;
}

static inline enum sync_kind handle_kind(uint64_t id)
{
	return (enum sync_kind)(id >> 36 & 0xf);
}

static inline uint64_t handle_name(uint64_t id)
{
	return id >> 40 << 24 | (id & SYNC_INDEX_MAX);
}

/* The object number in messages: without the upper part of the generation. */
static inline uint32_t handle_object(uint64_t id)
{
	return (uint32_t)handle_name(id);
}

/* A request of this rank for the object of a handle. */
static inline struct msg handle_ask(uint64_t id, uint8_t type, uint8_t op)
{
	struct msg m = { .type = type, .op = op, .src = job.node, .dst = handle_home(id) };

	object_address(&m, handle_name(id));
	return m;
}

/* Record for stall.h that this thread is about to wait for an object. */
static inline void about_object(uint64_t id)
{
	note_about(ABOUT_OBJECT, handle_home(id), handle_object(id));
	wait_about.sync = (uint8_t)handle_kind(id);
}

/* Check a handle. -EINVAL: no handle of this kind; -ENOTCONN, -ECHILD: as job_ready(). */
static inline int handle_check(uint64_t id, enum sync_kind kind)
{
	int err = job_ready();

	if (err)
		return err;
	return handle_kind(id) == kind && handle_home(id) < job.nodes && (id & SYNC_INDEX_MAX)
		? 0
		: -EINVAL;
}

#endif
