/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pieces.h - the table of the program's mappings outside shared memory: in the heap, a list and a
 * lock for each rank that makes some.
 *
 * A mapping is a piece; munmap(2) and mprotect(2) of a part make more of it. Pieces of one file
 * share a source, with one descriptor. Unless stated otherwise, the caller holds the lock of the
 * list of `rank`. Functions block for misses, and for the heap.
 */
#ifndef PTHREAD_PIECES_H
#define PTHREAD_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define PIECES_RANKS 1024u

/* A file that a rank has mapped. */
struct source {
	struct source *next; /* of the same hash */
	uint32_t pieces;
	int pid, kept;                      /* the maker, and its descriptor; -1: none */
	bool writes;                        /* the program's descriptor was open for writing */
	bool summed;                        /* sum is known */
	uint64_t sum;                       /* of the contents: content_sum() in maps.c */
	uint64_t agreed[PIECES_RANKS / 64]; /* ranks of other hosts whose file has these contents */
	uint64_t host;                      /* of the maker */
	struct stat file;                   /* when it was mapped last */
	char path[];
};

struct piece {
	struct piece *next; /* of those that were taken */
	uintptr_t low, high;
	off_t off;
	int prot, flags;       /* prot: of a file */
	bool written;          /* private, and not the file's contents any more */
	struct source *source; /* NULL: anonymous, or no regular file */
	uint64_t on[PIECES_RANKS / 64];
};

/* At the start: rank 0 makes the table, before the other ranks know team. Without a lock. 0 or
 * -ENOMEM. */
int pieces_start(void);

/* Signals are blocked with the lock: a handler may access such memory. lock returns what unlock
 * takes. */
uint64_t pieces_lock(int rank);
void pieces_unlock(int rank, uint64_t mask);

/* The piece at an address; NULL: none. */
struct piece *piece_at(int rank, uintptr_t at);
/* Make the ends of [low, high) borders of pieces, where they are within one. 0 or -ENOMEM. */
int pieces_split(int rank, uintptr_t low, uintptr_t high);
/* Call fn for each piece in [low, high), after pieces_split(). */
void pieces_each(int rank, uintptr_t low, uintptr_t high, void (*fn)(struct piece *p, void *arg),
		 void *arg);
/* Take the pieces in [low, high) out of the list, after pieces_split(), and add the ranks that have
 * mapped them to the set `on`. Returns the pieces. */
struct piece *pieces_take(int rank, uintptr_t low, uintptr_t high, uint64_t *on);
/* Add a copy of a piece, on no rank, which takes over the use of its source. -ENOMEM. */
int pieces_add(int rank, const struct piece *p);

/* A source of this file and path with one more use; NULL: there is none. */
struct source *source_use(int rank, const struct stat *file, bool writes, const char *path);
/* Add one that source_use() did not find, used once. */
void source_add(int rank, struct source *s);
/* One use less. True: that was the last one, and the source is out of the table. */
bool source_drop(int rank, struct source *s);

#endif
