/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frame.h - what a rank says to another by the transport over librshare, and whether it may say it: the frame before each message,
 * and addresses. Pure: bytes in, verdict out. Little endian as the core's messages. rules.h says what each field may be.
 */
#ifndef NET_SHARED_FRAME_H
#define NET_SHARED_FRAME_H

#include <rshare.h>

#include "net/check.h"
#include "net/net.h"

#define SHARED_LANDING 4096u

enum shared_kind { SHARED_MSG = 1, SHARED_LAND, SHARED_FETCH, SHARED_FETCHED };

/* In front of each message; between ranks of one job, which run the same version on the same architecture. */
struct shared_frame {
	uint8_t kind, lane;
	uint16_t src; /* rank */
	uint32_t size;
	uint64_t id; /* FETCH: its number on this lane; FETCHED: the last that was read */
	struct rshare_remote from;
	struct msg m;
};
_Static_assert(sizeof(struct shared_frame) == 64, "the same for all ranks");

#define SHARED_BLOB_MAGIC 0x32687364u /* "dsh2" */

/* What ranks publish. */
struct shared_blob {
	uint32_t magic, nslots;
	char node[sizeof(((struct rshare_info *)0)->address)];
	struct rshare_remote landing;
};
_Static_assert(sizeof(struct shared_blob) <= NET_ADDRESS_MAX, "an address");

/* Where a frame came to. */
struct shared_place {
	const struct net_config *cfg;
	uint16_t peer;
	uint8_t lane, class;
	uint64_t lent;    /* FETCHED: the oldest fetch that the peer has not given back */
	uint64_t fetches; /* the last one of the lane */
	size_t bytes;     /* that came */
};

/* May a connection be of this rank? */
bool shared_sender(const struct net_config *cfg, uint16_t rank);
/* MSG, LAND or FETCH. */
bool shared_frame_ok(const struct shared_place *p, const struct shared_frame *f);
/* FETCHED */
bool shared_release_ok(const struct shared_place *p, const struct shared_frame *f);
/* Into *out, of a rank with nslots slots. -EINVAL. */
int shared_blob_read(const void *address, size_t size, uint32_t nslots, struct shared_blob *out);

#endif
