// SPDX-License-Identifier: BSD-2-Clause
/* inside.c - see inside.h. */
#include "engine/inside.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

__thread int engine_depth __attribute__((tls_model("initial-exec")));
__thread int engine_cancel __attribute__((tls_model("initial-exec")));
__thread int engine_errno __attribute__((tls_model("initial-exec")));
__thread int engine_rests __attribute__((tls_model("initial-exec")));
__thread uint64_t engine_kept __attribute__((tls_model("initial-exec")));

/*
 * Block the signal first: with SA_NODEFER, it would come again at once. If another handler was interrupted before it kept its own
 * signal, this signal is unblocked when that handler returns; then it comes again, and is kept again.
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
