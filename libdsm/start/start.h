/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h - joining and leaving a job. For the thread in dsm_init() or dsm_finalize(), outside the
 * runtime. */
#ifndef START_START_H
#define START_START_H

#include "job/job.h"

/* Become a rank. Blocks for all ranks. The strings of set must stay valid. 0, or -errno after a
 * message: call engine_undo(). */
int engine_start(const struct settings *set);
/* Check what engine_start() would refuse in a job of so many ranks, for a process that starts it;
 * limits: with the limits of this process. 0, or -errno after a message. */
int engine_check(const struct settings *set, int ranks, bool limits);
/* Undo a failed engine_start(), or one whose later steps failed: release everything, and end the
 * job. */
void engine_undo(void);
/* Leave the job. Blocks for all ranks, for some seconds at most. Returns 0. */
int engine_stop(void);
/* The same for a process that exits at once: its memory and its threads are not released. */
int engine_quit(void);

/*
 * Handle err, the result of a launcher fence: print a message unless it is 0, and return it. key:
 * of the exchanged value, or NULL. In dsm_init(), if a rank or the launcher is gone, this does not
 * return: the process ends as for any lost rank.
 */
int start_failed(int err, const char *key, unsigned int seconds);
/* Get a value that a rank has published, like launch_get(). If the rank or the launcher is gone,
 * like start_failed(). */
int start_get(uint16_t rank, const char *key, void *value, size_t *size);
/* End the process if ranks died or failed before they published their values of key, or if the
 * launcher is gone. Otherwise return after a second: a slow rank may publish in that time. */
void start_missing(const char *key);

/* transport.c: open the transport to other nodes and exchange addresses. All ranks call it at the
 * start; blocks for all of them. job.net stays NULL if all ranks share memory. -EPROTO (ranks
 * differ), -ENOMEM, errors of the transport and of the launcher; prints its errors. */
int transport_open_others(void);

/* job.up of a rank. */
extern const struct upcalls engine_upcalls;

#endif
