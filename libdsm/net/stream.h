/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stream.h - fopen() and fclose() for the libraries of the transports, without memory of the C library's.
 *
 * UCX reads files of the kernel when it connects to a peer, which may be in a miss that has interrupted malloc(). fopen()
 * allocates, and the C library has no way to give it memory. So streams are made before, and used again.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdio.h>

/* Once, not in a miss. Without memory for them, the functions below are the C library's. */
void stream_prepare(void);
/* Files in /proc and /sys that are read from start to end; the others, or too many at a time, are left to fopen(). Any thread. */
FILE *stream_open(const char *path, const char *mode);
int stream_close(FILE *f);

#endif
