/* SPDX-License-Identifier: BSD-2-Clause */
/* service.h - the service thread of a rank. */
#ifndef WATCH_SERVICE_H
#define WATCH_SERVICE_H

#include <stdint.h>

/* Start and stop the service thread, in a job of several ranks. For the thread in dsm_init() or
 * dsm_finalize(). service_stop() waits for its end. -EMFILE, -EAGAIN. */
int service_start(void);
void service_stop(void);

#endif
