/* SPDX-License-Identifier: BSD-2-Clause */
/* check.h - what every backend asks about a message before it sends it or hands it on. */
#ifndef NET_CHECK_H
#define NET_CHECK_H

#include "net/net.h"

#define NET_BLOCK_MAX (2u << 20) /* largest block */

/* Most bytes that may follow a message of this type. */
size_t net_payload_max(uint8_t type);

/* May this rank send this? 0, -EINVAL: there is no such rank, -EMSGSIZE: more bytes than may follow. */
int net_check_send(const struct net_config *cfg, uint16_t rank, const struct msg *m, size_t payload);

/* May a peer have sent this to this rank's node? 0 or -EBADMSG. */
int net_check(const struct net_config *cfg, const struct msg *m, size_t payload);

#endif
