/* SPDX-License-Identifier: BSD-2-Clause */
/* heap.h - the shared heap at the start and at the end of a job. */
#ifndef API_HEAP_H
#define API_HEAP_H

/* Start this rank's allocator. Called by dsm_init(). 0, errors of heap_start(). */
int heap_begin(void);
/* Complete this rank's counts. Any thread, with no lock held. */
void heap_settle(void);

#endif
