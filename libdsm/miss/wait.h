/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - waiting for an answer, or for a word to change.
 *
 * All functions block unless noted otherwise. Any thread may call them inside the runtime, also in
 * the fault handler, without a stripe. A waiting thread fires timers, polls the transport and
 * handles messages. If the job ends, the functions do not return.
 */
#ifndef MISS_WAIT_H
#define MISS_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* Wait until slot has completed n times since seq was read. ns: timeout; 0: none. 0; -ETIMEDOUT;
 * -EINTR in the fault handler: a signal is pending. */
int wait_slot(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns);
/* Before a request is sent: count this thread as one that polls, so that no other one is woken for
 * the answer. The next wait of this thread is that of the request; wait_end() follows, whether or
 * not there was one. Does not block. */
void wait_begin(void);
void wait_end(void);
/* The same as a cancellation point. The caller has a cleanup handler installed, and has entered the
 * runtime exactly once. -EINTR also if a signal handler of this thread has set *stop (NULL: none
 * does). */
int wait_slot_point(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns, const uint32_t *stop);
/* The number of threads of this process that sleep in these calls. Any thread; does not block. */
uint32_t wait_sleepers(void);
/* The processor that one of them last ran on. Any thread; does not block. */
unsigned int wait_sleeper_cpu(void);
/* Does a waiting thread poll now? Any thread; does not block. */
bool wait_polls(void);
/* Has a waiting thread polled since *seen was written, or does one poll now? Updates *seen. Any
 * thread; does not block. */
bool wait_polled(uint32_t *seen);
/* Wait until *word differs from old. A thread that changes it calls wait_wake(). 0, or -EINTR as
 * above. */
int wait_word(uint32_t *word, uint32_t old, uint32_t *sleepers);
/* Wake the threads that wait for a word, which has changed. Any thread; does not block. */
void wait_wake(uint32_t *word, uint32_t *sleepers);

#endif
