/* SPDX-License-Identifier: BSD-2-Clause */
/* dev.h - RDMA devices with their queues, and which lane a queue pair number belongs to. */
#ifndef NET_VERBS_DEV_H
#define NET_VERBS_DEV_H

#include "net/verbs/verbs.h"

/* Open the ports that DSM_NET_DEVICE allows and that work, with their queues and receive buffers. Before any other thread
 * uses the transport. -EINVAL: a setting is wrong. -ENODEV: no device works. -ENOMEM, -EMFILE, errors of ud_open() and
 * cqgroup_table_create(). Nothing stays open after an error. Errors are logged; with cfg.optional, a missing device is not. */
int dev_open_all(struct net *n);
/* Close all of them. No other thread uses the transport any more; all lanes have ended. */
void dev_close_all(struct net *n);

/* Find the index of the device's GID again: it may have changed while the link was down. Under net.conn. */
void dev_gid_refresh(struct dev *d);

/* Give receive buffers of a class to the device, by their numbers. Any thread, any lock; does not block. The device has none
 * of them now. -ENOMEM: it refuses them. */
int dev_post_recvs(struct dev *d, unsigned int class, const uint32_t *index, unsigned int count);
/* Bytes of a receive buffer of a class: what is larger goes by another way. */
uint32_t dev_recv_bytes(unsigned int class);

/* Completions of this queue pair are those of l from now on; NULL: of no lane. Under net.conn. Without memory for its part
 * of the table nothing is set: dev_lane() tells. */
void dev_lane_set(struct dev *d, uint32_t qpn, struct lane *l);

/* The lane of a queue pair; NULL: none. Any thread, no lock. */
static inline struct lane *dev_lane(const struct dev *d, uint32_t qpn)
{
	_Atomic(struct lane *) *low = atomic_load_explicit(&d->lanes[qpn >> 12 & 4095], memory_order_acquire);

	return low ? atomic_load_explicit(&low[qpn & 4095], memory_order_acquire) : NULL;
}

#endif
