/* SPDX-License-Identifier: BSD-2-Clause */
/* kernel.h - calls of the kernel helper beyond those of its host table (host.h, which it is for); only where it is the host. */
#ifndef ENGINE_KERNEL_H
#define ENGINE_KERNEL_H

#include <stdint.h>

struct dsm_ioc_call;

/* ioctl(2) of the device, by any thread, again after each EINTR. 0 or -errno. */
int kernel_ioctl(unsigned long op, void *arg);
/* One request (dsm(4)), by any thread; *q holds what comes back. It does not return when the device is gone.
 * 0, or -errno of the call or of what it asked for. */
int kernel_call(struct dsm_ioc_call *q);
/* The same where the thread may wait for others' doing: a wait since `now` that is reported when it lasts (stall.h). */
int kernel_wait(struct dsm_ioc_call *q, uint64_t now);
/* The same as a cancellation point, for what may stand in line; outside the runtime. A thread that is cancelled does not return: its
 * call has ended when cancelled(arg) runs. What it asked for has come all the same where q->waited is set and q->status 0. */
int kernel_wait_point(struct dsm_ioc_call *q, uint64_t now, void (*cancelled)(void *arg), void *arg);

#endif
