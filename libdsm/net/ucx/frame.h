/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - checks of data received by UCX other than messages: addresses, and what UCX reports of
 * an active message. Pure. rules.h defines the valid values of each field.
 */
#ifndef NET_UCX_FRAME_H
#define NET_UCX_FRAME_H

#include "net/check.h"
#include "net/net.h"

#define UCX_BLOB_MAGIC 0x78637532u /* "2ucx" */

/* Precedes UCX's own address in the exchanged bytes, which may be unaligned. */
struct ucx_blob {
	uint32_t magic;
	uint32_t size; /* of UCX's address */
	/*
	 * Of the rank's bell (bell.h): its process, the descriptors of its page and pipe there, and
	 * its key. pid 0: it has none.
	 */
	uint32_t pid, memory, pipe, pad;
	uint64_t key;
};

/* What UCX reports of an active message, and the sender, from the message in its header. */
struct ucx_arrival {
	uint64_t header, data; /* bytes */
	uint64_t src;          /* node */
};

/* Decode an address into *out. -EINVAL: malformed. */
int ucx_blob_read(const void *address, size_t size, struct ucx_blob *out);
/* Copy the message from a header to *m, fill in *a, and check both. -EBADMSG: malformed. */
int ucx_message_read(const struct net_config *cfg, const void *header, size_t header_size,
		     size_t size, struct ucx_arrival *a, struct msg *m);
/* True if a malformed message names an existing node as its sender. */
bool ucx_sender_known(const struct net_config *cfg, const struct ucx_arrival *a);

#endif
