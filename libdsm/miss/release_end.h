/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * release_end.h - release blocks (release.h) when a node enters or leaves their region, and when
 * the region ends. Any thread, without a stripe.
 */
#ifndef MISS_RELEASE_END_H
#define MISS_RELEASE_END_H

#include <stdbool.h>
#include <stddef.h>

#include "job/job.h"

/* The node has entered a region. Ends the job if a node has used blocks of a sequential one as
 * release blocks. */
void release_enter(const struct dsm_region *r);
/* The node leaves a region: send what it has changed, and drop its copies. Waits. */
void release_leave(const struct dsm_region *r);
/* Is there nothing of a range of the window that a message or a list may still name? If not, what
 * is needed begins. */
bool release_quiet(size_t off, size_t end);

#endif
