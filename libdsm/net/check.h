/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h - checks of a message that every backend makes before it sends or delivers it. */
#ifndef NET_CHECK_H
#define NET_CHECK_H

#include "net/net.h"

/* Return the maximum payload of a message of this type, in bytes. */
size_t net_payload_max(uint8_t type);

/*
 * Check a message to send. -EINVAL: no such rank. -EMSGSIZE: the payload is too large for the
 * message.
 */
int net_check_send(const struct net_config *cfg, uint16_t rank, const struct msg *m,
		   size_t payload);

/* Check a message received from a peer for this rank's node. -EBADMSG: malformed. */
int net_check(const struct net_config *cfg, const struct msg *m, size_t payload);

#endif
