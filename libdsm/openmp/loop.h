/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop.h - which iterations of a loop, or sections, a thread executes.
 *
 * All threads of a team meet the same work-sharing constructs with the same bounds, so each knows
 * the chunks of a loop by itself. What they share is:
 * - static: nothing.
 * - monotonic dynamic and guided: the number of the next chunk, a ticket. The tickets of a place
 *   are never set back: each thread takes one that is no chunk, its last one, so the next construct
 *   that uses the place begins where all threads expect it.
 * - dynamic and guided, as GCC calls them without `monotonic` and `ordered`: each thread has its
 *   share of the chunks, so a repeated loop finds its data at the same node. When it has none left,
 *   it takes half of another's, also of one that is about to meet the loop.
 */
#ifndef OPENMP_LOOP_H
#define OPENMP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

enum loop_kind { LOOP_STATIC, LOOP_TICKETS, LOOP_GUIDED, LOOP_STEALS };

/* A loop as a thread sees it. Iterations and chunks have numbers from 0 on. */
struct loop {
	uint64_t start, end, step; /* of the program's variable, whatever its type: they wrap */
	uint64_t n;                /* iterations */
	uint64_t chunk;            /* iterations of one, or at least; static: 0: equal parts */
	enum loop_kind kind;
	bool halves;  /* steals: a thread takes half of its share at once */
	bool ordered; /* with `ordered` */
	/* what follows is set by loop_begin() */
	bool has; /* the thread has a chunk: */
	uint64_t mine;
	uint64_t width; /* chunks that it has, from there on */
	uint64_t chunks;
	uint64_t construct;
	uint64_t steals; /* its number among loops of that kind */
	uint64_t at;     /* static: the next chunk; guided: the first iteration of chunk `seen` */
	uint64_t seen;
	uint64_t turns; /* turns of its place that former constructs have used */
};

/* A schedule of icv.h; size 0: none was given. monotonic: a thread's chunks have rising numbers. */
struct loop loop_of_long(int schedule, bool monotonic, bool ordered, long start, long end,
			 long step, long size);
/* up: step is positive, else it is negative, as an unsigned number. */
struct loop loop_of_ull(int schedule, bool monotonic, bool ordered, bool up, uint64_t start,
			uint64_t end, uint64_t step, uint64_t chunk);

/* The share of a thread that has met no loop. */
uint64_t share_of_none(void);
/* This thread meets a loop. */
void loop_begin(const struct loop *l);
/* Its next iterations, as values of the variable: from `from`, and before `to`. False: there are no
 * more. */
bool loop_next(uint64_t *from, uint64_t *to);
/* Wait until all iterations before this thread's chunk are done, if the loop is ordered. */
void loop_turn(void);

#endif
