/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h - sleeping: descriptors, arming, and the threads of the queues. */
#ifndef NET_VERBS_WAIT_H
#define NET_VERBS_WAIT_H

#include "net/verbs/verbs.h"

/* Create the descriptors that a thread sleeps on, after dev_open_all(). -errno, usually -EMFILE,
 * logged. */
int wait_open(struct net *n);
/* Close them. No other thread may use the transport. */
void wait_close(struct net *n);

/* Start a thread per queue, and the send thread if threads do not post themselves. Do nothing if
 * they run, or if cfg.thread is not set. -errno of pthread_create(): wait_threads_stop() stops
 * those that were started. */
int wait_threads_start(struct net *n);
/* Stop and join them. Call without locks. Afterwards the transport is closing and delivers nothing
 * more. */
void wait_threads_stop(struct net *n);

/* Count one lane more (1) or less (-1) that waits for an unsolicited completion, for which queues
 * must be armed. Under its lock. */
void wait_due(const struct lane *l, int delta);

/* As net_ops.arm. Under no lock; serves connections, delivers messages. */
int verbs_arm(struct net *n);
/* As net_ops.wait_step. */
int verbs_wait_step(struct net *n, enum net_wait_step next);
/* As net_ops.fd. */
int verbs_fd(struct net *n);

#endif
