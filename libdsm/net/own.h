/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h - heap of the transports, separate from the program's.
 *
 * A miss may occur in a signal handler that interrupted malloc() with its locks held. So no thread
 * may call malloc() while it serves a miss: a thread that waits for those locks with a lock of the
 * transport held would block the miss forever. The heap of this file is used only inside the
 * runtime, where no miss occurs.
 */
#ifndef NET_OWN_H
#define NET_OWN_H

#include <stdbool.h>
#include <stddef.h>

void *own_alloc(size_t size, size_t align); /* align: a power of two, or 0; NULL: no memory */
void *own_zalloc(size_t size);
void *own_realloc(void *p, size_t size); /* p: NULL, or from this heap */
void own_free(void *p);
bool own_is(const void *p); /* true if p is from this heap */
size_t own_size(const void *p);

#endif
