// SPDX-License-Identifier: BSD-2-Clause
/*
 * pending.c - which thread of the job takes a signal to the process.
 *
 * Such a signal comes to rank 0's process, where the kernel gives it to a thread that does not
 * block it. If all of them do, it is pending there, and a thread of rank 0 asks the other ranks for
 * one that waits for it, or else does not block it. That thread gets it. Masks are the kernel's, as
 * it shows them in /proc; only what sigwait() and its relatives are about to wait for is noted:
 *
 *   a thread of another rank                     rank 0
 *   notes what it waits for, or changes its mask marks the signal as pending, in shared memory
 *   looks whether one is pending: asks rank 0    asks the ranks
 *
 * Whichever comes first, one of them sees the other.
 *
 * On the other ranks, all of libdsm's threads block all signals, and one of them takes what is sent
 * to the process there: it passes it on to rank 0, and drops what a launcher has sent to all ranks.
 *
 * The kernel lets a thread send another one only signals with the si_code of sigqueue(). The true
 * one is in bytes of siginfo_t behind those that this code uses.
 */
#include "pending.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/raw_syscall.h"
#include "everywhere.h"
#include "masks.h"
#include "signals.h"

#define PASSED 0x7061737365644453u
#define FIRST_MS 2u /* until pending signals are looked at again */
#define LAST_MS 100u
/* until a signal goes to a thread that does not wait for it: those of rank 0 may be in a miss */
#define PATIENCE_MS 30u

/*
 * The bytes that the kernel copies; the first 32 are used by SI_QUEUE, SI_USER, SI_TIMER and those
 * of the kernel.
 */
struct passed {
	char used[32];
	uint64_t mark;
	int64_t code;
};

static int watcher; /* this library's thread; constant */

void pending_restore(siginfo_t *info)
{
	struct passed p;

	memcpy(&p, info, sizeof(p));
	if (info->si_code == SI_QUEUE && p.mark == PASSED)
		info->si_code = (int)p.code;
}

/* ---- threads that wait ----------------------------------------------------------------------- */

static struct waiting {
	struct waiting *next;
	int tid;
	uint64_t set;
} * waiting;
/* a leaf, with all signals blocked */
static pthread_mutex_t waiting_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread struct waiting mine __attribute__((tls_model("initial-exec")));

/* Returns what it waited for: a handler that interrupts such a call may make one. */
static uint64_t pending_note(uint64_t set)
{
	const uint64_t signals = block_signals(), before = mine.set;
	struct waiting **at;

	pthread_mutex_lock(&waiting_lock);
	mine.set = set;
	if (!before && set) {
		mine.tid = gettid();
		mine.next = waiting;
		waiting = &mine;
	} else if (before && !set) {
		for (at = &waiting; *at != &mine; at = &(*at)->next)
			;
		*at = mine.next;
	}
	pthread_mutex_unlock(&waiting_lock);
	masks_let_signals(signals);
	return before;
}

static int who_waits(int sig)
{
	const struct waiting *w;
	int tid;

	pthread_mutex_lock(&waiting_lock);
	for (w = waiting; w && !(w->set & signal_bit(sig)); w = w->next)
		;
	tid = w ? w->tid : 0;
	pthread_mutex_unlock(&waiting_lock);
	return tid;
}

/* ---- threads that do not block --------------------------------------------------------------- */

uint64_t pending_mask_of(int tid)
{
	char path[64], text[2048];
	const char *at = NULL;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n > 0) {
		text[n] = 0;
		at = strstr(text, "SigBlk:\t");
	}
	return at ? strtoull(at + 8, NULL, 16) : UINT64_MAX;
}

/* A thread of this process that does not block the signal, or 0. */
static int who_is_open(int sig)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int tid = 0;

	while (d && !tid && (e = readdir(d)))
		if (atoi(e->d_name) && atoi(e->d_name) != watcher &&
		    !(pending_mask_of(atoi(e->d_name)) & signal_bit(sig)))
			tid = atoi(e->d_name);
	if (d)
		closedir(d);
	return tid;
}

/* ---- from rank 0 to another ------------------------------------------------------------------ */

struct offer {
	int sig, tid;
	bool waits; /* only to a thread that waits for it */
	siginfo_t info;
};

/* On another rank: which thread should get it? */
static int find_taker(void *arg)
{
	struct offer *o = arg;

	o->tid = who_waits(o->sig);
	if (!o->tid && !o->waits)
		o->tid = who_is_open(o->sig);
	return 0;
}

/* There: give it the signal. */
static int pending_give(void *arg)
{
	struct offer *o = arg;
	struct passed p;

	memcpy(&p, &o->info, sizeof(p));
	p.mark = PASSED;
	p.code = o->info.si_code;
	memcpy(&o->info, &p, sizeof(p));
	o->info.si_code = SI_QUEUE;
	return syscall(SYS_rt_tgsigqueueinfo, shim.pid, o->tid, o->sig, &o->info) ? -errno : 0;
}

/* As if it had been sent again. */
static int send_again(void *arg)
{
	struct offer *o = arg;

	if (o->info.si_code != SI_QUEUE)
		return NEXT(kill)(shim.pid, o->sig) ? -errno : 0;
	return syscall(SYS_rt_sigqueueinfo, shim.pid, o->sig, &o->info) ? -errno : 0;
}

static sigset_t pending_sigset(uint64_t signals)
{
	sigset_t set;

	sigemptyset(&set);
	memcpy(&set, &signals, sizeof(signals));
	return set;
}

/* True: a thread of the rank has got it, or one of this rank. */
static bool pending_pass_on(int rank, struct offer *o)
{
	const struct timespec now = { 0 };
	const sigset_t one = pending_sigset(signal_bit(o->sig));

	if (ranks_run(rank, find_taker, o, sizeof(*o)) || !o->tid)
		return false;
	if (NEXT(sigtimedwait)(&one, &o->info, &now) < 0)
		return true;
	if (ranks_run(rank, pending_give, o, sizeof(*o)))
		send_again(o); /* that thread has ended */
	return true;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static pthread_mutex_t looking =
	PTHREAD_MUTEX_INITIALIZER; /* held with all signals blocked, also while ranks are asked */

static uint64_t process_signals(void)
{
	return ~(of_misses() | signal_bit(SIGFPE) | signal_bit(SIGILL) | signal_bit(SIGTRAP) |
		 signal_bit(SIGSYS) | signal_bit(SIGABRT) | signal_bit(SIGKILL) |
		 signal_bit(SIGSTOP) | 3ull << 31); /* the C library's own two */
}

/* Of the process: this thread has none of its own. */
static uint64_t pending_here(void)
{
	uint64_t pending = 0;

	syscall(SYS_rt_sigpending, &pending, sizeof(pending));
	return pending & process_signals();
}

static void offer_to_all(int sig, bool waits)
{
	struct offer o = { .sig = sig, .waits = waits };
	int r;

	for (r = 1; r < shim.size && !pending_pass_on(r, &o); r++)
		;
}

/*
 * Offer what is pending to the other ranks. waits: to threads that wait for it only. Returns what
 * is still pending.
 */
static uint64_t look(bool waits)
{
	uint64_t pending, left;

	pthread_mutex_lock(&looking);
	pending = pending_here();
	if (pending != together->pending)
		__atomic_store_n(&together->pending, pending, __ATOMIC_SEQ_CST);
	for (left = pending; left; left &= left - 1)
		if (!who_is_open(__builtin_ctzll(left) + 1))
			offer_to_all(__builtin_ctzll(left) + 1, waits);
	if (pending)
		pending = pending_here();
	if (pending != together->pending)
		__atomic_store_n(&together->pending, pending, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&looking);
	return pending;
}

/* For another rank. */
static int look_there(void *arg)
{
	(void)arg;
	look(false);
	return 0;
}

static void pending_fetch(uint64_t wanted)
{
	if (shim.rank && (__atomic_load_n(&together->pending, __ATOMIC_SEQ_CST) & wanted))
		ranks_run(0, look_there, NULL, 0);
}

void pending_unblocked(void)
{
	if (shim.rank && __atomic_load_n(&together->pending, __ATOMIC_SEQ_CST))
		pending_fetch(~blocked_signals());
}

/* Sleep until a signal that is not in `seen` comes, or for so long. */
static void sleep_for_more(int fd, uint64_t seen, unsigned int ms)
{
	const sigset_t set = pending_sigset(process_signals() & ~seen);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int idle;

	if (NEXT(signalfd)(fd, &set, SFD_CLOEXEC) < 0)
		return;
	idle = seen ? -1 : dsm_wait_begin(DSM_WAIT_IDLE, NULL, 0);
	NEXT(poll)(&p, 1, seen ? (int)ms : -1);
	dsm_wait_end(idle);
}

static void *watch_rank_0(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	unsigned int ms = FIRST_MS, old = 0; /* how long something has been pending */
	uint64_t pending = 0, before;

	watcher = gettid();
	for (;;) {
		sleep_for_more(fd, pending, ms);
		before = pending;
		old = before ? old + ms : 0;
		pending = look(old < PATIENCE_MS);
		ms = pending & ~before ? FIRST_MS : ms < LAST_MS / 2 ? 2 * ms : LAST_MS;
	}
	return NULL;
}

/* ---- other ranks ----------------------------------------------------------------------------- */

static bool is_end(int sig)
{
	return sig == SIGHUP || sig == SIGINT || sig == SIGTERM;
}

static bool is_stop(int sig)
{
	return sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU;
}

/* Take the default action of the process. */
static void take_default(int sig, siginfo_t *info)
{
	uint64_t one = signal_bit(sig);

	syscall(SYS_rt_tgsigqueueinfo, shim.pid, gettid(), sig, info);
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &one, NULL, sizeof(one));
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &one, NULL, sizeof(one));
}

/*
 * A launcher ends ranks by some signals, and rank 0 has its signal, too: unless the program blocks
 * it, this process ends.
 */
static void dispatch(struct offer *o)
{
	const bool held = together->held & signal_bit(o->sig);

	if (is_launchers(&o->info)) {
		if (has_default(o->sig) && (is_stop(o->sig) || (is_end(o->sig) && !held)))
			take_default(o->sig, &o->info);
	} else if (has_default(o->sig) && !held) {
		take_default(o->sig, &o->info);
	} else {
		ranks_run(0, send_again, o, sizeof(*o));
	}
}

static void *watch_rank(void *arg)
{
	const sigset_t all = pending_sigset(process_signals());
	struct offer o;
	int idle;

	watcher = gettid();
	for (;;) {
		idle = dsm_wait_begin(DSM_WAIT_IDLE, NULL, 0);
		o.sig = NEXT(sigwaitinfo)(&all, &o.info);
		dsm_wait_end(idle);
		if (o.sig > 0)
			dispatch(&o);
	}
	return arg;
}

int pending_start(void)
{
	const sigset_t none = pending_sigset(0);
	const uint64_t signals = block_signals();
	pthread_t t;
	int fd = 0, err;

	if (shim.rank == 0)
		fd = NEXT(signalfd)(-1, &none, SFD_CLOEXEC);
	err = fd < 0 ? errno
		     : NEXT(pthread_create)(&t, NULL, shim.rank ? watch_rank : watch_rank_0,
					    (void *)(intptr_t)fd);
	masks_let_signals(signals);
	return -err;
}

/* ---- calls that wait ------------------------------------------------------------------------- */

static uint64_t signals_in(const sigset_t *set)
{
	uint64_t signals;

	memcpy(&signals, set, sizeof(signals));
	return signals;
}

static void pending_forget(void *arg)
{
	pending_note(*(uint64_t *)arg);
}

/* Signals that a launcher has sent to all ranks are not taken here. */
static int pending_wait(const sigset_t *set, siginfo_t *out, const struct timespec *limit)
{
	const uint64_t wanted = signals_in(set);
	uint64_t outer;
	siginfo_t info;
	int sig;

	outer = pending_note(wanted);
	pthread_cleanup_push(pending_forget, &outer);
	pending_fetch(wanted);
	do
		sig = NEXT(sigtimedwait)(set, &info, limit);
	while (sig > 0 && is_launchers(&info));
	pthread_cleanup_pop(1);
	if (sig > 0) {
		pending_restore(&info);
		if (out)
			*out = info;
	}
	return sig;
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *limit)
{
	return caller_is_ours(CALLER) ? pending_wait(set, info, limit)
				      : NEXT(sigtimedwait)(set, info, limit);
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
	return caller_is_ours(CALLER) ? pending_wait(set, info, NULL)
				      : NEXT(sigwaitinfo)(set, info);
}

EXPORT int sigwait(const sigset_t *set, int *sig)
{
	const int saved = errno;
	int got;

	if (!caller_is_ours(CALLER))
		return NEXT(sigwait)(set, sig);
	do
		got = pending_wait(set, NULL, NULL);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno;
	errno = saved;
	*sig = got;
	return 0;
}

uint64_t pending_await(uint64_t signals)
{
	const uint64_t outer = pending_note(signals);

	pending_fetch(signals);
	return outer;
}

void pending_await_ends(uint64_t outer)
{
	pending_note(outer);
}

static int suspend(const sigset_t *mask)
{
	uint64_t outer = pending_await(~signals_in(mask));
	int err;

	pthread_cleanup_push(pending_forget, &outer);
	err = NEXT(sigsuspend)(mask);
	pthread_cleanup_pop(1);
	return err;
}

/* The handlers that end the wait have this mask, too. */
EXPORT int sigsuspend(const sigset_t *mask)
{
	sigset_t copy;

	mask = without_misses(mask, &copy, CALLER);
	return shim.rank && caller_is_ours(CALLER) ? suspend(mask) : NEXT(sigsuspend)(mask);
}

EXPORT int pause(void)
{
	sigset_t mask;

	if (!shim.rank || !caller_is_ours(CALLER))
		return NEXT(pause)();
	mask = pending_sigset(blocked_signals());
	return suspend(&mask);
}

/* On rank 0. */
static int pending_get(void *arg)
{
	*(uint64_t *)arg = pending_here();
	return 0;
}

EXPORT int sigpending(sigset_t *set)
{
	const int err = NEXT(sigpending)(set);
	uint64_t pending = 0;

	if (!err && shim.rank && caller_is_ours(CALLER) &&
	    !ranks_run(0, pending_get, &pending, sizeof(pending)))
		*set = pending_sigset(signals_in(set) | (pending & blocked_signals()));
	return err;
}

EXPORT int signalfd(int fd, const sigset_t *mask, int flags)
{
	if (!shim.rank || !caller_is_ours(CALLER))
		return NEXT(signalfd)(fd, mask, flags);
	start_cannot("signalfd() on another rank than 0");
	errno = ENOTSUP;
	return -1;
}
