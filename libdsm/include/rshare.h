/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * rshare.h - shared queue pairs: thousands of connections to a node over two RC queue pairs.
 *
 * One thread of the node, the owner, holds all verbs objects of a device. Processes attach to it and open connections,
 * which are records in shared memory. A connection carries messages, and RDMA writes and reads of exported memory.
 *
 * Conventions, for every function unless its comment says otherwise:
 *  - any thread may call it at any time;
 *  - it returns 0 or a non-negative result on success and a negative errno value on failure, and stores to its output
 *    arguments only on success. The exception is why, NULL or RSHARE_WHY_MAX bytes: on failure, it describes the error;
 *  - -ECONNRESET: the owner is gone, and with it all connections;
 *  - after fork(), only the parent may use objects that were opened before.
 */
#ifndef RSHARE_H
#define RSHARE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RSHARE_API __attribute__((visibility("default")))

#define RSHARE_WHY_MAX 256
#define RSHARE_PORT 18700            /* TCP port of an owner, where owners meet */
#define RSHARE_PRIORITY_MAX 7        /* 7 to 1 are strict, 0 is the weighted class */
#define RSHARE_WEIGHT_MAX 64
#define RSHARE_MESSAGE_MAX (1u << 30) /* bytes of a message, a write or a read */

struct rshare;          /* a process's attachment to an owner */
struct rshare_listener;
struct rshare_conn;

/* Take the library's memory from these functions instead of calloc() and free(), for the whole process. zalloc returns
 * zeroed memory, or NULL. To be called before any other function of the library, and by one thread. Connecting to an
 * address allocates nothing else; a name is resolved by the C library, and libibverbs calls malloc(). */
RSHARE_API void rshare_set_allocator(void *(*zalloc)(size_t size), void (*release)(void *p));

/* ---- attaching ----------------------------------------------------------------------------- */

enum rshare_role {
	RSHARE_ANY = 0, /* attach to the owner of that name on this host; if there is none, be it */
	RSHARE_OWNER,   /* be the owner, as a thread of this process */
	RSHARE_CLIENT   /* attach only */
};

/* Set by rshare_config_init(); change what you need. 0 and NULL mean the default. */
struct rshare_config {
	size_t size;               /* of this structure */
	enum rshare_role role;
	const char *name;          /* of the owner, for processes of this user on this host; a file name; default: the device's */
	/* for every process */
	uint32_t connections;      /* that it may have at a time, listeners included; default 1,024, at most 65,536 */
	uint32_t depth;            /* sends, and receives, that a connection may have outstanding; a power of two; default 32 */
	uint64_t pool;             /* bytes of registered buffers; default 16 MiB */
	int remote;                /* 1: peers may write and read exported parts of the pool */
	/* for the owner */
	const char *address;       /* that it listens at; default: the device's IP address, or all if it has none; "::": all */
	uint16_t port;             /* TCP; default RSHARE_PORT */
	int any_port;              /* 1: a TCP port that is free instead; struct rshare_info has it */
	uint64_t key;              /* owners with different keys refuse each other; 0: any host that reaches the port may be a peer */
	int ib_port;               /* default 1 */
	int gid_index;             /* of the port; default -1: RoCE v2 over IPv4 if there is one */
	uint32_t chunk;            /* bytes that a connection sends per turn; default 16,352, which fill whole packets with their header */
	uint32_t window_strict;    /* bytes outstanding on the strict queue pair of a peer; default 131,072 */
	uint32_t window_weighted;  /* ... on the weighted one; default 131,072 */
	uint32_t receives;         /* landing buffers of a chunk each, for all peers; default 512 */
	uint32_t peers;            /* nodes; default 64 */
	uint8_t sl_strict, sl_weighted;                       /* service level */
	uint8_t traffic_class_strict, traffic_class_weighted; /* of the GRH; DSCP << 2 */
	const char *vectors, *cpus; /* completion vectors and CPUs of the owner's thread: see cqgroup_create() */
	uint32_t run_after;        /* productive rounds in a row, after which the owner polls; default 8; UINT32_MAX: never */
	uint32_t idle_after;       /* empty rounds in a row, after which it sleeps; default 200 */
	uint32_t repair;           /* ms for which it repairs queue pairs that broke, before it resets the connections; default 15,000 */
	/* for every process: each thread of the library calls it first, with arg; not one that only closes a descriptor */
	void (*thread)(void *arg);
	void *arg;
};

RSHARE_API void rshare_config_init(struct rshare_config *config);

/* Attach to the owner of a device ("rxe0"; NULL: the first), or become it. config NULL: the defaults. Blocks while the
 * owner opens the device and registers the pool.
 * -ENODEV: no such device, or its port is down. -ECONNREFUSED: no owner (RSHARE_CLIENT). -EADDRINUSE: there is an owner of
 * that name (RSHARE_OWNER), or the TCP port is in use. -EINVAL: a setting. -EPERM: the owner is another user's, or the folder of
 * its socket is not private to this user.
 * -ENOMEM, -EMFILE, and errors of libibverbs. */
RSHARE_API int rshare_open(const char *device, const struct rshare_config *config, struct rshare **out, char *why);

/* Reset the connections that are left, detach, and free everything, buffers included. The owner's process also ends the
 * owner, and all connections of the node. No other call on it may be in progress. NULL is allowed. */
RSHARE_API void rshare_close(struct rshare *r);

/* ---- registered buffers --------------------------------------------------------------------- */

/* A buffer of the pool, aligned to 256 bytes. NULL: no room. */
RSHARE_API void *rshare_get(struct rshare *r, size_t size);
/* Give it back. It must not be in use by an operation. NULL is allowed. */
RSHARE_API void rshare_put(struct rshare *r, void *buffer);

/* What a peer needs to write or read part of a buffer; send it in a message. */
struct rshare_remote {
	uint64_t address;
	uint32_t rkey;
	uint32_t size;
};

/* -EACCES: the pool is not for peers (remote in the config). -EINVAL: not in the pool. */
RSHARE_API int rshare_export(struct rshare *r, const void *buffer, size_t size, struct rshare_remote *out);

/* ---- connections ---------------------------------------------------------------------------- */

/* Listen for connections to a service, a number of the node's own choice. 4 * depth may wait for rshare_accept(); more are
 * refused. -EADDRINUSE, -ENOSPC. */
RSHARE_API int rshare_listen(struct rshare *r, uint32_t service, struct rshare_listener **out);
/* The next connection. -EAGAIN: none. It can be used at once. */
RSHARE_API int rshare_accept(struct rshare_listener *l, struct rshare_conn **out);
/* An fd for epoll, readable when rshare_accept() may succeed after it said -EAGAIN. It stays the listener's. */
RSHARE_API int rshare_listener_fd(struct rshare_listener *l);
/* Stop listening. Connections that were not accepted are reset. */
RSHARE_API void rshare_unlisten(struct rshare_listener *l);

/* Connect to a service of a node: "host" or "host:port". priority 0 (weighted) to RSHARE_PRIORITY_MAX, weight 1 to
 * RSHARE_WEIGHT_MAX (0: 1) within priority 0. Does not wait for the peer: the first event of the connection is
 * RSHARE_CONNECTED or RSHARE_CLOSED. Sends and receives may be submitted before.
 * -EINVAL; -ENOSPC: no connection is left (connections in the config), or no node (peers in the owner's config); -EHOSTUNREACH:
 * the name is unknown; -ENOMEM, -EMFILE: of the owner, which says so on its stderr. */
RSHARE_API int rshare_connect(struct rshare *r, const char *node, uint32_t service, unsigned int priority,
			      unsigned int weight, struct rshare_conn **out);

/* Close after everything that was submitted has arrived, and free the connection. Waits for that, at most timeout_ms
 * (-1: forever, 0: not at all: data that has not arrived is lost). Events that were not polled are dropped.
 * -ETIMEDOUT: the peer did not take everything, and the connection was reset. Otherwise the status of RSHARE_CLOSED.
 * The connection is freed in any case. No other call on it may be in progress. */
RSHARE_API int rshare_disconnect(struct rshare_conn *c, int timeout_ms);

/* Change the priority and weight of what the local side sends. */
RSHARE_API int rshare_set_priority(struct rshare_conn *c, unsigned int priority, unsigned int weight);

/* ---- operations ----------------------------------------------------------------------------- */

/*
 * All are asynchronous: they return when they are submitted, without a lock and, while the owner is awake, without a system
 * call. Buffers are of the pool and belong to the operation until its event. Operations of a connection complete in the order of
 * submission, sends, writes and reads in one order, receives in another. Errors of submission, for all:
 * -EAGAIN: depth operations are outstanding or not polled. -EINVAL: the buffer is not in the pool, or too long.
 */

/* Send a message. Waits for a receive of the peer without holding up any other connection. */
RSHARE_API int rshare_send(struct rshare_conn *c, const void *buffer, size_t size, uint64_t cookie);
/* Receive the next message. One that is larger than the buffer completes with -EMSGSIZE; its beginning is in the buffer. */
RSHARE_API int rshare_recv(struct rshare_conn *c, void *buffer, size_t size, uint64_t cookie);
/* Write to, and read from, memory that the peer has exported. -ERANGE: past its end. */
RSHARE_API int rshare_write(struct rshare_conn *c, const void *buffer, size_t size, const struct rshare_remote *to,
			    uint64_t offset, uint64_t cookie);
RSHARE_API int rshare_read(struct rshare_conn *c, void *buffer, size_t size, const struct rshare_remote *from,
			   uint64_t offset, uint64_t cookie);

enum rshare_event_type {
	RSHARE_CONNECTED = 1,
	RSHARE_SENT,      /* a send has arrived at the peer's node; a write is in place; a read is here */
	RSHARE_RECEIVED,
	RSHARE_CLOSED     /* the last event. status 0: the peer closed, and everything it sent was received before */
};

/* status of SENT: -EPIPE: the peer has closed; -ECONNRESET: the peer, its node or its connection is gone.
 * status of RECEIVED: -EMSGSIZE, -ECANCELED (no message came before the end).
 * status of CLOSED: 0, -ECONNREFUSED (nobody listens), -EHOSTUNREACH, -EACCES (different keys), -ECONNRESET,
 * -EBADMSG (this process's shared memory was overwritten), -ETIMEDOUT (no answer), -ENOSPC (the peer's process has no connection
 * left), -ENOMEM and other errors of libibverbs (an owner lacks memory or queue pairs, and says so on its stderr). */
struct rshare_event {
	enum rshare_event_type type;
	int status;
	uint64_t cookie; /* of the operation */
	size_t size;     /* bytes of the message */
};

/* Up to max events. 0: none, and the fd, if it was asked for, becomes readable with the next. Does not block. */
RSHARE_API int rshare_poll(struct rshare_conn *c, struct rshare_event *out, int max);
/* The same, but the fd stays as it is: for a thread that polls again soon. Saves system calls, and signals of the owner. */
RSHARE_API int rshare_poll_again(struct rshare_conn *c, struct rshare_event *out, int max);
/* An fd for epoll. Sleep on it only after rshare_poll() has returned 0. It stays the connection's. */
RSHARE_API int rshare_fd(struct rshare_conn *c);
/*
 * One fd for many connections, instead of one each: fewer descriptors and, with many connections, fewer system calls. Put a
 * connection into the set of the process; mark is what rshare_ready() is to return for it, not NULL. It stays there until it
 * is freed. Returns the set's fd, the same for all. It stays the attachment's. rshare_poll(), rshare_fd() and rshare_wait()
 * work as before. -EINVAL, -EMFILE.
 */
RSHARE_API int rshare_join(struct rshare_conn *c, void *mark);
/*
 * Marks of up to max connections of the set that have got events since they were last returned: poll each until it has none. It
 * may have none already, if they were polled before the mark was returned. 0: no mark, and the set's fd becomes readable with
 * the next. Does not block. -ECONNRESET is returned after the last mark.
 */
RSHARE_API int rshare_ready(struct rshare *r, void **out, int max);
/* Wait for events, at most timeout_ms (-1: for ever). 1: there may be some. 0: timeout. */
RSHARE_API int rshare_wait(struct rshare_conn *c, int timeout_ms);

/* ---- figures -------------------------------------------------------------------------------- */

struct rshare_stats {
	uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
	uint64_t chunks_sent, chunks_received;
	uint64_t stalls; /* times that a send waited for the peer's receives */
};

RSHARE_API int rshare_get_stats(struct rshare_conn *c, struct rshare_stats *out);

/* Of the owner. */
struct rshare_info {
	uint32_t peers, clients, connections, queue_pairs;
	uint64_t registered;             /* bytes */
	uint64_t posts, doorbells;       /* work requests, and chains of them */
	uint64_t completions, wakeups;   /* wakeups: of the owner's thread */
	uint64_t signals;                /* wake-ups of processes that slept */
	uint64_t unknown;                /* frames for a connection that is no more */
	uint64_t malformed;              /* frames that ended a peer */
	uint64_t forged;                 /* submissions that ended a connection */
	uint64_t repairs, resent;        /* of queue pairs that broke, and work requests posted again after them */
	uint64_t to_running, to_blocked; /* changes of the working mode */
	uint32_t chunk;
	char address[64]; /* where peers reach it, for rshare_connect(): the device's IP address if it has one, else the host's name */
};

RSHARE_API int rshare_get_info(struct rshare *r, struct rshare_info *out);

#ifdef __cplusplus
}
#endif

#endif
