/* SPDX-License-Identifier: BSD-2-Clause */
/* ud.h - the datagrams by which lanes are connected: one UD queue pair for each device. */
#ifndef NET_VERBS_UD_H
#define NET_VERBS_UD_H

#include "net/verbs/verbs.h"

/* Create the queue pair and post its receives. By dev.c, before any other thread uses the device. -ENOMEM, -EIO: logged,
 * except where memory could not be registered, which mem.c logs. After an error ud_close() frees what was made. */
int ud_open(struct dev *d);
/* Destroy what ud_open() has made, however far it came. No other thread uses the device any more. */
void ud_close(struct dev *d);

/* Send a datagram about a lane to its peer. Under net.conn; does not block. It may get lost, also here, where the send queue
 * is full or the route has no address handle yet: the caller repeats what needs an answer. */
void ud_send(struct lane *l, enum shake_type type, uint32_t epoch, uint8_t reason);
/* Hand what has come to conn_received(), and repair the queue pair after a failed send. Under net.conn; takes lanes' locks. */
void ud_serve(struct dev *d);

#endif
