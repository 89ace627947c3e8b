/* SPDX-License-Identifier: BSD-2-Clause */
/* sources.h - the files of the program's mappings, for the rank that has made one and for others.
 * Functions block for files and misses. */
#ifndef PTHREAD_SOURCES_H
#define PTHREAD_SOURCES_H

#include <stdbool.h>

#include "pieces.h"

/* At the start, on each rank. */
void sources_start(void);

/* The source of a file that this rank maps, with one more use. NULL: no regular file, or no memory.
 * The caller holds the lock of this rank's list, and gives the use to a piece, or to
 * source_drop(). */
struct source *source_of(int fd);
/* Free a source that source_drop() has taken out of the table. Run by the maker, as a function of a
 * thread. */
void *source_close(void *source);

/* Was it mapped on this host? */
bool source_is_of_host(const struct source *s);
/*
 * Open the file that the owner has mapped, with the lock of the owner's list; path: a copy of its
 * path. A descriptor, or -errno; -ESTALE: the path is that of another file here. compare: if only
 * the contents can tell, read them all, which calls the owner; otherwise that is -ESTALE as well.
 */
int source_open(struct source *s, int owner, const char *path, bool compare);

#endif
