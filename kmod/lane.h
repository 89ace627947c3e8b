/* SPDX-License-Identifier: GPL-2.0 */
/* lane.h - sending and receiving over the queue pairs of a connection. */
#ifndef KMOD_LANE_H
#define KMOD_LANE_H

#include "conn.h"

void lane_send_to(struct conn *c, u16 peer, const struct msg *m);

int lane_init(void);
void lane_exit(void);
/*
 * A message of the lane, which so many wait before. NULL: they are as many as may be (how says what the peer does wrong), or more
 * memory than the user may lock; the lane is broken then.
 */
struct waiting *waiting_new(struct lane *l, unsigned int waiting, const struct msg *m, bool block, const char *how);
unsigned int waiting_put_all(struct conn *c, struct list_head *list); /* returns how many; sleeps */
void lane_completed(void *arg, const struct ib_wc *wc);               /* of a conn; from cq.c, bottom halves are off */
void lane_send(struct lane *l, const struct msg *m, bool block);
void lane_send_waiting(struct lane *l, struct waiting *w); /* which is this lane's then */
void lane_start(struct lane *l);
void lane_stop(struct lane *l);   /* nothing is deferred any more; sleeps */
void lane_forget(struct lane *l); /* it is broken: nothing waits any more, nor will; sleeps */
void lane_up(struct lane *l);     /* it is connected */
void lane_broken(struct lane *l, const char *how, int status);

#endif
