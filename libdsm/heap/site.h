/* SPDX-License-Identifier: BSD-2-Clause */
/* site.h - names and allocation sites of live allocations, in private memory of their owner. */
#ifndef HEAP_SITE_H
#define HEAP_SITE_H

#include <stdbool.h>

#include "heap/heap.h"

#define SITE_NAME 48

/* Record name and site of an allocation; both may be NULL. Any thread. Without memory, there is no
 * record. site is the return address of the allocating call. Its callers are recorded too; for an
 * allocation made for a library, only they. */
void site_keep(const void *p, const char *name, const void *site);
/* Delete the record of p, if there is one. Any thread. */
void site_drop(const void *p);
/* Get the record of p. False: there is none. Any thread. */
bool site_get(const void *p, char name[SITE_NAME], const void *sites[HEAP_SITES]);
/* Delete all records. No other thread may use them. */
void site_drop_all(void);

/* ---- names of sites -------------------------------------------------------------------------- */

/* Print the first of its sites that is not a wrapper or, if all are, the first. As
 * heap_site_name(). */
void heap_object_site(const struct heap_object *o, char *buf, size_t size);
/* Add wrappers of malloc() to the common ones: fnmatch(3) patterns, separated by commas. The text
 * is not copied. Call before any allocation. */
void heap_skip(const char *functions);
/* Print "file:line" or "function+0x12" for a code address of this process; an empty string if
 * unknown. Any thread. Blocks: may run a helper program. */
void heap_site_name(const void *site, char *buf, size_t size);

#endif
