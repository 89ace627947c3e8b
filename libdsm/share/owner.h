/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - the thread that holds the verbs objects of a node. It is the worker, which feeds the queue pairs, and the poller,
 * which empties the CQ: two halves of each of its rounds, so there is no lock between them.
 */
#ifndef SHARE_OWNER_H
#define SHARE_OWNER_H

#include <netinet/in.h>
#include <pthread.h>

#include "share/control.h"
#include "share/device.h"
#include "share/hello.h"
#include "share/mode.h"
#include "share/repair.h"

struct rs_owner;

/* Something that epoll tells of. */
struct rs_source {
	int fd;
	void (*ready)(struct rs_owner *o, struct rs_source *s, uint32_t events);
};

enum rs_link_state { RS_LINK_CONNECTING, RS_LINK_ASKED, RS_LINK_ACCEPTED, RS_LINK_ANSWERED, RS_LINK_UP };

/* A peer: its TCP connection, which tells of its death, and two queue pairs. */
struct rs_link {
	struct rs_source source; /* first */
	struct rs_link *next;
	struct rs_peer peer;
	struct rs_qp qp[RS_LANES];
	struct sockaddr_in6 at; /* where its owner listens; the key */
	uint64_t instance;      /* of the other owner */
	uint64_t deadline;      /* ns, until it is up, or repaired */
	uint64_t tick;          /* ns, of the next rs_peer_tick() */
	uint8_t state;
	bool dead;
	int status; /* why */
	struct rs_hello in;
	uint32_t got; /* bytes of it */
	/* when it is up */
	bool broken; /* a queue pair has failed */
	struct rs_repair repair;
	struct rs_repair_message said; /* by the peer */
	uint32_t said_bytes;
	uint32_t fruitless; /* repairs that this side began since something arrived */
};

/* A process. */
struct rs_process {
	struct rs_source source; /* first */
	struct rs_process *next;
	struct rs_client rs;
	struct ibv_mr *mr;
	void *base;
	pid_t pid;
	int refused; /* the error that its last request met, and that was said */
	bool attached, dead;
};

struct rs_owner {
	struct rshare_config config;
	struct rs_device dev;
	struct rs_hub hub;
	struct rs_mode mode;
	struct rs_link *links, *last; /* last: of the last completion */
	struct rs_process *processes;
	struct rs_source doorbell, channel, control, tcp, stop;
	int reserve; /* a descriptor, for when there is no other: rs_owner_accept() */
	int epoll;
	uint64_t instance;
	uint16_t port;    /* that it listens at */
	char address[64]; /* where peers reach it */
	bool stopping, reap;
	int refused;      /* the error of the last landing buffers that were posted */
	uint64_t starved; /* since when none is posted, 0: some are */
	bool armed;       /* the CQ: its event has not come */
	uint32_t sleep;   /* number of the last one */
	uint64_t completions, wakeups, signals, repairs;
	pthread_t thread;
};

/* Open the device and start the thread. The control socket accepts afterwards. Blocks. why: RSHARE_WHY_MAX bytes, of the
 * error. -EADDRINUSE: name has an owner. Errors of rs_device_open(), rs_listen_start(), socket(), pthread_create(). */
int rs_owner_start(const char *device, const char *name, const struct rshare_config *config, struct rs_owner **out,
		   char *why);
/* End the thread, wait for its end, and free the owner: connections of its processes and peers are reset. */
void rs_owner_stop(struct rs_owner *o);

/* The others are for the files of the owner; by its thread, or before that starts. None blocks. */

/* Have s->ready called for these events of s->fd. -errno of epoll_ctl(). */
int rs_owner_watch(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* Stop watching and close. By name: a child process may hold the same open file, which would keep it in the epoll set. */
void rs_owner_forget(struct rs_owner *o, struct rs_source *s);
/* Accept from a listening socket. -1: nobody is there, or it was refused for lack of descriptors, which is logged. */
int rs_owner_accept(struct rs_owner *o, const struct rs_source *s, struct sockaddr *from, socklen_t *len);
/* Take all completions from the CQ. Links may fail over it. */
void rs_owner_drain(struct rs_owner *o);

/* Is this an error for lack of descriptors or memory? The owner reports it: who asked does not know whose limit it is. */
int rs_owner_refused(int err);
/* A line on stderr. */
void rs_owner_log(const char *text);
/* The monotonic clock, in ns. */
uint64_t rs_owner_now(void);

#endif
