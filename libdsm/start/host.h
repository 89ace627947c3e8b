/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * host.h - this process as a host of the core (job/host_ops.h), and the choice between the hosts.
 * At the start, in the only thread.
 */
#ifndef START_HOST_H
#define START_HOST_H

struct host_ops;

extern const struct host_ops host_process;

/*
 * Set job.host according to DSM_BACKEND and the hosts available. Errors of open(), except -ENOENT.
 */
int host_choose(void);
/*
 * Close the host and let this process host the core. Called before anything is hosted, or at the
 * end. Does not use job memory.
 */
void host_close(void);

#endif
