/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cqgroup.h - CQ groups for other kernel modules: the completion vectors of a class of traffic.
 *
 * dsm.ko divides the completion vectors of each RDMA device among four classes (docs/cq-groups.md).
 * An upper-layer protocol that takes the vectors of its CQs from here shares no interrupt with
 * other classes if the device has enough vectors:
 *
 *	vector = cqgroup_get_vector(device, CQGROUP_BULK);
 *	if (vector < 0)
 *		return vector;
 *	cq = ib_alloc_cq(device, NULL, entries, vector, IB_POLL_SOFTIRQ);
 *	...
 *	ib_free_cq(cq);
 *	cqgroup_put_vector(device, vector);
 *
 * The caller is an ib_client. It calls these functions between its add() and the end of its
 * remove() for the device. A module that calls them depends on dsm.ko, so its client is registered
 * after that of dsm.ko, and removed before it. They may sleep.
 */
#ifndef KMOD_CQGROUP_H
#define KMOD_CQGROUP_H

#include <rdma/ib_verbs.h>

/* As in libcqgroup. */
enum cqgroup_class { CQGROUP_COHERENCE, CQGROUP_DATA, CQGROUP_SYNC, CQGROUP_BULK, CQGROUP_CLASSES };

/*
 * Return the vector of the class with the fewest CQs: those whose vectors were taken from here, and
 * those of dsm.ko. The caller puts the vector after it has freed the CQ, at the latest in remove().
 * -EINVAL: there is no such class. -ENODEV: dsm.ko had no memory for this device.
 */
int cqgroup_get_vector(struct ib_device *device, enum cqgroup_class class);
void cqgroup_put_vector(struct ib_device *device, int vector);

#endif
