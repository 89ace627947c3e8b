/* SPDX-License-Identifier: BSD-2-Clause */
/* atomics.h - atomic operations of programs, which dsm-cc has compiled to calls of functions. */
#ifndef PTHREAD_ATOMICS_H
#define PTHREAD_ATOMICS_H

#include "shim.h"

#include <signal.h>

/*
 * The compiler's functions for words of 4 bytes. Under a lock if atomics_are_calls(), which may
 * wait for a round trip; else one instruction.
 */
uint32_t atomics_fetch_add_4(uint32_t *at, uint32_t value,
			     int order) __asm__("__atomic_fetch_add_4");
uint32_t atomics_fetch_sub_4(uint32_t *at, uint32_t value,
			     int order) __asm__("__atomic_fetch_sub_4");
/* Do atomic instructions on this address lose what other nodes store? */
bool atomics_are_calls(const void *at);

/* Make the locks of the operations. Collective, before the job is active. 0, -ENOMEM, errors of
 * dsm_broadcast(). */
int atomics_start(void);
/* True if the signal has interrupted an operation of this thread that takes a lock: it is sent
 * again, blocked, and let in at the end of the operation. Called in its handler. */
bool atomics_keep_signal(int sig, siginfo_t *info, void *context);

#endif
