/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signal.h - how the owner wakes a process that sleeps: a pair of sockets, one end for each. They
 * share no open file, so the process cannot make the owner's calls wait, cannot read what is for
 * others, and sees the end of the owner. No function blocks.
 */
#ifndef SHARE_SIGNAL_H
#define SHARE_SIGNAL_H

/* Make a signal, which is readable once at first: its process has to look for events that came
 * before. ours replaces an earlier one, unless that is -1. The caller hands theirs to the process,
 * and closes it. -EMFILE, -ENOMEM. */
int rs_signal_make(int *ours, int *theirs);
/* Make the other end readable. */
void rs_signal_send(int ours);
/* Take what was sent. */
void rs_signal_take(int theirs);
/* Make one's own end readable for good. */
void rs_signal_end(int theirs);
/* Close either end unless it is -1, which it then becomes. */
void rs_signal_close(int *fd);

#endif
