// SPDX-License-Identifier: BSD-2-Clause
/*
 * signals_disturbed.c - placements, echoes, additions, and attempts at a semaphore or a lock, under
 * constant signals, whose handlers return, make calls, or leave.
 */
#include "core/sync.h"
#include "tests/kmod/signals.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define ANSWERED 500u

enum made { PLACEMENTS, ECHOES, ADDITIONS, TRIES, READ_TRIES, WRITE_TRIES };

static const char *const made_names[] = { "placements",
					  "echoes",
					  "additions",
					  "attempts at a semaphore",
					  "attempts at a lock to read",
					  "attempts at a lock to write" };

/* Indexed from TRIES on. */
static const struct attempt {
	uint8_t object, op, undo;
	uint8_t again; /* succeeds once if everything is given back */
	int refused;
} attempts[] = {
	[TRIES] = { SYNC_SEM, SOP_TRYWAIT, SOP_POST, SOP_TRYWAIT, -EAGAIN },
	[READ_TRIES] = { SYNC_RWLOCK, SOP_TRYRDLOCK, SOP_RDUNLOCK, SOP_TRYWRLOCK, -EBUSY },
	[WRITE_TRIES] = { SYNC_RWLOCK, SOP_TRYWRLOCK, SOP_WRUNLOCK, SOP_TRYWRLOCK, -EBUSY },
};
static enum made made;
static bool left;                     /* handlers leave operations */
static volatile sig_atomic_t in_call; /* a call is in progress */

/* True if the thread's next instruction is a system call: first time, or repeated. */
static bool before_call(const ucontext_t *at)
{
	static const char instruction[] = "\x0f\x05";

	return !memcmp((const void *)at->uc_mcontext.gregs[REG_RIP], instruction, 2);
}

/* Do not leave an attempt that has ended: it may have been granted something. */
static void count_it(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)info;
	if (!in_call)
		return;
	atomic_fetch_add(&both->handled, 1);
	if (busy)
		another_call();
	if (left && (made < TRIES || before_call(context)))
		siglongjmp(out_of_here, 1);
}

/* The object's home is rank 1. *was: the value before. */
static int add(int fd, uint64_t value, uint64_t *was)
{
	struct dsm_ioc_call c = SYNC(SOP_ADD, .object = atomic_load(&both->object), .value = value);
	const int err = ioctl(fd, DSM_IOC_CALL, &c) ? errno : -c.status;

	*was = c.result;
	return err;
}

/* Returns 0 if the object was taken, `refused` if another rank has it. */
static int try_it(int fd, uint8_t op)
{
	struct dsm_ioc_call c = SYNC(op, .object = atomic_load(&both->object));

	return ioctl(fd, DSM_IOC_CALL, &c) ? -errno : c.status;
}

static int give_it_back(int fd)
{
	struct dsm_ioc_call c =
		SYNC(attempts[made].undo, .object = atomic_load(&both->object), .value = 1);

	return ioctl(fd, DSM_IOC_CALL, &c) ? errno : -c.status;
}

static int operate_on(int fd, unsigned int page)
{
	uint64_t was;
	int err;

	if (sigsetjmp(out_of_here, 1)) {
		in_call = 0;
		return 0;
	}
	in_call = 1;
	if (made == ADDITIONS)
		err = add(fd, 1, &was);
	else if (made >= TRIES)
		err = try_it(fd, attempts[made].op);
	else
		err = range(fd, made == PLACEMENTS ? DSM_RANGE_PLACE : DSM_RANGE_ECHO, page, 1, 0)
			? errno
			: 0;
	in_call = 0;
	if (made >= TRIES)
		err = !err ? give_it_back(fd) : err == attempts[made].refused ? 0 : -err;
	return err;
}

/*
 * Operations that end without another rank's help, under constant signals: each takes effect once,
 * as if there were no signals. If handlers leave them, the answers free the slots.
 */
static void is_disturbed(bool unused)
{
	const struct itimerval tick = { { 0, 300 }, { 0, 300 } }, none = { { 0, 0 }, { 0, 0 } };
	struct sigaction sa = { .sa_sigaction = count_it, .sa_flags = SA_SIGINFO };
	int fd = job_join(j, 0), err = 0;
	uint64_t sum = ANSWERED;
	unsigned int i;

	(void)unused;
	waiter_fd = fd;
	expect(fd >= 0 && reached(&both->pinned, 1), "a job of two ranks");
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &tick, NULL);
	for (i = 0; i < ANSWERED && !err; i++) {
		err = operate_on(fd, 2 * i + 1);
		if (made >= TRIES)
			range(fd, DSM_RANGE_PREFETCH, 0, 1,
			      0); /* a different call, or it would resume the one that was left */
	}
	setitimer(ITIMER_REAL, &none, NULL);
	expect(!err, "each is made");
	expect(made != ADDITIONS || (!add(fd, 0, &sum) && sum == ANSWERED), "each is made once");
	expect(atomic_load(&both->handled) > 0, "signals have come");
	range(fd, DSM_RANGE_PREFETCH, 0, 1, 0); /* a different call, in case the last was left */
	expect(none_listed(LISTED_SLOT), "the slots are free");
	if (made >= TRIES)
		expect(!try_it(fd, attempts[made].again) &&
			       try_it(fd, attempts[made].again) == attempts[made].refused,
		       "all is given back");
	atomic_store(&both->ended, 1);
	fflush(stdout);
	_exit(0);
}

static void answers(bool unused)
{
	const uint64_t kind = made >= TRIES ? attempts[made].object : SYNC_ATOMIC;
	struct dsm_ioc_call object = { .home = 1, .value = made == TRIES, .value2 = kind << 32 };
	int fd = job_join(j, 1);
	unsigned int i;

	(void)unused;
	expect(fd >= 0, "a job of two ranks");
	expect(made < ADDITIONS || (call(fd, &object, &object) && !object.status),
	       "an object is made");
	atomic_store(&both->object, (unsigned int)object.result);
	for (i = 0; i < ANSWERED && made == ECHOES; i++) /* an echo needs frames */
		*(volatile unsigned int *)(JOB_BASE + (2 * i + 1) * PAGE) = WRITTEN;
	atomic_store(&both->pinned, 1);
	reached(&both->ended, 1);
	fflush(stdout);
	_exit(0);
}

enum handlers { COUNT, LEAVE, CALL };

static bool disturbed(enum made what_is_made, enum handlers handlers)
{
	static const char *const how[] = { "among", "left at",
					   "among, with calls in their handlers," };
	bool ok;

	made = what_is_made;
	left = handlers == LEAVE;
	busy = handlers == CALL;
	ok = run_ranks(is_disturbed, answers, false, true);
	busy = false;
	printf("%s %s %u signals: %s\n", made_names[made], how[handlers],
	       atomic_load(&both->handled), ok ? "ok" : "FAILED");
	return ok;
}

bool test_disturbed(void)
{
	bool ok = disturbed(PLACEMENTS, COUNT) && disturbed(ECHOES, COUNT);

	ok = ok && disturbed(PLACEMENTS, LEAVE) && disturbed(ECHOES, LEAVE);
	ok = ok && disturbed(ADDITIONS, COUNT) && disturbed(ADDITIONS, CALL);
	ok = ok && disturbed(TRIES, LEAVE) && disturbed(READ_TRIES, LEAVE) &&
		disturbed(WRITE_TRIES, LEAVE);
	return ok;
}
