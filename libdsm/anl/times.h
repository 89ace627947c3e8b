/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * times.h - the time of the parallel part, and where the time of its threads goes.
 *
 * ANL_REPORT names a file for the time of the parallel part. With ANL_WAITS, the file also has the
 * times of the threads: in waits of each kind, in faults, and the processor time outside of waits.
 * A thread looks at the program's part when it begins, before each wait, and when it ends. So a
 * thread that neither waits nor ends counts for the part in which it last did.
 */
#ifndef ANL_TIMES_H
#define ANL_TIMES_H

#include <stdint.h>

enum dsm_anl_wait { W_LOCK, W_BARRIER, W_PAUSE, W_JOIN, WAITS };

/* The clocks of a thread, in ns. */
struct dsm_anl_times {
	uint64_t wall, user, kernel;
};

void dsm_anl_times_init(void); /* before any thread runs */

/* The calling thread begins and ends. */
void dsm_anl_thread_begin(void);
void dsm_anl_thread_end(void);

/* Called before and after a wait of the calling thread. Nothing is timed without ANL_WAITS. */
void dsm_anl_wait_begin(struct dsm_anl_times *start);
void dsm_anl_wait_end(enum dsm_anl_wait kind, const struct dsm_anl_times *start);

/* Threads are created; all threads have ended, and the report is written. Without effect on the
 * times if the program marks its part (dsm_anl_roi()). threads: their number, with the first. */
void dsm_anl_part_begin(void);
void dsm_anl_part_end(long threads);

#endif
