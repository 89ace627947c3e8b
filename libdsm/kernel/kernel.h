/* SPDX-License-Identifier: BSD-2-Clause */
/* kernel.h - calls to the kernel helper, used by its host_ops (job/host_ops.h). Only if the kernel
 * helper is the host. */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdint.h>

struct dsm_ioc_call;
struct host_ops;
struct stats_vectors;

extern const struct host_ops host_kernel;

/* Call ioctl(2) of the device, and repeat it after EINTR. Any thread. 0 or -errno. */
int kernel_ioctl(unsigned long op, void *arg);
/* Make one request (dsm(4)); *q returns the answer. Any thread. Does not return if the device is
 * gone.
 * 0, or -errno of the call or of the request. */
int kernel_call(struct dsm_ioc_call *q);
/* The same for a request that may wait for other threads. A long wait, counted from `now`, is
 * reported (stall.h). */
int kernel_wait(struct dsm_ioc_call *q, uint64_t now);
/* The same as a cancellation point, for a request that may queue; outside the runtime. A cancelled
 * thread does not return: its call has ended when cancelled(arg) runs. If q->waited is set and
 * q->status is 0, the request was granted in spite of that. */
int kernel_wait_point(struct dsm_ioc_call *q, uint64_t now, void (*cancelled)(void *arg),
		      void *arg);

/* kstats.c: counters of the kernel helper. Any thread; nothing blocks. */

/*
 * Add the helper's counts of a region since the last call to the node's counters. Does nothing if
 * the region is unknown to it.
 */
void kstats_region(uint16_t id);

/* Operations of host_kernel; see job/host_ops.h. */
void kstats_count(void);
int kstats_transfers(uint64_t *off, uint32_t *transfers);
uint64_t kstats_frames(void);
void kstats_vectors(struct stats_vectors *out);

#endif
