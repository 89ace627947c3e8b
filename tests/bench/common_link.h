/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_link.h - one reliable connection between two processes over bare verbs: what a round trip
 * costs at the least.
 *
 * The requester sends a small message (32 bytes, inline), the responder answers. Every failure ends
 * the process with a message.
 */
#ifndef BENCH_COMMON_LINK_H
#define BENCH_COMMON_LINK_H

#include <stdbool.h>
#include <stdint.h>

#define LINK_DEPTH_MAX 32 /* requests under way at a time */

enum link_ask {
	LINK_MESSAGE = 1, /* answered by a small message, inline */
	LINK_FAULT,       /* answered by 4 KiB, in one RDMA write with immediate */
	LINK_END,         /* not answered: link_respond() returns */
};

/* For the other side, by any means. */
struct link_address {
	uint8_t gid[16];
	uint64_t block;
	uint32_t qpn, rkey, lid, mtu;
};

struct link;

/*
 * The index of the GID of port 1 that serves best, RoCE v2 over IPv4 first, and the GID itself; -1:
 * there is none.
 */
struct ibv_context;
int link_best_gid(struct ibv_context *device, uint8_t gid[16]);

/* device NULL: the first; gid_index -1: the best RoCE v2 one. */
struct link *link_open(const char *device, int gid_index, struct link_address *here);
void link_connect(struct link *s,
		  /* and see to it that both are, before the first message */
		  const struct link_address *there);

/* Whoever sleeps does so on the completion channel; otherwise it polls. */
void link_ask(struct link *s, enum link_ask what, bool responder_sleeps, uint32_t round);
void link_answered(struct link *s, enum link_ask what, bool sleeping, uint32_t round);
void link_respond(struct link *s);

#endif
