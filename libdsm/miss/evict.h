/* SPDX-License-Identifier: BSD-2-Clause */
/* evict.h - leaving a region, if this process hosts the core. */
#ifndef MISS_EVICT_H
#define MISS_EVICT_H

struct dsm_region;

/* host_process.leave(); see job/host_ops.h. */
int evict_region(struct dsm_region *r);

#endif
