/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lost.h - ends the job when a rank is lost; dsm_abort().
 *
 * Any thread may call these functions, inside or outside the runtime, also in the fault handler,
 * but without a stripe. A function that finds a loss ends this process: it tells the other ranks,
 * which blocks for some seconds at most, and does not return. A report about a rank that has
 * finalized, or in a child of fork(), does nothing.
 */
#ifndef JOB_LOST_H
#define JOB_LOST_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/wire.h"

/* ---- report a loss, and end this process ----------------------------------------------------- */

void lost_rank(uint16_t rank, const char *how);
/*
 * The process of a rank of this machine has ended or executes another program, according to its
 * pidfd or its connection.
 */
void lost_process(uint16_t rank);
/* The transport failed to send with err. Waits briefly for a more precise reason. */
void lost_connection(uint16_t rank, int err);
void lost_net(void *arg, uint16_t rank, int err); /* report of the transport: net_config.lost */
/* report of the launcher, on its thread; -1: its own end */
void lost_launcher(int rank);
/* The launcher reports in dsm_init() that an unknown rank has died. */
void lost_unnamed(void) __attribute__((noreturn));

/*
 * The transport begins to connect (or is about to close). For DSM_LOST_MS from now on, at most 10
 * s, abort() on this thread until dsm_init() returns, or on one that is inside the runtime, is the
 * loss of a rank, unless the program handles SIGABRT.
 */
void lost_by_abort(bool on);
/* The handler of SIGABRT for that, and what one of others calls: it returns if there is no loss. */
void lost_on_abort(int sig, siginfo_t *info, void *context);
void lost_aborted(const siginfo_t *info);

/* Print why, and end the job with this status. */
void lost_abort(int status, const char *why) __attribute__((noreturn));

/*
 * A signal is about to end this process: print why, and end the job with this status after the
 * process has ended. Returns.
 */
void lost_dying(int status, const char *why);

/* ---- check for a loss ------------------------------------------------------------------------ */

/*
 * job_await_loss(), and check the ranks of this machine and, in dsm_init(), the launcher. For waits
 * without the service thread.
 */
void lost_scan(void);
/*
 * Ping the other nodes, and check for silent ones. Called by the service thread four times in
 * DSM_LOST_MS.
 */
void lost_silence(void);
/* Note that a message of a node has arrived. */
void lost_alive(uint16_t node);
/*
 * Handle MSG_PING or MSG_BYE after wire_check(). -EBADMSG: it is a BYE for a rank of another node.
 */
int lost_heard(const struct msg *m);

/* Announce to all reachable ranks that this rank has finalized. In dsm_finalize(). */
void lost_goodbye(void);

#endif
