/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - the wire format of the transport over librshare and its checks: the frame before each
 * message, and addresses. Pure: bytes in, verdict out. Little endian, like the core's messages.
 * rules.h defines the valid values of each field.
 */
#ifndef NET_SHARED_FRAME_H
#define NET_SHARED_FRAME_H

#include <rshare.h>

#include "net/check.h"
#include "net/net.h"

#define SHARED_LANDING 4096u

enum shared_kind { SHARED_MSG = 1, SHARED_LAND, SHARED_FETCH, SHARED_FETCHED };

/* Precedes each message. All ranks of a job run the same version on the same architecture. */
struct shared_frame {
	uint8_t kind, lane;
	uint16_t src; /* rank */
	uint32_t size;
	/* FETCH: its number on this lane; FETCHED: number of the last fetch that was read */
	uint64_t id;
	struct rshare_remote from;
	struct msg m;
};
_Static_assert(sizeof(struct shared_frame) == 64, "the same for all ranks");

#define SHARED_BLOB_MAGIC 0x32687364u /* "dsh2" */

/* Address blob of a rank. */
struct shared_blob {
	uint32_t magic, nslots;
	char node[sizeof(((struct rshare_info *)0)->address)];
	struct rshare_remote landing;
};
_Static_assert(sizeof(struct shared_blob) <= NET_ADDRESS_MAX, "an address");

/* Where a frame arrived. */
struct shared_place {
	const struct net_config *cfg;
	uint16_t peer;
	uint8_t lane, class;
	uint64_t lent;    /* FETCHED: the oldest fetch that the peer has not released */
	uint64_t fetches; /* number of the last fetch of the lane */
	size_t bytes;     /* received */
};

/* True if a connection may be from this rank. */
bool shared_sender(const struct net_config *cfg, uint16_t rank);
/* Check a frame of kind MSG, LAND or FETCH. */
bool shared_frame_ok(const struct shared_place *p, const struct shared_frame *f);
/* Check a frame of kind FETCHED. */
bool shared_release_ok(const struct shared_place *p, const struct shared_frame *f);
/* Decode the address of a rank with nslots slots into *out. -EINVAL: malformed. */
int shared_blob_read(const void *address, size_t size, uint32_t nslots, struct shared_blob *out);

#endif
