/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control.h - requests of processes to the owner, over a SOCK_SEQPACKET socket. Each request gets
 * one answer, in order. rules.h defines the valid values of each field. A message of one byte is
 * the doorbell, and gets no answer.
 *
 * Both sides may hold a descriptor of one open file only if neither waits in a call on it: either
 * can clear O_NONBLOCK for the other. So signals go through pairs of sockets, one end for each
 * side, and all calls on sockets carry MSG_DONTWAIT.
 */
#ifndef SHARE_CONTROL_H
#define SHARE_CONTROL_H

#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rshare.h"
#include "share/segment.h"

#define RS_CONTROL_VERSION 13

enum rs_request_type {
	RS_ATTACH =
		/*
		 * version, conns, depth, pool, remote; answer: layout, rkey, pieces, with the fds
		 * of the segment and the set
		 */
	1,
	RS_LISTEN,   /* service; answer: index */
	RS_CONNECT,  /* node, service, priority, weight; answer: index */
	RS_PRIORITY, /* index, priority, weight */
	RS_CLOSE,    /* index */
	RS_RELEASE,  /* index */
	RS_FD,       /* index; answer: a socket that becomes readable. It replaces an earlier one */
	RS_STATS,    /* index */
	RS_JOIN,     /* index */
	RS_INFO,
	/* service: bytes; pages: offset in the pool; remote: access; answer: address, rkey */
	RS_GRANT,
	RS_REVOKE /* service: rkey */
};

struct rs_request {
	uint32_t type, version;
	uint32_t index, service;
	uint32_t conns, depth_shift; /* depth: 1 << depth_shift */
	uint64_t pages;              /* of the pool, RS_PAGE bytes each; of RS_GRANT: bytes */
	uint8_t priority, weight, remote, reserved[5];
	struct sockaddr_storage node;
};

struct rs_answer {
	int32_t status;
	uint32_t index, rkey;
	uint32_t pieces;       /* of an operation, that the device takes */
	uint64_t pool_address; /* address in the owner, as used by peers */
	struct rs_layout layout;
	union {
		struct rshare_stats stats;
		struct rshare_info info;
		char why[RSHARE_WHY_MAX];
	};
};

#endif
