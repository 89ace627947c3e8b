/* SPDX-License-Identifier: BSD-2-Clause */
/* streams.h - where the structures of streams are that rank 0 has for the program. */
#ifndef PTHREAD_STREAMS_H
#define PTHREAD_STREAMS_H

#include <stdbool.h>
#include <stddef.h>

/* The next memory that this thread allocates is the structure of a stream. */
extern __thread bool streams_wanted __attribute__((tls_model("initial-exec")));

/* At rank 0: a stream is about to be opened (true), or has been, or not (false). Any thread of a
 * rank; it may block for a call of each rank. */
void streams_open(bool begins);
/* A place of this size, if one is wanted; NULL: it is not, or there is none. */
void *streams_take(size_t size);
/* Is it a place of streams_take(), or a standard stream: at the same address on all ranks? */
bool streams_has(const void *p);
/* Free a place; false: it is none. */
bool streams_give(void *p);

/* At rank 0: another rank is about to keep flags of the stream. */
void streams_note(const void *stream);
/* At rank 0: a call has cleared flags of the stream. Blocks for a call of each rank if one keeps
 * some. */
void streams_clear(const void *stream);

#endif
