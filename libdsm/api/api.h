/* SPDX-License-Identifier: BSD-2-Clause */
/* api.h - functions of init.c, shared by the public functions. */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>

#include "dsm.h"

/* Check that the library can be used now. Any thread. -ENOTCONN: not between dsm_init() and dsm_finalize(). -ECHILD: this is a
 * child process. Blocks if another thread is about to end the process because of a lost rank. */
int api_ready(void);
/* True if this process is a rank of a running job. Any thread; never blocks. */
bool api_runs(void);

/* Find the whole blocks around [addr, addr + size) in one attached region. Any thread. -EFAULT: not in one region. Errors of
 * api_ready(). */
int api_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len);

#endif
