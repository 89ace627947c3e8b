/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rendezvous.h - connects the ranks of one machine. For the thread in dsm_init() or dsm_finalize().
 * Functions print their errors. If a rank dies meanwhile, the process ends (lost.h).
 */
#ifndef JOB_RENDEZVOUS_H
#define JOB_RENDEZVOUS_H

#include <stdint.h>

/* Listen for the other ranks, before they learn of this process. token: of this rank's start_info.
 * Does not block. -EMFILE. */
int rendezvous_listen(const uint64_t token[2]);
/* Connect to all of them, watch them, and share memory with those of this node. Blocks for them.
 * -ETIMEDOUT, -EMFILE, -EPROTO, -EPERM (a process of another user). */
int rendezvous_connect(void);
/* Exchange one more descriptor with each rank of this node. join() gets theirs, and owns them.
 * Blocks for them. */
int rendezvous_swap(int fd, void (*join)(unsigned int local, int fd));
/* After an error between two ranks, check for a second whether a rank has died. */
void rendezvous_check(void);
void rendezvous_stop(void); /* stop listening */

/* Close the inherited connections in a child of fork(), which is not a rank and must not look like
 * one. */
void rendezvous_forked(void);

#endif
