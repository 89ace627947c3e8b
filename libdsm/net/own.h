/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * own.h - memory of the transports, apart from the program's.
 *
 * A miss may be a signal handler's, which has interrupted malloc() with its locks held. So nothing on the way of a miss may
 * come there, in any thread: whoever waited for those locks in a transport, with the transport's lock held, would keep the
 * miss from ending. A heap of our own is entered in the runtime only, where no miss begins.
 */
#ifndef NET_OWN_H
#define NET_OWN_H

#include <stdbool.h>
#include <stddef.h>

void *own_alloc(size_t size, size_t align); /* align: a power of two, or 0; NULL: no memory */
void *own_zalloc(size_t size);
void *own_realloc(void *p, size_t size); /* p: NULL, or of this heap */
void own_free(void *p);
bool own_is(const void *p); /* is it of this heap? */
size_t own_size(const void *p);

#endif
