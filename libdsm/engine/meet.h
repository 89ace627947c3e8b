/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * meet.h - how the ranks of one machine come to know each other. At the start and the end only, by the thread that is there.
 * Errors have been said; a rank that dies meanwhile ends the process (lost.h).
 */
#ifndef ENGINE_MEET_H
#define ENGINE_MEET_H

/* Be there for the others, before they know of this process. Does not block. -EMFILE. */
int meet_listen(void);
/* Know all of them, watch them, and share memory with those of this node. Blocks for them: -ETIMEDOUT, -EMFILE, -EPROTO, -EPERM
 * (another user's). */
int meet_all(void);
/* With each rank of this node: one descriptor more; join() gets theirs, which are its own then. Blocks for them. */
int meet_swap(int fd, void (*join)(unsigned int local, int fd));
/* Something went wrong between two ranks: for a second, is any of them dead? */
void meet_check(void);
void meet_stop(void); /* be there no more */

/* In a child made by fork(), which is no rank, and must not stay visible as one. */
void meet_forked(void);

#endif
