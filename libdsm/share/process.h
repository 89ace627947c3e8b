/* SPDX-License-Identifier: BSD-2-Clause */
/* process.h - the processes of the node. The owner's thread only; nothing blocks. */
#ifndef SHARE_PROCESS_H
#define SHARE_PROCESS_H

#include "share/owner.h"

/* Handler of the control socket: accept one process. Another user's process is refused; lack of memory or descriptors also
 * refuses it, and is logged. */
void rs_process_accept(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* End the connections of processes that are dead (all: of every process), and free those whose memory the device does not
 * use any more. For the others, o->reap asks for another call. */
void rs_process_reap(struct rs_owner *o, bool all);

#endif
