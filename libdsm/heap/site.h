/* SPDX-License-Identifier: BSD-2-Clause */
/* site.h - names and allocation sites of live allocations, in private memory of their owner. */
#ifndef HEAP_SITE_H
#define HEAP_SITE_H

#include <stdbool.h>

#include "heap/heap.h"

#define SITE_NAME 48

/* Any thread. Out of memory, the record is lost and the allocation is nameless. name and site may be NULL. site is the address
 * that the allocating call returns to: the calls around it are kept as well, and with an allocation made for a library, only they. */
void site_keep(const void *p, const char *name, const void *site);
void site_drop(const void *p);
bool site_get(const void *p, char name[SITE_NAME], const void *sites[HEAP_SITES]);
void site_drop_all(void);

#endif
