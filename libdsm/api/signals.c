// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals.c - handlers that interrupt the runtime, signals that end the process, and faults that
 * the caller handles.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dsm.h"
#include "fault/catch.h"
#include "job/inside.h"
#include "job/lost.h"
#include "job/threads.h"

DSM_API int dsm_signal_defer(int sig, void *info, void *context)
{
	return engine_busy() && !engine_keep_signal(sig, info, context);
}

/*
 * Runs in a signal handler: uses only async-signal-safe functions, and snprintf() of numbers and
 * strings.
 */
static void signals_describe(char *buf, size_t size, int sig, const siginfo_t *info)
{
	const char *name = sigabbrev_np(sig);
	size_t n;

	if (name)
		n = (size_t)snprintf(buf, size, "is ended by SIG%s", name);
	else
		n = (size_t)snprintf(buf, size, "is ended by signal %d", sig);
	if (info->si_code > 0 && (sig == SIGSEGV || sig == SIGBUS))
		snprintf(buf + n, size - n, " at address %p", info->si_addr);
	else if ((info->si_code == SI_USER || info->si_code == SI_QUEUE) &&
		 info->si_pid != getpid())
		snprintf(buf + n, size - n, " from process %d", info->si_pid);
}

/*
 * A launcher passes some signals on to all its processes, so rank 0 gets them, too: its action is
 * the job's.
 */
static bool is_for_rank_0(const siginfo_t *info)
{
	return info->si_code == SI_USER && info->si_pid == getppid() && dsm_rank() > 0;
}

/*
 * The signal is blocked until this handler returns; then its default action follows, with its
 * siginfo_t, before the interrupted code continues. So a core file has the registers and the
 * address of the fault.
 */
static void on_fatal(int sig, siginfo_t *info, void *context)
{
	const struct sigaction sa = { .sa_handler = SIG_DFL };
	char why[100];

	(void)context;
	if (is_for_rank_0(info))
		return;
	if (sig == SIGABRT)
		lost_aborted(info);
	signals_describe(why, sizeof(why), sig, info);
	lost_dying(128 + sig, why);
	sigaction(sig, &sa, NULL);
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info))
		raise(sig);
}

static bool signals_is_reported(int sig)
{
	struct sigaction sa;

	return !sigaction(sig, NULL, &sa) && (sa.sa_flags & SA_SIGINFO) &&
		sa.sa_sigaction == on_fatal;
}

DSM_API int dsm_signal_report(int sig)
{
	struct sigaction sa = { .sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO | SA_ONSTACK },
			 old;

	if (sigaction(sig, NULL, &old))
		return -errno;
	if (old.sa_flags & SA_SIGINFO ? old.sa_sigaction != lost_on_abort
				      : old.sa_handler != SIG_DFL)
		return -EBUSY;
	sigfillset(&sa.sa_mask);
	threads_expect(signals_is_reported);
	return sigaction(sig, &sa, NULL) ? -errno : 0;
}

static int (*hook)(void *addr, int write, int inside);

static bool call_hook(void *addr, bool write)
{
	return hook(addr, write, engine_busy()) == 1;
}

DSM_API void dsm_fault_hook(int (*fn)(void *addr, int write, int inside))
{
	hook = fn;
	fault_elsewhere(call_hook);
}
