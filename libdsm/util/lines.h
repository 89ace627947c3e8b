/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * lines.h - reads the lines of a file of the kernel, without memory of its own and without
 * cancellation points.
 */
#ifndef UTIL_LINES_H
#define UTIL_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
	int fd;
	size_t at, have; /* the unread bytes of buf */
	char buf[4096];
};

/* False: the file cannot be opened. */
bool lines_open(struct lines *l, const char *path);
/*
 * The next line, without its end; NULL: there is none. Valid until the next call. A line of more
 * than 4,095 bytes comes in pieces.
 */
char *lines_next(struct lines *l);
void lines_close(struct lines *l);

#endif
