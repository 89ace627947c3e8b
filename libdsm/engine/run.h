/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.h - messages and local events: stepped, and what follows from them carried out.
 *
 * Any thread may call all of this inside the runtime, also in the fault handler, without a stripe. Nothing waits for another
 * rank; a stripe may be awaited, and a full send queue. What cannot be carried out (no memory for a block, a lost peer) ends the
 * process: lost.h. Messages for this node, and copies to be closed, are queued with the thread (work.h), and all but run_page(),
 * run_used() and run_drop() empty that queue, unless it is being emptied further up the stack.
 */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/barrier.h"
#include "core/lock.h"
#include "core/page.h"
#include "core/wire.h"

/* Send m: this node is stepped here and now, another gets a message. The version is filled in. */
void run_send(const struct msg *m);

/* The transport's handler, called by any thread that polls it, the runtime's included. m has come from another node, with a
 * payload behind it, and is checked here: a peer that sent nonsense is lost. */
void run_net(void *arg, const struct msg *m, const void *payload, size_t size);

/* What came from another node is not taken. -EBADMSG: the node is lost; -ESTALE: of no use, and nobody's fault that could be known
 * (core/dispatch.h). */
void run_refuse(const struct msg *m, int err);

/* Poll the transport: what arrives together is carried out together. Returns what poll() does. Not while a message is handled. */
int run_poll(unsigned int budget);

/* An event of this node's own in a hold record. about: only if the record is of the lock that this message is for. 0, or
 * -EPERM: the record is in no state for that. */
int run_held(uint32_t index, enum hold_event ev, const struct msg *about);

/* A thread of this rank arrives at a barrier, and waits for the end of episode *gen. 0, or -errno: one too many for this episode, another
 * group, or a barrier that is no more. */
int run_arrive(const struct msg *m, const struct bar_group *group, uint32_t *gen);
/* step_gather(), and whoever waits is woken. 1: all threads of this node have come, and *up is their arrival; 0, -EBADMSG. */
int run_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen, struct msg *up);

enum run_page {
	RUN_ASKED,   /* something is under way */
	RUN_OPEN,    /* the node has the block open, or is about to */
	RUN_FOLLOWED /* the node has it open, and this rank's mapping has followed */
};

/* Step a page of this node for a local event. ask names the block, the slot, and whom to ask. RUN_ASKED: *wait is the slot to
 * wait for, *seq its count before (wait NULL: nobody waits, and PE_USED does not hold the block). What follows is queued: call
 * run_work(). */
enum run_page run_page(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq);

/* PE_USED of a thread that has waited, and what it does before anybody can take the block away (NULL: nothing), under the
 * stripe. */
void run_used(const struct msg *ask, void (*also)(void *), void *arg);

#define RUN_DROPS 64 /* so many stripes are held at once, at most */

/* Drop read copies of n neighbouring blocks, n <= RUN_DROPS, the first at off: those that the protocol lets go of now. Neighbours
 * are closed by one call of the fault backend. */
void run_drop(size_t off, size_t block, unsigned int n);

/* Everything queued by this thread. */
void run_work(void);

#endif
