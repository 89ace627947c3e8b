/* SPDX-License-Identifier: BSD-2-Clause */
/* async.h - asynchronous cancellation. */
#ifndef PTHREAD_ASYNC_H
#define PTHREAD_ASYNC_H

#include "shim.h"

/* Has this thread the asynchronous type? Never blocks. */
bool async_is_on(void);
/* Give this thread the asynchronous type, or the deferred one. The caller then calls
 * pthread_testcancel(): a cancellation before this was not told to the thread. A thread must have
 * the deferred type when it ends. Blocks for no other rank. */
void async_turn(bool on);
/* The C library has noted that thread t of this process is to be cancelled: if its type is
 * asynchronous, interrupt it. Any thread; blocks for no other rank. */
void async_cancelled(pthread_t t);

#endif
