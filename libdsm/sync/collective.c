// SPDX-License-Identifier: BSD-2-Clause
/*
 * collective.c - broadcast and reduction, of any length.
 *
 * Data that fits into a barrier's value travels with it. Longer data is sent in chunks
 * (calls/chunk.h), a ring of them at a time: each rank first sends all of its parts, then takes the
 * results, and a barrier confirms that all have taken theirs. The caller's memory may be shared and
 * fault, so it is touched only outside the runtime.
 */
#include <errno.h>
#include <string.h>

#include "calls/chunk.h"
#include "job/host_ops.h"
#include "job/inside.h"
#include "job/job.h"
#include "miss/release.h"
#include "miss/reduce.h"
#include "sync/barrier.h"

#define VALUE sizeof(uint64_t)

/* seen by this rank; only one thread of a rank calls collectives at a time */
static uint64_t chunks;

static size_t collective_piece(size_t size, size_t at)
{
	return size - at < CTL_CHUNK_BYTES ? size - at : CTL_CHUNK_BYTES;
}

static int all_have_theirs(void)
{
	uint64_t value = 0;

	return barrier_arrive(&barrier_0, 0, 1, DSM_OR, &value);
}

/* Send this rank's parts of one ring; code -1: broadcast, only by the root. */
static void collective_give(int code, const char *buf, size_t size)
{
	char copy[CTL_CHUNK_BYTES] __attribute__((aligned(16)));
	uint64_t number = chunks;
	size_t at;

	engine_enter();
	release_close();
	engine_leave();
	for (at = 0; at < size; at += CTL_CHUNK_BYTES, number++) {
		const size_t n = collective_piece(size, at);

		memcpy(copy, buf + at, n);
		engine_enter();
		if (code < 0)
			chunk_send(number, copy, n);
		else
			chunk_add(number, (uint8_t)code, copy, n);
		engine_leave();
	}
}

static void collective_take(char *buf, size_t size)
{
	uint64_t number = chunks;
	size_t at;

	for (at = 0; at < size; at += CTL_CHUNK_BYTES, number++) {
		const void *data;

		engine_enter();
		data = chunk_wait(number);
		engine_leave();
		memcpy(buf + at, data, collective_piece(size, at));
	}
}

/* Process one ring after the other. */
static int collective_run(int code, bool gives, bool takes, char *buf, size_t size)
{
	int err = 0;

	while (!err && size) {
		const size_t most = (size_t)CTL_CHUNKS * CTL_CHUNK_BYTES,
			     n = size < most ? size : most;

		if (gives)
			collective_give(code, buf, n);
		if (takes)
			collective_take(buf, n);
		err = all_have_theirs();
		chunks += (n + CTL_CHUNK_BYTES - 1) / CTL_CHUNK_BYTES;
		buf += n;
		size -= n;
	}
	return err;
}

DSM_API int dsm_broadcast(void *buf, size_t size, int root)
{
	uint64_t v = 0;
	int err = job_ready();

	if (err)
		return err;
	if (root < 0 || root >= job.size)
		return -EINVAL;
	if (size > VALUE)
		return collective_run(-1, job.rank == root, job.rank != root, buf, size);
	if (job.rank == root)
		memcpy(&v, buf, size);
	err = barrier_arrive(&barrier_0, 0, 1, DSM_OR | DSM_UINT64 << 4, &v);
	if (!err)
		memcpy(buf, &v, size);
	return err;
}

/* Combine integers as 64-bit ones: results modulo 2^64 are also right modulo less. */
static uint64_t collective_widen(enum dsm_type type, const void *value)
{
	switch (type) {
	case DSM_INT8: return (uint64_t) * (const int8_t *)value;
	case DSM_UINT8: return *(const uint8_t *)value;
	case DSM_INT16: return (uint64_t) * (const int16_t *)value;
	case DSM_UINT16: return *(const uint16_t *)value;
	case DSM_INT32: return (uint64_t) * (const int32_t *)value;
	case DSM_UINT32: return *(const uint32_t *)value;
	case DSM_BOOL: return !!*(const uint8_t *)value;
	default: return *(const uint64_t *)value;
	}
}

static bool is_signed(enum dsm_type type)
{
	return type == DSM_INT8 || type == DSM_INT16 || type == DSM_INT32 || type == DSM_INT64;
}

static bool is_floating(enum dsm_type type)
{
	return type == DSM_FLOAT || type == DSM_DOUBLE || type == DSM_LONG_DOUBLE;
}

/* Send with the barrier. Little endian, so a narrow integer is the beginning of a wide one. */
static int reduce_value(void *value, enum dsm_type type, enum dsm_op op)
{
	const enum dsm_type as = type == DSM_DOUBLE ? type
		: is_signed(type)                   ? DSM_INT64
						    : DSM_UINT64;
	uint64_t v = collective_widen(type, value);
	int err = barrier_arrive(&barrier_0, 0, 1, (uint8_t)(op | as << 4), &v);

	if (!err)
		memcpy(value, &v, reduce_size(type));
	return err;
}

DSM_API int dsm_reduce_array(void *values, size_t n, enum dsm_type type, enum dsm_op op)
{
	int err = job_ready();

	if (err)
		return err;
	if (!reduce_has(type, op) || n > SIZE_MAX / reduce_size(type))
		return -EINVAL;
	if (!n)
		return all_have_theirs();
	/* The kernel may have the barrier, and has no floating point. */
	if (n == 1 && (!is_floating(type) || (type == DSM_DOUBLE && job.host->doubles)))
		return reduce_value(values, type, op);
	return collective_run(op | type << 4, true, true, values, n * reduce_size(type));
}

DSM_API int dsm_reduce(void *value, enum dsm_type type, enum dsm_op op)
{
	return dsm_reduce_array(value, 1, type, op);
}
