// SPDX-License-Identifier: BSD-2-Clause
/*
 * catch.c - the only handler of SIGBUS and SIGSEGV.
 *
 * The handler runs on the faulting thread, with every signal blocked, and waits until the block
 * comes. A waiter checks from time to time whether a signal is pending, and then gives up: the
 * handler returns, the signal is delivered as if the access had not been made yet, and the access
 * is repeated. So a handler of the program that interrupts a miss may do the same as one that
 * interrupts the program itself.
 */
#include "fault/catch.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "fault/range.h"

#ifndef __x86_64__
#error "the promise of docs/memory-model.md and the decoding of faults are for x86-64"
#endif

#define ERR_WRITE 2 /* page fault error code: the access was a write */

static bool caught;
static enum fault_answer (*serve)(void *addr, bool write);
static struct sigaction before[2];
static bool (*elsewhere)(void *addr, bool write);
/*
 * The signals blocked by the code that this thread's fault has interrupted; NULL: there is no
 * fault.
 */
static __thread const sigset_t *blocked __attribute__((tls_model("initial-exec")));

/* Pending signals of this thread that were not blocked before its fault. */
static uint64_t waiting(void)
{
	uint64_t pending = 0, mask;

	if (!blocked || syscall(SYS_rt_sigpending, &pending, sizeof(pending)))
		return 0;
	memcpy(&mask, blocked, sizeof(mask)); /* the part that the kernel uses */
	return pending & ~mask;
}

bool fault_handling(void)
{
	return blocked;
}

bool fault_signal_waits(void)
{
	return waiting();
}

/* A signal without a handler whose action is to stop or to be ignored can wait, too. */
static bool ends_process(int sig)
{
	struct sigaction sa;

	switch (sig) {
	case SIGCHLD:
	case SIGCONT:
	case SIGURG:
	case SIGWINCH:
	case SIGTSTP:
	case SIGTTIN:
	case SIGTTOU: return false;
	default:
		return !sigaction(sig, NULL, &sa) && !(sa.sa_flags & SA_SIGINFO) &&
			sa.sa_handler == SIG_DFL;
	}
}

void fault_end_if_signalled(void)
{
	uint64_t set = waiting();
	sigset_t one;
	int sig;

	for (; set; set &= set - 1) {
		sig = __builtin_ctzll(set) + 1;
		if (!ends_process(sig))
			continue;
		sigemptyset(&one);
		sigaddset(&one, sig);
		pthread_sigmask(SIG_UNBLOCK, &one, NULL);
	}
}

void fault_elsewhere(bool (*fn)(void *addr, bool write))
{
	__atomic_store_n(&elsewhere, fn, __ATOMIC_RELEASE);
}

/*
 * An access outside the table of ranges. fn may access shared memory: meanwhile, this thread's
 * misses are handled.
 */
static bool served_elsewhere(void *addr, bool write)
{
	bool (*fn)(void *, bool) = __atomic_load_n(&elsewhere, __ATOMIC_ACQUIRE);
	sigset_t misses;
	bool served;

	if (!fn)
		return false;
	sigemptyset(&misses);
	sigaddset(&misses, SIGBUS);
	sigaddset(&misses, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &misses, NULL);
	served = fn(addr, write);
	pthread_sigmask(SIG_BLOCK, &misses, NULL);
	return served;
}

/* kernels: the kernel sent the signal, and will send it again. */
static void catch_pass_on(int sig, int kernels, siginfo_t *info, void *context)
{
	const struct sigaction *old = &before[sig == SIGSEGV];

	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(sig, info, context);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(sig);
	} else {
		/* the access is repeated, and ends the process as it would have */
		signal(sig, SIG_DFL);
		if (info->si_code <= 0 || sig != kernels)
			raise(sig);
	}
}

static void catch_on_signal(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	char *addr = info->si_addr;
	size_t off;
	int saved = errno, as = sig;
	enum fault_answer answer = FAULT_REFUSED;
	siginfo_t segv;
	const bool write = u->uc_mcontext.gregs[REG_ERR] & ERR_WRITE;

	if (info->si_code > 0 && range_off(addr, &off)) {
		blocked = &u->uc_sigmask;
		answer = serve(addr, write);
		blocked = NULL;
	} else if (info->si_code > 0 && sig == SIGSEGV && served_elsewhere(addr, write)) {
		answer = FAULT_SERVED;
	}
	errno = saved;
	if (answer == FAULT_SERVED)
		return;
	if (answer == FAULT_NOWHERE && sig != SIGSEGV) {
		segv = *info;
		segv.si_signo = as = SIGSEGV;
		segv.si_code = SEGV_MAPERR;
		info = &segv;
	}
	catch_pass_on(as, sig, info, context);
}

int fault_catch(enum fault_answer (*fn)(void *addr, bool write))
{
	struct sigaction sa = { .sa_sigaction = catch_on_signal,
				.sa_flags = SA_SIGINFO | SA_RESTART };

	serve = fn;
	sigfillset(&sa.sa_mask);
	if (sigaction(SIGBUS, &sa, &before[0]))
		return -errno;
	if (sigaction(SIGSEGV, &sa, &before[1])) {
		sigaction(SIGBUS, &before[0], NULL);
		return -errno;
	}
	caught = true;
	return 0;
}

/* Only if the handler is ours: the program may have installed its own in front. */
void fault_alternate_stack(void)
{
	static const int signals[] = { SIGBUS, SIGSEGV };
	static uint32_t done;
	struct sigaction sa;
	int i;

	if (!caught || __atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
		return;
	for (i = 0; i < 2; i++) {
		if (sigaction(signals[i], NULL, &sa) || !(sa.sa_flags & SA_SIGINFO) ||
		    sa.sa_sigaction != catch_on_signal)
			continue;
		sa.sa_flags |= SA_ONSTACK;
		sigaction(signals[i], &sa, NULL);
	}
}

void fault_uncatch(void)
{
	if (!caught)
		return;
	sigaction(SIGBUS, &before[0], NULL);
	sigaction(SIGSEGV, &before[1], NULL);
	caught = false;
}
