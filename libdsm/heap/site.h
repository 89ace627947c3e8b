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
/* Forget the record of p, if there is one. Any thread. */
void site_drop(const void *p);
/* What is kept of p. False: nothing. Any thread. */
bool site_get(const void *p, char name[SITE_NAME], const void *sites[HEAP_SITES]);
/* Forget all. No other thread uses the records. */
void site_drop_all(void);

/* ---- what the sites are called -------------------------------------------------------------- */

/* The first of its sites that is no wrapper, as text; of wrappers only, the first. As heap_site_name(). */
void heap_object_site(const struct heap_object *o, char *buf, size_t size);
/* Functions that are wrappers of malloc(): patterns as of fnmatch(3), separated by commas, besides those that every program may
 * have. The text is not copied. Before anything is allocated. */
void heap_skip(const char *functions);
/* "file:line" or "function+0x12" for a code address of this process; empty string when unknown. Any thread. Blocks: may run a
 * helper program. */
void heap_site_name(const void *site, char *buf, size_t size);

#endif
