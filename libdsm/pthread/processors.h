/* SPDX-License-Identifier: BSD-2-Clause */
/* processors.h - the processors of the job, as the program sees them. A set has `size` bytes. Any
 * thread. */
#ifndef PTHREAD_PROCESSORS_H
#define PTHREAD_PROCESSORS_H

#include "shim.h"

/* Make the table of what each rank may use. Rank 0, before the others have the team. -ENOMEM. */
int processors_start(void);
/* Write this rank's entry. Before the job is active. */
void processors_note(void);

/* Translate the processors of a thread of this rank to those of the job, in place, and back; self:
 * of the calling thread. EINVAL: the set is too small, or has no processor of the job. With
 * DSM_PROCESSORS=host nothing changes. */
int processors_to_job(void *set, size_t size, bool self);
int processors_to_host(void *set, size_t size, bool self);

#endif
