/* SPDX-License-Identifier: BSD-2-Clause */
/* node.h - what the server and the tests of librshare share. */
#ifndef SHARE_NODE_H
#define SHARE_NODE_H

#include <stddef.h>
#include <stdint.h>

#include "rshare.h"

/*
 * Services of the server: ECHO sends each message back; SINK counts messages in order; STUCK posts
 * no receive; MEMORY sends the address of an exported buffer and then echoes; REPORT answers each
 * message with what SINK has counted, and the owner's figures. Immediate data comes back with an
 * echo; a write with such data is answered by an empty message.
 */
enum { ECHO = 1, SINK, STUCK, MEMORY, REPORT, SERVICES };

#define SLOT 4096u /* bytes of a receive buffer of the server */
#define BIG (1u << 20)

struct report {
	uint64_t messages, bytes, out_of_order, closed, broken;
	struct rshare_info info;
};

/* err is not negative; else the process ends with a message. */
void must(int err, const char *what);
/*
 * For a job with the key of these tests. SHARE_PORT and SHARE_NAME tell the owner. The process ends
 * if that fails.
 */
struct rshare *node_open(enum rshare_role role, uint32_t connections, uint64_t pool);
/* An owner besides that one, with so many landing buffers, 0: the default. */
struct rshare *node_own(const char *name, uint16_t port, uint32_t connections, uint32_t receives);
/* Own the device and serve, until the process is killed. */
void node_serve(void);

#endif
