/* SPDX-License-Identifier: BSD-2-Clause */
/* evict.h - a node leaves a region, where this process hosts the core. */
#ifndef ENGINE_EVICT_H
#define ENGINE_EVICT_H

struct dsm_region;

/* A member of host_process: host.h has its contract. */
int evict_region(struct dsm_region *r);

#endif
