/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net.h - the table of transport functions. A transport carries the core's messages and their
 * payloads between ranks.
 *
 * Every backend guarantees that a message arrives exactly once, or the peer is reported lost.
 * Messages may be reordered. A sender never waits for the application on the receiver. All
 * functions but open and close may be called by any thread at any time, also from a fault handler.
 * Therefore a backend never accesses shared memory with one of its locks held.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

#define NET_ADDRESS_MAX 4096       /* bytes of an address blob */
#define NET_PAYLOAD_MAX (4u << 20) /* bytes, maximum payload of a message */

struct net;

/* Priority of a block's data, on connections that have priorities: low to high by weight, urgent
 * before all other data. */
enum net_priority { NET_NORMAL = 0, NET_LOW, NET_HIGH, NET_URGENT };

/* Handle one message for this rank's node. The transport checked only the fields it uses;
 * wire_check() checks the others. payload is valid until the handler returns. Called without the
 * backend's locks, so it may send. */
typedef void (*net_handler)(void *arg, const struct msg *m, const void *payload, size_t size);
/* A peer is gone or sends malformed data. Called once per peer, without the backend's locks. */
typedef void (*net_lost)(void *arg, uint16_t rank, int err);

struct net_config {
	uint16_t rank, size;
	/* Messages name nodes; a transport connects ranks. node_of: the node of each rank. rank_of:
	 * for each other node, the rank that this rank sends to. node: this rank's node. nodes:
	 * their number. NULL: each rank is the node of the same number. */
	const uint16_t *node_of, *rank_of;
	uint16_t node, nodes;
	uint32_t nslots; /* slots that have a landing buffer for blocks */
	/* the first slots, used for block requests; other requests use the rest; 0: nslots */
	uint32_t block_slots;
	net_handler handler;
	net_lost lost;
	void (*thread)(void *arg); /* called first by each thread of the backend */
	/* Optional. Return the object requested in a slot of this rank, so that a response need not
	 * name it. */
	uint32_t (*object)(void *arg, uint16_t slot);
	/* Optional. True if a thread of the receiver waits for m by wait_step(), so that no other
	 * thread need be woken. */
	bool (*waited)(const struct msg *m);
	/* Optional. True if the receiver need not be woken for m from a short sleep (doze). */
	bool (*late)(const struct msg *m);
	/* Optional. Does a rank run on this host, and does it see the same processes? NULL: none is
	 * known to. */
	bool (*same_host)(void *arg, uint16_t rank);
	/* Optional. Return the priority of the data of m's block, enum net_priority. */
	unsigned int (*priority)(void *arg, const struct msg *m);
	void *arg;
	bool optional;   /* another backend may be used instead: do not log a missing device */
	uint64_t key;    /* of the job, the same for all ranks; a secret */
	uint64_t number; /* of the job, for names that other users may see */
	/* ms of attempts to rebuild a broken connection before its peer is lost */
	unsigned int lost_ms;
	/* the settings of these names; "" when not set */
	const char *device, *gid, *cq_groups, *verbs;
};

static inline uint16_t net_me(const struct net_config *c)
{
	return c->node_of ? c->node : c->rank;
}

static inline uint16_t net_nodes(const struct net_config *c)
{
	return c->node_of ? c->nodes : c->size;
}

static inline uint16_t net_node_of(const struct net_config *c, uint16_t rank)
{
	return c->node_of ? c->node_of[rank] : rank;
}

static inline uint16_t net_rank_of(const struct net_config *c, uint16_t node)
{
	return c->rank_of ? c->rank_of[node] : node;
}

enum net_wait_step {
	NET_WAIT_BEGIN, /* begin to wait, polling frequently */
	NET_WAIT_SLEEP, /* keep waiting, without polling */
	NET_WAIT_POLL,  /* poll again */
	NET_WAIT_END    /* end of the wait */
};

/* Device operations of net/verbs, which show the effect of its settings (DSM_VERBS). Other backends
 * leave all of them 0. */
struct net_work {
	uint64_t requests;   /* work requests that send, write or read */
	uint64_t doorbells;  /* calls that posted them */
	uint64_t writes;     /* of the requests, RDMA writes ... */
	uint64_t immediates; /* ... with immediate data ... */
	uint64_t bare;       /* ... that carries the whole message */
	uint64_t reads;      /* of the requests, RDMA reads */
	uint64_t inlined;    /* of the requests, those with inline data */
	/* of the requests other than reads, those that report their completion ... */
	uint64_t signalled;
	uint64_t solicited;   /* ... and those that wake the receiver */
	uint64_t handed_over; /* frames queued for the send thread */
	uint64_t completions; /* taken from the devices */
	uint64_t locks;       /* acquisitions of a queue's lock to poll its CQ ... */
	uint64_t idle_locks;  /* ... that found none */
	uint64_t events;      /* of completion channels */
};

struct net_counters {
	uint64_t sent, received;             /* messages */
	uint64_t bytes_sent, bytes_received; /* payloads */
	uint64_t polls, empty_polls, arms, malformed;
	/* messages sent; a bundle is one, of the class of its messages */
	uint64_t by_class[CLASS_MAX];
	uint64_t queue_pairs; /* of the node, if its ranks share them; else 0 */
	/* bytes of buffers into which peers write blocks; 0: it has none of its own */
	uint64_t landing;
	struct net_work work;
};

/* One completion vector in use. */
struct net_vector {
	const char *class; /* the group's name */
	const char *device;
	int vector;
	uint64_t events, completions;
};

/* All connections of one kind: one per peer that this rank has sent to. */
struct net_lane {
	const char *name;
	/* used by this rank to send; opened by this rank or, over verbs, by either side */
	uint64_t connections;
	uint64_t messages, bytes; /* sent over them; bytes of payloads */
};

struct net_ops {
	const char *name;

	/* Open the transport of this rank. Store the address at which peers reach it (at most
	 * NET_ADDRESS_MAX bytes) and its size. -ENODEV, -ENOMEM, -EMFILE. A message on stderr names
	 * the missing device or setting. */
	int (*open)(const struct net_config *cfg, struct net **out, void *address, size_t *size);
	void (*close)(struct net *n);

	/* Store the address of a rank. The first send connects to it. -ENOMEM; -EINVAL: not an
	 * address of this backend; -EEXIST. */
	int (*connect)(struct net *n, uint16_t rank, const void *address, size_t size);

	/* Send m with a payload of size bytes. The caller may reuse both on return. Does not wait
	 * for the peer. May wait for memory or for room in a queue; it then makes progress, but
	 * never delivers. -EPIPE: the peer is lost; -EMSGSIZE; -ENOTCONN. */
	int (*send)(struct net *n, uint16_t rank, const struct msg *m, const void *payload,
		    size_t size);

	/* Progress and deliver at most budget messages; return their number. Messages of a bundle
	 * count each, and the last bundle may go beyond the budget. Return 0 at once while another
	 * thread polls. */
	int (*poll)(struct net *n, unsigned int budget);

	/* Sleeping: fd becomes readable once there is something to poll for, once per successful
	 * arm.
	 * arm: 0; 1: the same, and fd may be readable of old; -EBUSY: there is already something to
	 * poll for; poll first. */
	int (*fd)(struct net *n);
	int (*arm)(struct net *n);
	/* Optional. As arm for a short sleep, from which a message that may be late wakes nobody.
	 * -ENOTSUP: arm. */
	int (*doze)(struct net *n);
	/* Optional. A second descriptor that becomes readable likewise; -1: there is none. The
	 * thread that sleeps reads it until it is empty: Linux 5.5 to 5.13 report no edge of a pipe
	 * that has bytes already. */
	int (*bell)(struct net *n);

	/* Optional. Announce the next step of a thread that waits for a message. While one polls,
	 * no other thread is woken for messages. The last one that stops polling arms the backend
	 * for the threads that sleep. -EBUSY: messages are pending; poll, then arm. */
	int (*wait_step)(struct net *n, enum net_wait_step next);
	/* Most messages of a MSG_BUNDLE that saves messages; 0: none is sent. It would be carried
	 * like any other payload. */
	unsigned int bundle;
	/* MSG_DATA travels in them. Otherwise each block is sent to where it is wanted. */
	bool bundles_data;
	/* the backend has threads of its own, which poll while no waiting thread does */
	bool threads;

	/* Drop a peer. Nothing more is delivered from it, except messages that other threads'
	 * handlers are processing. */
	void (*drop)(struct net *n, uint16_t rank);
	void (*counters)(struct net *n, struct net_counters *out);
	/* Optional. Fill in up to max rows; return how many there are. */
	unsigned int (*vectors)(struct net *n, struct net_vector *out, unsigned int max);
	unsigned int (*lanes)(struct net *n, struct net_lane *out, unsigned int max);
};

extern const char *const net_class_names[CLASS_MAX];
extern const struct net_ops net_ucx, net_verbs, net_shared;

/* Where completions of a class are handled. */
struct net_place {
	int16_t vector;
	int16_t cpu; /* of the vector's interrupt; -1: no specific one */
};

/* Choose a completion vector for each class, by the groups of config (DSM_CQ_GROUPS), on the device
 * of that name. If the name is "", use the first device with an active port and store its name in
 * device. If nothing is configured and the device ignores vectors, out is unchanged, because
 * steering its handlers costs an interrupt each. Processes of one host pass different turns. This
 * process holds the vectors until it exits. -ENODEV; -EINVAL: another device owns a class; errors
 * of cqgroup_table_create(). All but the first are logged. */
int net_class_vectors(char *device, size_t room, const char *config, unsigned int turn,
		      struct net_place out[CLASS_MAX]);

#endif
