/* SPDX-License-Identifier: BSD-2-Clause */
/* service.h - the service thread of a rank. */
#ifndef ENGINE_SERVICE_H
#define ENGINE_SERVICE_H

#include <stdint.h>

/* In a job of several ranks, by the thread in dsm_init() or dsm_finalize(). stop waits for its end. -EMFILE, -EAGAIN. */
int service_start(void);
void service_stop(void);

/* Wake the service thread of a rank of this host. Any thread, anywhere; does not block. */
void service_ring(uint16_t rank);
/* A thread of the runtime says so of itself, first of all (net_config.thread): it never touches shared memory. */
void service_thread(void *arg);

#endif
