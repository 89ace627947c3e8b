/* SPDX-License-Identifier: BSD-2-Clause */
/* random.h - generators of random numbers of the job. */
#ifndef PTHREAD_RANDOM_H
#define PTHREAD_RANDOM_H

#include "shim.h"

/* Make the state, in the shared heap, and store it in the team. Rank 0, before the job is active. -ENOMEM. */
int random_start(void);

#endif
