// SPDX-License-Identifier: BSD-2-Clause
/*
 * async.c - asynchronous cancellation.
 *
 * To the C library, each thread has the deferred type, for its asynchronous cancellation would act
 * wherever the signal comes: inside libdsm, which then leaves a lock, a slot or a block taken, or
 * in the handler of a miss. Here the signal is the C library's as well, with a handler in front of
 * its own. If the thread is in code of the executable, on its own stack, the handler calls
 * pthread_testcancel(), as if that stood there. It does nothing while cancellation is disabled,
 * which it is inside libdsm, nor in a thread that ends already.
 *
 * Anywhere else the handler starts a timer, which repeats the signal until the thread has ended. It
 * runs while the thread does: one that sleeps is not woken; it sleeps in a cancellation point, or
 * inside libdsm, or with cancellation disabled.
 */
#include "async.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "masks.h"
#include "util/cancel_signal.h"

#define AGAIN_NS 1000000 /* of the thread's processor time */

/* A thread of the asynchronous type. Its handler reads it, so it must be there without an
 * allocation. */
struct async {
	struct async *next;
	pthread_t thread;
	pid_t tid;
	bool on;
	bool repeats; /* timer is set */
	int timer;    /* the kernel's */
};

static __thread struct async self __attribute__((tls_model("initial-exec")));
/* of this process, under `lock`, a leaf that is held with the program's signals blocked */
static struct async *all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*librarys)(int sig, siginfo_t *info, void *context);

bool async_is_on(void)
{
	return self.on;
}

/* Between nodes a handler of the program, and that of misses, have a stack of their own. */
static bool may_act(const ucontext_t *u)
{
	const uintptr_t sp = (uintptr_t)u->uc_mcontext.gregs[REG_RSP];
	const bool other = !(u->uc_stack.ss_flags & SS_DISABLE) &&
		sp - (uintptr_t)u->uc_stack.ss_sp < u->uc_stack.ss_size;

	return !other && is_executable((const void *)u->uc_mcontext.gregs[REG_RIP]);
}

/* If the kernel has no timer, the next cancellation point remains. */
static void async_repeat(void)
{
	const struct itimerspec every = { { 0, AGAIN_NS }, { 0, AGAIN_NS } };
	struct sigevent e = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = CANCEL_SIGNAL };

	e._sigev_un._tid = self.tid;
	if (self.repeats || syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, &e, &self.timer))
		return;
	self.repeats = true;
	syscall(SYS_timer_settime, self.timer, 0, &every, NULL);
}

static void on_cancel(int sig, siginfo_t *info, void *context)
{
	const ucontext_t *u = context;
	const int saved = errno;
	uint64_t mask;

	librarys(sig, info, context);
	if (!self.on)
		return;
	if (may_act(u)) {
		memcpy(&mask, &u->uc_sigmask, sizeof(mask));
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof(mask));
		pthread_testcancel();
	}
	async_repeat();
	errno = saved;
}

/* With the lock held. The kernel does not read the thread's stack, which may be shared. The C
 * library's handler is there: libdsm has had a thread cancelled before the first of the program's
 * began. */
static void catch_signal(void)
{
	static struct cancel_action a;

	if (librarys || cancel_action_get(&a))
		return;
	memcpy(&librarys, &a.handler, sizeof(librarys));
	*(void (**)(int, siginfo_t *, void *)) & a.handler = on_cancel;
	cancel_action_set(&a);
}

static void list(void)
{
	catch_signal();
	self.thread = NEXT(pthread_self)();
	self.tid = gettid();
	self.next = all;
	all = &self;
}

static void unlist(void)
{
	struct async **at;

	for (at = &all; *at && *at != &self; at = &(*at)->next)
		;
	if (*at)
		*at = self.next;
	if (self.repeats)
		syscall(SYS_timer_delete, self.timer);
	self.repeats = false;
}

/* A thread that the program's own thread functions have not made is not listed: nobody says when it
 * ends. */
void async_turn(bool on)
{
	uint64_t before;

	if (self.on == on)
		return;
	before = block_signals();
	pthread_mutex_lock(&lock);
	self.on = on; /* before anybody finds it */
	if (!on)
		unlist();
	else if (dsm_self().id)
		list();
	pthread_mutex_unlock(&lock);
	masks_let_signals(before);
}

void async_cancelled(pthread_t t)
{
	const struct async *a;
	uint64_t before;

	if (!__atomic_load_n(&all, __ATOMIC_ACQUIRE))
		return;
	before = block_signals();
	pthread_mutex_lock(&lock);
	for (a = all; a && !pthread_equal(a->thread, t); a = a->next)
		;
	if (a)
		syscall(SYS_tgkill, shim.pid, a->tid, CANCEL_SIGNAL);
	pthread_mutex_unlock(&lock);
	masks_let_signals(before);
}
