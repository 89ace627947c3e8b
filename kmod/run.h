/* SPDX-License-Identifier: GPL-2.0 */
/* run.h - messages on their way to the core: in this processor's queue, or for a worker. Bottom halves are off. */
#ifndef KMOD_RUN_H
#define KMOD_RUN_H

#include "rank.h"

/* What makes a worker fetch a block: MSG_RELEASE, whose op is the kind, and MSG_SETTLE. */
enum { FETCH_KEEP = RELEASE_KEEP, FETCH_EVICT = RELEASE_EVICT, FETCH_SETTLE, FETCHES };

void run_message(struct rank *r, const struct msg *m); /* one message for r, and what follows */
void run_send(struct rank *r, const struct msg *m);    /* from r to anybody, and what follows */
void run_route(struct rank *r,
	       const struct msg *m); /* the same; where it is for this kernel, it waits for run_queued() */
void run_queued(void);               /* what is queued on this processor, or some of it */
void run_later(struct rank *r, const struct msg *m); /* a worker takes it */
void run_fetch(struct rank *r, const struct msg *m); /* a worker asks for the block of a MSG_RELEASE */
void run_forget(struct rank *r);                     /* it has died: what is queued for it goes */
int run_start(void);
void run_stop(void);

#endif
