/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cq.h - completion queues and what handles them: in softirq, in a worker, or by a thread that polls; and the devices they
 * are of.
 */
#ifndef KMOD_CQ_H
#define KMOD_CQ_H

#include <rdma/ib_verbs.h>

struct cq;
struct dsm_ioc_queue;
typedef void (*cq_fn)(void *arg, const struct ib_wc *wc); /* bottom halves are off */
typedef void (*cq_lost_fn)(void *arg);                    /* the queue has failed; any context */

/*
 * vector, -1: the first. In softirq its interrupt says which processor handles completions. Where the driver ignores vectors, it
 * is cpu, or what DSM_CPU_* says; without a vector, wherever the driver calls. -ERANGE: no device or kernel has so many.
 */
struct cq *cq_create(struct ib_device *dev, u32 mode, unsigned int entries, int vector, int cpu, cq_fn fn,
		     cq_lost_fn lost, void *arg);
void cq_stop(struct cq *q); /* sleeps; fn is not called any more */
void cq_destroy(struct cq *q);
struct ib_cq *cq_of(struct cq *q);
void cq_counts(const struct cq *q, u32 *mode, struct dsm_ioc_queue *out);

/* A device by name, or the first with an active port, that the caller's network namespace may use; kept until put back. -ENODEV, -ENETDOWN. */
int device_get(const char *name, struct ib_device **dev, u32 *port);
void device_put_back(struct ib_device *dev);
bool device_is_here(const struct ib_device *dev); /* and was not taken away */

/* It was taken away: nothing may use it when this returns. Sleeps. */
typedef void (*device_gone_fn)(struct ib_device *dev);
int cq_init(device_gone_fn gone);
void cq_exit(void);

#endif
