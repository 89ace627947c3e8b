/* SPDX-License-Identifier: BSD-2-Clause */
/* ud.h - the datagrams that connect lanes: one UD queue pair per device. */
#ifndef NET_VERBS_UD_H
#define NET_VERBS_UD_H

#include "net/verbs/verbs.h"

/* Create the queue pair and post its receives. Called by dev.c, before any other thread uses the
 * device. -ENOMEM, -EIO: logged, except failed registrations, which mem.c logs. After an error,
 * ud_close() frees what was created. */
int ud_open(struct dev *d);
/* Destroy what ud_open() created, also after its failure. No other thread may use the device. */
void ud_close(struct dev *d);

/* Send a datagram about a lane to its peer. Under net.conn; does not block. It may get lost, also
 * locally if the send queue is full or the route has no address handle yet. The caller retransmits
 * what needs a response. */
void ud_send(struct lane *l, enum shake_type type, uint32_t epoch, uint8_t reason);
/* Pass received datagrams to conn_received(), and repair the queue pair after a failed send. Under
 * net.conn; takes lanes' locks. */
void ud_serve(struct dev *d);

#endif
