/* SPDX-License-Identifier: BSD-2-Clause */
/* probe.h - for programs of this folder: which signal a read gets. */
#ifndef THREADS_PROBE_H
#define THREADS_PROBE_H

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

static __thread sigjmp_buf probe_back;

static void probe_failed(int sig)
{
	siglongjmp(probe_back, sig);
}

/* Take SIGBUS, in all threads. */
static inline void probe_begin(void)
{
	const struct sigaction act = { .sa_handler = probe_failed };

	sigaction(SIGBUS, &act, NULL);
}

/* The signal that a read of *p gets; 0: none. */
static inline int fault(const volatile char *p)
{
	int sig = sigsetjmp(probe_back, 1);

	if (!sig)
		(void)*p;
	return sig;
}

#endif
