/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * net.h - the transport table: carries the core's messages and the blocks behind them between ranks.
 *
 * Promises of every backend: a message arrives once or the peer is reported lost; order between messages is not promised;
 * a sender never waits for its receiver's application. All functions but open and close may be called by any thread at
 * any time, also from the fault handler of a thread (so: no lock of the backend is ever held while shared memory is touched).
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire.h"

#define NET_ADDRESS_MAX 4096       /* bytes of an address blob */
#define NET_PAYLOAD_MAX (4u << 20) /* bytes behind one message */

struct net;

/* How soon the data of a block goes, where connections have priorities: low to high by weight, urgent before all other data. */
enum net_priority { NET_NORMAL = 0, NET_LOW, NET_HIGH, NET_URGENT };

/* One message for this rank's node, of which the transport has looked at no more than it goes by itself: the rest is for wire_check().
 * payload is valid until the handler returns. Called outside the backend's locks: it may send. */
typedef void (*net_handler)(void *arg, const struct msg *m, const void *payload, size_t size);
/* A peer is gone or sends garbage: said once for each. Called outside the backend's locks. */
typedef void (*net_lost)(void *arg, uint16_t rank, int err);

struct net_config {
	uint16_t rank, size;
	/* Messages name nodes, a transport connects ranks: of each rank its node; of each other node the rank that this one talks to;
	 * this rank's node, and how many there are. NULL: each rank is a node of the same number. */
	const uint16_t *node_of, *rank_of;
	uint16_t node, nodes;
	uint32_t nslots;      /* slots with a place where blocks land */
	uint32_t block_slots; /* slots that blocks are asked for in, others behind those; 0: nslots */
	net_handler handler;
	net_lost lost;
	void (*thread)(void *arg); /* each thread of the backend calls it first */
	/* Optional. The object that was asked for in a slot of this rank; so its answers need not name it. */
	uint32_t (*object)(void *arg, uint16_t slot);
	/* Optional. Does a thread of the receiver wait for m, by wait_step()? Then nobody else needs to be woken for it. */
	bool (*waited)(const struct msg *m);
	/* Optional. Of the data of m's block, enum net_priority. */
	unsigned int (*priority)(void *arg, const struct msg *m);
	void *arg;
	bool optional;        /* another backend can do: say nothing when there is no device */
	uint64_t key;         /* of the job, the same for all ranks */
	unsigned int lost_ms; /* a broken connection is rebuilt for so long before its peer is lost */
	const char *device, *gid, *cq_groups, *verbs; /* the settings of these names; "" when not set */
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
	NET_WAIT_BEGIN, /* it begins to wait, polling often */
	NET_WAIT_SLEEP, /* it still waits, but polls no more */
	NET_WAIT_POLL,  /* it polls again */
	NET_WAIT_END    /* it has what it waited for */
};

/* What net/verbs asks of its devices: its techniques (DSM_VERBS) differ in these. Other backends leave all of it 0. */
struct net_work {
	uint64_t requests;    /* work requests that send, write or read */
	uint64_t doorbells;   /* calls that handed these over */
	uint64_t writes;      /* of the requests, RDMA writes ... */
	uint64_t immediates;  /* ... with immediate data ... */
	uint64_t bare;        /* ... which is the whole message */
	uint64_t reads;       /* of the requests, RDMA reads */
	uint64_t inlined;     /* of the requests, those that have the data in them */
	uint64_t signalled;   /* of those that are no reads: that report their completion ... */
	uint64_t solicited;   /* ... that wake the receiver */
	uint64_t handed_over; /* frames that were left to the send thread */
	uint64_t completions; /* taken from the devices */
	uint64_t locks;       /* of a queue, to take completions ... */
	uint64_t idle_locks;  /* ... that found none */
	uint64_t events;      /* of completion channels */
};

struct net_counters {
	uint64_t sent, received;             /* messages */
	uint64_t bytes_sent, bytes_received; /* payloads */
	uint64_t polls, empty_polls, arms, malformed;
	uint64_t by_class[CLASS_MAX]; /* messages sent */
	uint64_t queue_pairs;         /* of the node, where its ranks share them; else 0 */
	struct net_work work;
};

/* One completion vector in use. */
struct net_vector {
	const char *class; /* the group's name */
	const char *device;
	int vector;
	uint64_t events, completions;
};

/* Connections of one kind, to all peers: one to each peer that this rank has talked to. */
struct net_lane {
	const char *name;
	uint64_t connections;     /* that this rank sends over: opened by it, or, over verbs, by either side */
	uint64_t messages, bytes; /* sent over them; bytes of payloads */
};

struct net_ops {
	const char *name;

	/* Make this rank's end; address (NET_ADDRESS_MAX bytes) and *size say how peers reach it. -ENODEV, -ENOMEM, -EMFILE.
	 * The message on stderr says which device or setting is missing. */
	int (*open)(const struct net_config *cfg, struct net **out, void *address, size_t *size);
	void (*close)(struct net *n);

	/* Remember where a rank is; the connection itself is made by the first send. -ENOMEM, -EINVAL (no address of this
	 * backend), -EEXIST. */
	int (*connect)(struct net *n, uint16_t rank, const void *address, size_t size);

	/* Send m, and size bytes behind it. Both may be reused when it returns. Does not wait for the peer; may wait for
	 * memory or a full queue while progressing (never delivering). -EPIPE: lost; -EMSGSIZE; -ENOTCONN. */
	int (*send)(struct net *n, uint16_t rank, const struct msg *m, const void *payload, size_t size);

	/* Progress and deliver at most budget messages; returns how many. Returns at once (0) while another thread is at it. */
	int (*poll)(struct net *n, unsigned int budget);

	/* Sleeping: fd turns readable when there is something to poll for, once after each successful arm.
	 * arm: 0, or -EBUSY: there is something already, poll first. */
	int (*fd)(struct net *n);
	int (*arm)(struct net *n);

	/* Optional. What a thread that waits for a message does next. While one polls, no other thread is woken for messages; the
	 * last one that stops polling arms the backend for its own threads. -EBUSY: messages are pending; poll, then arm. */
	int (*wait_step)(struct net *n, enum net_wait_step next);

	/* Forget a peer; nothing is delivered from it any more but what other threads' handlers have in hand. */
	void (*drop)(struct net *n, uint16_t rank);
	void (*counters)(struct net *n, struct net_counters *out);
	/* Optional. Fill in up to max rows; returns how many there are. */
	unsigned int (*vectors)(struct net *n, struct net_vector *out, unsigned int max);
	unsigned int (*lanes)(struct net *n, struct net_lane *out, unsigned int max);
};

extern const char *const net_class_names[CLASS_MAX];
extern const struct net_ops net_ucx, net_verbs, net_shared;

/* Where a class's completions are handled. */
struct net_place {
	int16_t vector;
	int16_t cpu; /* of the vector's interrupt; -1: none in particular */
};

/* A completion vector for each class, by the groups of config (DSM_CQ_GROUPS), on the device of that name or, when it is "", the
 * first with an active port, whose name is put there. Places stay as they are where nothing is
 * configured and the device ignores vectors: to steer its handlers costs an interrupt each. Processes of a host pass different
 * turns. Vectors count as this process's until it ends. -ENODEV; errors of cqgroup_table_create(), which are said. */
int net_class_vectors(char *device, size_t room, const char *config, unsigned int turn,
		      struct net_place out[CLASS_MAX]);

#endif
