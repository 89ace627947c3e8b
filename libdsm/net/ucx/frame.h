/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - what comes by UCX beside the messages, and whether it may come: addresses, and what UCX says of an active message. Pure.
 * rules.h says what each field may be.
 */
#ifndef NET_UCX_FRAME_H
#define NET_UCX_FRAME_H

#include "net/check.h"
#include "net/net.h"

#define UCX_BLOB_MAGIC 0x78637531u /* "1ucx" */

/* Before UCX's own address in the bytes that are exchanged; these may lie unaligned. */
struct ucx_blob {
	uint32_t magic;
	uint32_t size; /* of UCX's address */
};

/* What UCX says of an active message, and from its header, a message, who sent it. */
struct ucx_arrival {
	uint64_t header, data; /* bytes */
	uint64_t src;          /* node */
};

/* Into *out. -EINVAL. */
int ucx_blob_read(const void *address, size_t size, struct ucx_blob *out);
/* The message of a header, copied to *m, for which the caller has *a. -EBADMSG. */
int ucx_message_read(const struct net_config *cfg, const void *header, size_t header_size, size_t size,
		     struct ucx_arrival *a, struct msg *m);
/* Does what is malformed name a node that can be blamed? */
bool ucx_sender_known(const struct net_config *cfg, const struct ucx_arrival *a);

#endif
