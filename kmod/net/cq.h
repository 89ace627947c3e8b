/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cq.h - completion queues, handled in softirq, by a worker, or by a thread that polls; and their
 * devices.
 */
#ifndef KMOD_CQ_H
#define KMOD_CQ_H

#include <rdma/ib_verbs.h>

struct cq;
struct dsm_ioc_queue;
typedef void (*cq_fn)(void *arg, const struct ib_wc *wc); /* bottom halves are off */
/* the queue has failed; called in any context */
typedef void (*cq_lost_fn)(void *arg);

/*
 * vector: -1: the first. In softirq mode, the vector's interrupt selects the processor that handles
 * completions. If the driver ignores vectors, it is cpu, or the choice of DSM_CPU_*; without a
 * vector, the processor on which the driver calls. ERR_PTR: -ERANGE: the device has no such vector,
 * or the kernel no such processor; -ENOMEM; those of the device. Sleeps.
 */
struct cq *cq_create(struct ib_device *dev, u32 mode, unsigned int entries, int vector, int cpu,
		     cq_fn fn, cq_lost_fn lost, void *arg);
void cq_stop(struct cq *q); /* sleeps; fn is not called afterwards */
void cq_destroy(struct cq *q);
struct ib_cq *cq_of(struct cq *q);
void cq_counts(const struct cq *q, u32 *mode, struct dsm_ioc_queue *out);

/*
 * Get a device by name, or the first with an active port of InfiniBand or RoCE, that the caller's
 * network namespace may use. device_put_back() releases it. -ENODEV: no such device; -ENETDOWN: no
 * such port.
 */
int device_get(const char *name, struct ib_device **dev, u32 *port);
void device_put_back(struct ib_device *dev);
bool device_is_here(const struct ib_device *dev); /* it was not removed; sleeps */

/* The device was removed: no code may use it after this returns. Sleeps. */
typedef void (*device_gone_fn)(struct ib_device *dev);
int cq_init(device_gone_fn gone);
void cq_exit(void);

#endif
