/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.h - the structs of the client: attach.c (attachment, requests), rshare.c (connections),
 * set.c (their set).
 */
#ifndef SHARE_CLIENT_H
#define SHARE_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "share/control.h"
#include "share/pool.h"

struct rs_owner;

struct rshare {
	int sock, stop;
	pthread_mutex_t lock; /* serialises requests; protects conn[] */
	struct rs_layout layout;
	void *base;
	struct rs_pool pool;
	bool pool_ready, watched, remote;
	uint32_t rkey;
	uint32_t pieces; /* of an operation, that the device takes */
	uint64_t pool_address;
	uint32_t dead;             /* the owner is dead; atomic */
	struct rshare_conn **conn; /* by index, including listeners */
	int set;                   /* signal of the set */
	uint32_t set_signals;      /* as signals of a connection; atomic */
	void **mark;               /* by index, for connections in the set; atomic */
	pthread_t watcher;
	void (*thread)(void *arg); /* of the config */
	void *thread_arg;
	struct rs_owner *owner; /* of this process, or NULL */
};

struct rshare_conn {
	struct rshare *r;
	struct rs_seg_conn *seg;
	uint32_t index;
	uint32_t sq, rq, cq;      /* positions of the client; atomic */
	uint32_t sends, receives; /* outstanding or not yet polled; atomic */
	uint32_t quiet;           /* of the owner, as far as sends is less by it; atomic */
	int fd;                   /* its signal; -1: none yet */
	uint32_t signals;         /* of the owner, when one was taken last; atomic */
	uint32_t closed;          /* the last event was polled; atomic */
	int status;               /* of the last event */
};

/* A listener is a connection whose only events are new connections. */
struct rshare_listener {
	struct rshare_conn conn;
};

#endif
