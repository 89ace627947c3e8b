/* SPDX-License-Identifier: BSD-2-Clause */
/* evict.h - leaving a region, if this process hosts the core. */
#ifndef ENGINE_EVICT_H
#define ENGINE_EVICT_H

struct dsm_region;

/* host_process.leave(); see host.h. */
int evict_region(struct dsm_region *r);

#endif
