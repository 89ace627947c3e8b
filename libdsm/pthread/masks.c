// SPDX-License-Identifier: BSD-2-Clause
/*
 * masks.c - the signal masks of the program's threads, and its alternate stacks. Between nodes,
 * SIGSEGV and SIGBUS are never blocked: misses come as these. The program's own alternate stack is
 * only recorded there: handlers run on libdsm's (signals.c).
 */
#include "masks.h"

#include <signal.h>
#include <string.h>

#include "pending.h"
#include "signals.h"

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

/* A launcher ends ranks by these: see pending.c. */
static void masks_note_held(uint64_t mask)
{
	const uint64_t ends = signal_bit(SIGHUP) | signal_bit(SIGINT) | signal_bit(SIGTERM);

	if (mask & ends & ~__atomic_load_n(&together->held, __ATOMIC_RELAXED))
		__atomic_fetch_or(&together->held, mask & ends, __ATOMIC_SEQ_CST);
}

uint64_t block_signals(void)
{
	return set_mask(SIG_BLOCK, ~of_misses());
}

void masks_let_signals(uint64_t before)
{
	set_mask(SIG_SETMASK, before);
}

uint64_t masks_exchange(uint64_t mask)
{
	uint64_t before;

	masks_note_held(mask);
	before = set_mask(SIG_SETMASK, mask);
	pending_unblocked();
	return before;
}

uint64_t blocked_signals(void)
{
	return set_mask(SIG_BLOCK, 0);
}

void masks_close(uint64_t set)
{
	set_mask(SIG_BLOCK, set);
}

void masks_open(uint64_t set)
{
	set_mask(SIG_UNBLOCK, set);
}

void let_misses(void)
{
	masks_open(of_misses());
}

static void remove_misses(sigset_t *set)
{
	sigdelset(set, SIGSEGV);
	sigdelset(set, SIGBUS);
}

/* Libraries, too, must leave the misses alone. */
const sigset_t *without_misses(const sigset_t *set, sigset_t *copy, const void *caller)
{
	if (!shim.active || shim.one_node || !set || is_runtime(caller) || !is_rank())
		return set;
	*copy = *set;
	remove_misses(copy);
	return copy;
}

/* What the caller may block of its set; NULL: it blocks nothing. */
static const sigset_t *blockable(int how, const sigset_t *set, sigset_t *copy, const void *caller)
{
	uint64_t held;

	if (!shim.active || !set || how == SIG_UNBLOCK || is_runtime(caller) || !is_rank())
		return set;
	set = without_misses(set, copy, caller);
	memcpy(&held, set, sizeof(held));
	masks_note_held(held);
	return set;
}

static void look_behind(int how, const sigset_t *set, const void *caller)
{
	if (set && how != SIG_BLOCK && caller_is_ours(caller))
		pending_unblocked();
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;
	const int err = NEXT(pthread_sigmask)(how, blockable(how, set, &copy, CALLER), old);

	look_behind(how, set, CALLER);
	return err;
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;
	const int err = NEXT(sigprocmask)(how, blockable(how, set, &copy, CALLER), old);

	look_behind(how, set, CALLER);
	return err;
}

long mask_by_number(const long *arg)
{
	const void *in = (const void *)arg[1];
	void *out = (void *)arg[2];
	sigset_t set, old;

	if (arg[3] != sizeof(uint64_t)) {
		errno = EINVAL;
		return -1;
	}
	sigemptyset(&set);
	if (in)
		memcpy(&set, in, sizeof(uint64_t));
	if (sigprocmask((int)arg[0], in ? &set : NULL, &old))
		return -1;
	if (out)
		memcpy(out, &old, sizeof(uint64_t));
	return 0;
}

/* The functions of BSD and System V. The C library has them without these. */
static int change_one(int how, int sig)
{
	sigset_t set;

	sigemptyset(&set);
	return sigaddset(&set, sig) ? -1 : sigprocmask(how, &set, NULL);
}

EXPORT int sighold(int sig)
{
	return change_one(SIG_BLOCK, sig);
}

EXPORT int sigrelse(int sig)
{
	return change_one(SIG_UNBLOCK, sig);
}

static int change_some(int how, int mask)
{
	sigset_t set, old;

	sigemptyset(&set);
	sigemptyset(&old);
	memcpy(&set, &mask, sizeof(mask));
	if (sigprocmask(how, &set, &old))
		return -1;
	memcpy(&mask, &old, sizeof(mask));
	return mask;
}

EXPORT int sigblock(int mask)
{
	return change_some(SIG_BLOCK, mask);
}

EXPORT int sigsetmask(int mask)
{
	return change_some(SIG_SETMASK, mask);
}

/* ---- the alternate stack --------------------------------------------------------------------- */

EXPORT int sigaltstack(const stack_t *stack, stack_t *old)
{
	static __thread stack_t own = { .ss_flags = SS_DISABLE };
	stack_t now, before = own, wanted;

	if (!caller_is_ours(CALLER) || shim.one_node)
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
