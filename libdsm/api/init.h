/* SPDX-License-Identifier: BSD-2-Clause */
/* init.h - what dsm_init() and dsm_finalize() call of other files of this folder. */
#ifndef API_INIT_H
#define API_INIT_H

#include "job/job.h"

/* config.c: the settings table, one row per variable, with its range and meaning. Read and check
 * the program's configuration (NULL: none) and the environment. -EINVAL, logged. */
int config_read(const struct dsm_config *cfg, struct settings *out);
void config_warn(void); /* log each DSM_ variable that is not a setting */
void config_help(void); /* print the settings, for DSM_HELP=1 */

/* heap.c: start this rank's allocator. 0, errors of heap_start(). */
int heap_begin(void);
/* Complete this rank's counts. Any thread, with no lock held. */
void heap_settle(void);

/* spawn.c: allow thread creation on this rank. */
void spawn_start(void);
/* Wait until no joined thread is in the runtime, after all ranks have begun to end. Waits only for
 * each thread's last call. */
void spawn_settle(void);

/* globals.c: whether the variables of a program can be shared. */

/*
 * Check the file of a program with libdsm-pthread.so as dsm_adopt_globals() will check the program,
 * for a process that starts it. It ends soon: what is mapped is not unmapped. 0: nothing is wrong
 * with it, or it is no executable that can be read. -ENOTSUP, after a line that says why: the
 * program cannot be a job of several ranks.
 */
int globals_check_file(const char *path);

#endif
