/* SPDX-License-Identifier: BSD-2-Clause */
/* process.h - the processes of the node. Owner's thread only; no function blocks. */
#ifndef SHARE_PROCESS_H
#define SHARE_PROCESS_H

#include "share/owner.h"

/* Handle an event of the control socket: accept one process. Refuse it if it is another user's, or
 * for lack of memory or descriptors, which is logged. */
void rs_process_accept(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* End the connections of dead processes (all: of every process), and free processes whose memory
 * the device no longer uses. For the others, o->reap requests another call. */
void rs_process_reap(struct rs_owner *o, bool all);

#endif
