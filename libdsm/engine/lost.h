/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lost.h - the end of the job when a rank is gone, and dsm_abort().
 *
 * Any thread may call all of this, inside the runtime or not, in the fault handler and without a stripe. What finds a loss ends
 * this process: it tells the others, which blocks for seconds at most, and does not return. A report of a rank that has
 * finalized, or in a child made by fork(), does nothing.
 */
#ifndef ENGINE_LOST_H
#define ENGINE_LOST_H

#include <stdint.h>

#include "core/wire.h"

/* ---- somebody has seen it: report it, and end this process ----------------------------------- */

void lost_rank(uint16_t rank, const char *how);
/* The process of a rank of this machine: its pidfd or its line says that it has ended, or is another program. */
void lost_process(uint16_t rank);
/* err: of the transport's send. Waits a moment for a better reason. */
void lost_connection(uint16_t rank, int err);
void lost_net(void *arg, uint16_t rank, int err); /* the transport's own report: net_config.lost */
void lost_launcher(int rank);                     /* the launcher's; -1: of its own end. On its thread */
/* The launcher says in dsm_init() that a rank has died, and nobody knows which. */
void lost_unnamed(void) __attribute__((noreturn));

/* Say why, and end the job with this status. */
void lost_abort(int status, const char *why) __attribute__((noreturn));

/* A signal is about to end this process: say why, and let the job end with this status when it has ended. Returns. */
void lost_dying(int status, const char *why);

/* ---- checking for it ------------------------------------------------------------------------- */

/* Another thread is ending the process: wait for that. Else it returns at once. */
void lost_check(void);
/* The same, and: is any rank of this machine gone, or, in dsm_init(), the launcher? For who waits without the service thread. */
void lost_scan(void);
/* The service thread, four times in DSM_LOST_MS: ping the other nodes, judge their silence. */
void lost_silence(void);
/* A message of a node came. */
void lost_alive(uint16_t node);
/* MSG_PING or MSG_BYE came, as wire_check() allows it. -EBADMSG: it says BYE for a rank of another node. */
int lost_heard(const struct msg *m);

/* This rank has finalized: tell all that it can reach. In dsm_finalize(). */
void lost_goodbye(void);

#endif
