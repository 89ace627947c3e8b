/* SPDX-License-Identifier: BSD-2-Clause */
/* api.h - functions of init.c, shared by the public functions. */
#ifndef API_API_H
#define API_API_H

#include <stddef.h>

#include "dsm.h"

/* Find the whole blocks around [addr, addr + size) in one attached region. Any thread. -EFAULT: not in one region. Errors of
 * job_ready(). */
int api_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len);

#endif
