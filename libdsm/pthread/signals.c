// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - the program's signal handlers.
 *
 * A handler may interrupt its thread anywhere, also inside libdsm, where it must not access shared memory. So on_signal() is
 * installed in the kernel as the handler. It defers the signal inside libdsm, and otherwise calls the program's handler. Signals
 * of faults are not among these: the thread raises them itself, and they cannot be deferred.
 *
 * SIGSEGV and SIGBUS are also the signals of misses: their handler in the kernel is libdsm's, which passes what is no miss on to
 * on_fault(). That takes the action of the program, which never reaches the kernel.
 *
 * Between nodes, a handler runs on the alternate stack that libdsm gave the thread, even without SA_ONSTACK: the kernel cannot
 * wait for a block of the shared stack. For the same reason the program's own alternate stack is only recorded.
 *
 * If the program has no handler, signals that end a process are reported (dsm_signal_report()). Its handler is hidden from the
 * program, which sees the default action, and is restored when the program chooses that.
 */
#include "signals.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "futex.h"

typedef void (*handler_fn)(int);

/* The program's action, if the kernel has on_signal(). Changed under `changing`, read without it: seq is odd during a change. */
static struct action {
	uint32_t seq;
	uint32_t once; /* SA_RESETHAND is set, and the handler was not called yet */
	struct sigaction act;
} actions[NSIG];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static bool chains;           /* the handler of misses is libdsm's */
static sigset_t interrupting; /* siginterrupt(); under `changing` */

/* A set in the kernel's format: bit 0 is signal 1. */
static uint64_t bit_of(int sig)
{
	return 1ull << (sig - 1);
}

static uint64_t of_misses(void)
{
	return bit_of(SIGSEGV) | bit_of(SIGBUS);
}

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

/* Called from one place, so that NEXT() has looked up the function before a handler needs it. */
static int system_action(int sig, const struct sigaction *act, struct sigaction *old)
{
	return NEXT(sigaction)(sig, act, old);
}

static bool is_of_misses(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS;
}

static bool is_of_fault(int sig)
{
	switch (sig) {
	case SIGSEGV:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS:
	case SIGABRT: return true;
	default: return false;
	}
}

static struct sigaction asked_for(struct action *a)
{
	struct sigaction act;
	uint32_t seq;

	for (;;) {
		seq = __atomic_load_n(&a->seq, __ATOMIC_ACQUIRE);
		act = a->act;
		in_order();
		if (!(seq & 1) && __atomic_load_n(&a->seq, __ATOMIC_RELAXED) == seq)
			return act;
		sched_yield();
	}
}

/* ---- signals that end the process ------------------------------------------------------------------ */

/* SIGHUP, SIGINT and SIGTERM are not included: a launcher ends all ranks with these. */
static bool is_reported(int sig)
{
	switch (sig) {
	case SIGQUIT:
	case SIGILL:
	case SIGTRAP:
	case SIGABRT:
	case SIGBUS:
	case SIGFPE:
	case SIGUSR1:
	case SIGSEGV:
	case SIGUSR2:
	case SIGPIPE:
	case SIGALRM:
	case SIGSTKFLT:
	case SIGXCPU:
	case SIGXFSZ:
	case SIGVTALRM:
	case SIGPROF:
	case SIGIO:
	case SIGPWR:
	case SIGSYS: return true;
	default: return false;
	}
}

static void (*reporter)(int, siginfo_t *, void *); /* the handler of dsm_signal_report() */

static void report(int sig)
{
	if (is_reported(sig))
		dsm_signal_report(sig);
}

static bool is_reporter(const struct sigaction *act)
{
	return reporter && (act->sa_flags & SA_SIGINFO) && act->sa_sigaction == reporter;
}

void report_signals(void)
{
	int sig;

	for (sig = 1; sig < NSIG; sig++)
		report(sig);
}

static void hide_reporter(struct sigaction *act)
{
	if (is_reporter(act))
		*act = (struct sigaction){ .sa_handler = SIG_DFL };
}

/* ---- handlers of the program ----------------------------------------------------------------------- */

/* False: another thread was faster, and the signal has, or will soon have, its default action. */
static bool reset(int sig, struct sigaction act)
{
	if (!__atomic_exchange_n(&actions[sig].once, 0, __ATOMIC_SEQ_CST))
		return false;
	act.sa_handler = SIG_DFL;
	act.sa_flags &= ~SA_SIGINFO;
	system_action(sig, &act, NULL);
	report(sig);
	return true;
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	const int saved = errno;
	struct sigaction act;
	uint64_t open = of_misses();

	if (dsm_signal_defer(sig, info, context))
		return;
	act = asked_for(&actions[sig]);
	if ((act.sa_flags & SA_RESETHAND) && !reset(sig, act)) {
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info);
		errno = saved;
		return;
	}
	if ((act.sa_flags & SA_NODEFER) && !sigismember(&act.sa_mask, sig) && !sigismember(&u->uc_sigmask, sig))
		open |= bit_of(sig);
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, NULL, sizeof(open));
	errno = saved;
	if (act.sa_flags & SA_SIGINFO)
		act.sa_sigaction(sig, info, context);
	else
		act.sa_handler(sig);
	futex_interrupt(act.sa_flags & SA_RESTART);
}

static bool is_handler(const struct sigaction *act)
{
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN;
}

/* As the kernel would: a fault ends the process even where its signal is ignored. */
static void by_default(int sig, siginfo_t *info, void *context)
{
	const struct sigaction none = { .sa_handler = SIG_DFL };

	if (reporter) {
		reporter(sig, info, context);
	} else {
		system_action(sig, &none, NULL);
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info);
	}
}

/* libdsm's handler calls it for what is no miss, with all signals blocked. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	struct sigaction act = asked_for(&actions[sig]);
	uint64_t mask, more;

	if ((act.sa_flags & SA_RESETHAND) && !__atomic_exchange_n(&actions[sig].once, 0, __ATOMIC_SEQ_CST))
		act.sa_handler = SIG_DFL;
	if (act.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (!is_handler(&act)) {
		by_default(sig, info, context);
		return;
	}
	memcpy(&mask, &u->uc_sigmask, sizeof(mask));
	memcpy(&more, &act.sa_mask, sizeof(more));
	mask |= more | (act.sa_flags & SA_NODEFER ? 0 : bit_of(sig));
	if (shim.active && !shim.near)
		mask &= ~of_misses();
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	if (act.sa_flags & SA_SIGINFO)
		act.sa_sigaction(sig, info, context);
	else
		act.sa_handler(sig);
	futex_interrupt(act.sa_flags & SA_RESTART);
}

void faults_catch(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS };
	struct sigaction front = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK }, now;
	int i;

	sigfillset(&front.sa_mask);
	for (i = 0; i < 2; i++) {
		system_action(faults[i], NULL, &actions[faults[i]].act);
		if (!dsm_signal_report(faults[i]) && !system_action(faults[i], NULL, &now))
			reporter = now.sa_sigaction;
		system_action(faults[i], &front, NULL);
	}
}

void faults_chain(void)
{
	chains = true;
}

static void store(struct action *a, const struct sigaction *act)
{
	__atomic_store_n(&a->seq, a->seq + 1, __ATOMIC_RELAXED);
	in_order();
	a->act = *act;
	__atomic_store_n(&a->once, (uint32_t)((act->sa_flags & SA_RESETHAND) != 0), __ATOMIC_RELAXED);
	__atomic_store_n(&a->seq, a->seq + 1, __ATOMIC_RELEASE);
}

/* on_signal() implements SA_NODEFER and SA_RESETHAND: a deferred signal has not been delivered to the program yet. */
static int install(int sig, const struct sigaction *act)
{
	struct sigaction k = *act;

	if (is_of_misses(sig)) {
		store(&actions[sig], act);
		return 0;
	}
	if (!is_handler(act)) {
		if (system_action(sig, act, NULL))
			return -1;
		report(sig);
		return 0;
	}
	store(&actions[sig], act);
	k.sa_sigaction = on_signal;
	k.sa_flags |= SA_SIGINFO | (shim.near ? 0 : SA_ONSTACK);
	k.sa_flags &= ~(SA_NODEFER | SA_RESETHAND);
	return system_action(sig, &k, NULL);
}

/* With `changing` held: the action as the program sees it. */
static int look_up(int sig, struct sigaction *act)
{
	const struct action *a = &actions[sig];
	int err;

	if (is_of_misses(sig)) {
		*act = a->act;
		if ((act->sa_flags & SA_RESETHAND) && !__atomic_load_n(&a->once, __ATOMIC_RELAXED))
			act->sa_handler = SIG_DFL;
		return 0;
	}
	err = system_action(sig, NULL, act);
	if (!err && (act->sa_flags & SA_SIGINFO) && act->sa_sigaction == on_signal)
		*act = a->act;
	hide_reporter(act);
	return err;
}

static uint64_t begin_change(void)
{
	const uint64_t before = block_signals();

	pthread_mutex_lock(&changing);
	return before;
}

static void end_change(uint64_t before)
{
	pthread_mutex_unlock(&changing);
	let_signals(before);
}

static int change(int sig, const struct sigaction *act, struct sigaction *old)
{
	const uint64_t mask = begin_change();
	int err = look_up(sig, old);

	if (!err && act)
		err = install(sig, act);
	end_change(mask);
	return err;
}

/* Libraries of the program must not replace the handler of misses either. A child of vfork() has actions of its own. */
static bool is_wrapped(int sig, const void *caller)
{
	if (!is_rank())
		return false;
	if (is_of_misses(sig))
		return chains && !is_runtime(caller);
	return is_ours(caller) && sig > 0 && sig < NSIG && !is_of_fault(sig);
}

/* The kernel calls the handlers of other faults directly. */
static int of_fault(int sig, const struct sigaction *act, struct sigaction *old, const void *caller)
{
	int err = NEXT(sigaction)(sig, act, old);

	if (err || !is_ours(caller))
		return err;
	if (old)
		hide_reporter(old);
	if (act && act->sa_handler == SIG_DFL)
		report(sig);
	return 0;
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction wanted, before;
	int err;

	if (!is_wrapped(sig, CALLER))
		return of_fault(sig, act, old, CALLER);
	if (act)
		wanted = *act;
	err = change(sig, act ? &wanted : NULL, &before);
	if (!err && old)
		*old = before;
	return err;
}

/* Does what the C library's function would have done, for the signals that handle() leaves alone. */
static handler_fn handled(int sig, handler_fn now, handler_fn before, const void *caller)
{
	if (before == SIG_ERR || !is_ours(caller))
		return before;
	if (now == SIG_DFL)
		report(sig);
	return (uintptr_t)before == (uintptr_t)reporter ? SIG_DFL : before;
}

static handler_fn handle(int sig, handler_fn handler, int flags)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	return change(sig, &act, &old) ? SIG_ERR : old.sa_handler;
}

static handler_fn bsd(int sig, handler_fn handler, const void *caller)
{
	if (!is_wrapped(sig, caller))
		return handled(sig, handler, NEXT(signal)(sig, handler), caller);
	return handle(sig, handler, sigismember(&interrupting, sig) ? 0 : SA_RESTART);
}

EXPORT handler_fn signal(int sig, handler_fn handler)
{
	return bsd(sig, handler, CALLER);
}

EXPORT handler_fn bsd_signal(int sig, handler_fn handler); /* no header declares it any more */
EXPORT handler_fn bsd_signal(int sig, handler_fn handler)
{
	return bsd(sig, handler, CALLER);
}

EXPORT handler_fn ssignal(int sig, handler_fn handler)
{
	return bsd(sig, handler, CALLER);
}

static handler_fn sysv(int sig, handler_fn handler, const void *caller)
{
	if (!is_wrapped(sig, caller))
		return handled(sig, handler, NEXT(sysv_signal)(sig, handler), caller);
	return handle(sig, handler, SA_RESETHAND | SA_NODEFER);
}

EXPORT handler_fn sysv_signal(int sig, handler_fn handler)
{
	return sysv(sig, handler, CALLER);
}

EXPORT handler_fn __sysv_signal(int sig, handler_fn handler)
{
	return sysv(sig, handler, CALLER);
}

/* Programs still call functions that the C library marks as deprecated. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

EXPORT int siginterrupt(int sig, int interrupts)
{
	struct sigaction act;
	uint64_t mask;
	int err;

	if (!is_wrapped(sig, CALLER))
		return NEXT(siginterrupt)(sig, interrupts);
	mask = begin_change();
	err = look_up(sig, &act);
	if (!err) {
		act.sa_flags = interrupts ? act.sa_flags & ~SA_RESTART : act.sa_flags | SA_RESTART;
		err = install(sig, &act);
	}
	if (!err && interrupts)
		sigaddset(&interrupting, sig);
	else if (!err)
		sigdelset(&interrupting, sig);
	end_change(mask);
	return err;
}

EXPORT handler_fn sigset(int sig, handler_fn disposition)
{
	handler_fn old;
	sigset_t one, mask;

	if (!is_wrapped(sig, CALLER) || disposition == SIG_HOLD)
		return handled(sig, disposition, NEXT(sigset)(sig, disposition), CALLER);
	old = handle(sig, disposition, 0);
	if (old == SIG_ERR)
		return old;
	sigemptyset(&one);
	sigaddset(&one, sig);
	NEXT(sigprocmask)(SIG_UNBLOCK, &one, &mask);
	return sigismember(&mask, sig) ? SIG_HOLD : old;
}

/* ---- masks: misses come as signals ------------------------------------------------------------------ */

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
