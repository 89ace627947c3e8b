/* SPDX-License-Identifier: BSD-2-Clause */
/* api.h - what the public functions share. */
#ifndef API_API_H
#define API_API_H

#include <stdbool.h>
#include <stddef.h>

#include "dsm.h"

/* May the library be used now? 0, -ENOTCONN, -ECHILD. */
int api_ready(void);
/* Whole blocks around [addr, addr + size) in one attached region. -EFAULT. */
int api_range(const void *addr, size_t size, struct dsm_region **r, size_t *off, size_t *len);
int region_start(void); /* the heap's record, and what init needs */
void region_stop(void);
int heap_begin(void);
void heap_settle(void);  /* this rank's counts are complete afterwards */
void stats_report(void); /* at the end, as DSM_STATS says */
void pins_forget(void);
bool pins_any(size_t off, size_t len); /* is any of the range pinned? */

#endif
