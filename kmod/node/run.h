/* SPDX-License-Identifier: GPL-2.0 */
/*
 * run.h - deliver messages to the core: from this processor's queue, or by a worker. Bottom halves
 * are off.
 */
#ifndef KMOD_RUN_H
#define KMOD_RUN_H

#include "rank.h"

/* The reasons for a worker to fetch a block: MSG_RELEASE, whose op is the kind, and MSG_SETTLE. */
enum { FETCH_KEEP = RELEASE_KEEP, FETCH_EVICT = RELEASE_EVICT, FETCH_SETTLE, FETCHES };

/* handle a message for r, and all queued ones */
void run_message(struct rank *r, const struct msg *m);
void run_send(struct rank *r, const struct msg *m);  /* send from r to any rank; run_queued() */
void run_route(struct rank *r, const struct msg *m); /* the same, without run_queued() */
/* handle messages queued on this processor; a worker takes those above a limit */
void run_queued(void);
void run_later(struct rank *r, const struct msg *m); /* a worker handles it */
/* a worker requests the block of a MSG_RELEASE or MSG_SETTLE */
void run_fetch(struct rank *r, const struct msg *m);
void run_forget(struct rank *r); /* it is dead: drop its queued messages */
int run_start(void);
void run_stop(void);

#endif
