/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * run.h - step messages and local events, and carry the actions out.
 *
 * Any thread inside the runtime may call these functions, also in the fault handler, but not with a
 * stripe held. Nothing waits for another rank; a call may wait for a stripe, and for a full send
 * queue. An action that fails (no memory for a block, a lost peer) ends the process: lost.h.
 * Messages for this node, and copies to close, are queued per thread (work.h). All functions except
 * run_page() and run_used() empty that queue, unless a caller up the stack is emptying it.
 */
#ifndef MISS_RUN_H
#define MISS_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/host.h"

/* Send m. A message for this node is stepped in this call; the transport sends any other. Sets the
 * version. */
void run_send(const struct msg *m);
/* The same for the first of several messages: run_work() steps it, or sends it together with those
 * that follow. */
void run_send_first(const struct msg *m);

/* Send m with a payload to another node. */
void run_send_with(const struct msg *m, const void *payload, size_t size);
/* Note that `inside` is about to be sent in another message. */
void run_note_inside(const struct msg *inside);

/* The counters of a block's region. */
struct region_stats *run_stats_of(uint32_t object);
/* The fault backend has no memory: end the process. */
void run_protect_failed(int err) __attribute__((noreturn));

/* Continue to pass on locks that came for threads that have given up, once all notices are applied.
 * Called by the service thread. True: there are some. */
bool run_late(void);

/* Step the messages that the node has kept (keep.h) and that are due, or all. Returns the time
 * until the next one is due, in ns; 0: none is kept. */
uint64_t run_kept(bool all);

/* The transport's handler, called by any thread that polls it, including threads of the runtime.
 * Checks m, which another node sent with the payload, and steps it. A peer that sent an invalid
 * message is treated as lost. */
void run_net(void *arg, const struct msg *m, const void *payload, size_t size);

/* Refuse a message of another node. -EBADMSG: the node is treated as lost. -ESTALE: the message is
 * ignored, since its sender may be correct (core/dispatch.h). */
void run_refuse(const struct msg *m, int err);
/* Open zeros, to read BUNDLE_BYTES at most, as fill() and zero() of struct fault_ops do. */
int run_zero(unsigned int who, size_t off, size_t len, uint8_t prot);

/* Poll the transport. Messages that arrive together are carried out together. Returns the result of
 * the transport's poll(). Not while a message is being handled. */
int run_poll(unsigned int budget);

/* Step a hold record for a local event. about: as for hold_thread(). 0, or -EPERM: the state of the
 * record does not allow it. */
int run_held(uint32_t index, enum hold_event ev, const struct msg *about);

/* Let a thread of this rank arrive at a barrier; *gen returns the episode that it must wait for. 0,
 * or -errno: one thread too many for this episode, another group, or a destroyed barrier. */
int run_arrive(const struct msg *m, const struct bar_group *group, uint32_t *gen);
/* Call step_gather() and wake waiters. 1: all threads of this node have arrived, and *up is their
 * arrival; 0; -EBADMSG. */
int run_gather(const struct msg *m, bool alone, const struct bar_group *group, uint32_t *gen,
	       struct msg *up);

/* Has this thread answered a request for a block since the last call, so that MSG_DONE will come?
 * False also if any thread has queued a request in the last 100 ms: then MSG_DONE is urgent. Does
 * not block. */
bool run_expects_done(void);

/* This node, for the functions of core/host.h. Those that step it do not empty the thread's queue:
 * call run_work(). */
struct core_host run_host(void);
/* The same for the blocks of a run of this thread (miss/twin.h): their stripes are held. */
struct core_host run_host_of_run(void);

/* Step a page of this node for a local event. ask names the block, the slot, and the node to ask.
 * CORE_ASKED: *wait is the slot to wait for, *seq its count before (wait NULL: nobody waits, and
 * PE_USED does not hold the block). Actions are queued: call run_work(). */
enum core_page run_page(enum page_event ev, const struct msg *ask, uint16_t *wait, uint32_t *seq);

/* Step PE_USED for a thread that has waited. also() (or NULL) runs under the stripe, before the
 * block can be taken away. */
void run_used(const struct msg *ask, void (*also)(void *), void *arg);

/* Carry out everything that this thread has queued. */
void run_work(void);

#endif
