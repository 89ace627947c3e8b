/* SPDX-License-Identifier: BSD-2-Clause */
/* iostreams.h - the standard stream objects of C++ are the program's. */
#ifndef PTHREAD_IOSTREAMS_H
#define PTHREAD_IOSTREAMS_H

#include "shim.h"

/* Construct them, in the memory of this rank. Each rank, in the only thread, before the executable's variables are shared. */
void iostreams_construct(void);
/* Make the shared objects. Rank 0, before the others have the team. -ENOMEM. */
int iostreams_start(void);
/* Lead the program and the libraries to the shared objects. Each rank, after that, before any thread of the program. */
void iostreams_join(void);

#endif
