/* SPDX-License-Identifier: BSD-2-Clause */
/* clang-format off */
/*
 * rshare.h - shared queue pairs: thousands of connections to a node over two RC queue pairs.
 *
 * One thread of a node, the owner, holds all verbs objects of a device. Processes attach to the
 * owner and open connections, which are records in shared memory. A connection carries messages,
 * and RDMA writes and reads of exported memory.
 *
 * Conventions, unless the comment of a function says otherwise:
 *  - Any thread may call a function at any time.
 *  - A function returns 0 or a non-negative result on success, and a negative errno value on
 *    failure. It stores to its output arguments only on success. Exception: why (NULL or
 *    RSHARE_WHY_MAX bytes) describes the error on failure.
 *  - A function that makes a request waits for the owner on this host, but not for a peer.
 *  - -ECONNRESET: the owner has ended, and with it all connections.
 *  - After fork(2), only the parent may use objects that were opened before.
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
#define RSHARE_PORT 18700            /* TCP port at which an owner listens for other owners */
#define RSHARE_PRIORITY_MAX 7        /* 1 to 7 are strict; 0 is weighted */
#define RSHARE_WEIGHT_MAX 64
#define RSHARE_MESSAGE_MAX (1u << 30) /* maximum bytes of a message, a write or a read */
#define RSHARE_INLINE_MAX 76          /* maximum bytes of an operation with RSHARE_INLINE */
#define RSHARE_PIECES_MAX 5           /* maximum pieces of the buffer of an operation */

struct rshare;          /* the attachment of a process to an owner */
struct rshare_listener;
struct rshare_conn;

/* Set the allocator of the library for the whole process, in place of calloc(3) and free(3). zalloc
 * returns zeroed memory, or NULL. One thread calls this before any other function of the library.
 * rshare_connect() to a numeric address allocates nothing else; the C library allocates to resolve
 * a name, and libibverbs calls malloc(3). */
RSHARE_API void rshare_set_allocator(void *(*zalloc)(size_t size), void (*release)(void *p));

/* ---- attaching ----------------------------------------------------------------------------- */

enum rshare_role {
	RSHARE_ANY = 0, /* attach to the owner of that name on this host; become the owner if there is none */
	RSHARE_OWNER,   /* become the owner, in a thread of this process */
	RSHARE_CLIENT   /* attach; fail if there is no owner */
};

/* rshare_config_init() sets the defaults. In all fields but gid_index, 0 and NULL mean the
 * default. */
struct rshare_config {
	size_t size;               /* of this structure */
	enum rshare_role role;
	const char *name;          /* of the owner, per user and host; a file name; default: the device */
	/* for every process */
	uint32_t connections;      /* maximum number, including listeners; default 1,024, at most 65,536 */
	uint32_t depth;            /* outstanding sends, and receives, per connection; a power of two; default 32 */
	uint64_t pool;             /* bytes of registered buffers; default 16 MiB */
	int remote;                /* 1: peers may write and read exported parts of the pool */
	/* for the owner */
	const char *address;       /* to listen at; default: IP address of the device, or all without one; "::": all */
	uint16_t port;             /* TCP; default RSHARE_PORT */
	int any_port;              /* 1: listen at any free TCP port; rshare_get_info() returns it */
	uint64_t key;              /* owners with different keys refuse each other; 0: accept every host */
	int ib_port;               /* default 1 */
	int gid_index;             /* of the port; default -1: RoCE v2 over IPv4 if available */
	uint32_t chunk;            /* bytes sent per connection and turn; default 16,352, whole packets with a header */
	uint32_t window_strict;    /* outstanding bytes on the strict queue pair of a peer; default 131,072 */
	uint32_t window_weighted;  /* outstanding bytes on the weighted queue pair; default 131,072 */
	uint32_t receives;         /* receive buffers of one chunk, for all peers; default 512 */
	uint32_t peers;            /* maximum number of other nodes; default 64 */
	uint8_t sl_strict, sl_weighted;                       /* service level */
	uint8_t traffic_class_strict, traffic_class_weighted; /* of the GRH; DSCP << 2 */
	const char *vectors, *cpus; /* of the owner's thread: see cqgroup_create() */
	uint32_t run_after;        /* the owner polls after this many productive rounds; default 8; UINT32_MAX: never */
	uint32_t idle_after;       /* the owner sleeps after this many empty rounds; default 200 */
	uint32_t repair;           /* ms to repair broken queue pairs before it resets connections; default 15,000 */
	/* for every process: each library thread first calls thread(arg), except one that only
	 * closes a descriptor */
	void (*thread)(void *arg);
	void *arg;
	/* for the owner */
	uint32_t window_narrow;    /* window_weighted while short messages are about; default 2 chunks; UINT32_MAX: the same */
	uint32_t grants;           /* maximum number of keys of rshare_grant() per process; default 1,024, at most 65,536 */
	int direct_post;           /* 1: threads of the owner's process post strict messages while its thread posts long ones */
};

/* Fill *config with the defaults. */
RSHARE_API void rshare_config_init(struct rshare_config *config);

/* Attach to the owner of a device ("rxe0"; NULL: the first), or become the owner. config NULL: the
 * defaults. Blocks while the owner opens the device and registers the pool. -ENODEV: no such
 * device, or its port is not active. -ECONNREFUSED: no owner (RSHARE_CLIENT). -EADDRINUSE: the name
 * has an owner (RSHARE_OWNER), or the TCP port is in use. -EINVAL: a setting is out of range.
 * -EPERM: the owner belongs to another user, or other users can access the folder of its socket.
 * -ENOMEM, -EMFILE: memory or descriptors. Other errors are those of libibverbs. */
RSHARE_API int rshare_open(const char *device, const struct rshare_config *config, struct rshare **out, char *why);

/* Reset the remaining connections, detach, and free everything, including the buffers. In the
 * process of the owner, this also ends the owner and all connections of the node. No other call on
 * r may be in progress. NULL is allowed. */
RSHARE_API void rshare_close(struct rshare *r);

/* ---- registered buffers --------------------------------------------------------------------- */

/* Allocate a buffer from the pool, aligned to 256 bytes. NULL: no room. Free it with
 * rshare_put(). */
RSHARE_API void *rshare_get(struct rshare *r, size_t size);
/* Free a buffer. No operation may use it. NULL is allowed. */
RSHARE_API void rshare_put(struct rshare *r, void *buffer);

/* Describes part of a buffer that a peer may write and read. Send it to the peer in a message. */
struct rshare_remote {
	uint64_t address;
	uint32_t rkey;
	uint32_t size;
};

/* Describe size bytes at buffer for peers. -EACCES: remote is not set in the config. -EINVAL: not
 * in the pool, or more than RSHARE_MESSAGE_MAX. */
RSHARE_API int rshare_export(struct rshare *r, const void *buffer, size_t size, struct rshare_remote *out);

enum rshare_access {
	RSHARE_ACCESS_READ = 1,
	RSHARE_ACCESS_WRITE = 2,
	RSHARE_ACCESS_ATOMIC = 4
};

/* Describe size bytes at buffer for peers, by a key that opens these bytes only, for access (of
 * enum rshare_access), until rshare_revoke(). remote in the config, which opens the pool, is not
 * needed. The key is not bound to a connection: it serves every peer that knows it. The owner
 * registers the bytes once more, in its own mapping of the pool, so their pages count again for its
 * RLIMIT_MEMLOCK. No call registers other memory: the owner would have to map it, and takes no
 * descriptors from processes. -EINVAL: no access or an unknown one, not in the pool, 0 bytes, or more
 * than RSHARE_MESSAGE_MAX. -ENOSPC: the process has all keys that `grants` in the config of the owner
 * allows. -ENOMEM: registered memory of the owner. Its stderr says both. */
RSHARE_API int rshare_grant(struct rshare *r, const void *buffer, size_t size, unsigned int access,
			    struct rshare_remote *out);
/* Take a key of rshare_grant() back. An operation of a peer that uses it later, or is in progress,
 * ends its connection with -EKEYREJECTED. -ENOENT: no such key of this process. */
RSHARE_API int rshare_revoke(struct rshare *r, const struct rshare_remote *granted);

/* ---- connections ---------------------------------------------------------------------------- */

/* Listen for connections to a service, a number of the program's choice. At most 4 * depth
 * connections wait for rshare_accept(); more are refused. -EADDRINUSE: a listener of the node has
 * this service. -ENOSPC: all connections of the config are in use. -ENOMEM. */
RSHARE_API int rshare_listen(struct rshare *r, uint32_t service, struct rshare_listener **out);
/* Accept the next connection, which is ready for use. Does not block. -EAGAIN: none is waiting. */
RSHARE_API int rshare_accept(struct rshare_listener *l, struct rshare_conn **out);
/* Return a descriptor for epoll(7). It becomes readable when rshare_accept() may succeed after
 * -EAGAIN. The listener owns it. */
RSHARE_API int rshare_listener_fd(struct rshare_listener *l);
/* Stop listening, reset connections that were not accepted, and free the listener. NULL is
 * allowed. */
RSHARE_API void rshare_unlisten(struct rshare_listener *l);

/* Connect to a service of a node: "host", "host:port" or "[address]:port". priority: 0 (weighted)
 * to RSHARE_PRIORITY_MAX. weight: 1 to RSHARE_WEIGHT_MAX within priority 0; 0 means 1. Does not
 * wait for the peer: the first event of the connection is RSHARE_CONNECTED or RSHARE_CLOSED.
 * Operations may be submitted before. -EINVAL: bad name, priority or weight. -ENOSPC: all
 * connections of the config, or all peers of the owner, are in use. -EHOSTUNREACH: the name is
 * unknown. -ENOMEM, -EMFILE: a limit of the owner, which its stderr names. */
RSHARE_API int rshare_connect(struct rshare *r, const char *node, uint32_t service, unsigned int priority,
			      unsigned int weight, struct rshare_conn **out);

/* Close the connection when everything that was submitted has arrived, and free it, in any case.
 * Waits at most timeout_ms; -1: no limit; 0: reset at once, and lose data that has not arrived.
 * Drops events that were not polled. No other call on the connection may be in progress. NULL is
 * allowed. -ETIMEDOUT: the peer did not take everything in time; the connection was reset.
 * Otherwise the status of RSHARE_CLOSED. */
RSHARE_API int rshare_disconnect(struct rshare_conn *c, int timeout_ms);

/* Change the priority and weight of what this side sends. -EINVAL: out of range. */
RSHARE_API int rshare_set_priority(struct rshare_conn *c, unsigned int priority, unsigned int weight);

/* ---- operations ----------------------------------------------------------------------------- */

/*
 * Operations are asynchronous: a call returns when the operation is submitted. It takes no lock,
 * and makes no system call while the owner is awake, except in the owner's process with
 * direct_post. The buffer must be in the pool, and belongs to
 * the operation until its event. Sends, writes and reads of a connection complete in the order of
 * submission; so do receives. Errors of all calls: -EAGAIN: depth operations are outstanding or not
 * polled. -EINVAL: the buffer is not in the pool, or is too long.
 */

enum rshare_op_type {
	RSHARE_OP_SEND = 1,
	RSHARE_OP_WRITE,
	RSHARE_OP_READ,
	/* Add operand to the 8 bytes at offset of remote, or store operand if they are equal to
	 * compare; buffer gets the old value. size is 8, and the address is aligned to 8 bytes. The
	 * peer's owner performs them with instructions of its processor: they are atomic with one
	 * another and with atomic instructions of programs at the peer, and happen once even if queue
	 * pairs break. They are not atomic with writes. If one fails, it may have been performed. */
	RSHARE_OP_FETCH_ADD,
	RSHARE_OP_COMPARE_SWAP
};

enum rshare_op_flags {
	/* Without an event if the operation succeeds. A failure has one. Later operations complete
	 * after this one, so their events tell of it, too. Its place among the depth operations is
	 * free when it is complete, whether or not others are polled. A program that submits nothing
	 * else has no event to wait for after -EAGAIN: it tries again, or submits one of every depth
	 * operations without this flag (of every depth / 2, if they take two places). */
	RSHARE_UNSIGNALLED = 1,
	/* Start the operation, and all after it, when the earlier reads and atomic operations of the
	 * connection are complete. Without a fence, a write may change what one of these reads, a
	 * read may come before an atomic operation, and a send may take what was in its buffer before
	 * a read into the same buffer. Other connections do not wait. */
	RSHARE_FENCE = 2,
	/* Of sends and writes: the peer's event has the 4 bytes of immediate. A write then takes a
	 * receive of the peer, as a send does, and waits for it; when all its bytes are in place,
	 * the peer has the event RSHARE_WRITTEN. */
	RSHARE_IMMEDIATE = 4,
	/* Of sends and writes of at most RSHARE_INLINE_MAX bytes: the call copies them, so the
	 * buffer may be any memory, and is the caller's again when the call returns. An operation of
	 * more than 16 bytes takes two places of depth while the owner has not taken it. */
	RSHARE_INLINE = 8
};

/* Part of a buffer. */
struct rshare_piece {
	void *buffer;
	size_t size;
};

/* An operation; unused fields are 0. */
struct rshare_op {
	enum rshare_op_type type;
	unsigned int flags;               /* of enum rshare_op_flags */
	uint64_t cookie;
	void *buffer;                     /* not changed by sends and writes */
	size_t size;
	const struct rshare_remote *remote; /* of all but sends; copied by the call */
	uint64_t offset;                  /* in it */
	uint32_t immediate;               /* with RSHARE_IMMEDIATE; in the byte order of the host */
	uint64_t operand, compare;        /* of atomic operations */
	/* Of sends, writes and reads: npieces pieces in place of buffer and size, as the sg_list of an
	 * ibv_send_wr. A send or write gathers them in their order, a read scatters to them; together
	 * they have at most RSHARE_MESSAGE_MAX bytes. Each is in the pool (with RSHARE_INLINE: in any
	 * memory); an empty one is skipped. The call copies the array. An operation of several pieces
	 * takes two places of depth while the owner has not taken it. */
	const struct rshare_piece *pieces;
	unsigned int npieces;
};

/* Submit an operation. The functions below do the same for operations without flags. -EINVAL, also:
 * no such type, a flag that the type does not have, more than RSHARE_INLINE_MAX bytes with
 * RSHARE_INLINE, no 8 aligned bytes for an atomic operation, or remote is NULL for anything but a
 * send; pieces together with buffer or size, or npieces without pieces; more than RSHARE_PIECES_MAX
 * pieces, or more that are not empty than the device takes (pieces of struct rshare_info). -ERANGE: the access passes the end of remote. */
RSHARE_API int rshare_post(struct rshare_conn *c, const struct rshare_op *op);

/* Send a message. The operation waits for a receive of the peer, and delays no other connection. */
RSHARE_API int rshare_send(struct rshare_conn *c, const void *buffer, size_t size, uint64_t cookie);
/* Receive the next message. If it is larger than the buffer, the status is -EMSGSIZE, and the
 * buffer has its beginning. */
RSHARE_API int rshare_recv(struct rshare_conn *c, void *buffer, size_t size, uint64_t cookie);
/* Write to or read from memory that the peer has exported. -ERANGE: the access passes its end. */
RSHARE_API int rshare_write(struct rshare_conn *c, const void *buffer, size_t size, const struct rshare_remote *to,
			    uint64_t offset, uint64_t cookie);
RSHARE_API int rshare_read(struct rshare_conn *c, void *buffer, size_t size, const struct rshare_remote *from,
			   uint64_t offset, uint64_t cookie);

enum rshare_event_type {
	RSHARE_CONNECTED = 1,
	RSHARE_SENT,      /* a send has arrived at the peer's node; a write or a read is complete */
	RSHARE_RECEIVED,
	RSHARE_CLOSED,    /* the last event. status 0: the peer closed, and everything that it sent was received */
	RSHARE_WRITTEN    /* the peer's write with immediate data is in place. It took a receive, whose cookie this is,
	                   * and left its buffer alone */
};

/* status of RSHARE_WRITTEN: 0. status of RSHARE_SENT: -EPIPE: the peer closed before. -ECONNRESET: the peer, its node or its
 * connection has ended. status of RSHARE_RECEIVED: -EMSGSIZE: the message was larger than the
 * buffer. -ECANCELED: no message came before the end. status of RSHARE_CLOSED: 0. -ECONNREFUSED:
 * nobody listens. -EHOSTUNREACH: the node cannot be reached. -EACCES: different keys. -ECONNRESET.
 * -EBADMSG: the shared memory of this process was overwritten. -ETIMEDOUT: no answer. -ENOSPC: the
 * peer's process has no connection left. -EKEYREJECTED: the peer does not export the memory of an
 * operation; operations that were submitted after it also have this status. -ENOMEM and other
 * errors of libibverbs: an owner lacks memory or queue pairs, as its stderr says. */
struct rshare_event {
	enum rshare_event_type type;
	int status;
	uint64_t cookie; /* as passed to the operation */
	size_t size;     /* bytes of the message, or of the write */
	uint32_t flags;  /* RSHARE_IMMEDIATE: immediate has the peer's data */
	uint32_t immediate;
};

/* Store up to max events and return their number. Does not block. 0: none; the descriptor of
 * rshare_fd() becomes readable at the next event. */
RSHARE_API int rshare_poll(struct rshare_conn *c, struct rshare_event *out, int max);
/* Like rshare_poll(), without effect on the descriptor. For a thread that polls again soon: it
 * saves system calls, and signals of the owner. */
RSHARE_API int rshare_poll_again(struct rshare_conn *c, struct rshare_event *out, int max);
/* Return a descriptor for epoll(7). Sleep on it only after rshare_poll() has returned 0. The
 * connection owns it. -EMFILE. */
RSHARE_API int rshare_fd(struct rshare_conn *c);
/*
 * Add a connection to the set of the process and return the descriptor of the set, which many
 * connections share. This saves descriptors and system calls. rshare_ready() returns mark, which
 * must not be NULL, for the connection. The connection stays in the set until it is freed. The
 * attachment owns the descriptor. rshare_poll(), rshare_fd() and rshare_wait() work as before.
 * -EINVAL: mark is NULL. -EMFILE.
 */
RSHARE_API int rshare_join(struct rshare_conn *c, void *mark);
/*
 * Store the marks of up to max connections of the set that have got events since they were last
 * returned, and return their number. Poll each of them until it has no event; it may have none if
 * it was polled before. Does not block. 0: none; the descriptor of the set becomes readable at the
 * next event. -ECONNRESET is returned after the last mark.
 */
RSHARE_API int rshare_ready(struct rshare *r, void **out, int max);
/* Wait for events, at most timeout_ms; -1: no limit. Returns 1 if there may be some, 0 after the
 * timeout. -EINTR: a signal came. -EMFILE. */
RSHARE_API int rshare_wait(struct rshare_conn *c, int timeout_ms);

/* ---- figures -------------------------------------------------------------------------------- */

struct rshare_stats {
	uint64_t messages_sent, bytes_sent, messages_received, bytes_received;
	uint64_t chunks_sent, chunks_received;
	uint64_t stalls; /* times that an operation waited for a receive of the peer */
	uint64_t writes, bytes_written, reads, bytes_read, atomics; /* that are complete */
	uint64_t written; /* writes of the peer with immediate data */
	uint64_t fences;  /* times that an operation with a fence had to wait */
	uint64_t outstanding; /* operations, but receives, that were taken from the process and are not complete */
};

RSHARE_API int rshare_get_stats(struct rshare_conn *c, struct rshare_stats *out);

/* Counters of the owner. */
struct rshare_info {
	uint32_t peers, clients, connections, queue_pairs;
	uint64_t registered;             /* bytes */
	uint64_t posts, doorbells;       /* work requests; chains of work requests */
	uint64_t completions, wakeups;   /* work completions; wake-ups of the owner's thread */
	uint64_t signals;                /* wake-ups of sleeping processes */
	uint64_t unknown;                /* frames for connections that have ended */
	uint64_t malformed;              /* frames that ended the link to a peer */
	uint64_t forged;                 /* invalid submissions, which ended a connection */
	uint64_t repairs, resent;        /* repairs of queue pairs; work requests posted again */
	uint64_t to_running, to_blocked; /* changes between polling and sleeping */
	uint32_t chunk;
	uint32_t pieces;  /* of an operation, that the device takes: at most RSHARE_PIECES_MAX */
	char address[64]; /* for rshare_connect() of peers: IP address of the device, or name of the host */
};

RSHARE_API int rshare_get_info(struct rshare *r, struct rshare_info *out);

#ifdef __cplusplus
}
#endif

#endif
