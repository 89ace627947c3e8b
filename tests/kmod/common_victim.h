/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * common_victim.h - a job of two over RDMA. Rank 0, the victim, is a context of dsm.ko in its own
 * process, which carries out orders and reports lost ranks; it is the home of region 0. Rank 1 is
 * the caller, by verbs (common_peer.h).
 */
#ifndef KMOD_COMMON_VICTIM_H
#define KMOD_COMMON_VICTIM_H

#include <sys/resource.h>

#include "common_peer.h"

enum victim_order {
	VICTIM_REST = 0,
	VICTIM_WRITE, /* to the page; the result is 0, or the signal that it ended with */
	VICTIM_READ,  /* the first word of the page, which is the result */
	/* remove region 0, and forget its first 2 MiB; the result is 0, or an errno */
	VICTIM_FORGET,
	/*
	 * that of victim_call(); the result is its status, or an errno; EINPROGRESS: SIGUSR1 has
	 * ended it, too
	 */
	VICTIM_CALL,
	VICTIM_CANCEL, /* DSM_CALL_CANCEL of that; the same */
	/* a call that needs nobody, so that what the thread has left is given up; the same */
	VICTIM_OTHER,
	/*
	 * another process of the rank, which makes that call, and cancels it; the result is its
	 * number
	 */
	VICTIM_CHILD,
	VICTIM_REAP /* the child's end; the result is its number */
};

struct victim {
	struct job *job;
	struct peer peer;
	struct victim_shared *shared;
	pid_t pid;
	uint32_t pages, order; /* of region 0; pages 0: all of the window */
	uint32_t hold_us;      /* as of struct job */
	/* the victim's process does that when it has joined; NULL: nothing */
	void (*prepare)(int fd);
};

/*
 * Until both are connected. The peer has not greeted yet. window 0: JOB_WINDOW. limit: that of
 * locked memory, in pages, of an ordinary user; RLIM_INFINITY: of root.
 */
bool victim_begin(struct victim *v, uint64_t window, rlim_t limit);
bool victim_end(struct victim *v); /* whether nothing is left of it */

void victim_order(struct victim *v, enum victim_order order, uint32_t page);
/* what VICTIM_CALL and those after it are about */
void victim_call(struct victim *v, const struct dsm_ioc_call *c);
/* of that; ~0: it took too long */
uint64_t victim_result(struct victim *v);
uint64_t victim_do(struct victim *v, enum victim_order order, uint32_t page);

/* Why the victim has given up a rank, maybe itself: -errno; 0: it has not. */
int victim_lost(const struct victim *v, unsigned int rank);
/* Until it has; heard() as of peer_poll(). */
bool victim_loses(struct victim *v, unsigned int rank,
		  void (*heard)(struct peer *p, const struct msg *m));

#endif
