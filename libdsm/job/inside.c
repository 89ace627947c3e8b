// SPDX-License-Identifier: BSD-2-Clause
/* inside.c - see inside.h. */
#include "job/inside.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* The scheduler of Linux 6.12 prefers shorter slices. */
#define SLICE_NS 100000

__thread int engine_depth __attribute__((tls_model("initial-exec")));
__thread int engine_cancel __attribute__((tls_model("initial-exec")));
__thread int engine_errno __attribute__((tls_model("initial-exec")));
__thread int engine_rests __attribute__((tls_model("initial-exec")));
__thread uint64_t engine_kept __attribute__((tls_model("initial-exec")));

/*
 * Block the signal first: with SA_NODEFER, it would come again at once. If another handler was
 * interrupted before it kept its own signal, this signal is unblocked when that handler returns;
 * then it comes again, and is kept again.
 */
int engine_keep_signal(int sig, void *info, void *context)
{
	const uint64_t bit = 1ull << (sig - 1);
	const int saved = errno;
	int err = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &bit, NULL, sizeof(bit));
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, info))
		err = -errno;
	errno = saved;
	if (err)
		return err;
	sigaddset(&((ucontext_t *)context)->uc_sigmask, sig);
	engine_kept |= bit;
	return 0;
}

/* Clear the kept signals before unblocking them: a handler may leave by siglongjmp(). */
void engine_let_signals(void)
{
	const uint64_t kept = engine_kept;

	engine_kept = 0;
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &kept, NULL, sizeof(kept));
}

/*
 * Ask to run promptly even if all processors are busy: a short slice (Linux 6.12: the scheduler
 * prefers the shorter slice) and, if allowed, a better nice value. Both may be refused; the thread
 * sleeps nearly always.
 */
static void be_prompt(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr),
		   .policy = SCHED_OTHER,
		   /* this thread creates threads of the program (api/spawn.c) */
		   .flags = SCHED_FLAG_RESET_ON_FORK,
		   .nice = -15,
		   .runtime = SLICE_NS };

	if (sched_getscheduler(0) != SCHED_OTHER)
		return; /* the user has chosen */
	if (!syscall(SYS_sched_setattr, 0, &attr, 0))
		return;
	attr.nice = getpriority(PRIO_PROCESS, (id_t)gettid());
	syscall(SYS_sched_setattr, 0, &attr, 0);
}

void engine_thread(void *arg)
{
	(void)arg;
	engine_depth = 1; /* it never touches shared memory */
	be_prompt();
}
