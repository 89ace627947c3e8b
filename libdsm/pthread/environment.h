/* SPDX-License-Identifier: BSD-2-Clause */
/* environment.h - the environment and the names of the program, one for all ranks. */
#ifndef PTHREAD_ENVIRONMENT_H
#define PTHREAD_ENVIRONMENT_H

#include "shim.h"

/* Take this process's environment and name as those of the job. Rank 0, before the others have the team. -ENOMEM. */
int environment_start(void);
/* Make the job's this process's. Each rank, after that. */
int environment_join(void);

#endif
