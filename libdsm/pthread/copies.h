/* SPDX-License-Identifier: BSD-2-Clause */
/* copies.h - variables of libraries that are elsewhere than in their library. */
#ifndef PTHREAD_COPIES_H
#define PTHREAD_COPIES_H

#include "shim.h"

/* Separate the libraries' variables from the executable's, with the same values. In the only
 * thread, before the executable's are shared. */
void copies_separate(void);

/* Where the libraries' variable is, of which the executable's is at p; p: it holds none, or it is
 * the same. */
void *copies_library(void *p);

/* True if the executable refers to the libraries' `signgam`, of which it holds none. After
 * copies_separate(). */
bool copies_refers_sign(void);

/* A variable of a library, and where it shall be. */
struct copies_move {
	char *from, *to;
	size_t size;
};

/* p, or the same place of the variable that has moved, if p is in one of the n. */
void *copies_moved(const struct copies_move *moves, unsigned int n, void *p);

/* Lead all loaded files to the n variables at their new places: by their GOT, and by addresses in
 * their data. Each rank, before any thread of the program, after the executable's variables are
 * shared. */
void copies_move(const struct copies_move *moves, unsigned int n);

#endif
