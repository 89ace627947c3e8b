// SPDX-License-Identifier: BSD-2-Clause
/*
 * signal.c - the one place where SIGBUS and SIGSEGV are caught, and the memory object's plain operations.
 *
 * The handler runs on the faulting thread, with every signal blocked, and may run for as long as the block takes to come.
 */
#include "fault/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "the promise of docs/memory-model.md and the decoding of faults are for x86-64"
#endif

#define ERR_WRITE 2 /* page fault error code: the access was a write */

static char *low, *high;
static bool (*serve)(void *addr, bool write);
static struct sigaction before[2];

int frames_read(const struct frames *f, size_t off, size_t len, void *to)
{
	size_t at = 0;

	while (at < len) {
		ssize_t n = pread(f->memfd, (char *)to + at, len - at, (off_t)(off + at));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return -EIO;
		if (n > 0)
			at += (size_t)n;
	}
	return 0;
}

int frames_punch(const struct frames *f, size_t off, size_t len)
{
	while (fallocate(f->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len))
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void pass_on(int sig, siginfo_t *info, void *context)
{
	const struct sigaction *old = &before[sig == SIGSEGV];

	if (old->sa_flags & SA_SIGINFO) {
		old->sa_sigaction(sig, info, context);
	} else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
		old->sa_handler(sig);
	} else {
		signal(sig, SIG_DFL); /* the access is repeated and ends the process as it would have */
		if (info->si_code <= 0)
			raise(sig);
	}
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	char *addr = info->si_addr;
	int saved = errno;

	if (info->si_code > 0 && addr >= low && addr < high &&
	    serve(addr, u->uc_mcontext.gregs[REG_ERR] & ERR_WRITE)) {
		errno = saved;
		return;
	}
	errno = saved;
	pass_on(sig, info, context);
}

int fault_catch(void *base, size_t size, bool (*fn)(void *addr, bool write))
{
	struct sigaction sa = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };

	low = base;
	high = low + size;
	serve = fn;
	sigfillset(&sa.sa_mask);
	if (sigaction(SIGBUS, &sa, &before[0]))
		return -errno;
	if (sigaction(SIGSEGV, &sa, &before[1])) {
		sigaction(SIGBUS, &before[0], NULL);
		return -errno;
	}
	return 0;
}

void fault_uncatch(void)
{
	if (!high)
		return;
	sigaction(SIGBUS, &before[0], NULL);
	sigaction(SIGSEGV, &before[1], NULL);
	low = high = NULL;
}
