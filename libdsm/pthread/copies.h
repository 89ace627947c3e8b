/* SPDX-License-Identifier: BSD-2-Clause */
/* copies.h - variables of the C library that the executable holds. */
#ifndef PTHREAD_COPIES_H
#define PTHREAD_COPIES_H

#include "shim.h"

/* Separate the libraries' variables from the executable's, with the same values. In the only thread, before the executable's are
 * shared. */
void copies_separate(void);

/* Where the libraries' variable is, of which the executable's is at p; p: it holds none, or it is the same. */
void *copies_library(void *p);

/* True if the executable refers to the libraries' `signgam`, of which it holds none. After copies_separate(). */
bool copies_refers_sign(void);

#endif
