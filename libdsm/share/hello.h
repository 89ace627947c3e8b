/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hello.h - messages between owners over TCP before their queue pairs connect; link.c describes the
 * order. Pure.
 */
#ifndef SHARE_HELLO_H
#define SHARE_HELLO_H

#include "share/repair.h"

#define RS_HELLO_MAGIC 0x31525352u /* "RSR1" */
#define RS_GO 0x67                 /* the byte that ends the exchange */

struct rs_hello {
	uint32_t magic, version; /* that of frames */
	uint64_t key, instance;
	uint32_t chunk;
	/*
	 * of the answer: -EACCES, -EPROTO, -EALREADY (a link in the opposite direction is in
	 * progress) ...
	 */
	int32_t status;
	uint16_t port; /* where the sender listens */
	uint16_t pad;
	uint32_t pad2, pad3;
	struct rs_address address; /* may be empty in a refusal */
};

_Static_assert(sizeof(struct rs_hello) == 80, "the wire format");

#endif
