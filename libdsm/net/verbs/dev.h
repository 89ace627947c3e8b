/* SPDX-License-Identifier: BSD-2-Clause */
/* dev.h - RDMA devices with their queues, and the map from queue pair numbers to lanes. */
#ifndef NET_VERBS_DEV_H
#define NET_VERBS_DEV_H

#include "net/verbs/verbs.h"

/* Open the ports that DSM_NET_DEVICE allows and that work, with their queues and receive buffers.
 * Call before any other thread uses the transport. -EINVAL: a setting is wrong. -ENODEV: no device
 * works. -ENOMEM, -EMFILE, errors of ud_open() and cqgroup_table_create(). Nothing stays open after
 * an error. Errors are logged; with cfg.optional, a missing device is not. */
int dev_open_all(struct net *n);
/* Close all devices. No other thread may use the transport, and all lanes must have ended. */
void dev_close_all(struct net *n);

/* Look up the index of the device's GID again, which may have changed while the link was down.
 * Under net.conn. */
void dev_gid_refresh(struct dev *d);

/* Post receive buffers of a class, by number; none of them may be posted already. Any thread, any
 * lock; does not block. -ENOMEM: the device refuses them. */
int dev_post_recvs(struct dev *d, unsigned int class, const uint32_t *index, unsigned int count);
#define DEV_BULK_BYTES 1024u /* the size for CLASS_BULK: a bundle of thirty messages */

/* Return the size of a receive buffer of a class, in bytes. Larger frames are sent in another
 * way. */
uint32_t dev_recv_bytes(unsigned int class);

/* Map completions of this queue pair to l; NULL: to no lane. Under net.conn. Without memory for its
 * part of the table, the map is unchanged; dev_lane() shows that. */
void dev_lane_set(struct dev *d, uint32_t qpn, struct lane *l);

/* Return the lane of a queue pair; NULL: none. Any thread, no lock. */
static inline struct lane *dev_lane(const struct dev *d, uint32_t qpn)
{
	_Atomic(struct lane *) *low =
		atomic_load_explicit(&d->lanes[qpn >> 12 & 4095], memory_order_acquire);

	return low ? atomic_load_explicit(&low[qpn & 4095], memory_order_acquire) : NULL;
}

#endif
