// SPDX-License-Identifier: BSD-2-Clause
/* share.c - work-sharing constructs as GCC calls them: loops, sections, single. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "entry.h"
#include "icv.h"
#include "loop.h"
#include "team.h"

typedef unsigned long long ull;

static bool long_next(long *from, long *to)
{
	uint64_t a, b;
	const bool more = loop_next(&a, &b);

	if (more) {
		*from = (long)a;
		*to = (long)b;
	}
	return more;
}

static bool ull_next(ull *from, ull *to)
{
	uint64_t a, b;
	const bool more = loop_next(&a, &b);

	if (more) {
		*from = a;
		*to = b;
	}
	return more;
}

/* ---- loops: each way to call them, over long and over unsigned long long --------------------- */

static bool long_start(int schedule, bool monotonic, bool ordered, long start, long end, long step,
		       long chunk, long *from, long *to)
{
	const struct loop l = loop_of_long(schedule, monotonic, ordered, start, end, step, chunk);

	loop_begin(&l);
	return long_next(from, to);
}

static bool ull_start(int schedule, bool monotonic, bool ordered, bool up, ull start, ull end,
		      ull step, ull chunk, ull *from, ull *to)
{
	const struct loop l =
		loop_of_ull(schedule, monotonic, ordered, up, start, end, step, chunk);

	loop_begin(&l);
	return ull_next(from, to);
}

static void loop_region(int schedule, bool monotonic, void (*fn)(void *), void *data,
			unsigned int threads, long start, long end, long step, long chunk)
{
	const struct loop l = loop_of_long(schedule, monotonic, false, start, end, step, chunk);

	team_region(fn, data, threads, &l);
}

#define LOOP_NEXT(name)                                            \
	ENTRY bool GOMP_loop_##name##_next(long *from, long *to)   \
	{                                                          \
		return long_next(from, to);                        \
	}                                                          \
	ENTRY bool GOMP_loop_ull_##name##_next(ull *from, ull *to) \
	{                                                          \
		return ull_next(from, to);                         \
	}

#define LOOP_CHUNKED(name, schedule, monotonic, ordered)                                          \
	ENTRY bool GOMP_loop_##name##_start(long start, long end, long step, long chunk,          \
					    long *from, long *to)                                 \
	{                                                                                         \
		return long_start(schedule, monotonic, ordered, start, end, step, chunk, from,    \
				  to);                                                            \
	}                                                                                         \
	ENTRY bool GOMP_loop_ull_##name##_start(bool up, ull start, ull end, ull step, ull chunk, \
						ull *from, ull *to)                               \
	{                                                                                         \
		return ull_start(schedule, monotonic, ordered, up, start, end, step, chunk, from, \
				 to);                                                             \
	}                                                                                         \
	LOOP_NEXT(name)

#define LOOP_RUNTIME(name, monotonic, ordered)                                                     \
	ENTRY bool GOMP_loop_##name##_start(long start, long end, long step, long *from, long *to) \
	{                                                                                          \
		return long_start(SCHED_RUNTIME, monotonic, ordered, start, end, step, 0, from,    \
				  to);                                                             \
	}                                                                                          \
	ENTRY bool GOMP_loop_ull_##name##_start(bool up, ull start, ull end, ull step, ull *from,  \
						ull *to)                                           \
	{                                                                                          \
		return ull_start(SCHED_RUNTIME, monotonic, ordered, up, start, end, step, 0, from, \
				 to);                                                              \
	}                                                                                          \
	LOOP_NEXT(name)

#define REGION_CHUNKED(name, schedule, monotonic)                                                  \
	ENTRY void GOMP_parallel_loop_##name(void (*fn)(void *), void *data, unsigned int threads, \
					     long start, long end, long step, long chunk,          \
					     unsigned int flags)                                   \
	{                                                                                          \
		(void)flags;                                                                       \
		loop_region(schedule, monotonic, fn, data, threads, start, end, step, chunk);      \
	}

#define REGION_RUNTIME(name, monotonic)                                                            \
	ENTRY void GOMP_parallel_loop_##name(void (*fn)(void *), void *data, unsigned int threads, \
					     long start, long end, long step, unsigned int flags)  \
	{                                                                                          \
		(void)flags;                                                                       \
		loop_region(SCHED_RUNTIME, monotonic, fn, data, threads, start, end, step, 0);     \
	}

LOOP_CHUNKED(static, SCHED_STATIC, true, false)
LOOP_CHUNKED(dynamic, SCHED_DYNAMIC, true, false)
LOOP_CHUNKED(guided, SCHED_GUIDED, true, false)
LOOP_CHUNKED(nonmonotonic_dynamic, SCHED_DYNAMIC, false, false)
LOOP_CHUNKED(nonmonotonic_guided, SCHED_GUIDED, false, false)
LOOP_CHUNKED(ordered_static, SCHED_STATIC, true, true)
LOOP_CHUNKED(ordered_dynamic, SCHED_DYNAMIC, true, true)
LOOP_CHUNKED(ordered_guided, SCHED_GUIDED, true, true)
LOOP_RUNTIME(runtime, true, false)
LOOP_RUNTIME(nonmonotonic_runtime, false, false)
LOOP_RUNTIME(maybe_nonmonotonic_runtime, false, false)
LOOP_RUNTIME(ordered_runtime, true, true)
REGION_CHUNKED(static, SCHED_STATIC, true)
REGION_CHUNKED(dynamic, SCHED_DYNAMIC, true)
REGION_CHUNKED(guided, SCHED_GUIDED, true)
REGION_CHUNKED(nonmonotonic_dynamic, SCHED_DYNAMIC, false)
REGION_CHUNKED(nonmonotonic_guided, SCHED_GUIDED, false)
REGION_RUNTIME(runtime, true)
REGION_RUNTIME(nonmonotonic_runtime, false)
REGION_RUNTIME(maybe_nonmonotonic_runtime, false)

ENTRY void GOMP_loop_end(void)
{
	team_barrier();
}

ENTRY bool GOMP_loop_end_cancel(void)
{
	team_barrier();
	return false;
}

ENTRY void GOMP_loop_end_nowait(void)
{
}

ENTRY void GOMP_ordered_start(void)
{
	loop_turn();
}

/* The turn passes with the chunk. */
ENTRY void GOMP_ordered_end(void)
{
}

/* ---- sections: their numbers, from 1 on; 0: no more ------------------------------------------ */

static struct loop loop_of_sections(unsigned int n)
{
	return loop_of_long(SCHED_DYNAMIC, true, false, 1, (long)n + 1, 1, 1);
}

ENTRY unsigned int GOMP_sections_next(void)
{
	long section, end;

	return long_next(&section, &end) ? (unsigned int)section : 0;
}

ENTRY unsigned int GOMP_sections_start(unsigned int n)
{
	const struct loop l = loop_of_sections(n);

	loop_begin(&l);
	return GOMP_sections_next();
}

ENTRY void GOMP_parallel_sections(void (*fn)(void *), void *data, unsigned int threads,
				  unsigned int n, unsigned int flags)
{
	const struct loop l = loop_of_sections(n);

	(void)flags;
	team_region(fn, data, threads, &l);
}

ENTRY void GOMP_sections_end(void)
{
	team_barrier();
}

ENTRY bool GOMP_sections_end_cancel(void)
{
	team_barrier();
	return false;
}

ENTRY void GOMP_sections_end_nowait(void)
{
}

/* ---- single, masked -------------------------------------------------------------------------- */

/* Always the same thread: its node has the data of the last one. */
ENTRY bool GOMP_single_start(void)
{
	return !self.team || !self.id;
}

/* NULL: this thread executes it. Others get what that one copies to all. GCC's code has the barrier
 * at the end. */
ENTRY void *GOMP_single_copy_start(void)
{
	if (GOMP_single_start())
		return NULL;
	team_barrier();
	return self.team->copied;
}

ENTRY void GOMP_single_copy_end(void *data)
{
	struct tls_copy passed = { 0 };

	if (!self.team)
		return;
	if (team_is_spread())
		tls_share(&passed, data);
	self.team->copied = data;
	team_barrier();
	self.passed = passed; /* until the others have copied it */
}
