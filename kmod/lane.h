/* SPDX-License-Identifier: GPL-2.0 */
/* lane.h - sending and receiving over the queue pairs of a connection. */
#ifndef KMOD_LANE_H
#define KMOD_LANE_H

#include "conn.h"

void lane_send_to(struct conn *c, u16 peer, const struct msg *m);

int lane_init(void);
void lane_exit(void);
struct waiting *waiting_new(const struct msg *m, bool block);
void waiting_put(struct waiting *w);
void lane_completed(void *arg, const struct ib_wc *wc); /* of a conn; from cq.c, bottom halves are off */
void lane_send(struct lane *l, const struct msg *m, bool block);
void lane_send_waiting(struct lane *l, struct waiting *w); /* which is this lane's then */
void lane_start(struct lane *l);
void lane_stop(struct lane *l); /* nothing is held any more; sleeps */
void lane_up(struct lane *l);   /* it is connected */
void lane_broken(struct lane *l, const char *how, int status);

#endif
