/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * owner.h - the thread that holds the verbs objects of a node. It is the worker, which feeds the queue pairs, and the
 * poller, which empties the CQ: two halves of each of its rounds, so there is no lock between them.
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

/* Open the device and run the thread. The control socket accepts afterwards. */
int rs_owner_start(const char *device, const char *name, const struct rshare_config *config, struct rs_owner **out,
		   char *why);
void rs_owner_stop(struct rs_owner *o);

/* Shared by owner.c, link.c and process.c; the owner's thread. */
int rs_owner_watch(struct rs_owner *o, struct rs_source *s, uint32_t events);
/* Stop watching and close. By name: a child process may hold the same open file, which would keep it in the epoll set. */
void rs_owner_forget(struct rs_owner *o, struct rs_source *s);
/* Who connects to a listening socket, without blocking; -1: nobody, or refused for lack of descriptors. */
int rs_owner_accept(struct rs_owner *o, const struct rs_source *s, struct sockaddr *from, socklen_t *len);
void rs_owner_log(const char *text);
/* An error for lack of descriptors or memory, which the owner has to report: who asked does not know whose limit it is. */
int rs_owner_refused(int err);
void rs_owner_drain(struct rs_owner *o);
uint64_t rs_owner_now(void);

/* link.c. Find the link to an owner, or begin one. */
int rs_link_get(struct rs_owner *o, const struct sockaddr_storage *at, struct rs_link **out);
void rs_link_accept(struct rs_owner *o, struct rs_source *s, uint32_t events);
struct rs_link *rs_link_of_qp(struct rs_owner *o, uint32_t qpn, enum rs_lane *lane);
void rs_link_fail(struct rs_owner *o, struct rs_link *l, int status, const char *what);
/* Free the dead ones. */
void rs_link_reap(struct rs_owner *o);
/* Time is up for those that are not up, or not repaired. Returns ms until the next, -1: none. */
int rs_link_deadlines(struct rs_owner *o);
void rs_link_address(const struct rs_owner *o, const struct rs_link *l, struct rs_address *out);
/* why: RSHARE_WHY_MAX bytes, of what was lacking. */
int rs_link_create_qps(struct rs_owner *o, struct rs_link *l, char *why);
/* To what l->in.address says. */
int rs_link_connect_qps(struct rs_owner *o, struct rs_link *l);

/* listen.c */
int rs_link_listen(struct rs_owner *o, char *why);
/* The address as one of IPv6. -EAFNOSUPPORT. */
int rs_link_in6(const struct sockaddr_storage *from, struct sockaddr_in6 *out);

/* mend.c. A queue pair has failed, and may be made new. */
void rs_mend_want(struct rs_link *l);
/* Begin the repair of those that are broken. Returns how many. */
unsigned int rs_mend_begin(struct rs_owner *o);
/* The peer's TCP connection has something, or has ended. */
void rs_mend_hear(struct rs_owner *o, struct rs_link *l);
/* Of a repair under way. Returns ms until the next call. */
int rs_mend_tick(struct rs_owner *o, struct rs_link *l, uint64_t now);

/* process.c */
void rs_process_accept(struct rs_owner *o, struct rs_source *s, uint32_t events);
void rs_process_reap(struct rs_owner *o, bool all);

#endif
