/* SPDX-License-Identifier: BSD-2-Clause */
/* backend.h - the fault backend of a rank: its choice and its opening. At the start and the end only, by the thread that is there. */
#ifndef ENGINE_BACKEND_H
#define ENGINE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

/* job.fault where this process hosts the core, by DSM_FAULT and what the kernel offers. Errors of probe(), which are said. */
int backend_choose(void);
/* A rank of this node has no userfaultfd: then none uses it. */
void backend_without_uffd(void);
/* Bytes of the control segment that it needs. */
size_t backend_shared(void);
/* Where all ranks of the node have its memory, and have met. Blocks for them. Errors of open() and meet_swap(), which are said. */
int backend_open(void);
/* False: it was not open, and the window is as it was reserved. */
bool backend_close(void);

#endif
