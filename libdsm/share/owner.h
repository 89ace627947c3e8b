/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - the thread that holds the verbs objects of a node. It is both the worker, which posts
 * to the queue pairs, and the poller, which polls the CQ. Each round does both, so they need no
 * lock.
 *
 * With direct_post in the config, other threads of the process help it: some devices send during
 * the post, which keeps the thread for the time of a long chunk, or of a window of them.
 *
 *   owner's thread                        a thread that has submitted, or is about to sleep
 *   hold the gate
 *   prepare long posts, weighted lane
 *   open and release the gate
 *   ibv_post_send()                       take the gate, if it is open and free at once
 *                                         poll the rings, post to strict lanes, poll the CQ
 *   close and take the gate               release the gate
 *   go on with the round
 *
 * The thread holds the gate at all other times, also asleep. What helpers leave undone is its next
 * round's: it has posted something, so there is one before it sleeps.
 */
#ifndef SHARE_OWNER_H
#define SHARE_OWNER_H

#include <netinet/in.h>
#include <pthread.h>
#include <sys/un.h>

#include "share/control.h"
#include "share/device.h"
#include "share/hello.h"
#include "share/mode.h"
#include "share/repair.h"

struct rs_owner;

/* Source of epoll events. */
struct rs_source {
	int fd;
	void (*ready)(struct rs_owner *o, struct rs_source *s, uint32_t events);
};

enum rs_link_state {
	RS_LINK_CONNECTING,
	RS_LINK_ASKED,
	RS_LINK_ACCEPTED,
	RS_LINK_ANSWERED,
	RS_LINK_UP
};

/* A peer: its TCP connection, whose end shows its death, and two queue pairs. */
struct rs_link {
	struct rs_source source; /* first */
	struct rs_link *next;
	struct rs_peer peer;
	struct rs_qp qp[RS_LANES];
	struct sockaddr_in6 at; /* listening address of its owner; the lookup key */
	uint64_t instance;      /* of the other owner */
	uint64_t deadline;      /* ns; to be up or repaired */
	uint64_t tick;          /* ns, of the next rs_peer_tick() */
	uint8_t state;
	bool dead;
	int status; /* reason of its death */
	struct rs_hello in;
	uint32_t got; /* bytes of it */
	/* while it is up */
	bool broken; /* a queue pair failed */
	struct rs_repair repair;
	struct rs_repair_message said; /* by the peer */
	uint32_t said_bytes;
	uint32_t fruitless; /* repairs begun by this side since the last arrival */
};

/* A process. */
struct rs_process {
	struct rs_source source; /* first */
	struct rs_process *next;
	struct rs_client rs;
	struct ibv_mr *mr;
	void *base;
	pid_t pid;
	int refused; /* error of its last request, already logged */
	bool full;   /* a key was refused, which was logged */
	bool attached, dead;
};

struct rs_owner {
	struct rshare_config config;
	struct rs_device dev;
	struct rs_hub hub;
	struct rs_mode mode;
	struct rs_link *links, *last; /* last: link of the last completion */
	struct rs_process *processes;
	struct rs_source channel, control, tcp, stop;
	struct sockaddr_un at; /* of the control socket; without a path: it is not bound */
	int reserve;           /* spare descriptor for when no other is free: rs_owner_accept() */
	int epoll;
	uint64_t instance;
	uint16_t port;    /* listening port */
	char address[64]; /* where peers reach it */
	bool stopping, reap;
	bool refuses;     /* the kernel refuses descriptors that processes send: unasked.h */
	int refused;      /* error of the last post of landing buffers */
	uint64_t starved; /* time since which none is posted; 0: some are posted */
	bool armed;       /* the CQ is armed, without an event so far */
	uint32_t sleep;   /* number of the last sleep */
	uint64_t checked; /* time of the last check of the sockets */
	uint64_t completions, wakeups, signals, repairs;
	pthread_t thread;
	struct rs_gate gate;
	uint64_t helped; /* posts by other threads; atomic */
};

/* Open the device and start the thread. The control socket accepts afterwards. Blocks. why:
 * RSHARE_WHY_MAX bytes, of the error. -EADDRINUSE: name has an owner. Errors of rs_device_open(),
 * rs_listen_start(), socket(), pthread_create(). */
int rs_owner_start(const char *device, const char *name, const struct rshare_config *config,
		   struct rs_owner **out, char *why);
/* Stop and join the thread, and free the owner. Connections of its processes and peers are
 * reset. */
void rs_owner_stop(struct rs_owner *o);

/* Do work of the owner's thread while it posts long chunks, else nothing. Any thread of its
 * process; does not wait for others. Not for signal handlers, nor interrupted by those that wait
 * for an event. */
void rs_owner_help(struct rs_owner *o);

/* The other functions are for the owner's files only, in its thread or before that starts. None
 * blocks. */

/* Call s->ready for these events of s->fd. -errno of epoll_ctl(). */
int rs_owner_watch(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* Remove s->fd from the epoll set and close it. Closing alone is not enough: a child process may
 * hold the same open file. */
void rs_owner_forget(struct rs_owner *o, struct rs_source *s);
/* Accept from a listening socket. -1: none is pending, or it was refused for lack of descriptors,
 * which is logged. */
int rs_owner_accept(struct rs_owner *o, const struct rs_source *s, struct sockaddr *from,
		    socklen_t *len);
/* Poll all completions from the CQ. Links may fail meanwhile. */
void rs_owner_drain(struct rs_owner *o);

/* True if err means a lack of descriptors or memory. The owner logs it, because the requester
 * cannot know whose limit it is. */
int rs_owner_refused(int err);
/* Return the monotonic clock, in ns. */
uint64_t rs_owner_now(void);

#endif
