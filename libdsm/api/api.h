/* SPDX-License-Identifier: BSD-2-Clause */
/* api.h - what the public functions share: the functions of init.c. */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>

#include "dsm.h"

/* May the library be used now? Any thread. 0. -ENOTCONN: not between dsm_init() and dsm_finalize(); blocks where another
 * thread is about to end the process for a lost rank. -ECHILD: this is a child process. */
int api_ready(void);
/* Is this process a rank of a job that runs? Any thread; never blocks. */
bool api_runs(void);

/* Whole blocks around [addr, addr + size) in one attached region. Any thread. -EFAULT: they are not in one. Errors of
 * api_ready(). */
int api_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len);

#endif
