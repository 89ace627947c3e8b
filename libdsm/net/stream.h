/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h - fopen() and fclose() for the transports' libraries, without memory from the C library.
 *
 * UCX reads files in /proc and /sys when it connects to a peer, possibly in a miss that interrupted
 * malloc(). fopen() allocates, and the C library offers no way to supply the memory. So streams are
 * allocated in advance and reused.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdio.h>

/*
 * Allocate the streams. Call once, not in a miss. Without memory, the functions below call the C
 * library's.
 */
void stream_prepare(void);
/*
 * Open a file in /proc or /sys for sequential reading. Other files, or too many at a time, go to
 * fopen(). Any thread.
 */
FILE *stream_open(const char *path, const char *mode);
int stream_close(FILE *f);

#endif
