/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cancel_signal.h - the signal by which the C library interrupts a system call to cancel a thread.
 * The C library does not let its own signals be changed, so this asks the kernel. Any thread;
 * nothing blocks. *a must not be in shared memory.
 */
#ifndef UTIL_CANCEL_SIGNAL_H
#define UTIL_CANCEL_SIGNAL_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CANCEL_SIGNAL 32

/* As the kernel has it. */
struct cancel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

/* 0, or -1: the kernel has refused. */
static inline long cancel_action_get(struct cancel_action *a)
{
	return syscall(SYS_rt_sigaction, CANCEL_SIGNAL, NULL, a, sizeof(a->mask));
}

static inline long cancel_action_set(const struct cancel_action *a)
{
	return syscall(SYS_rt_sigaction, CANCEL_SIGNAL, a, NULL, sizeof(a->mask));
}

#endif
