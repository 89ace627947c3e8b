// SPDX-License-Identifier: BSD-2-Clause
/*
 * masks.c - the signal masks of the program's threads, and its alternate stacks. Between nodes, SIGSEGV and SIGBUS are never blocked:
 * misses come as these. The program's own alternate stack is only recorded there: handlers run on libdsm's (signals.c).
 */
#include "masks.h"

#include <signal.h>
#include <string.h>

/* Not a system call made here: the stack may be shared, and libdsm-syscall.so handles that. */
static uint64_t set_mask(int how, uint64_t mask)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigemptyset(&old);
	memcpy(&set, &mask, sizeof(mask));
	NEXT(pthread_sigmask)(how, &set, &old);
	memcpy(&mask, &old, sizeof(mask));
	return mask;
}

uint64_t block_signals(void)
{
	return set_mask(SIG_BLOCK, ~of_misses());
}

void let_signals(uint64_t before)
{
	set_mask(SIG_SETMASK, before);
}

uint64_t blocked_signals(void)
{
	return set_mask(SIG_BLOCK, 0);
}

static sigset_t without_misses(const sigset_t *set)
{
	sigset_t out = *set;

	sigdelset(&out, SIGSEGV);
	sigdelset(&out, SIGBUS);
	return out;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t s;

	if (!is_ours(CALLER) || shim.near || !set || how == SIG_UNBLOCK)
		return NEXT(pthread_sigmask)(how, set, old);
	s = without_misses(set);
	return NEXT(pthread_sigmask)(how, &s, old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t s;

	if (!is_ours(CALLER) || shim.near || !set || how == SIG_UNBLOCK)
		return NEXT(sigprocmask)(how, set, old);
	s = without_misses(set);
	return NEXT(sigprocmask)(how, &s, old);
}

/* ---- the alternate stack ---------------------------------------------------------------------------- */

EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
	static __thread stack_t own = { .ss_flags = SS_DISABLE };
	stack_t now, before = own, wanted;

	if (!is_ours(CALLER) || shim.near)
		return NEXT(sigaltstack)(stack, old);
	if (NEXT(sigaltstack)(NULL, &now))
		return -1;
	before.ss_flags |= now.ss_flags & SS_ONSTACK;
	if (stack) {
		wanted = *stack;
		if (now.ss_flags & SS_ONSTACK)
			return errno = EPERM, -1;
		if (wanted.ss_flags & ~(SS_DISABLE | SS_ONSTACK))
			return errno = EINVAL, -1;
		if (!(wanted.ss_flags & SS_DISABLE) && wanted.ss_size < (size_t)MINSIGSTKSZ)
			return errno = ENOMEM, -1;
		wanted.ss_flags &= SS_DISABLE;
		own = wanted;
	}
	if (old)
		*old = before;
	return 0;
}
