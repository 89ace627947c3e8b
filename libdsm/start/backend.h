/* SPDX-License-Identifier: BSD-2-Clause */
/* backend.h - choice and setup of the fault backend of a rank. For the thread in dsm_init() or
 * dsm_finalize(). */
#ifndef START_BACKEND_H
#define START_BACKEND_H

#include <stdbool.h>
#include <stddef.h>

/* Set job.fault, if this process hosts the core, by DSM_FAULT and the kernel's features. Errors of
 * probe(); prints them. */
int backend_choose(void);
/* Do not use userfaultfd, because a rank of this node has none. */
void backend_without_uffd(void);
/* The bytes of the control segment that the backend needs. */
size_t backend_shared(void);
/* Open the backend, after all ranks of the node have mapped its memory and have met. Blocks for
 * them. Errors of open() and rendezvous_swap(); prints them. */
int backend_open(void);
/* Close the backend. False: it was not open, and the window is still reserved. */
bool backend_close(void);

#endif
