/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.h - what start.c calls of files that have nothing for others. -ENOMEM where an int is
 * returned. */
#ifndef PTHREAD_PARTS_H
#define PTHREAD_PARTS_H

#include "shim.h"

/* past.c: bind libdsm to the C library, past this library and libdsm-syscall.so. Once, before
 * dsm_init(). */
void past_bind(void);

/* places.c: remember where the libraries are. Once, before dsm_init(), which loads others. */
void places_note(void);
/* Is each where rank 0 has it? Collective. -EPROTO after a message: not; errors of
 * dsm_broadcast(). */
int places_compare(void);

/* features.c: do the processors of all ranks have the same features? Collective. -EPROTO after a
 * message: they have not; errors of dsm_broadcast(). */
int features_compare(void);
/* Has the processor this one, x86_cpu_... of <sys/platform/x86.h>? Any thread, at any time. */
bool features_has(unsigned int number);

/* random.c: make the state, in the shared heap, and store it in the team. Rank 0, before the job is
 * active. */
int random_start(void);

/* environment.c: take this process's environment and name as those of the job. Rank 0, before the
 * others have the team. */
int environment_start(void);
/* Make the job's this process's. Each rank, after that. */
int environment_join(void);

/* iostreams.c: construct them, in the memory of this rank. Each rank, in the only thread, before
 * the executable's variables are shared. */
void iostreams_construct(void);
/* Make the shared objects. Rank 0, before the others have the team. */
int iostreams_start(void);
/* Lead the program and the libraries to the shared objects. Each rank, after that, before any
 * thread of the program. */
void iostreams_join(void);
/* Lead there what was loaded since. Rank 0, a thread at a time. */
void iostreams_lead(void);

#endif
