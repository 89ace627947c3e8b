/* SPDX-License-Identifier: BSD-2-Clause */
/* start.h - from a process to a rank of a job, and back. By the thread in dsm_init() or dsm_finalize(), outside the runtime. */
#ifndef ENGINE_START_H
#define ENGINE_START_H

#include "engine/job.h"

/* Become a rank. Blocks for all ranks. The strings of set must live on. 0, or -errno that has been said; then call engine_undo(). */
int engine_start(const struct settings *set);
/* After engine_start() or what follows it has failed, however far it came: leave nothing behind, and end the job. */
void engine_undo(void);
/* Leave the job; blocks for all ranks, for some seconds at most. 0. */
int engine_stop(void);
/* The same for a process that ends at once: its memory and its threads stay as they are. */
int engine_quit(void);
/* A thread that needs other ranks meanwhile: does not return. Else it returns at once. Safe in the fault handler. */
void engine_await_end(void);

/*
 * What a fence of the launcher has returned: err, after a message where it is not 0. key: of what it has exchanged, or NULL. In
 * dsm_init() it does not return when a rank or the launcher is gone: this process ends as for any lost rank.
 */
int start_failed(int err, const char *key, unsigned int seconds);
/* What a rank has exchanged, as launch_get(); when the rank or the launcher is gone, as start_failed(). */
int start_get(uint16_t rank, const char *key, void *value, size_t *size);
/* Have ranks died, or failed, before they published their values of key? Ends the process then, and for the launcher's end. Else
 * it returns, after a second: a slow rank publishes meanwhile. */
void start_missing(const char *key);

#endif
