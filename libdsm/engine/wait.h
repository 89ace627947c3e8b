/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * wait.h - waiting for an answer, or for a word to change.
 *
 * All of it blocks, and is called inside the runtime, by any thread, also in the fault handler; without a stripe. The thread helps
 * meanwhile: it fires timers, progresses the transport and handles what that brings. When the job ends, it does not return.
 */
#ifndef ENGINE_WAIT_H
#define ENGINE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

/* Until slot has completed n times more than seq says; ns 0: no limit. 0, or -ETIMEDOUT; in the fault handler, -EINTR: a signal
 * waits. */
int wait_slot(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns);
/* The same as a cancellation point. The caller, who has a cleanup handler in place, is in the runtime just once. */
int wait_slot_point(uint16_t slot, uint32_t seq, uint32_t n, uint64_t ns);
/* Threads of this process that sleep in these calls. Any thread; does not block. */
uint32_t wait_sleepers(void);
/* The processor that one of them ran on. Any thread; does not block. */
unsigned int wait_sleeper_cpu(void);
/* Does one of them poll now? Any thread; does not block. */
bool wait_polls(void);
/* Has one of them polled since *seen was written, or does one now? Sets *seen. Any thread; does not block. */
bool wait_polled(uint32_t *seen);
/* Until *word differs from old. Who changes it wakes its futex if *sleepers says so. 0, or -EINTR as above. */
int wait_word(uint32_t *word, uint32_t old, uint32_t *sleepers);

#endif
