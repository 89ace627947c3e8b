/* SPDX-License-Identifier: BSD-2-Clause */
/* spawn.h - threads of the program at the start and at the end of a job. */
#ifndef API_SPAWN_H
#define API_SPAWN_H

/* Threads may be made on this rank from now on. In dsm_init(). */
void spawn_start(void);
/* No thread that was joined is in the runtime any more, once all ranks want to end. Waits for the last call of each only. */
void spawn_settle(void);

#endif
