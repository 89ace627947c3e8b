/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * device.h - the verbs objects of the owner: one PD, CQ and SRQ with its landing buffers; queue
 * pairs of the lanes.
 */
#ifndef SHARE_DEVICE_H
#define SHARE_DEVICE_H

#include <infiniband/verbs.h>
#include <pthread.h>

#include "cqgroup.h"
#include "rshare.h"
#include "share/hub.h"
#include "share/repair.h"

#define RS_SLOTS 64 /* outstanding chunks per lane */

struct rs_device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct cqgroup *group;
	struct ibv_cq *cq;
	unsigned int vector;
	struct ibv_srq *srq;
	struct ibv_port_attr port_attr;
	union ibv_gid gid;
	uint8_t port, gid_index;
	uint32_t gid_type;
	char *landing; /* receives * stride bytes */
	struct ibv_mr *landing_mr;
	uint32_t receives, stride, chunk;
	uint32_t *spare; /* landing buffers to post again */
	uint32_t nspare;
	uint64_t registered, doorbells;
	uint32_t queue_pairs;
	uint32_t pieces; /* of an operation: what a work request takes beside the header */
	char name[64];
};

/* The header of a post, or the data that is copied for it, or both. */
struct rs_header {
	struct rs_frame frame;
	uint8_t data[RS_INLINE_MAX];
};

/* Lets other threads of the process in while a device takes posts (owner.h). */
struct rs_gate {
	pthread_mutex_t lock;
	uint32_t open; /* atomic: it is worth to try the lock */
};

struct rs_qp {
	struct ibv_qp *qp;
	struct rs_header *header; /* 2 * RS_SLOTS, registered */
	struct ibv_mr *header_mr;
	uint32_t next;               /* header */
	uint8_t chain[2 * RS_SLOTS]; /* posts of each chain that is not complete */
	uint32_t chain_head, chain_tail;
	uint32_t posted, done; /* posts; those of complete chains */
	uint32_t psn, inlined;
	bool connected;
};

/*
 * Open the device. Of config, only name, address, vectors and cpus may be 0 or NULL. -ENODEV,
 * -ENOMEM ...; why: RSHARE_WHY_MAX bytes.
 */
int rs_device_open(struct rs_device *d, const char *name, const struct rshare_config *config,
		   char *why);
void rs_device_close(struct rs_device *d);

/* Create the queue pair. why: RSHARE_WHY_MAX bytes, gets the missing resource. */
int rs_qp_create(struct rs_device *d, struct rs_qp *q, char *why);
/*
 * Move the queue pair to the error state. Only requests that the device is completing may still
 * arrive.
 */
void rs_qp_stop(struct rs_qp *q);
void rs_qp_destroy(struct rs_device *d, struct rs_qp *q);
int rs_qp_connect(struct rs_device *d, struct rs_qp *q, const struct rs_address *to,
		  enum rs_lane lane, uint8_t sl, uint8_t traffic_class);
/* Post n requests as one chain, with one doorbell. */
int rs_qp_post(struct rs_device *d, struct rs_qp *q, const struct rs_post *v, unsigned int n);
/* The same. The caller holds g->lock, which is released while the device takes the posts. Others
 * must not post to this queue pair meanwhile. */
int rs_qp_post_open(struct rs_device *d, struct rs_qp *q, const struct rs_post *v, unsigned int n,
		    struct rs_gate *g);
/* Complete a chain; return its number of posts. */
unsigned int rs_qp_chain_done(struct rs_qp *q);

/* Return how many posts of incomplete chains precede that of a completion with an error. */
unsigned int rs_qp_before(const struct rs_qp *q, uint64_t wr_id);

/*
 * Return the landing buffer of a completion. rs_landing_put() posts it again once a batch has
 * gathered.
 */
void *rs_landing(struct rs_device *d, uint64_t wr_id);
void rs_landing_put(struct rs_device *d, uint64_t wr_id);
/* Post spare landing buffers. -errno: the device refuses some; nspare of them stay spare. */
int rs_landing_post(struct rs_device *d);

#endif
