/* SPDX-License-Identifier: BSD-2-Clause */
/* masks.h - sets of signals as the kernel has them, and the signal mask of the calling thread. None
 * blocks. */
#ifndef PTHREAD_MASKS_H
#define PTHREAD_MASKS_H

#include "shim.h"

#include <signal.h>

/* A set with one signal: bit 0 is signal 1. */
static inline uint64_t signal_bit(int sig)
{
	return 1ull << (sig - 1);
}

static inline uint64_t of_misses(void)
{
	return signal_bit(SIGSEGV) | signal_bit(SIGBUS);
}

/* Block the signals that the program may handle, where a handler that calls sem_post() must not
 * run. Signals of misses stay unblocked. Return the previous mask. */
uint64_t block_signals(void);
/* Set the mask. */
void masks_let_signals(uint64_t before);
/* Set the mask of the program, and fetch the pending signals of the process that it lets in. Return
 * the previous mask. */
uint64_t masks_exchange(uint64_t mask);
/* Block these signals; unblock them. */
void masks_close(uint64_t set);
void masks_open(uint64_t set);
/* Unblock the signals of misses. */
void let_misses(void);
/* Return set, or a copy without the signals of misses if the caller must not block them. NULL is
 * returned as it is. */
const sigset_t *without_misses(const sigset_t *set, sigset_t *copy, const void *caller);
/* rt_sigprocmask(2) of the program, with the arguments of syscall(2). */
long mask_by_number(const long *arg);
/* Return the mask. */
uint64_t blocked_signals(void);

#endif
