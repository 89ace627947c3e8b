/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h - sleeping: descriptors, arming, and the threads of the queues. */
#ifndef NET_VERBS_WAIT_H
#define NET_VERBS_WAIT_H

#include "net/verbs/verbs.h"

/* Create the descriptors that a thread sleeps on, after dev_open_all(). -errno, logged: most often -EMFILE. */
int wait_open(struct net *n);
/* Close them. No other thread uses the transport any more. */
void wait_close(struct net *n);

/* Start a thread for each queue, and the send thread where threads do not post themselves; nothing if they run, or if the
 * configuration has no cfg.thread. -errno of pthread_create(): wait_threads_stop() ends those that were started. */
int wait_threads_start(struct net *n);
/* End them and wait for their ends. Under no lock. The transport is closing afterwards: nothing is delivered any more. */
void wait_threads_stop(struct net *n);

/* One lane more (1) or less (-1) waits for a completion that is not solicited: the queues must be armed for it. Under its
 * lock. */
void wait_due(const struct lane *l, int delta);

/* As net_ops.arm. Under no lock; serves connections, delivers messages. */
int verbs_arm(struct net *n);
/* As net_ops.wait_step. */
int verbs_wait_step(struct net *n, enum net_wait_step next);
/* As net_ops.fd. */
int verbs_fd(struct net *n);

#endif
