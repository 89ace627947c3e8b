/* SPDX-License-Identifier: BSD-2-Clause */
/* spawn.h - threads of the program at the start and at the end of a job. */
#ifndef API_SPAWN_H
#define API_SPAWN_H

/* Allow thread creation on this rank. Called by dsm_init(). */
void spawn_start(void);
/* Wait until no joined thread is in the runtime, after all ranks have begun to end. Waits only for each thread's last call. */
void spawn_settle(void);

#endif
