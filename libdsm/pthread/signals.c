// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - the program's signal handlers.
 *
 * A handler may interrupt its thread anywhere, also inside libdsm, where it must not access shared
 * memory. So signal_arrived() is installed in the kernel as the handler. It defers the signal
 * inside libdsm, and otherwise calls the program's handler. Signals of faults are not among these:
 * the thread raises them itself, and they cannot be deferred.
 *
 * SIGSEGV and SIGBUS are also the signals of misses: their handler in the kernel is libdsm's, which
 * passes what is no miss on to on_fault(). That takes the action of the program, which never
 * reaches the kernel.
 *
 * Between nodes, a handler runs on the alternate stack that libdsm gave the thread, even without
 * SA_ONSTACK: the kernel cannot wait for a block of the shared stack.
 *
 * The actions belong to the job. A change is made on the caller's rank, then on all others, before
 * the call returns: a signal comes to a thread of any rank. Whether a handler with SA_RESETHAND has
 * been called is a bit in shared memory.
 *
 * If the program has no handler, signals that end a process are reported (dsm_signal_report()). Its
 * handler is hidden from the program, which sees the default action, and is restored when the
 * program chooses that.
 */
#include "signals.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "interpose/files.h"
#include "atomics.h"
#include "callbacks.h"
#include "everywhere.h"
#include "futex.h"
#include "masks.h"
#include "pending.h"
#include "sync.h"
#include "util/sizes.h"

typedef void (*handler_fn)(int);

static struct signals alone; /* in a job of one rank */
struct signals *together = &alone;

/*
 * The program's action, if the kernel has signal_arrived(). Changed under `changing`, read without
 * it: seq is odd during a change.
 */
static struct action {
	uint32_t seq;
	struct sigaction act;
} actions[NSIG];
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static bool chains; /* the handler of misses is libdsm's */

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

/* ---- signals that end the process ------------------------------------------------------------ */

/* SIGHUP, SIGINT and SIGTERM are not included: a launcher ends all ranks with these. */
static bool signal_is_reported(int sig)
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

static void signal_report(int sig)
{
	if (signal_is_reported(sig))
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
		signal_report(sig);
}

static void hide_reporter(struct sigaction *act)
{
	if (is_reporter(act))
		*act = (struct sigaction){ .sa_handler = SIG_DFL };
}

/* ---- handlers of the program ----------------------------------------------------------------- */

static void signal_arm(int sig, int flags)
{
	const uint64_t armed = __atomic_load_n(&together->armed, __ATOMIC_RELAXED);

	if ((flags & SA_RESETHAND) && !(armed & signal_bit(sig)))
		__atomic_fetch_or(&together->armed, signal_bit(sig), __ATOMIC_SEQ_CST);
	else if (!(flags & SA_RESETHAND) && (armed & signal_bit(sig)))
		__atomic_fetch_and(&together->armed, ~signal_bit(sig), __ATOMIC_SEQ_CST);
}

/* False: a thread of any rank was faster, and the signal has its default action. */
static bool disarm(int sig)
{
	return __atomic_fetch_and(&together->armed, ~signal_bit(sig), __ATOMIC_SEQ_CST) &
		signal_bit(sig);
}

/* On this rank. Others do it when the signal comes there. */
static void reset(int sig, struct sigaction act)
{
	act.sa_handler = SIG_DFL;
	act.sa_flags &= ~SA_SIGINFO;
	system_action(sig, &act, NULL);
	signal_report(sig);
}

/*
 * A launcher passes signals on to all ranks. To the program that is one signal, and rank 0 has it,
 * too.
 */
bool is_launchers(const siginfo_t *info)
{
	return shim.rank && info->si_code == SI_USER && info->si_pid == getppid();
}

bool has_default(int sig)
{
	struct sigaction act;

	if (system_action(sig, NULL, &act))
		return true;
	hide_reporter(&act);
	return act.sa_handler == SIG_DFL;
}

/* A handler of the program has run: calls that it interrupted end, if it is without SA_RESTART. */
static void interrupt_calls(const struct sigaction *act)
{
	const bool restarts = act->sa_flags & SA_RESTART;

	futex_interrupt(restarts);
	sem_interrupt(restarts);
	if (dsm_files_interrupt)
		dsm_files_interrupt(restarts);
}

static void signal_arrived(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	const int saved = errno;
	struct sigaction act;
	uint64_t open = of_misses();

	if (is_launchers(info) || dsm_signal_defer(sig, info, context) ||
	    atomics_keep_signal(sig, info, context))
		return;
	pending_restore(info);
	act = asked_for(&actions[sig]);
	if (act.sa_flags & SA_RESETHAND) {
		const bool first = disarm(sig);

		reset(sig, act);
		if (!first) {
			syscall(SYS_rt_tgsigqueueinfo, shim.pid, gettid(), sig, info);
			errno = saved;
			return;
		}
	}
	if ((act.sa_flags & SA_NODEFER) && !sigismember(&act.sa_mask, sig) &&
	    !sigismember(&u->uc_sigmask, sig))
		open |= signal_bit(sig);
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, NULL, sizeof(open));
	errno = saved;
	call_program((void *)act.sa_handler, sig, (long)info, (long)context);
	interrupt_calls(&act);
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
		syscall(SYS_rt_tgsigqueueinfo, shim.pid, gettid(), sig, info);
	}
}

/* libdsm's handler calls it for what is no miss, with all signals blocked. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	struct sigaction act = asked_for(&actions[sig]);
	uint64_t mask, more;

	if ((act.sa_flags & SA_RESETHAND) && !disarm(sig))
		act.sa_handler = SIG_DFL;
	if (act.sa_handler == SIG_IGN && info->si_code <= 0)
		return;
	if (!is_handler(&act)) {
		by_default(sig, info, context);
		return;
	}
	memcpy(&mask, &u->uc_sigmask, sizeof(mask));
	memcpy(&more, &act.sa_mask, sizeof(more));
	mask |= more | (act.sa_flags & SA_NODEFER ? 0 : signal_bit(sig));
	if (shim.active && !shim.one_node)
		mask &= ~of_misses();
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
	call_program((void *)act.sa_handler, sig, (long)info, (long)context);
	interrupt_calls(&act);
}

void faults_catch(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS };
	struct sigaction front = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK },
			 now;
	int i;

	sigfillset(&front.sa_mask);
	for (i = 0; i < 2; i++) {
		system_action(faults[i], NULL, &actions[faults[i]].act);
		if (!dsm_signal_report(faults[i]) && !system_action(faults[i], NULL, &now))
			reporter = now.sa_sigaction;
		system_action(faults[i], &front, NULL);
	}
}

bool signals_make(void)
{
	team->signals = dsm_aligned_alloc(PAGE_BYTES, sizeof(*team->signals));
	if (team->signals)
		memset(team->signals, 0, sizeof(*team->signals));
	return team->signals;
}

void signals_share(void)
{
	together = team->signals;
}

void faults_chain(void)
{
	chains = true;
}

static void signal_store(struct action *a, const struct sigaction *act)
{
	__atomic_store_n(&a->seq, a->seq + 1, __ATOMIC_RELAXED);
	in_order();
	a->act = *act;
	__atomic_store_n(&a->seq, a->seq + 1, __ATOMIC_RELEASE);
}

/*
 * signal_arrived() implements SA_NODEFER and SA_RESETHAND: a deferred signal has not been delivered
 * to the program yet.
 */
static int install(int sig, const struct sigaction *act)
{
	struct sigaction k = *act;

	if (is_of_misses(sig)) {
		signal_store(&actions[sig], act);
		return 0;
	}
	if (!is_handler(act) || is_of_fault(sig)) {
		if (system_action(sig, act, NULL))
			return -1;
		signal_report(sig);
		return 0;
	}
	signal_store(&actions[sig], act);
	k.sa_sigaction = signal_arrived;
	k.sa_flags |= SA_SIGINFO | (shim.one_node ? 0 : SA_ONSTACK);
	k.sa_flags &= ~(SA_NODEFER | SA_RESETHAND);
	return system_action(sig, &k, NULL);
}

/* With `changing` held: the action as the program sees it. */
static int signal_look_up(int sig, struct sigaction *act)
{
	int err = 0;

	if (is_of_misses(sig))
		*act = actions[sig].act;
	else
		err = system_action(sig, NULL, act);
	if (!err && (act->sa_flags & SA_SIGINFO) && act->sa_sigaction == signal_arrived)
		*act = actions[sig].act;
	if ((act->sa_flags & SA_RESETHAND) &&
	    !(__atomic_load_n(&together->armed, __ATOMIC_RELAXED) & signal_bit(sig)))
		act->sa_handler = SIG_DFL;
	hide_reporter(act);
	return err;
}

struct change {
	int sig;
	struct sigaction act;
};

/* By a thread that everywhere.c makes, with all signals blocked. */
static int signal_follow(void *arg)
{
	const struct change *c = arg;
	int err;

	pthread_mutex_lock(&changing);
	err = install(c->sig, &c->act) ? -errno : 0;
	pthread_mutex_unlock(&changing);
	return err;
}

static bool signal_is_same(const struct sigaction *a, const struct sigaction *b)
{
	const int flags = ~0x04000000; /* SA_RESTORER, the C library's */

	return a->sa_handler == b->sa_handler && (a->sa_flags & flags) == (b->sa_flags & flags) &&
		!memcmp(&a->sa_mask, &b->sa_mask, sizeof(uint64_t));
}

/* Make the change on this rank, with `changing` held. */
static int change_here(int sig, const struct sigaction *act, struct sigaction *old)
{
	int err = signal_look_up(sig, old);

	if (err || !act)
		return err;
	err = install(sig, act);
	if (!err)
		signal_arm(sig, act->sa_flags);
	return err;
}

/* A library changes the action of its rank only. */
static int signal_change(int sig, const struct sigaction *act, struct sigaction *old,
			 const void *caller)
{
	const uint64_t mask = block_signals();
	const bool all = act && caller_is_ours(caller);
	struct change c = { .sig = sig };
	int err;

	if (sig > SIGRTMAX) { /* libdsm-syscall.so has reserved it */
		masks_let_signals(mask);
		errno = EINVAL;
		return -1;
	}
	if (all)
		pthread_mutex_lock(&together->lock);
	pthread_mutex_lock(&changing);
	err = change_here(sig, act, old);
	pthread_mutex_unlock(&changing);
	if (all && !err && !signal_is_same(act, old)) {
		c.act = *act;
		err = ranks_run_others(signal_follow, &c, sizeof(c));
		errno = -err;
	}
	if (all)
		pthread_mutex_unlock(&together->lock);
	masks_let_signals(mask);
	return err ? -1 : 0;
}

/*
 * Libraries of the program must not replace the handler of misses either. A child of vfork() has
 * actions of its own.
 */
static bool is_wrapped(int sig, const void *caller)
{
	if (!is_rank() || sig <= 0 || sig >= NSIG)
		return false;
	return is_of_misses(sig) ? chains && !is_runtime(caller) : caller_is_ours(caller);
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction wanted, before;
	int err;

	if (!is_wrapped(sig, CALLER))
		return NEXT(sigaction)(sig, act, old);
	if (act)
		wanted = *act;
	err = signal_change(sig, act ? &wanted : NULL, &before, CALLER);
	if (!err && old)
		*old = before;
	return err;
}

static handler_fn signal_handle(int sig, handler_fn handler, int flags, const void *caller)
{
	struct sigaction act = { .sa_handler = handler, .sa_flags = flags }, old;

	return signal_change(sig, &act, &old, caller) ? SIG_ERR : old.sa_handler;
}

static handler_fn bsd(int sig, handler_fn handler, const void *caller)
{
	if (!is_wrapped(sig, caller))
		return NEXT(signal)(sig, handler);
	return signal_handle(sig, handler,
			     together->interrupting & signal_bit(sig) ? 0 : SA_RESTART, caller);
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
		return NEXT(sysv_signal)(sig, handler);
	return signal_handle(sig, handler, SA_RESETHAND | SA_NODEFER, caller);
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

	if (!is_wrapped(sig, CALLER))
		return NEXT(siginterrupt)(sig, interrupts);
	if (signal_change(sig, NULL, &act, CALLER))
		return -1;
	act.sa_flags = interrupts ? act.sa_flags & ~SA_RESTART : act.sa_flags | SA_RESTART;
	if (interrupts)
		__atomic_fetch_or(&together->interrupting, signal_bit(sig), __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(&together->interrupting, ~signal_bit(sig), __ATOMIC_SEQ_CST);
	return signal_change(sig, &act, &(struct sigaction){ 0 }, CALLER);
}

/* With flags of 0, which make no difference here. */
EXPORT int sigignore(int sig)
{
	return signal(sig, SIG_IGN) == SIG_ERR ? -1 : 0;
}

EXPORT handler_fn sigset(int sig, handler_fn disposition)
{
	struct sigaction now;
	sigset_t one, mask;
	handler_fn old;

	if (!is_wrapped(sig, CALLER))
		return NEXT(sigset)(sig, disposition);
	if (disposition == SIG_HOLD)
		old = signal_change(sig, NULL, &now, CALLER) ? SIG_ERR : now.sa_handler;
	else
		old = signal_handle(sig, disposition, 0, CALLER);
	if (old == SIG_ERR)
		return old;
	sigemptyset(&one);
	sigaddset(&one, sig);
	sigprocmask(disposition == SIG_HOLD ? SIG_BLOCK : SIG_UNBLOCK, &one, &mask);
	return sigismember(&mask, sig) ? SIG_HOLD : old;
}
