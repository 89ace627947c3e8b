/* SPDX-License-Identifier: BSD-2-Clause */
/* statics.h - what functions of the C library keep between calls, or return a pointer to. */
#ifndef PTHREAD_STATICS_H
#define PTHREAD_STATICS_H

#include "shim.h"

/* Make the memory, in the shared heap. Rank 0, before the others have the team. -ENOMEM. */
int statics_start(void);
/* Each rank, after that. */
void statics_join(void);

/* The variables of getopt(3): give the other ranks what the program has assigned to them here,
 * before a thread is made; take what is known of them, at its start. */
void statics_offer(void);
void statics_follow(void);

/* A shared string that is equal to s, and is never freed or changed; s: it is NULL or shared, or
 * there is no memory. */
char *string_intern(const char *s);

/* A place in shared memory for what a function of lookups.c has returned last; NULL at first;
 * atomic. */
#define STATICS_PLACES 24u
char **statics_place(unsigned int i);
/* Copy the text of an address to what inet_ntoa() returns. */
char *statics_text(const char *address);

#endif
